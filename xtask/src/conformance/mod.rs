//! `cargo xtask conformance`: the tests of tokio, tokio-stream, tokio-test and tokio-util, run on the face.
//!
//! The tests are fetched by cargo when they are needed and kept under the target folder; nothing of them is part of
//! this repository.
//!
//! | file | what it does |
//! | --- | --- |
//! | `options.rs` | the arguments |
//! | `suite.rs` | the suites, and which area of tokio a test file is about |
//! | `package.rs` | a scratch package with a suite's tests, and the proof that it depends on the face |
//! | `build.rs` | every test file compiled by itself: an executable, or the compiler's first word |
//! | `process.rs` | a test process with a time limit |
//! | `trial.rs` | a test file run, again test by test if it hangs or dies |
//! | `reasons.rs` | why a test does not pass |
//! | `tally.rs` | the numbers |
//! | `report.rs` | `docs/CONFORMANCE.md` |
//!
//! Control goes down that list, once per suite.

mod build;
mod options;
mod package;
mod process;
mod reasons;
mod report;
mod suite;
mod tally;
mod trial;

use std::path::Path;
use std::process::ExitCode;

use build::Built;
use options::Options;
use package::{Package, Subject};
use suite::Suite;
use tally::{FileResult, Outcome, SuiteResult};

pub use options::USAGE;

pub fn run(root: &Path, args: &[String]) -> ExitCode {
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("conformance: {message}");
            return ExitCode::from(2);
        }
    };
    match try_run(root, &options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("conformance: {message}");
            ExitCode::from(2)
        }
    }
}

/// True: every test passes that should, and nothing hangs.
fn try_run(root: &Path, options: &Options) -> Result<bool, String> {
    let mut results = Vec::new();
    for &suite in &options.suites {
        let mut result = run_suite(root, suite, Subject::Face, options, &options.files)?;
        if options.baseline {
            compare(root, &mut result, options)?;
        }
        result.print();
        results.push(result);
    }
    let is_whole = options.is_whole();
    if is_whole {
        report::write(root, &results)?;
    }
    Ok(results.iter().all(SuiteResult::is_as_expected))
}

fn run_suite(
    root: &Path,
    suite: &'static Suite,
    subject: Subject,
    options: &Options,
    files: &[String],
) -> Result<SuiteResult, String> {
    let package = Package::prepare(root, suite, subject)?;
    let targets = package.targets(files)?;
    eprintln!("{}: {} test files, {}", package.title(), targets.len(), subject.describe());
    let built = build::build(&package, &targets, files.is_empty(), options)?;
    let mut result = SuiteResult::new(suite, package.title());
    for (name, built) in built {
        let file = match built {
            Built::Executable(path) => trial::run(&package, &name, &path, options)?,
            Built::Refused(why) => FileResult::not_compiling(&name, why),
        };
        eprintln!("{}", file.line());
        result.files.push(file);
    }
    Ok(result)
}

/// Runs what did not pass with the real tokio: what fails there too does not count.
fn compare(root: &Path, result: &mut SuiteResult, options: &Options) -> Result<(), String> {
    let files: Vec<String> =
        result.files.iter().filter(|file| !file.is_clean()).map(|file| file.name.clone()).collect();
    if files.is_empty() {
        return Ok(());
    }
    let real = run_suite(root, result.suite, Subject::Real, options, &files)?;
    for theirs in real.files {
        let Some(ours) = result.files.iter_mut().find(|file| file.name == theirs.name) else {
            continue;
        };
        if ours.refused.is_some() {
            ours.lost = theirs.tests.len();
        }
        for (test, outcome) in &theirs.tests {
            if *outcome == Outcome::Passed {
                continue;
            }
            let same = ours.tests.iter_mut().find(|(name, outcome)| {
                name == test && !matches!(outcome, Outcome::Passed | Outcome::Ignored)
            });
            if let Some((_, outcome)) = same {
                *outcome = Outcome::FailsWithTokioToo;
            }
        }
    }
    Ok(())
}
