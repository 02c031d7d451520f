//! `cargo wakeful run|test|bench|build|…`: builds a tokio project against wakeful, without editing it.
//!
//! The project's manifest stays as it is: cargo is told on its command line to take wakeful's face, a package named
//! `tokio`, in tokio's place. The lock file has to name that package while cargo runs, and is put back afterwards, byte
//! for byte. As cargo takes the real tokio without a word of complaint when the face does not fit, the outcome is
//! looked up before anything is built.
//!
//! - `options`: what stands on the command line.
//! - `project`: what cargo says about the project.
//! - `lock`: the lock file, in and out.
//! - `verdict`: whether the face is in tokio's place, and if not, who is in the way.
//! - `doctor`: the same in prose, before one starts.
//! - `launch`: running a program that was built.
//! - `interrupt`: being told to end.

mod doctor;
mod face;
mod interrupt;
mod launch;
mod lock;
mod options;
mod project;
mod verdict;

use face::Face;
use lock::Swap;
use options::{Action, Options};
use project::Project;
use std::process::ExitCode;
use verdict::Verdict;

/// What went wrong, for the person at the keyboard.
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
        Action::Doctor | Action::Run | Action::Cargo(_) => {
            let face = Face::find()?;
            let project = Project::open(options, &face)?;
            return build(options, &project);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// With the lock file swapped: looks whether the face is in tokio's place, and does what was asked for if it is.
fn build(options: &Options, project: &Project) -> Result<ExitCode, Failure> {
    let mut swap = Swap::begin(project)?;
    let verdict = swap.resolve(project)?;
    if let Action::Doctor = options.action {
        let locked = swap.locked_tokios();
        swap.end()?;
        return Ok(doctor::report(project, &verdict, &locked));
    }
    let Verdict::Taken(taken) = verdict else {
        swap.end()?;
        return Err(verdict.to_string());
    };
    eprintln!("cargo wakeful: {taken}");
    if let Action::Run = options.action {
        let program = launch::build(project, options);
        swap.end()?;
        return Err(program?.launch(options));
    }
    let cargo = project.command(options).spawn();
    let status = cargo.and_then(|mut cargo| interrupt::wait_for(&mut cargo));
    swap.end()?;
    let status = status.map_err(|error| format!("cargo cannot be started: {error}"))?;
    // A cargo that a signal ended has no code.
    Ok(status.code().map_or(ExitCode::from(101), |code| ExitCode::from(code as u8)))
}
