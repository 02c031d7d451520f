//! Compares the timer wheel with a sorted map, in random operations.

use super::super::table::{BITS, LEVELS};
use super::super::{Inserted, Wheel};
use super::{Entry, Fixture};
use crate::sys::rng::Rng;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// A wheel implemented with a sorted map.
struct Oracle {
    elapsed: u64,
    inserted: u64,
    /// The entries by deadline and order of insertion.
    waiting: BTreeMap<(u64, u64), usize>,
    keys: Vec<Option<(u64, u64)>>,
}

impl Oracle {
    fn insert(&mut self, id: usize, deadline_tick: u64) -> Inserted {
        if deadline_tick <= self.elapsed {
            return Inserted::Due;
        }
        self.inserted += 1;
        self.keys[id] = Some((deadline_tick, self.inserted));
        self.waiting.insert((deadline_tick, self.inserted), id);
        Inserted::Waiting
    }

    fn remove(&mut self, id: usize) -> bool {
        self.keys[id].take().is_some_and(|key| self.waiting.remove(&key).is_some())
    }

    fn pop_due(&mut self, now_tick: u64) -> Option<(usize, u64)> {
        let now_tick = now_tick.max(self.elapsed);
        let Some(deadline_tick) = self.next_deadline().filter(|&tick| tick <= now_tick) else {
            self.elapsed = now_tick;
            return None;
        };
        let (_, id) = self.waiting.pop_first()?;
        self.keys[id] = None;
        self.elapsed = deadline_tick;
        Some((id, deadline_tick))
    }

    fn next_deadline(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(&(deadline_tick, _), _)| deadline_tick)
    }
}

/// Draws ticks where bugs are likely: next to the edges of slots and levels.
struct Draw {
    rng: Rng,
    /// The minimum right shift of a random distance, so that some rounds stay near zero.
    min_shift: u32,
    last_deadline: u64,
}

impl Draw {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let min_shift = rng.below(48);
        Self { rng, min_shift, last_deadline: 0 }
    }

    fn below(&mut self, n: u32) -> u64 {
        u64::from(self.rng.below(n))
    }

    fn nearby(&mut self, tick: u64) -> u64 {
        tick.saturating_add(self.below(3)).saturating_sub(1)
    }

    fn width(&mut self) -> u64 {
        1 << (self.rng.below(LEVELS as u32) * BITS)
    }

    /// Draws a random distance; all orders of magnitude are equally likely.
    fn distance(&mut self) -> u64 {
        let shift = self.min_shift + self.rng.below(64 - self.min_shift);
        self.rng.next_u64() >> shift
    }

    /// Draws a tick just before, at or after the start of one of the next few slots.
    fn edge(&mut self, elapsed: u64) -> u64 {
        let width = self.width();
        let ahead = (elapsed / width).saturating_add(1 + self.below(3)).saturating_mul(width);
        self.nearby(ahead)
    }

    fn start(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => self.below(5000),
            2 => self.distance(),
            _ => u64::MAX - self.below(10_000),
        }
    }

    fn deadline(&mut self, elapsed: u64) -> u64 {
        // In a crowded round, most deadlines come from the last arm.
        let kinds = if self.min_shift.is_multiple_of(2) { 16 } else { 64 };
        self.last_deadline = match self.below(kinds) {
            0 => elapsed.saturating_sub(self.below(70)),
            1 => elapsed,
            2 => u64::MAX - self.below(2),
            3 | 4 => elapsed.saturating_add(self.below(130)),
            5 | 6 => elapsed.saturating_add(self.below(16_000)),
            7 | 8 => {
                let ahead = elapsed.saturating_add(self.width());
                self.nearby(ahead)
            }
            9..=11 => self.edge(elapsed),
            12 | 13 => elapsed.saturating_add(self.distance()),
            14 => self.rng.next_u64(),
            // A crowd: the last deadline again, or a little later.
            _ => self.last_deadline.saturating_add(self.below(2) * self.below(40)),
        };
        self.last_deadline
    }

    /// Draws the next `now_tick`, which may depend on the wheel's state.
    fn now(&mut self, wheel: &Wheel<Entry>) -> u64 {
        let elapsed = wheel.elapsed();
        match self.below(11) {
            0 => elapsed,
            1 => elapsed.saturating_sub(self.distance()),
            2 => elapsed.saturating_add(1),
            3 | 4 => elapsed.saturating_add(self.below(100)),
            5 => elapsed.saturating_add(self.below(5000)),
            6 => self.edge(elapsed),
            7 => wheel.next_event().unwrap_or(elapsed),
            8 => wheel.next_deadline().unwrap_or(elapsed),
            9 => wheel.next_deadline().map_or(elapsed, |tick| tick - 1),
            _ => elapsed.saturating_add(self.distance()),
        }
    }
}

