//! `cargo wakeful run|test|bench|build|…`: builds a tokio project on wakeful, without editing it.
//!
//! The project's manifest is not changed: a `--config` argument makes cargo replace tokio with the
//! tokio shim, wakeful's package named `tokio`. While cargo runs, the lock file has to name the shim;
//! afterwards it is restored, byte for byte. If the shim does not match, cargo builds the real tokio
//! with only a warning. So this program checks the resolved dependencies before it builds anything.
//!
//! - `options`: the command line.
//! - `project`: the project's metadata, and calls of cargo.
//! - `tokio_shim`: the location of the shim, its version and features.
//! - `lock`: swaps the lock file and restores it.
//! - `patch_status`: whether the shim replaces tokio, and if not, which package prevents it.
//! - `doctor`: prints the patch status without building.
//! - `launch`: builds a program for `run` and executes it.
//! - `interrupt`: handles signals while cargo runs.
//! - `page`: finds the live page of a program, requests it, and opens it in the browser.
//! - `top`: shows the live page in the terminal.

mod doctor;
mod interrupt;
mod launch;
mod lock;
mod options;
mod page;
mod patch_status;
mod project;
mod tokio_shim;
mod top;

use lock::LockSwap;
use options::{Action, Options};
use page::browser;
use patch_status::PatchStatus;
use project::Project;
use std::process::ExitCode;
use tokio_shim::TokioShim;

/// An error message for the user.
type Failure = String;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match act(&options) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("cargo wakeful: {failure}");
            ExitCode::from(101)
        }
    }
}

fn act(options: &Options) -> Result<ExitCode, Failure> {
    match options.action {
        Action::Help => println!("{}", options::USAGE),
        Action::Version => println!("cargo-wakeful {}", env!("CARGO_PKG_VERSION")),
        Action::Top => return top::run(&options.arguments),
        Action::WatchPage => browser::watch_command(&options.arguments),
        Action::Doctor | Action::Run | Action::Cargo(_) => {
            let shim = TokioShim::find()?;
            let project = Project::open(options, &shim)?;
            return build(options, &project);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Swaps the lock file, checks that the shim replaces tokio, and runs the command.
fn build(options: &Options, project: &Project) -> Result<ExitCode, Failure> {
    let mut swap = LockSwap::begin(project)?;
    let status = swap.resolve(project)?;
    if let Action::Doctor = options.action {
        let locked = swap.locked_tokios();
        swap.end()?;
        return Ok(doctor::report(project, &status, &locked));
    }
    let PatchStatus::Applied(applied) = status else {
        swap.end()?;
        return Err(status.to_string());
    };
    eprintln!("cargo wakeful: {applied}");
    if let Action::Run = options.action {
        let program = launch::build(project, options);
        swap.end()?;
        return Err(program?.launch(options));
    }
    let mut command = project.command(options);
    if options.page {
        browser::enable_page(&mut command);
    }
    let cargo = command.spawn();
    if let (true, Ok(cargo)) = (options.page, &cargo) {
        browser::watch_in_thread(cargo.id());
    }
    let status = cargo.and_then(|mut cargo| interrupt::wait_for(&mut cargo));
    swap.end()?;
    let status = status.map_err(|error| format!("cargo cannot be started: {error}"))?;
    // If a signal has ended cargo, there is no exit code.
    Ok(status.code().map_or(ExitCode::from(101), |code| ExitCode::from(code as u8)))
}
