//! Station 7, the holder of timers: a hierarchical wheel of deadlines, one per
//! worker. Entries come from a sleep's first `Pending` and leave when the driver
//! pops them, to be woken, or when their owner removes them.
//!
//! The wheel is a data structure and nothing else: no clock, no lock, no waker.
//! Time is a count of ticks that the caller hands in.
//!
//! Think of a tick as a number written in digits of eight bits. Level `n` has one
//! slot, a list of entries, for each value of digit `n`:
//!
//! ```text
//! diagram
//!   level      7       …      2            1          0
//!   digit   ┌───────┬─────┬──────────┬──────────┬─────────┐
//!           │ 0-255 │  …  │  0-255   │  0-255   │  0-255  │
//!           └───────┴─────┴──────────┴──────────┴─────────┘
//!   a slot     2^56          65536       256         1      ticks wide
//!
//!   insert() ──► slot ──┬── pop_due(): level 0 ────────────► the caller
//!                 ▲     ├── pop_due(): else, cascade() ──┐
//!                 │     └── remove(), pop_any()          │
//!                 └──────── levels further down ◄────────┘
//! ```
//!
//! Eight levels hold any `u64`, so no deadline is too far to have a place of its
//! own; the upper ones cost nothing but their part of the table. Digits of eight
//! bits and not of six, although one word would hold their bits: what a timer
//! costs is fetching its entry from memory, once per cascade, and most sleeps of
//! up to four seconds cascade once.
//!
//! Rules:
//!
//! - D1. The links of a linked entry belong to the wheel: whoever has `&mut` of
//!   the wheel may write them, whoever has `&` may read them. The links of an
//!   entry that is not linked belong to the entry's owner.
//! - D2. From `insert` until it is popped or removed, an entry is alive and
//!   stays where it is.
//! - D3. A linked entry is in exactly one list, the one its `place` names. The
//!   first of a list has no `prev` and the last no `next`; both are None in an
//!   empty list. A bit in `occupied` or `levels` is set exactly if there is an
//!   entry behind it.
//! - D4. An entry's level is the highest digit in which its deadline differs
//!   from `elapsed`; its slot is the value of that digit. An entry due at
//!   `elapsed` itself, about to be popped, is in its slot of level 0.
//!
//! What follows from D4, deadlines never being before `elapsed`:
//!
//! - All that lower levels hold is due before anything higher levels hold, and
//!   within a level the order is that of the slots. So what comes next is the
//!   first set bit of the lowest level in use, however far away it is.
//! - `elapsed` may move up to the start of that slot and no other entry's place
//!   changes. On arrival the slot's own entries differ from `elapsed` only in
//!   lower digits: they cascade. Each moves down at most once per level.
//! - Entries with the same deadline always share a list. Lists are appended to
//!   and cascaded from the front, so such entries fire in order of insertion.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;

/// Bits per digit.
const BITS: u32 = 8;
/// Slots per level.
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
/// With so few entries in the next slot it pays to look at each of them: a
/// thread that sleeps until the slot begins wakes up for nothing.
const FEW: usize = 4;

const _: () = assert!(SLOTS == 1 << u8::BITS, "a slot is a byte");
const _: () = assert!(LEVELS <= u16::BITS as usize, "one bit per level");
const _: () = assert!(LEVELS * SLOTS < Place::NOWHERE.0 as usize, "no slot is nowhere");
const _: () = assert!(size_of::<Links<()>>() <= 32, "half a cache line per timer");

/// An entry of a wheel: something that has [`Links`] in it.
///
/// # Safety
///
/// `links` gives the same field of the same entry every time, and never panics.
pub(crate) unsafe trait Linked: Sized {
    /// Where the links of an entry are.
    ///
    /// # Safety
    ///
    /// `entry` points to a live entry.
    unsafe fn links(entry: NonNull<Self>) -> NonNull<Links<Self>>;
}

/// What the wheel keeps inside an entry. Cells, because the owner may hold a
/// shared reference to the entry while the wheel writes here.
pub(crate) struct Links<E> {
    prev: Cell<Option<NonNull<E>>>,
    next: Cell<Option<NonNull<E>>>,
    /// Set by `insert`; stays readable after the entry was popped or removed.
    deadline_tick: Cell<u64>,
    /// The list the entry is in; NOWHERE if it is not linked.
    place: Cell<Place>,
    /// D2: neighbours point here.
    _pinned: PhantomPinned,
}

