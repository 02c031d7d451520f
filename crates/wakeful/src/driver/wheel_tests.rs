//! Tests of the timer wheel: edge cases one by one. The submodule compares it with an oracle.

use super::table::{BITS, LEVELS, SlotIndex};
use super::{Inserted, Linked, Links, Wheel, links};
use crate::sys::rng::Rng;
use std::cell::Cell;
use std::ptr::NonNull;

#[path = "wheel_oracle_tests.rs"]
mod oracle;

struct Entry {
    id: usize,
    links: Links<Entry>,
    /// The number of accesses of the wheel to this entry, a measure of its work.
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
