//! Runs the rounds of a kind, and checks guards, threads, descriptors, children and memory after each.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use wakeful::runtime::Builder;

use super::Kind;
use super::counting::Counting;
use super::process_state::ProcessState;
use super::rng::TestRng;
use super::round::{Round, hide_expected_panics};
use super::watchdog;

/// When the runner stops.
#[derive(Clone, Copy)]
pub enum Amount {
    Rounds(u64),
    Time(Duration),
}

/// The counts of a kind whose rounds have all passed.
pub struct Passed {
    pub rounds: u64,
    pub counts: BTreeMap<&'static str, u64>,
    /// The allocations in use after the first rounds and after the last ones.
    pub allocations: (usize, usize),
}

/// A failure, and the command that repeats it.
pub struct Failed {
    pub message: String,
    pub repeat: String,
}

/// Returns the command that repeats one round of a kind.
pub fn repeat_line(kind: &Kind, seed: u64) -> String {
    format!("cargo xtask stress --kind {} --seed {seed} --rounds 1", kind.name)
}

/// Returns the seed of the next round.
fn next_seed(seed: u64) -> u64 {
    TestRng::new(seed).branch().below(usize::MAX) as u64
}

/// Makes wakeful start its process-wide threads and state.
fn warm_up() {
    for builder in [&mut Builder::new_current_thread(), &mut Builder::new_multi_thread()] {
        let runtime = builder.enable_all().dump_on_signal(true).build().unwrap();
        runtime.block_on(async { wakeful::spawn(wakeful::task::yield_now()).await.unwrap() });
    }
}

/// Runs rounds until `amount` is reached or one fails. Calls `on_round` with the seed before each.
pub fn run(
    kind: &Kind,
    mut seed: u64,
    amount: Amount,
    memory: &Counting,
    mut on_round: impl FnMut(u64, u64),
) -> Result<Passed, Failed> {
    let first_seed = seed;
    hide_expected_panics();
    warm_up();
    let before = ProcessState::now();
    let started = Instant::now();
    let mut passed = Passed { rounds: 0, counts: BTreeMap::new(), allocations: (0, 0) };
    let mut samples = Samples::new();
    while match amount {
        Amount::Rounds(rounds) => passed.rounds < rounds,
        Amount::Time(limit) => started.elapsed() < limit,
    } {
        on_round(passed.rounds, seed);
        let repeat = repeat_line(kind, seed);
        watchdog::watch(repeat.clone());
        let mut round = Round::new(seed);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (kind.round)(&mut round);
            settle(&before);
            let (drops, counts) = round.into_parts();
            assert_eq!(drops.dropped(), drops.made(), "drops of the guards that were made");
            for (what, number) in counts {
                *passed.counts.entry(what).or_default() += number;
            }
        }));
        watchdog::unwatch();
        if let Err(payload) = outcome {
            return Err(Failed { message: text_of(&*payload), repeat });
        }
        passed.rounds += 1;
        samples.add(memory.pieces());
        seed = next_seed(seed);
    }
    passed.allocations = samples.ends();
    if !kind.forgets {
        samples.check().map_err(|message| Failed {
            message,
            repeat: format!(
                "cargo xtask stress --kind {} --seed {first_seed} --rounds {}",
                kind.name, passed.rounds
            ),
        })?;
    }
    Ok(passed)
}

/// Waits until the process has no remains of the round. The watchdog ends an endless wait.
fn settle(before: &ProcessState) {
    while let Some(excess) = before.excess() {
        watchdog::waits_for(format!("for the end of: {excess}"));
        thread::yield_now();
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text").to_owned()
}

/// The smallest number of allocations in each block of rounds. Caches grow to the needs of the largest round; a leak
/// grows with the number of rounds.
struct Samples {
    blocks: Vec<usize>,
    in_block: usize,
}

/// The number of rounds in a block.
const BLOCK: usize = 8;

impl Samples {
    fn new() -> Self {
        // Allocated once, so that the samples do not count themselves.
        Self { blocks: Vec::with_capacity(1 << 20), in_block: 0 }
    }

    fn add(&mut self, allocations: usize) {
        if self.in_block == 0 {
            self.blocks.push(allocations);
        }
        let last = self.blocks.last_mut().expect("a block was begun");
        *last = allocations.min(*last);
        self.in_block = (self.in_block + 1) % BLOCK;
    }

    /// Returns the second block, if there is one, and the last full block.
    fn ends(&self) -> (usize, usize) {
        let full = self.blocks.len() - usize::from(self.in_block > 0);
        let at = |index: usize| self.blocks.get(index).copied().unwrap_or(0);
        (at(full.min(2).saturating_sub(1)), at(full.saturating_sub(1)))
    }

    fn check(&self) -> Result<(), String> {
        let (first, last) = self.ends();
        // One allocation per 64 rounds may be a cache; one per round is a leak.
        let allowed = 16 + self.blocks.len() * BLOCK / 64;
        if last > first + allowed {
            return Err(format!(
                "memory grows: {first} allocations after the first rounds, {last} after the last"
            ));
        }
        Ok(())
    }
}
