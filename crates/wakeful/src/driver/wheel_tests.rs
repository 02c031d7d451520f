//! Tests of the timer wheel: random operations against a sorted map, and edge cases one by one.

use super::table::{BITS, LEVELS, SlotIndex};
use super::{Inserted, Linked, Links, Wheel, links};
use crate::sys::rng::Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;

struct Entry {
    id: usize,
    links: Links<Entry>,
    /// How often the wheel accessed this entry, the measure of its work.
    accesses: Cell<u64>,
}

// SAFETY: `links` always returns the field `links`, and does not panic.
unsafe impl Linked for Entry {
    // SAFETY: the trait's contract: `entry` points to a live entry.
    unsafe fn links(entry: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: the caller guarantees that the entry is alive. The tests use one thread.
        let entry = unsafe { entry.as_ref() };
        entry.accesses.set(entry.accesses.get() + 1);
        NonNull::from(&entry.links)
    }
}

/// A wheel together with its entries, which outlive it (WHEEL-2).
struct Fixture {
    wheel: Wheel<Entry>,
    entries: Box<[Entry]>,
}

impl Fixture {
    fn new(now_tick: u64, entries: usize) -> Self {
        let entry = |id| Entry { id, links: Links::new(), accesses: Cell::new(0) };
        Self { wheel: Wheel::new(now_tick), entries: (0..entries).map(entry).collect() }
    }

    fn insert(&mut self, id: usize, deadline_tick: u64) -> Inserted {
        let entry = NonNull::from(&self.entries[id]);
        // SAFETY: entries stay in their box until `drop` has emptied the wheel. Every test inserts
        // only unlinked entries.
        unsafe { self.wheel.insert(entry, deadline_tick) }
    }

    fn insert_waiting(&mut self, id: usize, deadline_tick: u64) {
        assert_eq!(self.insert(id, deadline_tick), Inserted::Waiting);
    }

    fn remove(&mut self, id: usize) -> bool {
        let entry = NonNull::from(&self.entries[id]);
        // SAFETY: the entry is alive, and there is no other wheel.
        unsafe { self.wheel.remove(entry) }
    }

    /// Pops the next due entry. Returns its id and the tick at which it was popped.
    fn pop_due(&mut self, now_tick: u64) -> Option<(usize, u64)> {
        let entry = self.wheel.pop_due(now_tick)?;
        // SAFETY: the entries live as long as the fixture.
        let entry = unsafe { entry.as_ref() };
        assert!(!entry.links.is_linked());
        Some((entry.id, self.wheel.elapsed()))
    }

    fn pop_all_due(&mut self, now_tick: u64) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| self.pop_due(now_tick)).collect()
    }

    fn accesses(&self) -> u64 {
        self.entries.iter().map(|entry| entry.accesses.get()).sum()
    }

    /// Checks WHEEL-3 and WHEEL-4, entry by entry.
    fn check_rules(&self) {
        let Some(table) = &self.wheel.table else { return assert!(self.wheel.is_empty()) };
        let mut count = 0;
        for level in 0..LEVELS {
            assert_eq!(!table.occupied[level].is_empty(), table.levels & (1 << level) != 0);
            for slot in 0..=u8::MAX {
                let index = SlotIndex::new(level, slot);
                let list = &table.lists[index.index()];
                let bit = table.occupied[level].contains(slot);
                assert_eq!((bit, bit), (list.first.is_some(), list.last.is_some()));
                let (mut prev, mut next) = (None, list.first);
                while let Some(entry) = next {
                    // SAFETY: the entry is linked, so it is one of the fixture's.
                    let links = unsafe { links(entry) };
                    assert_eq!((links.prev.get(), links.slot.get()), (prev, index));
                    assert_eq!(
                        index,
                        SlotIndex::of(links.deadline_tick.get(), self.wheel.elapsed())
                    );
                    (prev, next) = (next, links.next.get());
                    count += 1;
                }
                assert_eq!(prev, list.last);
            }
        }
        assert_eq!(count, self.wheel.len());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        while self.wheel.pop_any().is_some() {}
    }
}

/// A wheel implemented with a sorted map.
struct Oracle {
    elapsed: u64,
    inserted: u64,
    /// From deadline and order of insertion to the entry.
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

    /// A random distance. All orders of magnitude are equally likely.
    fn distance(&mut self) -> u64 {
        let shift = self.min_shift + self.rng.below(64 - self.min_shift);
        self.rng.next_u64() >> shift
    }

    /// A tick just before, at or after the start of one of the next few slots.
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
        // In a crowded round most deadlines are of the last arm.
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

