//! Writes `docs/CONFORMANCE.md`: a row for each suite, and tokio's own suite by area.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::suite::{Kind, SUITES, Suite};
use super::tally::{Counts, Outcome, SuiteResult};

const OPENING: &str = "\
# Conformance

The results of the published test suites of tokio, and of crates built on tokio. Each suite runs on wakeful through the tokio
shim (`crates/tokio`), and again with the real tokio on the same machine. cargo fetches the tests; this repository contains none
of them. To repeat the runs:

```sh
cargo xtask conformance                # the four suites of tokio's repository
cargo xtask conformance --suite axum   # one suite; --list prints their names, --suite all runs all
cargo xtask conformance --suite tokio --unstable   # with tokio's unstable API
```

- The command first checks that every tokio in the suite's dependencies is the shim.
- It compiles and runs each test file separately, with a time limit. If a file hangs or crashes, its tests are run one by one.
- Unit tests count, documentation tests do not.
- If the tests need PostgreSQL, the command starts the server that is installed from the system's packages.
- Each run of a suite updates its row.
- The command fails if a test passes with the real tokio but not on wakeful, unless `xtask/src/conformance/reasons.rs` lists a
  reason.

The packages of async-nats, axum-core, redis and tokio-rustls lack files or crates that their tests need, so these have no row.

## Suites
";

const COLUMNS: &str = "\
| suite | version | tests | passed on tokio | passed on wakeful | differences and remarks | run |
| --- | --- | ---: | ---: | ---: | --- | --- |
";

const AREAS: &str = "## tokio's tests by area\n";

const REPORTS: &str = "\
## Reports during the tests

All reports that wakeful printed while the suites above ran; a suite without a row caused none. A report without a reason makes
the command fail. [REPORTS.md](REPORTS.md) names the tests.
";

const REPORT_COLUMNS: &str = "\
| suite | reports | kind | reason |
| --- | ---: | --- | --- |
";

const LEFT_OUT: &str = "\
## Left out on purpose

Compared with the public API of tokio 1.54.1, with the features `full` and `test-util`:

- **Unstable API** (`--cfg tokio_unstable`). The tokio shim has all of it, except for `tracing` events and the stacks of task
  dumps (`taskdump`). Included are hooks with `TaskMeta`, `RuntimeMetrics` with exact histograms, `task::Builder`,
  `task::join_set::Builder`, `UnhandledPanic` and `RngSeed`. The eager hand-off of the driver and the sharded queue of the
  blocking pool can be enabled and change nothing: each worker has its own driver. Task dumps are wakeful's own
  ([MIGRATING.md](MIGRATING.md#what-differs)). The row `tokio_unstable` was run with tokio's features `io-uring`,
  `schedule-latency` and `tracing`.
- **Windows.** `net::windows` and `signal::windows` are missing: wakeful runs on Linux only. Their tests compile only on Windows.
- **`io::bsd`** (POSIX AIO readiness) exists on FreeBSD only.
- **The features** `io-uring`, `schedule-latency`, `tracing` and `parking_lot` exist and have no effect.
";

/// Writes the row of `result` into the document, and leaves the rows of other suites.
pub fn update(root: &Path, result: &SuiteResult) -> Result<(), String> {
    let path = root.join("docs").join("CONFORMANCE.md");
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, text(&old, result, &date(), &machine()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote the row of {} to docs/CONFORMANCE.md", row_name(result.suite, result.unstable));
    Ok(())
}

fn text(old: &str, result: &SuiteResult, date: &str, machine: &str) -> String {
    // A suite may have a row for each of its two builds.
    let names = || SUITES.iter().flat_map(|suite| [false, true].map(|it| row_name(suite, it)));
    let own = row_name(result.suite, result.unstable);
    let kept = |heading: &str, name: &str| -> String {
        let start = format!("| {name} |");
        let old = section(old, heading).lines().filter(|line| line.starts_with(&start));
        old.map(|line| format!("{line}\n")).collect()
    };
    let rows = names().map(|name| match name == own {
        true => row(result, date),
        false => kept("## Suites\n", &name),
    });
    let rows: Vec<String> = rows.collect();
    let reports = names().map(|name| match name == own {
        true => report_rows(result),
        false => kept(REPORTS, &name),
    });
    let reports: Vec<String> = reports.collect();
    let areas = match result.suite.kind {
        Kind::OfTokio if !result.unstable => areas(result),
        _ => section(old, AREAS).to_owned(),
    };
    format!(
        "{OPENING}\n{COLUMNS}{}\nThe last run was on {machine}.\n\n{AREAS}\n{}\n\n\
         {REPORTS}\n{REPORT_COLUMNS}{}\n{LEFT_OUT}",
        rows.concat(),
        areas.trim_end(),
        reports.concat(),
    )
}

/// What the rows of a suite begin with.
fn row_name(suite: &Suite, unstable: bool) -> String {
    let build = if unstable { ", `tokio_unstable`" } else { "" };
    format!("{}{build}", suite.name)
}

/// What an earlier version of the document has below `heading`.
fn section<'d>(old: &'d str, heading: &str) -> &'d str {
    let title = heading.lines().next().unwrap_or_default();
    let (_, rest) = old.split_once(title).unwrap_or_default();
    rest.split("\n## ").next().unwrap_or_default().trim()
}

/// The reports of each kind.
fn report_rows(result: &SuiteResult) -> String {
    let row = |(kind, number): (&String, &usize)| {
        let why = result.report_reason(kind).unwrap_or("No reason is known yet.");
        format!("| {} | {number} | {kind} | {why} |\n", row_name(result.suite, result.unstable))
    };
    result.reports.iter().map(row).collect()
}

fn row(result: &SuiteResult, date: &str) -> String {
    let counts = result.counts();
    let on_tokio = result.on_tokio.map_or("not run".to_owned(), |counts| counts.passed.to_string());
    format!(
        "| {} | {} | {} | {on_tokio} | {} | {} | {date} |\n",
        row_name(result.suite, result.unstable),
        result.suite.version,
        counts.total() + counts.fails_with_tokio_too,
        counts.passed,
        remarks(result),
    )
}

/// Everything in which the two runs differ, what fails in both, and what was not run.
fn remarks(result: &SuiteResult) -> String {
    let (mut remarks, mut differences) = (Vec::new(), Vec::<(Outcome, &str, Vec<String>)>::new());
    for file in &result.files {
        if let Some(why) = &file.refused {
            remarks.push(format!("`{}` does not compile: {why}.", file.name));
        } else if let (Some(note), true) = (&file.note, file.tests.is_empty()) {
            remarks.push(format!("`{}` {note}.", file.name));
        }
        for (test, outcome) in file.not_passing() {
            let why = result.reason(file, test).unwrap_or("No reason is known yet.");
            let name = format!("`{}::{test}`", file.name);
            match differences.iter_mut().find(|(how, other, _)| (*how, *other) == (outcome, why)) {
                Some((_, _, tests)) => tests.push(name),
                None => differences.push((outcome, why, vec![name])),
            }
        }
    }
    // Tests with one reason are listed together.
    for (outcome, why, tests) in differences {
        let how = match (outcome, tests.len()) {
            (Outcome::Hung, 1) => "hangs",
            (Outcome::Hung, _) => "hang",
            (_, 1) => "fails",
            _ => "fail",
        };
        remarks.push(format!("{} {how}: {why}", tests.join(", ")));
    }
    if !result.only_on_wakeful.is_empty() {
        remarks.push(format!("Fails with tokio only: {}.", names(&result.only_on_wakeful)));
    }
    let fail_on_both: Vec<String> = result
        .files
        .iter()
        .flat_map(|file| file.tests.iter().map(move |(test, outcome)| (file, test, *outcome)))
        .filter(|(_, _, outcome)| *outcome == Outcome::FailsWithTokioToo)
        .map(|(file, test, _)| format!("{}::{test}", file.name))
        .collect();
    if !fail_on_both.is_empty() {
        remarks.push(format!("Fails with both: {}.", names(&fail_on_both)));
        remarks.extend(result.suite.remark.map(str::to_owned));
    }
    for (files, why) in result.suite.skipped {
        remarks.push(format!("Not run: `tests/{files}`, which {why}."));
    }
    if remarks.is_empty() { "none".to_owned() } else { remarks.join(" ") }
}

/// Up to four tests by name, more by their number.
fn names(tests: &[String]) -> String {
    match tests.len() {
        0..=4 => tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", "),
        number => format!("{number} tests"),
    }
}

