//! The wheel against a sorted map that does the same the slow way, and its
//! corners one by one.

use super::{BITS, Inserted, LEVELS, Linked, Links, Place, Wheel, links};
use crate::sys::rng::Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;

struct Entry {
    id: usize,
    links: Links<Entry>,
    /// How often the wheel looked at this entry: the measure of its work.
    touched: Cell<u64>,
}

// SAFETY: always the one field `links`.
unsafe impl Linked for Entry {
    // SAFETY: the contract is the trait's.
    unsafe fn links(entry: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: the caller says that it is alive; the tests are one thread.
        let entry = unsafe { entry.as_ref() };
        entry.touched.set(entry.touched.get() + 1);
        NonNull::from(&entry.links)
    }
}

/// A wheel together with its entries, which outlive it: D2.
struct Fixture {
    wheel: Wheel<Entry>,
    entries: Box<[Entry]>,
}

impl Fixture {
    fn new(now_tick: u64, entries: usize) -> Self {
        let entry = |id| Entry { id, links: Links::new(), touched: Cell::new(0) };
        Self { wheel: Wheel::new(now_tick), entries: (0..entries).map(entry).collect() }
    }

    fn insert(&mut self, id: usize, deadline_tick: u64) -> Inserted {
        let entry = NonNull::from(&self.entries[id]);
        // SAFETY: entries stay in their box until `drop` has emptied the wheel;
        // every test inserts only what is not linked.
        unsafe { self.wheel.insert(entry, deadline_tick) }
    }

    fn wait(&mut self, id: usize, deadline_tick: u64) {
        assert_eq!(self.insert(id, deadline_tick), Inserted::Waiting);
    }

    fn remove(&mut self, id: usize) -> bool {
        let entry = NonNull::from(&self.entries[id]);
        // SAFETY: alive, and there is no other wheel.
        unsafe { self.wheel.remove(entry) }
    }

    /// The next due entry and the tick at which it came.
    fn pop_due(&mut self, now_tick: u64) -> Option<(usize, u64)> {
        let entry = self.wheel.pop_due(now_tick)?;
        // SAFETY: the entries are alive as long as the fixture.
        let entry = unsafe { entry.as_ref() };
        assert!(!entry.links.is_linked());
        Some((entry.id, self.wheel.elapsed()))
    }

    fn fire(&mut self, now_tick: u64) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| self.pop_due(now_tick)).collect()
    }

    fn touched(&self) -> u64 {
        self.entries.iter().map(|entry| entry.touched.get()).sum()
    }

    /// D3 and D4, entry by entry.
    fn check_rules(&self) {
        let Some(table) = &self.wheel.table else { return assert!(self.wheel.is_empty()) };
        let mut count = 0;
        for level in 0..LEVELS {
            assert_eq!(!table.occupied[level].is_empty(), table.levels & (1 << level) != 0);
            for slot in 0..=u8::MAX {
                let place = Place::new(level, slot);
                let list = &table.lists[place.index()];
                let bit = table.occupied[level].contains(slot);
                assert_eq!((bit, bit), (list.first.is_some(), list.last.is_some()));
                let (mut prev, mut next) = (None, list.first);
                while let Some(entry) = next {
                    // SAFETY: linked, hence one of the fixture's entries.
                    let links = unsafe { links(entry) };
                    assert_eq!((links.prev.get(), links.place.get()), (prev, place));
                    assert_eq!(place, Place::of(links.deadline_tick.get(), self.wheel.elapsed()));
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

/// The same by sorting.
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

/// Draws ticks where mistakes would be: beside the edges of slots and levels.
struct Draw {
    rng: Rng,
    /// How far to go at most, as a shift; so that some rounds stay near zero.
    reach: u32,
    last_deadline: u64,
}

impl Draw {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let reach = rng.below(48);
        Self { rng, reach, last_deadline: 0 }
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

    /// Any distance, each order of magnitude as likely as the other.
    fn distance(&mut self) -> u64 {
        let shift = self.reach + self.rng.below(64 - self.reach);
        self.rng.next_u64() >> shift
    }

    /// Just before, at or after the start of one of the next few slots.
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
        // In a crowded round most deadlines are of the last kind.
        let kinds = if self.reach.is_multiple_of(2) { 16 } else { 64 };
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
            // Crowds: the same again, or a little later.
            _ => self.last_deadline.saturating_add(self.below(2) * self.below(40)),
        };
        self.last_deadline
    }

    /// The next "now", given what the wheel says of itself.
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

/// What the wheel says of itself is compared once in so many steps; what it gives
/// out, always. A number that no period of the steps divides.
const COMPARED: u32 = 7;

/// One seed's worth of random steps; fewer if time ends before. Gives back how
/// many it took.
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
                // The pops may stop halfway through what is due.
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
        if step.is_multiple_of(COMPARED) {
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
        // At `elapsed` only if something is left to pop there.
        assert_eq!(event <= wheel.elapsed(), deadline <= wheel.elapsed());
    }
}

/// Says how to get a failed round again.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: WAKEFUL_TEST_SEED={} cargo test -p wakeful --lib wheel", self.0);
        }
    }
}

