//! The stress program. `cargo xtask stress` builds and runs it, with the address sanitizer if available.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

#[path = "mod.rs"]
mod stress;

use stress::counting::Counting;
use stress::runner::{Amount, run};
use stress::{KINDS, Kind};

#[global_allocator]
static MEMORY: Counting = Counting::new();

const USAGE: &str = "usage: stress --list | --kind NAME --seed N (--rounds N | --seconds N)";

enum Order {
    List,
    Run { kind: &'static Kind, seed: u64, amount: Amount },
}

/// Parses the arguments that `cargo xtask stress` passes.
fn parse(mut args: impl Iterator<Item = String>) -> Option<Order> {
    let (mut kind, mut seed, mut amount) = (None, None, None);
    while let Some(flag) = args.next() {
        if flag == "--list" {
            return Some(Order::List);
        }
        let value = args.next()?;
        match flag.as_str() {
            "--kind" => kind = KINDS.iter().find(|kind| kind.name == value),
            "--seed" => seed = value.parse().ok(),
            "--rounds" => amount = value.parse().ok().map(Amount::Rounds),
            "--seconds" => {
                amount =
                    value.parse().ok().map(|seconds| Amount::Time(Duration::from_secs(seconds)));
            }
            _ => return None,
        }
    }
    Some(Order::Run { kind: kind?, seed: seed?, amount: amount? })
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Some(Order::List) => {
            for kind in KINDS {
                println!("{:<14} {}", kind.name, kind.about);
            }
            ExitCode::SUCCESS
        }
        Some(Order::Run { kind, seed, amount }) => run_kind(kind, seed, amount),
    }
}

/// Prints the seed of each round before the round runs, so that it is known after a crash.
fn run_kind(kind: &Kind, seed: u64, amount: Amount) -> ExitCode {
    let mut stdout = std::io::stdout();
    let outcome = run(kind, seed, amount, &MEMORY, |number, seed| {
        writeln!(stdout, "round {number} seed {seed}").expect("stdout is open");
    });
    match outcome {
        Ok(passed) => {
            let counts = passed.counts.iter().map(|(what, number)| format!("{number} {what}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            let (first, last) = passed.allocations;
            println!("passed: {} rounds, {counts}; allocations {first} then {last}", passed.rounds);
            ExitCode::SUCCESS
        }
        Err(failed) => {
            eprintln!("{}: {}\nto repeat it: {}", kind.name, failed.message, failed.repeat);
            ExitCode::FAILURE
        }
    }
}
