//! The catalogue: bugs beyond the gallery, each with a fixed twin, and programs that only look suspicious.
//!
//! Every run is a process of its own (`child.rs`), as a program of a user is: on both flavors, alone, and
//! inside a service that has a heartbeat and a TCP listener. The tables at the end of each module say what
//! must be reported; `program.rs` has the types of the tables and compares.
//!
//! `cargo test --test catalogue -- abba` runs the programs whose names contain `abba`; with `--show` their
//! reports are printed. `--correct` leaves the bugs out, and lists the reports of the other programs.
//! `CATALOGUE_ROUNDS=100` runs each fixed twin and each program that only looks suspicious 100 times.
//!
//! This test has no harness, as a harness has threads, beside which nothing is proven.

mod channels;
mod child;
mod innocent;
mod locks;
mod loops;
mod permits;
mod program;
mod replies;
mod runs;
mod sets;
mod stalls;
mod stories;
mod threads;

use program::{Bug, Innocent};
use wakeful::inspect::Certainty;

const PROVEN: Certainty = Certainty::Proven;

/// Which version of a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// The version with the bug.
    Buggy,
    /// The version without it, which ends by itself.
    Fixed,
}

fn bugs() -> Vec<Bug> {
    let tables = [
        locks::bugs(),
        sets::bugs(),
        permits::bugs(),
        channels::bugs(),
        replies::bugs(),
        threads::bugs(),
        stalls::bugs(),
        loops::bugs(),
        stories::bugs(),
    ];
    tables.into_iter().flatten().collect()
}

fn innocents() -> Vec<Innocent> {
    innocent::all()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == child::FLAG) {
        child::main(&args[1..]);
    } else {
        runs::main(&args);
    }
}