impl<E> Links<E> {
    pub(crate) const fn new() -> Self {
        Self {
            prev: Cell::new(None),
            next: Cell::new(None),
            deadline_tick: Cell::new(0),
            place: Cell::new(Place::NOWHERE),
            _pinned: PhantomPinned,
        }
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.place.get() != Place::NOWHERE
    }
}

/// The links of `entry`. Not to be kept beyond the step at hand.
///
/// # Safety
///
/// `entry` is alive, and D1 allows the caller to touch its links.
#[inline(always)]
unsafe fn links<'a, E: Linked>(entry: NonNull<E>) -> &'a Links<E> {
    // SAFETY: the entry is alive, so `Linked` gives a field of it; D1 says that
    // no other thread touches that field now.
    unsafe { E::links(entry).as_ref() }
}

/// One list of the table: its level times `SLOTS`, plus its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u16);

impl Place {
    const NOWHERE: Place = Place(u16::MAX);

    /// Where D4 wants `deadline_tick`.
    #[inline]
    fn of(deadline_tick: u64, elapsed: u64) -> Place {
        debug_assert!(deadline_tick >= elapsed);
        let differing = deadline_tick ^ elapsed;
        let level = (differing | 1).ilog2() / BITS;
        Place::new(level as usize, (deadline_tick >> (level * BITS)) as u8)
    }

    #[inline]
    fn new(level: usize, slot: u8) -> Place {
        debug_assert!(level < LEVELS);
        Place((level * SLOTS) as u16 + u16::from(slot))
    }

    #[inline]
    fn level(self) -> usize {
        self.index() / SLOTS
    }

    #[inline]
    fn slot(self) -> u8 {
        self.index() as u8
    }

    #[inline]
    fn index(self) -> usize {
        debug_assert!(self != Place::NOWHERE);
        usize::from(self.0)
    }

    /// The first tick of the slot: the digits of `elapsed` above the level, the
    /// slot's own, then zeros.
    #[inline]
    fn start(self, elapsed: u64) -> u64 {
        let low_bits = self.level() as u32 * BITS;
        let above = (elapsed >> low_bits) & !(SLOTS as u64 - 1);
        (above | u64::from(self.slot())) << low_bits
    }
}

/// All lists, and which of them are in use.
struct Table<E> {
    /// Bit `n`: level `n` has a slot in use.
    levels: u16,
    /// By level: which slots have an entry.
    occupied: [Slots; LEVELS],
    /// By `Place::index`.
    lists: [List<E>; LEVELS * SLOTS],
}

/// A set of slots.
#[derive(Clone, Copy, Debug, Default)]
struct Slots([u64; SLOTS / 64]);

impl Slots {
    #[inline]
    fn insert(&mut self, slot: u8) {
        self.0[usize::from(slot) / 64] |= 1 << (slot % 64);
    }

    #[inline]
    fn remove(&mut self, slot: u8) {
        self.0[usize::from(slot) / 64] &= !(1 << (slot % 64));
    }

    #[inline]
    fn contains(&self, slot: u8) -> bool {
        self.0[usize::from(slot) / 64] & (1 << (slot % 64)) != 0
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    #[inline]
    fn first(&self) -> Option<u8> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some((word * 64) as u8 + self.0[word].trailing_zeros() as u8)
    }
}

struct List<E> {
    first: Option<NonNull<E>>,
    last: Option<NonNull<E>>,
}

impl<E: Linked> Table<E> {
    fn new() -> Box<Self> {
        Box::new(Self {
            levels: 0,
            occupied: [Slots::default(); LEVELS],
            lists: [const { List { first: None, last: None } }; LEVELS * SLOTS],
        })
    }

