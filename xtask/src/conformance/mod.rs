//! `cargo xtask conformance`: the tests that tokio and crates built on it are published with, run on the tokio shim.
//!
//! The tests are fetched by cargo when they are needed and kept under the target folder; nothing of them is part of
//! this repository.
//!
//! | file | what it does |
//! | --- | --- |
//! | `options.rs` | the arguments |
//! | `suite.rs` | the suites, and which area of tokio a test file is about |
//! | `package.rs` | a scratch package with a suite's tests, and the proof that it depends on the tokio shim |
//! | `build.rs` | compiles every test file by itself: an executable, or the compiler's first error |
//! | `server.rs` | starts the server that a suite's tests talk to |
//! | `process.rs` | runs a test process with a time limit |
//! | `trial.rs` | runs a test file, and test by test if it hangs or crashes |
//! | `reasons.rs` | the tests that are known to fail and the reports that are known to come, with reasons |
//! | `tally.rs` | counts the outcomes |
//! | `report.rs` | `docs/CONFORMANCE.md` |
//!
//! Control goes down that list, once per suite.

mod build;
mod options;
mod package;
mod process;
mod reasons;
mod report;
mod server;
mod suite;
mod tally;
mod trial;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use build::Built;
use options::Options;
use package::{Package, Subject};
use suite::Suite;
use tally::{FileResult, SuiteResult};

pub use options::USAGE;

pub fn run(root: &Path, args: &[String]) -> ExitCode {
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("conformance: {message}");
            return ExitCode::from(2);
        }
    };
    if options.list {
        options.suites.iter().for_each(|suite| println!("{} {}", suite.name, suite.version));
        return ExitCode::SUCCESS;
    }
    let mut is_fine = true;
    for suite in &options.suites {
        is_fine &= try_run(root, suite, &options).unwrap_or_else(|message| {
            eprintln!("conformance: {}: {message}", suite.name);
            false
        });
    }
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one suite. Returns whether every test passes that should, and nothing hangs.
fn try_run(root: &Path, suite: &'static Suite, options: &Options) -> Result<bool, String> {
    let mut result = run_suite(root, suite, Subject::Shim, options)?;
    if options.has_baseline() {
        let baseline = run_suite(root, suite, Subject::Real, options)?;
        result.compare(&baseline);
    }
    result.print();
    if options.is_recorded() {
        report::update(root, &result)?;
    }
    Ok(result.is_as_expected())
}

fn run_suite(
    root: &Path,
    suite: &'static Suite,
    subject: Subject,
    options: &Options,
) -> Result<SuiteResult, String> {
    let package = Package::prepare(root, suite, subject)?;
    let targets = package.targets(&options.files)?;
    eprintln!("{}: {} test files, {}", package.title(), targets.len(), subject.describe());
    let built = build::build(&package, &targets, options)?;
    // Dropping this value after the tests ends the server.
    let _server = suite.server.map(|server| server.start()).transpose()?;
    let mut result = SuiteResult::new(suite, package.title(), options.unstable);
    empty_folder(&package.logs())?;
    for (name, built) in built {
        let file = match built {
            Built::Executable(path) => trial::run(&package, &name, &path, options)?,
            Built::Refused(why) => FileResult::not_compiling(&name, why),
        };
        eprintln!("{}", file.line());
        result.files.push(file);
    }
    result.count_reports(&fs::read_to_string(package.reports()).unwrap_or_default());
    Ok(result)
}

/// Makes `folder`, without what an earlier run left there.
fn empty_folder(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
