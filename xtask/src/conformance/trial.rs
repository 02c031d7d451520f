//! Runs a test file. If it hangs or crashes, runs each of its tests in a process of its own.

use std::fs;
use std::path::Path;

use super::options::Options;
use super::package::Package;
use super::process::{self, End};
use super::tally::{FileResult, Outcome};

pub fn run(
    package: &Package,
    name: &str,
    executable: &Path,
    options: &Options,
) -> Result<FileResult, String> {
    let logs = package.logs();
    let log = logs.join(format!("{name}.log"));
    let threads = format!("--test-threads={}", options.threads);
    let end = process::run(package, executable, &[&threads], &log, options.limit)?;
    let text = read(&log)?;
    let mut file = FileResult::new(name);
    if text.lines().any(|line| line.starts_with("test result: ")) {
        file.tests = outcomes(&text);
        return Ok(file);
    }
    file.note = Some(match end {
        End::Hung => "hung, run test by test".to_owned(),
        End::Code(code) => format!("ended with code {code}, run test by test"),
        End::Died(signal) => format!("died of signal {signal}, run test by test"),
    });
    for test in list(package, executable, &log, options)? {
        let log = logs.join(format!("{name}.{}.log", test.replace("::", ".")));
        let end = process::run(package, executable, &["--exact", &test], &log, options.test_limit)?;
        let text = read(&log)?;
        let outcome = match end {
            End::Hung => Outcome::Hung,
            End::Code(0) if text.contains("; 1 ignored") => Outcome::Ignored,
            End::Code(0) => Outcome::Passed,
            _ => Outcome::Failed,
        };
        if outcome == Outcome::Passed {
            let _ = fs::remove_file(&log);
        }
        file.tests.push((test, outcome));
    }
    Ok(file)
}

/// The names of all tests.
fn list(
    package: &Package,
    executable: &Path,
    log: &Path,
    options: &Options,
) -> Result<Vec<String>, String> {
    let log = log.with_extension("list");
    process::run(package, executable, &["--list", "--format", "terse"], &log, options.test_limit)?;
    let names = read(&log)?;
    Ok(names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// What the test harness says of each test.
fn outcomes(text: &str) -> Vec<(String, Outcome)> {
    let outcome = |line: &str| {
        let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let outcome = match outcome {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            ignored if ignored.starts_with("ignored") => Outcome::Ignored,
            _ => return None,
        };
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        Some((name.to_owned(), outcome))
    };
    text.lines().filter_map(outcome).collect()
}

fn read(log: &Path) -> Result<String, String> {
    let bytes = fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_is_understood() {
        let text = "\nrunning 4 tests\ntest a::b ... ok\ntest c - should panic ... FAILED\n\
                    test d ... ignored, needs a console\ntest words ... that mean nothing\n\
                    test result: FAILED. 1 passed; 1 failed; 1 ignored\n";
        let expected = [
            ("a::b".to_owned(), Outcome::Passed),
            ("c".to_owned(), Outcome::Failed),
            ("d".to_owned(), Outcome::Ignored),
        ];
        assert_eq!(outcomes(text), expected);
    }
}
