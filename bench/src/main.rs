//! Compares wakeful with other runtimes.
//!
//! A cell is one row on one peer. The parent (`runner`) runs every cell in a process of its own. That is this binary
//! with `--cell ROW PEER`, for which `cell` prints one line of JSON. `judge` judges the samples, and `report` prints
//! the table or the record. `--report` makes charts of records, which `figures` draws.

mod cell;
mod judge;
mod options;
mod peers;
mod primitives;
mod report;
mod rows;
mod runner;
mod sockets;

use std::process::ExitCode;

use options::Command;

fn main() -> ExitCode {
    let rows = rows::all();
    let command = match options::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(complaint) => return fail(&complaint),
    };
    let outcome = match command {
        Command::Help => {
            print!("{}", options::HELP);
            Ok(())
        }
        Command::List => {
            print!("{}", report::list(&rows));
            Ok(())
        }
        Command::Report => figures::report::write().map(|files| {
            for file in files {
                println!("{file}");
            }
        }),
        Command::Cell { row, peer, batches } => cell::run(&rows, &row, &peer, batches),
        Command::Serve { service, peer } => sockets::server::run(&service, &peer),
        Command::Load { addr, connections } => sockets::load::run(addr, connections),
        Command::Compare(options) => {
            runner::compare(&rows, &options).and_then(|run| report::publish(&run, &options))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => fail(&complaint),
    }
}

fn fail(complaint: &str) -> ExitCode {
    eprintln!("wakeful-bench: {complaint}");
    ExitCode::FAILURE
}
