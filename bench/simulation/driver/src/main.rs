//! Searches for the bugs of the catalogue with each tool, in turns, and prints tables.
//!
//! ```text
//! cargo run --release                        # builds all tools, runs everything (about 15 minutes)
//! cargo run --release -- --only abba         # one bug
//! cargo run --release -- --tool shuttle      # tools whose name starts with this
//! cargo run --release -- --record FILE       # also as data
//! ```
//!
//! Other options: `--masters N` (200), `--twins N` (10,000), `--rounds N` (5).

mod options;
mod record;
mod run;
mod table;
mod tools;

use options::Options;
use run::{Cell, Heartbeats};

/// The bugs in the order of the catalogue, with their numbers.
const BUGS: &[(u32, &str)] = &[
    (1, "lost_wakeup"),
    (2, "stale_waker"),
    (3, "cancelled_read"),
    (4, "abba"),
    (5, "futurelock"),
    (6, "order_across_senders"),
    (7, "lost_update"),
    (8, "one_read"),
    (9, "applied_twice"),
    (10, "early_answer"),
    (11, "torn_record"),
    (12, "two_leaders"),
    (13, "expired_lease"),
    (14, "retry_storm"),
];

fn main() {
    let options = Options::from_args();
    let tools = tools::build(&options);
    let mut cells: Vec<Cell> = Vec::new();
    for &(number, bug) in BUGS {
        if options.only.as_ref().is_some_and(|only| only != bug) {
            continue;
        }
        let mut row: Vec<Cell> =
            tools.iter().filter_map(|tool| Cell::new(number, bug, tool)).collect();
        for round in 0..options.rounds {
            // Each round starts with a different tool.
            let len = row.len().max(1);
            for turn in 0..row.len() {
                row[(turn + round as usize) % len].round(round, &options);
            }
        }
        table::print_bug(&row);
        cells.extend(row);
    }
    let heartbeats = match options.only {
        None => run::heartbeats(&tools),
        Some(_) => Vec::<Heartbeats>::new(),
    };
    println!("\n{}", table::bugs(&cells));
    println!("{}", table::heartbeats(&heartbeats));
    if let Some(path) = &options.record {
        record::write(path, &options, &cells, &heartbeats);
    }
}