    /// The list in use whose entries are due first.
    #[inline]
    fn next_place(&self) -> Option<Place> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied[level].first();
        debug_assert!(slot.is_some(), "D3");
        slot.map(|slot| Place::new(level, slot))
    }

    /// Makes `entry` the last of a list.
    ///
    /// # Safety
    ///
    /// D1 and D2 hold for `entry`, and it is in no list.
    #[inline]
    unsafe fn append(&mut self, place: Place, entry: NonNull<E>) {
        let list = &mut self.lists[place.index()];
        let last = list.last.replace(entry);
        match last {
            // SAFETY: D3, `last` is linked, so D2 keeps it alive; D1, the table
            // is borrowed mutably.
            Some(last) => unsafe { links(last) }.next.set(Some(entry)),
            None => {
                debug_assert!(list.first.is_none(), "D3");
                list.first = Some(entry);
                self.occupied[place.level()].insert(place.slot());
                self.levels |= 1 << place.level();
            }
        }
        // SAFETY: handed on from the caller.
        let links = unsafe { links(entry) };
        links.prev.set(last);
        links.next.set(None);
        links.place.set(place);
    }

    /// Takes `entry` out of its list, from wherever in it.
    ///
    /// # Safety
    ///
    /// `entry` is linked into this table.
    #[inline]
    unsafe fn unlink(&mut self, entry: NonNull<E>) {
        // SAFETY: it is linked, so D2 keeps it alive; D1, the table is borrowed
        // mutably.
        let own = unsafe { links(entry) };
        let place = own.place.replace(Place::NOWHERE);
        let (prev, next) = (own.prev.take(), own.next.take());
        let list = &mut self.lists[place.index()];
        debug_assert_eq!(prev.is_none(), list.first == Some(entry), "D3");
        debug_assert_eq!(next.is_none(), list.last == Some(entry), "D3");
        match prev {
            // SAFETY: D3, a neighbour is linked into the same list; as above.
            Some(prev) => unsafe { links(prev) }.next.set(next),
            None => list.first = next,
        }
        match next {
            // SAFETY: as for `prev`.
            Some(next) => unsafe { links(next) }.prev.set(prev),
            None => list.last = prev,
        }
        if list.first.is_none() {
            self.mark_empty(place);
        }
    }

    /// Empties a list and gives back its first entry. The entries still name
    /// each other and the list: the caller appends every one of them elsewhere.
    fn take(&mut self, place: Place) -> Option<NonNull<E>> {
        let list = &mut self.lists[place.index()];
        list.last = None;
        let first = list.first.take();
        self.mark_empty(place);
        first
    }

    fn mark_empty(&mut self, place: Place) {
        let occupied = &mut self.occupied[place.level()];
        debug_assert!(occupied.contains(place.slot()), "D3: emptied twice");
        occupied.remove(place.slot());
        if occupied.is_empty() {
            self.levels &= !(1 << place.level());
        }
    }

    /// The earliest deadline in a list of at most `limit` entries; None if it
    /// has more, or none.
    fn earliest(&self, place: Place, limit: usize) -> Option<u64> {
        let mut earliest = None;
        let mut next = self.lists[place.index()].first;
        for _ in 0..limit {
            let Some(entry) = next else { return earliest };
            // SAFETY: D3, the entry is linked, so D2 keeps it alive; D1, the
            // table is borrowed.
            let links = unsafe { links(entry) };
            let deadline_tick = links.deadline_tick.get();
            earliest = Some(earliest.map_or(deadline_tick, |tick: u64| tick.min(deadline_tick)));
            next = links.next.get();
        }
        if next.is_none() { earliest } else { None }
    }
}

/// What became of an entry that was to be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Inserted {
    /// It is linked: it is popped at its deadline, unless removed before.
    Waiting,
    /// Its deadline has passed: nothing was linked, the caller fires it.
    Due,
}

/// The wheel. Entries are linked, not owned.
pub(crate) struct Wheel<E: Linked> {
    /// Everything due before this tick was popped. Only ever grows.
    elapsed: u64,
    /// Linked entries.
    len: usize,
    /// Made by the first `insert` that has something to link.
    table: Option<Box<Table<E>>>,
}

// SAFETY: the wheel holds pointers only, and follows them no further than to the
// links, which D1 lets it touch on whatever thread has the wheel. What a thread
// does with an entry it popped is between it and the entry's owner.
unsafe impl<E: Linked> Send for Wheel<E> {}

impl<E: Linked> Wheel<E> {
    /// An empty wheel; allocates nothing.
    pub(crate) const fn new(now_tick: u64) -> Self {
        Self { elapsed: now_tick, len: 0, table: None }
    }

    /// The tick up to which the wheel has been turned.
    pub(crate) fn elapsed(&self) -> u64 {
        self.elapsed
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Links `entry`, unless its deadline is not after `elapsed`.
    ///
    /// # Safety
    ///
    /// `entry` is alive and linked into no wheel; if the answer is `Waiting`,
    /// the caller upholds D1 and D2 from now on.
    #[inline]
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<E>, deadline_tick: u64) -> Inserted {
        if deadline_tick <= self.elapsed {
            return Inserted::Due;
        }
        // SAFETY: D1, not linked, so it is the caller's, who lends it.
        let links = unsafe { links(entry) };
        debug_assert!(!links.is_linked(), "inserted twice");
        links.deadline_tick.set(deadline_tick);
        let place = Place::of(deadline_tick, self.elapsed);
        let table = self.table.get_or_insert_with(Table::new);
        // SAFETY: the caller's promise.
        unsafe { table.append(place, entry) };
        self.len += 1;
        Inserted::Waiting
    }

