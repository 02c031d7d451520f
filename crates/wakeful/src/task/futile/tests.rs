//! Tests of streaks of final results, with simulated clocks.

use super::{FutileKind, NO_RESULTS, PollFacts, STREAKS};
use crate::task::coop::Budget;
use std::time::{Duration, Instant};

/// A loop over one resource.
#[derive(Clone, Copy)]
struct Loop {
    kind: FutileKind,
    /// Wall time and CPU time of a round.
    round: Duration,
    cpu: Duration,
    /// Units of budget that other operations of a round spend.
    other_units: u8,
    /// The number of rounds per wait of the task; 0 means that it never waits.
    waits_every: u32,
    /// Whether each round uses a new resource.
    is_fresh: bool,
}

const RECV: Loop = Loop {
    kind: FutileKind::MpscRecv,
    round: Duration::from_micros(5),
    cpu: Duration::from_micros(5),
    other_units: 0,
    waits_every: 0,
    is_fresh: false,
};

impl Loop {
    /// Runs tasks that alternate in this loop for up to ten seconds. Returns the count and the time
    /// of the first finding.
    fn run(self, tasks: u64) -> Option<(u32, Duration)> {
        let start = Instant::now();
        let mut table = NO_RESULTS;
        let (mut now, mut cpu) = (Duration::ZERO, Duration::ZERO);
        let full = Budget::FULL.to_u8();
        let new = |task| PollFacts { task, poll: 1, budget: full, wakes: 0, has_yielded: false };
        let mut facts: Vec<PollFacts> = (1..=tasks).map(new).collect();
        let mut round = 0;
        while now < Duration::from_secs(10) {
            for facts in &mut facts {
                // One poll: up to the end of the budget, or to a wait.
                facts.poll += 1;
                facts.budget = full;
                while facts.budget > self.other_units {
                    round += 1;
                    now += self.round;
                    cpu += self.cpu;
                    facts.budget -= 1 + self.other_units;
                    let resource = if self.is_fresh { u64::from(round) } else { facts.task };
                    let clocks = || (start + now, cpu);
                    let result = (self.kind, resource, None);
                    if let Some(found) = table.count(*facts, result, clocks) {
                        return Some((found.count, found.duration));
                    }
                    if self.waits_every > 0 && round % self.waits_every == 0 {
                        facts.wakes += 1;
                        break;
                    }
                }
            }
        }
        None
    }
}

#[test]
fn a_loop_is_found_after_a_second() {
    let (count, duration) = RECV.run(1).expect("found");
    assert!(count > 190_000, "{count}");
    assert!((1_000..1_020).contains(&duration.as_millis()), "{duration:?}");
}

#[test]
fn loops_of_several_tasks_are_found() {
    // The tasks share the CPU time of their thread.
    let fast = Duration::from_nanos(1_000);
    assert!(Loop { round: fast, cpu: fast, ..RECV }.run(STREAKS as u64).is_some());
}

#[test]
fn a_thread_that_lacks_a_cpu_needs_longer() {
    let starved = Loop { round: Duration::from_micros(200), ..RECV };
    let (count, duration) = starved.run(1).expect("found");
    assert!((10_000..10_500).contains(&count), "{count}");
    assert!((2_000..2_100).contains(&duration.as_millis()), "{duration:?}");
    assert_eq!(Loop { round: Duration::from_millis(2), ..RECV }.run(1), None);
}

#[test]
fn a_loop_that_works_is_none() {
    let computes =
        |us| Loop { round: Duration::from_micros(us), cpu: Duration::from_micros(us), ..RECV };
    assert!(computes(9).run(1).is_some());
    assert_eq!(computes(11).run(1), None);
    assert_eq!(Loop { kind: FutileKind::MpscTryRecv, ..computes(3) }.run(1), None);
    assert_eq!(Loop { other_units: 1, ..RECV }.run(1), None, "other operations complete");
}

#[test]
fn a_loop_that_waits_is_none() {
    assert_eq!(Loop { waits_every: 1, ..RECV }.run(1), None);
    assert_eq!(Loop { waits_every: 50, ..RECV }.run(1), None);
    assert!(Loop { waits_every: 1_000, ..RECV }.run(1).is_some(), "a timer in the same `select!`");
    let file = Loop { kind: FutileKind::FileRead, waits_every: 1, ..RECV };
    assert!(file.run(1).is_some(), "a read of a file waits for the pool");
}

#[test]
fn ends_of_many_resources_are_no_loop() {
    assert_eq!(Loop { is_fresh: true, ..RECV }.run(1), None);
}

/// An empty `JoinSet` counts only if its `None` wins a `select!` and no other branch does.
#[test]
fn tentative_results_count_if_they_win() {
    let full = Budget::FULL.to_u8();
    let facts = PollFacts { task: 1, poll: 1, budget: full, wakes: 0, has_yielded: false };
    let start = Instant::now();
    // For each round: whether the result wins, and how many other branches win.
    let run = |is_won: bool, others: u32| {
        let mut table = NO_RESULTS;
        (0..2_000_000).any(|round| {
            let now = Duration::from_micros(round);
            let clocks = || (start + now, now);
            table.tentative = Some((FutileKind::JoinNext, 7, None));
            let found = is_won.then(|| table.branch_won(facts, true, clocks)).flatten();
            for _ in 0..others {
                assert!(table.branch_won(facts, false, clocks).is_none());
            }
            found.is_some()
        })
    };
    assert!(FutileKind::JoinNext.is_tentative() && !FutileKind::MpscRecv.is_tentative());
    assert!(run(true, 0));
    assert!(!run(false, 0) && !run(false, 1) && !run(true, 1));
}
