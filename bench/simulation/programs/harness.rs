//! The command-line interface of every tool's program.
//!
//! ```text
//! on-TOOL list                                          the bugs that the tool has
//! on-TOOL search BUG FIRST_MASTER MASTERS MAX_RUNS      "found N" or "missed N" for each master seed
//! on-TOOL twins BUG FIRST_SEED RUNS MAX_SECONDS         "twins RUNS ALARMS SECONDS"
//! on-TOOL heartbeats HOSTS MAX_SIMULATED REAL_SECONDS   "heartbeats SIMULATED SECONDS"
//! ```
//!
//! `STRATEGY` is an environment variable of tools that have several strategies.

use crate::programs::Bug;
use std::time::{Duration, Instant};

/// A simulator.
pub trait Tool {
    const BUGS: &'static [Bug];

    /// Makes runs under this master seed until one fails. Returns the number of runs, or `None` if none
    /// of `max_runs` runs failed.
    fn search(&mut self, bug: &Bug, master: u64, max_runs: u64) -> Option<u64>;

    /// Makes this number of runs of the fixed twin. Returns the number of failed runs.
    fn twins(&mut self, bug: &Bug, first_seed: u64, runs: u64) -> u64;

    /// Simulates hosts with heartbeats for this time. Only called for tools that have hosts.
    fn heartbeats(&mut self, _hosts: usize, _simulated: Duration) {
        panic!("this tool has no hosts: leave out `heartbeats`, which needs them")
    }
}

/// Returns the seed of a run.
#[allow(dead_code, reason = "some tools draw the seeds of their runs themselves")]
pub fn seed(master: u64, run: u64) -> u64 {
    master * 1_000_000 + run
}

/// Searches with one run per seed. `fails` runs a twin under a seed.
#[allow(dead_code, reason = "some tools search themselves")]
pub fn search_seeds(master: u64, max_runs: u64, mut fails: impl FnMut(u64) -> bool) -> Option<u64> {
    (0..max_runs).find(|run| fails(seed(master, *run))).map(|run| run + 1)
}

pub fn main<T: Tool>(mut tool: T) {
    if std::env::var_os("VERBOSE").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let bug = |index: usize| T::BUGS.iter().find(|bug| bug.name == args[index]).expect("a bug");
    let number = |index: usize| args[index].parse::<u64>().expect("a number");
    match args[0].as_str() {
        "list" => T::BUGS.iter().for_each(|bug| println!("{}", bug.name)),
        "search" => {
            for master in number(2)..number(2) + number(3) {
                match tool.search(bug(1), master, number(4)) {
                    Some(runs) => println!("found {runs}"),
                    None => println!("missed {}", number(4)),
                }
            }
        }
        "twins" => twins(&mut tool, bug(1), number(2), number(3), number(4)),
        "heartbeats" => heartbeats(&mut tool, number(1) as usize, number(2), number(3)),
        other => panic!("{other:?} is no command"),
    }
}

/// Runs the twin in batches, so that a slow tool stops on time.
fn twins<T: Tool>(tool: &mut T, bug: &Bug, first_seed: u64, runs: u64, max_seconds: u64) {
    let start = Instant::now();
    let batch = runs.div_ceil(20);
    let (mut done, mut alarms) = (0, 0);
    while done < runs && start.elapsed().as_secs() < max_seconds {
        alarms += tool.twins(bug, first_seed + done, batch);
        done += batch;
    }
    println!("twins {done} {alarms} {}", start.elapsed().as_secs_f64());
}

/// Simulates increasing time spans until one takes a good part of the real time.
fn heartbeats<T: Tool>(tool: &mut T, hosts: usize, max_simulated: u64, real_seconds: u64) {
    let mut simulated = 10.min(max_simulated);
    loop {
        let start = Instant::now();
        tool.heartbeats(hosts, Duration::from_secs(simulated));
        let took = start.elapsed().as_secs_f64();
        if simulated == max_simulated || took * 2.0 > real_seconds as f64 {
            println!("heartbeats {simulated} {took}");
            return;
        }
        let factor = (real_seconds as f64 / took).clamp(2.0, 20.0);
        simulated = ((simulated as f64 * factor) as u64).min(max_simulated);
    }
}