#[test]
fn does_what_the_sorted_map_does() {
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
fn an_unused_wheel_is_a_few_words() {
    assert!(size_of::<Wheel<Entry>>() <= 3 * size_of::<usize>().max(8));
    let mut fixture = Fixture::new(10, 1);
    assert_eq!(fixture.wheel.next_event(), None);
    assert_eq!(fixture.insert(0, 9), Inserted::Due);
    assert_eq!(fixture.insert(0, 10), Inserted::Due);
    assert!(!fixture.remove(0), "what is due is not linked");
    assert_eq!(fixture.fire(1 << 50), []);
    assert!(fixture.wheel.table.is_none());
    assert_eq!(fixture.wheel.elapsed(), 1 << 50);
}

#[test]
fn a_place_is_the_highest_differing_digit() {
    let place = |deadline, elapsed| {
        let place = Place::of(deadline, elapsed);
        (place.level(), place.slot(), place.start(elapsed))
    };
    assert_eq!(place(1, 0), (0, 1, 1));
    assert_eq!(place(255, 0), (0, 255, 255));
    assert_eq!(place(256, 0), (1, 1, 256));
    assert_eq!(place(256, 255), (1, 1, 256));
    assert_eq!(place(511, 255), (1, 1, 256));
    assert_eq!(place(511, 256), (0, 255, 511));
    assert_eq!(place(65_535, 65_000), (1, 255, 65_280));
    assert_eq!(place(65_536, 65_535), (2, 1, 65_536));
    assert_eq!(place(5 * 65_536 + 270, 65_536), (2, 5, 5 * 65_536));
    assert_eq!(place(277, 277), (0, 21, 277));
    assert_eq!(place(u64::MAX, 0), (LEVELS - 1, 255, 255 << 56));
    assert_eq!(place(u64::MAX, u64::MAX - 1), (0, 255, u64::MAX));
}

#[test]
fn cascades_down_from_every_level() {
    for level in 0..LEVELS as u32 {
        // One in the slot's first tick, one in its last, one with all lower
        // digits at 1, so that it stops at every level on its way.
        let start = 1u64 << (level * BITS);
        let last = start + (start - 1);
        let every = (0..=level).map(|digit| 1u64 << (digit * BITS)).sum::<u64>();
        let mut fixture = Fixture::new(0, 3);
        fixture.wait(0, last);
        fixture.wait(1, every);
        fixture.wait(2, start);
        assert_eq!(fixture.fire(start - 1), [], "level {level}: early");
        fixture.check_rules();
        let mut expected = vec![(0, last), (1, every), (2, start)];
        expected.sort_by_key(|&(_, tick)| tick);
        assert_eq!(fixture.fire(last), expected, "level {level}");
    }
}

#[test]
fn far_deadlines_wait_for_their_tick() {
    let far = [1 << 47, (1 << 48) - 1, 1 << 48, (1 << 48) + 1, 3 << 60, u64::MAX - 1, u64::MAX];
    let mut fixture = Fixture::new(1000, far.len());
    for (id, &deadline) in far.iter().enumerate() {
        fixture.wait(id, deadline);
    }
    for (id, &deadline) in far.iter().enumerate() {
        assert_eq!(fixture.wheel.next_deadline(), Some(deadline));
        assert_eq!(fixture.fire(deadline - 1), []);
        assert_eq!(fixture.fire(deadline), [(id, deadline)]);
        fixture.check_rules();
    }
    assert_eq!(fixture.insert(0, u64::MAX), Inserted::Due, "the end of time has come");
}

#[test]
fn equal_deadlines_fire_in_order_of_insertion() {
    let deadline = 3 * 65_536 + 5 * 256 + 7;
    let mut fixture = Fixture::new(0, 5);
    let on_the_way = [0, 65_536, 3 * 65_536, 3 * 65_536 + 5 * 256, deadline - 1];
    for (id, now) in on_the_way.into_iter().enumerate() {
        assert_eq!(fixture.fire(now), []);
        fixture.wait(id, deadline);
    }
    assert_eq!(fixture.fire(deadline), (0..5).map(|id| (id, deadline)).collect::<Vec<_>>());
}

#[test]
fn what_is_due_can_still_be_removed_and_joined_by_later_ones() {
    let mut fixture = Fixture::new(0, 5);
    for id in 0..4 {
        fixture.wait(id, 100);
    }
    assert_eq!(fixture.pop_due(200), Some((0, 100)));
    assert_eq!(fixture.wheel.next_event(), Some(100), "there is more to pop");
    assert!(fixture.remove(2) && !fixture.remove(2));
    // The wheel stands at 100: this is no longer in time for it.
    assert_eq!(fixture.insert(2, 100), Inserted::Due);
    fixture.wait(4, 101);
    fixture.wait(0, 201);
    assert_eq!(fixture.fire(200), [(1, 100), (3, 100), (4, 101)]);
    assert_eq!(fixture.wheel.next_event(), Some(201));
}

#[test]
fn time_that_goes_back_stands_still() {
    let mut fixture = Fixture::new(500, 2);
    fixture.wait(0, 600);
    fixture.wait(1, 600);
    assert_eq!(fixture.fire(100), []);
    assert_eq!(fixture.wheel.elapsed(), 500);
    assert_eq!(fixture.pop_due(700), Some((0, 600)));
    // The other was due already.
    assert_eq!(fixture.fire(0), [(1, 600)]);
    assert_eq!(fixture.wheel.elapsed(), 600);
}

#[test]
fn a_lone_timer_causes_one_event() {
    for deadline in [5, 83, 16_000, 1 << 30, u64::MAX] {
        let mut fixture = Fixture::new(3, 1);
        fixture.wait(0, deadline);
        assert_eq!(fixture.wheel.next_event(), Some(deadline));
        assert_eq!(fixture.fire(deadline), [(0, deadline)]);
    }
}

#[test]
fn many_timers_in_one_slot_cause_an_event_per_level() {
    let mut fixture = Fixture::new(0, 64);
    let deadline = |id: usize| (1 << 30) + (1 << 20) + 256 * id as u64;
    for id in 0..64 {
        fixture.wait(id, deadline(id));
    }
    let mut events = 0;
    while fixture.wheel.next_event() < Some(deadline(0)) {
        let event = fixture.wheel.next_event().unwrap();
        assert_eq!(fixture.fire(event), []);
        events += 1;
    }
    assert!(events <= 3, "woken {events} times for nothing");
    assert_eq!(fixture.fire(deadline(0)), [(0, deadline(0))]);
}

#[test]
fn skipping_costs_levels_not_ticks() {
    // Across empty time, whatever its length, no entry is looked at.
    let mut fixture = Fixture::new(0, 1);
    fixture.wait(0, 1 << 41);
    let before = fixture.touched();
    assert_eq!(fixture.fire(1 << 40), []);
    assert_eq!(fixture.touched(), before);
    // And to fire one that is as far as can be: a few looks per level.
    let mut fixture = Fixture::new(0, 1);
    fixture.wait(0, u64::MAX);
    assert_eq!(fixture.fire(u64::MAX), [(0, u64::MAX)]);
    assert!(fixture.touched() <= 3 * LEVELS as u64, "{} looks", fixture.touched());
}

#[test]
fn work_per_fired_timer_is_bounded() {
    let entries = if cfg!(miri) { 200 } else { 20_000 };
    let mut fixture = Fixture::new(12_345, entries);
    let mut rng = Rng::from_seed(3);
    for id in 0..entries {
        fixture.wait(id, 12_345 + 16 + u64::from(rng.below(16_000)));
    }
    let mut fired = 0;
    for tick in 12_345..12_345 + 16_016 {
        fired += fixture.fire(tick).len();
    }
    assert_eq!(fired, entries);
    // One level to cascade from, for most; at most three looks for each step.
    let looks = fixture.touched() / entries as u64;
    assert!(looks <= 9, "{looks} looks per timer");
}

#[test]
fn any_order_empties_it() {
    let mut fixture = Fixture::new(0, 100);
    for id in 0..100 {
        fixture.wait(id, 1 + ((id as u64) << (id % 50)));
    }
    let popped = std::iter::from_fn(|| fixture.wheel.pop_any()).count();
    assert_eq!((popped, fixture.wheel.len(), fixture.wheel.elapsed()), (100, 0, 0));
    assert!(fixture.entries.iter().all(|entry| !entry.links.is_linked()));
    fixture.check_rules();
}

#[test]
fn moves_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&Wheel::<Entry>::new(0));
}
