//! The programs on shuttle, with its versions of tokio's primitives.

#[path = "../../programs/harness.rs"]
mod harness;
#[path = "../../programs/mod.rs"]
mod programs;
#[path = "../../programs/races.rs"]
mod races;
mod rt;
#[path = "../../programs/waits.rs"]
mod waits;

use harness::Tool;
use programs::{Bug, System, Twin, bugs};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler, UrwRandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `STRATEGY`: `random`, `urw` or `pct2`, `pct3`, ….
struct Shuttle {
    strategy: String,
}

impl Shuttle {
    fn scheduler(&self, seed: u64, runs: usize) -> Box<dyn Scheduler + Send> {
        match self.strategy.as_str() {
            "random" => Box::new(RandomScheduler::new_from_seed(seed, runs)),
            "urw" => Box::new(UrwRandomScheduler::new_from_seed(seed, runs)),
            other => {
                let depth = other.strip_prefix("pct").and_then(|it| it.parse().ok());
                Box::new(PctScheduler::new_from_seed(seed, depth.expect("a strategy"), runs))
            }
        }
    }

    /// Makes runs until one fails. Returns the number of runs, and whether the last one failed.
    fn explore(&self, bug: &Bug, twin: Twin, seed: u64, runs: u64) -> (u64, bool) {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(100_000);
        config.silence_warnings = true;
        let runner = Runner::new(self.scheduler(seed, runs as usize), config);
        let made = Arc::new(AtomicU64::new(0));
        let (counter, make) = (made.clone(), bug.system);
        let result = catch_unwind(AssertUnwindSafe(|| {
            runner.run(move || {
                counter.fetch_add(1, Relaxed);
                let System { hosts, client } = make(twin);
                assert!(hosts.is_empty(), "shuttle has no hosts");
                shuttle::future::block_on(client);
            })
        }));
        (made.load(Relaxed), result.is_err())
    }
}

impl Tool for Shuttle {
    const BUGS: &'static [Bug] = bugs![
        waits::lost_wakeup,
        waits::stale_waker,
        races::cancelled_read,
        waits::abba,
        waits::futurelock,
        races::order_across_senders,
        races::lost_update,
    ];

    fn search(&mut self, bug: &Bug, master: u64, max_runs: u64) -> Option<u64> {
        let (runs, has_failed) = self.explore(bug, Twin::Buggy, master, max_runs);
        has_failed.then_some(runs)
    }

    fn twins(&mut self, bug: &Bug, first_seed: u64, runs: u64) -> u64 {
        let (mut made, mut alarms) = (0, 0);
        while made < runs {
            let (more, has_failed) = self.explore(bug, Twin::Fixed, first_seed + made, runs - made);
            made += more;
            alarms += u64::from(has_failed);
        }
        alarms
    }
}

fn main() {
    let strategy = std::env::var("STRATEGY").unwrap_or_else(|_| "random".to_owned());
    harness::main(Shuttle { strategy });
}