    /// A value for the next `now_tick`, which may depend on the wheel's state.
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

/// After how many steps the wheel's state is compared with the oracle's. Its results are compared
/// in every step. A prime, so that it does not divide a period of the steps.
const COMPARE_EVERY: u32 = 7;

/// Runs random steps of one seed, fewer if the last tick is reached. Returns how many it ran.
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

/// Prints how to repeat a failed round.
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

#[test]
fn unused_wheel_allocates_nothing() {
    assert!(size_of::<Wheel<Entry>>() <= 3 * size_of::<usize>().max(8));
    let mut fixture = Fixture::new(10, 1);
    assert_eq!(fixture.wheel.next_event(), None);
    assert_eq!(fixture.insert(0, 9), Inserted::Due);
    assert_eq!(fixture.insert(0, 10), Inserted::Due);
    assert!(!fixture.remove(0), "a due entry is not linked");
    assert_eq!(fixture.pop_all_due(1 << 50), []);
    assert!(fixture.wheel.table.is_none());
    assert_eq!(fixture.wheel.elapsed(), 1 << 50);
}

#[test]
fn slot_is_the_highest_differing_digit() {
    let position = |deadline, elapsed| {
        let slot = SlotIndex::of(deadline, elapsed);
        (slot.level(), slot.digit(), slot.start(elapsed))
    };
    assert_eq!(position(1, 0), (0, 1, 1));
    assert_eq!(position(255, 0), (0, 255, 255));
    assert_eq!(position(256, 0), (1, 1, 256));
    assert_eq!(position(256, 255), (1, 1, 256));
    assert_eq!(position(511, 255), (1, 1, 256));
    assert_eq!(position(511, 256), (0, 255, 511));
    assert_eq!(position(65_535, 65_000), (1, 255, 65_280));
    assert_eq!(position(65_536, 65_535), (2, 1, 65_536));
    assert_eq!(position(5 * 65_536 + 270, 65_536), (2, 5, 5 * 65_536));
    assert_eq!(position(277, 277), (0, 21, 277));
    assert_eq!(position(u64::MAX, 0), (LEVELS - 1, 255, 255 << 56));
    assert_eq!(position(u64::MAX, u64::MAX - 1), (0, 255, u64::MAX));
}

#[test]
fn cascades_down_from_every_level() {
    for level in 0..LEVELS as u32 {
        // One entry in the slot's first tick, one in its last, and one with all lower digits 1,
        // which cascades through every level.
        let start = 1u64 << (level * BITS);
        let last = start + (start - 1);
        let every = (0..=level).map(|digit| 1u64 << (digit * BITS)).sum::<u64>();
        let mut fixture = Fixture::new(0, 3);
        fixture.insert_waiting(0, last);
        fixture.insert_waiting(1, every);
        fixture.insert_waiting(2, start);
        assert_eq!(fixture.pop_all_due(start - 1), [], "level {level}: early");
        fixture.check_rules();
        let mut expected = vec![(0, last), (1, every), (2, start)];
        expected.sort_by_key(|&(_, tick)| tick);
        assert_eq!(fixture.pop_all_due(last), expected, "level {level}");
    }
}

#[test]
fn far_deadlines_wait_for_their_tick() {
    let far = [1 << 47, (1 << 48) - 1, 1 << 48, (1 << 48) + 1, 3 << 60, u64::MAX - 1, u64::MAX];
    let mut fixture = Fixture::new(1000, far.len());
    for (id, &deadline) in far.iter().enumerate() {
        fixture.insert_waiting(id, deadline);
    }
    for (id, &deadline) in far.iter().enumerate() {
        assert_eq!(fixture.wheel.next_deadline(), Some(deadline));
        assert_eq!(fixture.pop_all_due(deadline - 1), []);
        assert_eq!(fixture.pop_all_due(deadline), [(id, deadline)]);
        fixture.check_rules();
    }
    assert_eq!(fixture.insert(0, u64::MAX), Inserted::Due, "the last tick is completed");
}

#[test]
fn equal_deadlines_fire_in_order_of_insertion() {
    let deadline = 3 * 65_536 + 5 * 256 + 7;
    let mut fixture = Fixture::new(0, 5);
    let stops = [0, 65_536, 3 * 65_536, 3 * 65_536 + 5 * 256, deadline - 1];
    for (id, now) in stops.into_iter().enumerate() {
        assert_eq!(fixture.pop_all_due(now), []);
        fixture.insert_waiting(id, deadline);
    }
    assert_eq!(fixture.pop_all_due(deadline), (0..5).map(|id| (id, deadline)).collect::<Vec<_>>());
}

#[test]
fn entries_can_be_removed_and_inserted_while_due_ones_are_popped() {
    let mut fixture = Fixture::new(0, 5);
    for id in 0..4 {
        fixture.insert_waiting(id, 100);
    }
    assert_eq!(fixture.pop_due(200), Some((0, 100)));
    assert_eq!(fixture.wheel.next_event(), Some(100), "more entries are due");
    assert!(fixture.remove(2) && !fixture.remove(2));
    // `elapsed` is 100, so this deadline has passed.
    assert_eq!(fixture.insert(2, 100), Inserted::Due);
    fixture.insert_waiting(4, 101);
    fixture.insert_waiting(0, 201);
    assert_eq!(fixture.pop_all_due(200), [(1, 100), (3, 100), (4, 101)]);
    assert_eq!(fixture.wheel.next_event(), Some(201));
}

#[test]
fn now_before_elapsed_counts_as_elapsed() {
    let mut fixture = Fixture::new(500, 2);
    fixture.insert_waiting(0, 600);
    fixture.insert_waiting(1, 600);
    assert_eq!(fixture.pop_all_due(100), []);
    assert_eq!(fixture.wheel.elapsed(), 500);
    assert_eq!(fixture.pop_due(700), Some((0, 600)));
    // The other entry was already due.
    assert_eq!(fixture.pop_all_due(0), [(1, 600)]);
    assert_eq!(fixture.wheel.elapsed(), 600);
}

#[test]
fn single_timer_causes_one_event() {
    for deadline in [5, 83, 16_000, 1 << 30, u64::MAX] {
        let mut fixture = Fixture::new(3, 1);
        fixture.insert_waiting(0, deadline);
        assert_eq!(fixture.wheel.next_event(), Some(deadline));
        assert_eq!(fixture.pop_all_due(deadline), [(0, deadline)]);
    }
}

#[test]
fn many_timers_in_one_slot_cause_an_event_per_level() {
    let mut fixture = Fixture::new(0, 64);
    let deadline = |id: usize| (1 << 30) + (1 << 20) + 256 * id as u64;
    for id in 0..64 {
        fixture.insert_waiting(id, deadline(id));
    }
    let mut events = 0;
    while fixture.wheel.next_event() < Some(deadline(0)) {
        let event = fixture.wheel.next_event().unwrap();
        assert_eq!(fixture.pop_all_due(event), []);
        events += 1;
    }
    assert!(events <= 3, "{events} spurious wake-ups");
    assert_eq!(fixture.pop_all_due(deadline(0)), [(0, deadline(0))]);
}

#[test]
fn skipping_empty_time_costs_levels_not_ticks() {
    // Skipping empty time accesses no entry, however long it is.
    let mut fixture = Fixture::new(0, 1);
    fixture.insert_waiting(0, 1 << 41);
    let before = fixture.accesses();
    assert_eq!(fixture.pop_all_due(1 << 40), []);
    assert_eq!(fixture.accesses(), before);
    // Firing an entry at the last tick takes a few accesses per level.
    let mut fixture = Fixture::new(0, 1);
    fixture.insert_waiting(0, u64::MAX);
    assert_eq!(fixture.pop_all_due(u64::MAX), [(0, u64::MAX)]);
    assert!(fixture.accesses() <= 3 * LEVELS as u64, "{} accesses", fixture.accesses());
}

#[test]
fn work_per_fired_timer_is_bounded() {
    let entries = if cfg!(miri) { 200 } else { 20_000 };
    let mut fixture = Fixture::new(12_345, entries);
    let mut rng = Rng::from_seed(3);
    for id in 0..entries {
        fixture.insert_waiting(id, 12_345 + 16 + u64::from(rng.below(16_000)));
    }
    let mut fired = 0;
    for tick in 12_345..12_345 + 16_016 {
        fired += fixture.pop_all_due(tick).len();
    }
    assert_eq!(fired, entries);
    // Most entries cascade once. Each step takes at most three accesses.
    let accesses = fixture.accesses() / entries as u64;
    assert!(accesses <= 9, "{accesses} accesses per timer");
}

#[test]
fn pop_any_empties_the_wheel() {
    let mut fixture = Fixture::new(0, 100);
    for id in 0..100 {
        fixture.insert_waiting(id, 1 + ((id as u64) << (id % 50)));
    }
    let popped = std::iter::from_fn(|| fixture.wheel.pop_any()).count();
    assert_eq!((popped, fixture.wheel.len(), fixture.wheel.elapsed()), (100, 0, 0));
    assert!(fixture.entries.iter().all(|entry| !entry.links.is_linked()));
    fixture.check_rules();
}

#[test]
fn is_send() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&Wheel::<Entry>::new(0));
}
