//! `docs/CONFORMANCE.md`, written by the command and nobody else.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::reasons;
use super::tally::{Counts, SuiteResult};

const OPENING: &str = "\
# Conformance

How much of tokio's own tests passes on wakeful, through the package `tokio` of this repository (`crates/tokio`).
Written by the command that anybody can repeat from a clone; the tests are fetched by cargo, and nothing of them is
stored here:

```sh
cargo xtask conformance --baseline
```

It makes sure that cargo really put the face in tokio's place, compiles every test file by itself, gives each a time
limit, and runs a file that hangs or dies again test by test. With `--baseline` it runs what does not pass with the real
tokio on the same machine: what fails there too does not count.
";

const LEFT_OUT: &str = "\
## Left out on purpose

Compared with the public API of tokio 1.54.1, with the features `full` and `test-util`:

- **Unstable API** (`--cfg tokio_unstable`). The face has what wakeful has as well: `task::Builder`,
  `task::join_set::Builder`, `runtime::UnhandledPanic`, `runtime::RngSeed` and the methods of `runtime::Builder` that go
  with them. It has no unstable metrics and histograms, no task dumps, no hooks with `TaskMeta`, no alternative timer, no
  eager hand-off of the driver, no events for `tracing`. They are ways to look into the runtime or to tune its inside.
  wakeful has its own: what is to be known of tasks is in `wakeful::inspect`, without a flag; there is nothing to hand
  off, since each worker has its own driver.
- **Windows.** `net::windows` and `signal::windows` are not there: wakeful runs on Linux. Their tests are not compiled on
  other systems.
- **`io::bsd`** (POSIX AIO as a source of readiness) exists on FreeBSD only.
- **The features** `io-uring`, `schedule-latency`, `taskdump`, `tracing` and `parking_lot` exist and change nothing.
";

pub fn write(root: &Path, results: &[SuiteResult]) -> Result<(), String> {
    let path = root.join("docs").join("CONFORMANCE.md");
    let text = text(results, &machine());
    fs::create_dir_all(root.join("docs"))
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

fn text(results: &[SuiteResult], machine: &str) -> String {
    let mut text = format!("{OPENING}\nLast run: {machine}.\n");
    for result in results {
        let counts = result.counts();
        let _ = write!(
            text,
            "\n## {}\n\n**{} of {} tests pass ({:.2} %), {} hang.**\n\n{}",
            result.title,
            counts.passed,
            counts.total(),
            counts.percent(),
            if counts.hung == 0 { "none".to_owned() } else { counts.hung.to_string() },
            table(result),
        );
        text.push_str(&not_passing(result));
    }
    text.push('\n');
    text.push_str(LEFT_OUT);
    text
}

fn table(result: &SuiteResult) -> String {
    let mut table = String::from(
        "| area | files | passed | failed | hung | not compiling | fails with tokio too |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut row = |area: &str, counts: &Counts| {
        let Counts { files, passed, failed, hung, not_compiling, fails_with_tokio_too, .. } =
            counts;
        let _ = writeln!(
            table,
            "| {area} | {files} | {passed} | {failed} | {hung} | {not_compiling} | {fails_with_tokio_too} |"
        );
    };
    let areas = result.by_area();
    areas.iter().for_each(|(area, counts)| row(area, counts));
    if areas.len() > 1 {
        row("**all**", &result.counts());
    }
    table
}

/// Every test that does not pass, with its reason.
fn not_passing(result: &SuiteResult) -> String {
    let mut text = String::new();
    for file in &result.files {
        if let Some(why) = &file.refused {
            let _ = writeln!(text, "- `{}` does not compile: {why}.", file.name);
        }
        for (test, outcome) in file.not_passing() {
            let why = reasons::reason(&file.name, test).unwrap_or("no reason is known yet.");
            let how = format!("{outcome:?}").to_lowercase();
            let _ = writeln!(text, "- `{}::{test}` ({how}): {why}", file.name);
        }
    }
    if text.is_empty() { text } else { format!("\nWhat does not pass, and why:\n\n{text}") }
}

/// The machine, in words that name nobody's.
fn machine() -> String {
    let say = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let date = say("date", &["-u", "+%Y-%m-%d"]).unwrap_or_default();
    let system = say("uname", &["-sr"]).unwrap_or_default();
    let rustc = say("rustc", &["--version"]).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    format!("{date}, {system}, {cores} cores, {rustc}")
}

#[cfg(test)]
mod tests {
    use super::super::suite::SUITES;
    use super::super::tally::{FileResult, Outcome};
    use super::*;

    #[test]
    fn every_test_that_does_not_pass_is_named_with_a_reason() {
        let mut result = SuiteResult::new(&SUITES[0], "tokio".into());
        let mut file = FileResult::new("rt_unstable_eager_driver_handoff");
        file.tests.push(("deadlocks_consistently".into(), Outcome::Failed));
        file.tests.push(("another".into(), Outcome::Passed));
        result.files = vec![file, FileResult::not_compiling("fs", "no such module".into())];
        let text = text(&[result], "a machine");
        assert!(text.contains("**1 of 2 tests pass (50.00 %), none hang.**"), "{text}");
        assert!(text.contains("| rt | 1 | 1 | 1 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("deadlocks_consistently` (failed): The test expects a deadlock"));
        assert!(text.contains("`fs` does not compile: no such module"));
    }
}