/// The numbers of each area of tokio.
fn areas(result: &SuiteResult) -> String {
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

fn say(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| String::new(),
        |out| String::from_utf8_lossy(&out.stdout).trim().to_owned(),
    )
}

fn date() -> String {
    say("date", &["-u", "+%Y-%m-%d"])
}

/// The machine, without its name.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    format!("{}, {cores} cores, {}", say("uname", &["-sr"]), say("rustc", &["--version"]))
}

#[cfg(test)]
mod tests {
    use super::super::tally::FileResult;
    use super::*;

    fn result() -> SuiteResult {
        let mut result = SuiteResult::new(&SUITES[0], "tokio".into(), false);
        let mut file = FileResult::new("rt_unstable_eager_driver_handoff");
        file.tests.push(("deadlocks_consistently".into(), Outcome::Failed));
        file.tests.push(("another".into(), Outcome::Passed));
        file.tests.push(("third".into(), Outcome::FailsWithTokioToo));
        result.files = vec![file, FileResult::not_compiling("fs", "no such module".into())];
        result
    }

    #[test]
    fn every_difference_is_named_with_a_reason() {
        let text = text("", &result(), "today", "a machine");
        assert!(text.contains("| tokio | 1.54.1 | 3 | not run | 1 | "), "{text}");
        assert!(text.contains("deadlocks_consistently` fails: The test expects a deadlock"));
        assert!(text.contains("Fails with both: `rt_unstable_eager_driver_handoff::third`."));
        assert!(text.contains("`fs` does not compile: no such module"));
        assert!(text.contains("| rt | 1 | 1 | 1 | 0 | 0 | 1 |"), "{text}");
    }

    #[test]
    fn the_rows_of_other_suites_stay() {
        let mut first = result();
        first.count_reports("orphan\tprogram\n");
        let first = text("", &first, "today", "a machine");
        assert!(first.contains("| tokio | 1 | orphan | The task awaits"), "{first}");
        let other = SuiteResult::new(&SUITES[1], "tokio-stream".into(), false);
        let second = text(&first, &other, "tomorrow", "a machine");
        assert!(second.contains("| tokio-stream | 0.1.19 | 0 |"), "{second}");
        let without = second.lines().filter(|line| !line.starts_with("| tokio-stream |"));
        assert_eq!(without.collect::<Vec<_>>(), first.lines().collect::<Vec<_>>());
    }

    #[test]
    fn the_unstable_build_has_a_row_of_its_own() {
        let mut stable = result();
        stable.count_reports("orphan\tprogram\n");
        let first = text("", &stable, "today", "a machine");
        let mut unstable = SuiteResult::new(&SUITES[0], "tokio".into(), true);
        unstable.count_reports("orphan\tprogram\norphan\tprogram\n");
        let second = text(&first, &unstable, "tomorrow", "a machine");
        assert!(second.contains("| tokio, `tokio_unstable` | 1.54.1 | 0 |"), "{second}");
        assert!(second.contains("| tokio, `tokio_unstable` | 2 | orphan |"), "{second}");
        let without = second.lines().filter(|line| !line.starts_with("| tokio, "));
        assert_eq!(without.collect::<Vec<_>>(), first.lines().collect::<Vec<_>>());
    }
}