/// The number of steps between comparisons of the wheel's state with the oracle's. Results are
/// compared in every step. A prime, so that it does not divide a period of the steps.
const COMPARE_EVERY: u32 = 7;

/// Runs random steps of one seed, or fewer if the last tick is reached. Returns the number of steps.
fn run_round(seed: u64, steps: u32) -> u32 {
    let mut draw = Draw::new(seed);
    let elapsed = draw.start();
    let entries = [1, 3, 40, 400][draw.below(4) as usize];
    let mut fixture = Fixture::new(elapsed, entries);
    let keys = vec![None; entries];
    let mut oracle = Oracle { elapsed, inserted: 0, waiting: BTreeMap::new(), keys };
    let mut step = 0;
    while step < steps && oracle.elapsed < u64::MAX {
        let id = draw.below(entries as u32) as usize;
        match draw.below(8) {
            0..=2 if !fixture.entries[id].links.is_linked() => {
                let deadline = draw.deadline(oracle.elapsed);
                assert_eq!(fixture.insert(id, deadline), oracle.insert(id, deadline));
            }
            0..=3 => {
                assert_eq!(fixture.remove(id), oracle.remove(id));
            }
            4 | 5 => {
                assert_eq!(fixture.remove(id), oracle.remove(id));
                let deadline = draw.deadline(oracle.elapsed);
                assert_eq!(fixture.insert(id, deadline), oracle.insert(id, deadline));
            }
            6 => {
                // The pops may stop before all due entries are popped.
                let now = draw.now(&fixture.wheel);
                for _ in 0..1 + draw.below(4) {
                    assert_eq!(fixture.pop_due(now), oracle.pop_due(now));
                }
            }
            _ => {
                let now = draw.now(&fixture.wheel);
                while let Some(popped) = oracle.pop_due(now) {
                    assert_eq!(fixture.pop_due(now), Some(popped));
                }
                assert_eq!(fixture.pop_due(now), None);
            }
        }
        if step.is_multiple_of(COMPARE_EVERY) {
            compare(&fixture, &oracle);
        }
        step += 1;
    }
    fixture.check_rules();
    while let Some(popped) = oracle.pop_due(u64::MAX) {
        assert_eq!(fixture.pop_due(u64::MAX), Some(popped));
    }
    assert_eq!(fixture.pop_due(u64::MAX), None);
    step
}

fn compare(fixture: &Fixture, oracle: &Oracle) {
    let wheel = &fixture.wheel;
    assert_eq!(wheel.elapsed(), oracle.elapsed);
    assert_eq!((wheel.len(), wheel.is_empty()), (oracle.waiting.len(), oracle.waiting.is_empty()));
    let deadline = oracle.next_deadline();
    assert_eq!(wheel.next_deadline(), deadline);
    assert_eq!(wheel.next_event().is_some(), deadline.is_some());
    if let (Some(event), Some(deadline)) = (wheel.next_event(), deadline) {
        assert!(event <= deadline, "event {event} would be late for {deadline}");
        // The event is at `elapsed` only if there is an entry left to pop.
        assert_eq!(event <= wheel.elapsed(), deadline <= wheel.elapsed());
    }
}

/// Prints how to repeat a round if it fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: WAKEFUL_TEST_SEED={} cargo test -p wakeful --lib wheel", self.0);
        }
    }
}

#[test]
fn agrees_with_a_sorted_map() {
    let steps = if cfg!(miri) { 2000 } else { 2_000_000 };
    let mut seed = match std::env::var("WAKEFUL_TEST_SEED") {
        Ok(seed) => seed.parse().expect("WAKEFUL_TEST_SEED is a number"),
        Err(_) => RandomState::new().hash_one("wheel"),
    };
    println!("to repeat this run: WAKEFUL_TEST_SEED={seed}");
    let mut done = 0;
    while done < steps {
        let _replay = Replay(seed);
        done += run_round(seed, 1000);
        seed = seed.wrapping_add(1);
    }
}