    /// Unlinks `entry` if it is linked, and says whether it was.
    ///
    /// # Safety
    ///
    /// `entry` is alive and linked into this wheel or none; if none, D1 lets the
    /// caller read its links.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<E>) -> bool {
        // SAFETY: D1, either linked here or the caller's.
        let links = unsafe { links(entry) };
        if !links.is_linked() {
            return false;
        }
        let in_place = links.place.get() == Place::of(links.deadline_tick.get(), self.elapsed);
        debug_assert!(in_place, "D4, or the entry is of another wheel");
        let Some(table) = &mut self.table else { unreachable!("the entry is of another wheel") };
        // SAFETY: the caller says that it is linked here, if anywhere.
        unsafe { table.unlink(entry) };
        self.len -= 1;
        true
    }

    /// When to call `pop_due` next: never after the earliest deadline, and often
    /// exactly then. Otherwise something has to cascade at that tick.
    ///
    /// Always after `elapsed` once `pop_due` answered None.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let table = self.table.as_deref()?;
        let place = table.next_place()?;
        let start = place.start(self.elapsed);
        if place.level() == 0 {
            return Some(start);
        }
        let event = table.earliest(place, FEW).unwrap_or(start);
        debug_assert!(event >= start && start > self.elapsed, "D4");
        Some(event)
    }

    /// The round of level 0 that the wheel is in, and how many of the round's
    /// ticks have something due.
    pub(crate) fn round(&self) -> (u64, u32) {
        let ticks = self.table.as_deref().map_or(0, |table| table.occupied[0].len());
        (self.elapsed >> BITS, ticks)
    }

    /// The earliest deadline exactly. Looks at all entries of one slot.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let table = self.table.as_deref()?;
        let place = table.next_place()?;
        if place.level() == 0 {
            return Some(place.start(self.elapsed));
        }
        table.earliest(place, usize::MAX)
    }

    /// Turns the wheel towards `now_tick` and unlinks the next entry that is due
    /// by then: the earliest first, and of those with one deadline the one that
    /// was inserted first. None means that the wheel has arrived.
    ///
    /// Between two calls the wheel stands at the deadline of the entry popped
    /// last; entries may be inserted and removed as ever. A `now_tick` before
    /// `elapsed` counts as `elapsed`.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_tick: u64) -> Option<NonNull<E>> {
        let now_tick = now_tick.max(self.elapsed);
        while let Some(place) = self.table.as_deref().and_then(Table::next_place) {
            let start = place.start(self.elapsed);
            debug_assert!(start >= self.elapsed, "D4: a slot was passed over");
            if start > now_tick {
                break;
            }
            self.elapsed = start;
            if place.level() == 0 {
                return self.pop_first(place);
            }
            self.cascade(place);
        }
        self.elapsed = now_tick;
        None
    }

    /// Unlinks some entry, due or not; for the wheel's end.
    pub(crate) fn pop_any(&mut self) -> Option<NonNull<E>> {
        let place = self.table.as_deref()?.next_place()?;
        self.pop_first(place)
    }

    fn pop_first(&mut self, place: Place) -> Option<NonNull<E>> {
        let table = self.table.as_deref_mut()?;
        let first = table.lists[place.index()].first?;
        // SAFETY: D3, what is in a list is linked.
        unsafe { table.unlink(first) };
        self.len -= 1;
        Some(first)
    }

    /// Spreads a slot, whose start `elapsed` has reached, over lower levels.
    fn cascade(&mut self, place: Place) {
        debug_assert_eq!(place.start(self.elapsed), self.elapsed);
        let Some(table) = self.table.as_deref_mut() else { return };
        let mut next = table.take(place);
        while let Some(entry) = next {
            // SAFETY: D2, the entry was linked and no one was told otherwise;
            // D1, the wheel is borrowed mutably.
            let links = unsafe { links(entry) };
            next = links.next.get();
            let lower = Place::of(links.deadline_tick.get(), self.elapsed);
            debug_assert!(lower.level() < place.level(), "cascades go down");
            // SAFETY: as above, and `take` took it out of its list.
            unsafe { table.append(lower, entry) };
        }
    }
}

impl<E: Linked> Drop for Wheel<E> {
    fn drop(&mut self) {
        // The entries themselves would survive it; their owners' `remove` would
        // not. `pop_any` empties a wheel.
        debug_assert!(self.is_empty() || std::thread::panicking(), "dropped with entries");
    }
}

#[cfg(all(test, not(loom)))]
#[path = "wheel_tests.rs"]
mod tests;
