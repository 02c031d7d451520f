//! Compares applications on tokio with the same applications on wakeful.
//!
//! The applications are in `service`. `on-tokio` and `on-wakeful` are workspaces that build it on a runtime each:
//! the second has a patch that replaces tokio in all packages. This program builds both (`programs`), starts a
//! server of a [`rows`] entry, drives it with the generator in [`load`], and writes figures (`measure`, `runner`,
//! `record`).

mod driver;
mod load;
mod measure;
mod options;
mod pinning;
mod postgres;
mod programs;
mod record;
mod rows;
mod runner;

use std::process::ExitCode;

use figures::choice::choose;
use options::{Command, Options};

fn main() -> ExitCode {
    let outcome = match options::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            Ok(())
        }
        Ok(Command::List) => {
            print!("{}", record::list(&rows::all()));
            Ok(())
        }
        Ok(Command::Compare(options)) => compare(&options),
        Err(complaint) => Err(complaint),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("apps: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    let mut rows = rows::all();
    let names: Vec<_> = rows.iter().map(|row| row.name).collect();
    let chosen = choose("row", &options.rows, &names)?;
    rows.retain(|row| chosen.contains(&row.name));
    runner::compare(&rows, options).and_then(|run| record::publish(&run, options))
}
