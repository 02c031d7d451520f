//! Station 7, the timer wheel: a hierarchical wheel of deadlines, one per worker.
//!
//! Entries are inserted by a sleep's first `Pending`. They leave when the driver pops them because
//! they are due, or when their owner removes them.
//!
//! The wheel is a plain data structure, without clock, lock or waker. Time is a tick count that the
//! caller passes in.
//!
//! A tick is a number of eight digits with eight bits each. Level `n` has one slot, a list of
//! entries, for each value of digit `n`:
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
//! Eight levels hold any `u64`, so every deadline has its exact slot. The upper levels cost only
//! their part of the table. Digits have eight bits rather than six, although a bit set for six-bit
//! digits would fit into one word. The reason is that each cascade fetches the timer's entry from
//! memory. With eight bits, most sleeps of up to four seconds cascade only once.
//!
//! # Rules
//!
//! - WHEEL-1. The links of a linked entry belong to the wheel: a thread with `&mut Wheel` may write
//!   them, a thread with `&Wheel` may read them. The links of an unlinked entry belong to the
//!   entry's owner.
//! - WHEEL-2. From `insert` until it is popped or removed, an entry is alive and does not move.
//! - WHEEL-3. A linked entry is in exactly one list, identified by its `slot`. The first entry of a
//!   list has no `prev` and the last no `next`. An empty list has neither first nor last. A bit in
//!   `occupied` or `levels` is set exactly if there is an entry behind it.
//! - WHEEL-4. An entry's level is the highest digit in which its deadline differs from `elapsed`.
//!   Its slot is the value of that digit. An entry that is due at `elapsed`, about to be popped, is
//!   in its slot of level 0.
//!
//! Deadlines are never before `elapsed`. So WHEEL-4 implies:
//!
//! - All entries of lower levels are due before all entries of higher levels. Within a level, the
//!   order is that of the slots. So the next slot is the first set bit of the lowest level in use,
//!   no matter how far away it is.
//! - `elapsed` may move up to the start of that slot without changing the slot of any other entry.
//!   At that point, the slot's own entries differ from `elapsed` only in lower digits: they
//!   cascade. Each entry moves down at most once per level.
//! - Entries with the same deadline always share a list. Lists are appended to at the end and
//!   cascaded from the front, so such entries fire in order of insertion.

mod table;

use self::table::{BITS, SlotIndex, Table};
use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;

/// The number of entries of the next slot up to which they are searched for the earliest deadline.
/// With more entries, a thread that sleeps until the start of the slot may wake up only for a
/// cascade.
const EXACT_SEARCH_LIMIT: usize = 4;

const _: () = assert!(size_of::<Links<()>>() <= 32, "half a cache line per timer");

/// An entry of a wheel, which contains its [`Links`].
///
/// # Safety
///
/// `links` must return the same field of the same entry every time, and never panic.
pub(crate) unsafe trait Linked: Sized {
    /// Returns the address of an entry's links.
    ///
    /// # Safety
    ///
    /// `entry` must point to a live entry.
    unsafe fn links(entry: NonNull<Self>) -> NonNull<Links<Self>>;
}

/// The wheel's data inside an entry.
///
/// The fields are cells because the owner may hold a shared reference to the entry while the wheel
/// writes them.
pub(crate) struct Links<E> {
    prev: Cell<Option<NonNull<E>>>,
    next: Cell<Option<NonNull<E>>>,
    /// Set by `insert`. Stays readable after the entry is popped or removed.
    deadline_tick: Cell<u64>,
    /// The list that the entry is in, or UNLINKED.
    slot: Cell<SlotIndex>,
    /// Neighbours point here (WHEEL-2).
    _pinned: PhantomPinned,
}

impl<E> Links<E> {
    pub(crate) const fn new() -> Self {
        Self {
            prev: Cell::new(None),
            next: Cell::new(None),
            deadline_tick: Cell::new(0),
            slot: Cell::new(SlotIndex::UNLINKED),
            _pinned: PhantomPinned,
        }
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.slot.get() != SlotIndex::UNLINKED
    }
}

/// Returns the links of `entry`. The caller must not keep the reference beyond the current step.
///
/// # Safety
///
/// `entry` must be alive, and WHEEL-1 must allow the caller to access its links.
#[inline(always)]
unsafe fn links<'a, E: Linked>(entry: NonNull<E>) -> &'a Links<E> {
    // SAFETY: the entry is alive, so `Linked` returns a field of it. No other thread accesses that
    // field now (WHEEL-1).
    unsafe { E::links(entry).as_ref() }
}

/// The outcome of [`Wheel::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Inserted {
    /// The entry is linked. It will be popped at its deadline, unless it is removed before.
    Waiting,
    /// The deadline has passed. The entry is not linked, and the caller must fire it.
    Due,
}

/// A hierarchical timer wheel. It links its entries, but does not own them.
pub(crate) struct Wheel<E: Linked> {
    /// The tick before which all due entries have been popped. Never decreases.
    elapsed: u64,
    /// The number of linked entries.
    len: usize,
    /// Allocated by the first `insert` that links an entry.
    table: Option<Box<Table<E>>>,
}

// SAFETY: the wheel holds pointers only, and accesses only the links behind them, which the thread
// with the wheel may do (WHEEL-1). What a thread does with a popped entry is up to that thread and
// the entry's owner.
unsafe impl<E: Linked> Send for Wheel<E> {}

impl<E: Linked> Wheel<E> {
    /// Creates an empty wheel, without allocating.
    pub(crate) const fn new(now_tick: u64) -> Self {
        Self { elapsed: now_tick, len: 0, table: None }
    }

    /// Returns the tick that the wheel has advanced to.
    pub(crate) fn elapsed(&self) -> u64 {
        self.elapsed
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Links `entry`, if its deadline is after `elapsed`.
    ///
    /// # Safety
    ///
    /// `entry` must be alive and linked into no wheel. If the result is `Waiting`, the caller must
    /// uphold WHEEL-1 and WHEEL-2 from then on.
    #[inline]
    pub(crate) unsafe fn insert(&mut self, entry: NonNull<E>, deadline_tick: u64) -> Inserted {
        if deadline_tick <= self.elapsed {
            return Inserted::Due;
        }
        // SAFETY: the entry is not linked, so the links belong to the caller (WHEEL-1).
        let links = unsafe { links(entry) };
        debug_assert!(!links.is_linked(), "inserted twice");
        links.deadline_tick.set(deadline_tick);
        let slot = SlotIndex::of(deadline_tick, self.elapsed);
        let table = self.table.get_or_insert_with(Table::new);
        // SAFETY: the caller guarantees WHEEL-1 and WHEEL-2, and the entry is in no list.
        unsafe { table.append(slot, entry) };
        self.len += 1;
        Inserted::Waiting
    }

    /// Unlinks `entry` if it is linked, and returns whether it was.
    ///
    /// # Safety
    ///
    /// `entry` must be alive, and linked into this wheel or none. If none, the caller must be
    /// allowed to read its links (WHEEL-1).
    #[inline]
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<E>) -> bool {
        // SAFETY: the links belong to this wheel or to the caller (WHEEL-1).
        let links = unsafe { links(entry) };
        if !links.is_linked() {
            return false;
        }
        let is_in_slot = links.slot.get() == SlotIndex::of(links.deadline_tick.get(), self.elapsed);
        debug_assert!(is_in_slot, "WHEEL-4, or the entry is of another wheel");
        let Some(table) = &mut self.table else { unreachable!("the entry is of another wheel") };
        // SAFETY: the entry is linked, and the caller guarantees that this is its wheel.
        unsafe { table.unlink(entry) };
        self.len -= 1;
        true
    }

    /// Returns the tick at which to call `pop_due` next.
    ///
    /// The tick is never after the earliest deadline, and often equals it. Otherwise a slot must
    /// cascade at that tick. Once `pop_due` has returned `None`, the tick is after `elapsed`.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let table = self.table.as_deref()?;
        let slot = table.next_slot()?;
        let start = slot.start(self.elapsed);
        if slot.level() == 0 {
            return Some(start);
        }
        let event = table.earliest(slot, EXACT_SEARCH_LIMIT).unwrap_or(start);
        debug_assert!(event >= start && start > self.elapsed, "WHEEL-4");
        Some(event)
    }

    /// Returns the current round of level 0, and the number of its ticks that have entries.
    pub(crate) fn round(&self) -> (u64, u32) {
        let ticks = self.table.as_deref().map_or(0, |table| table.occupied[0].len());
        (self.elapsed >> BITS, ticks)
    }

    /// Returns the exact earliest deadline. Visits all entries of one slot.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let table = self.table.as_deref()?;
        let slot = table.next_slot()?;
        if slot.level() == 0 {
            return Some(slot.start(self.elapsed));
        }
        table.earliest(slot, usize::MAX)
    }

    /// Advances the wheel towards `now_tick`, and unlinks and returns the next entry that is due.
    ///
    /// Entries are returned in order of deadline; entries with the same deadline in order of
    /// insertion. `None` means that the wheel has reached `now_tick`.
    ///
    /// Between two calls, `elapsed` is the deadline of the last popped entry, and entries may be
    /// inserted and removed. A `now_tick` before `elapsed` counts as `elapsed`.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_tick: u64) -> Option<NonNull<E>> {
        let now_tick = now_tick.max(self.elapsed);
        while let Some(slot) = self.table.as_deref().and_then(Table::next_slot) {
            let start = slot.start(self.elapsed);
            debug_assert!(start >= self.elapsed, "WHEEL-4: a slot was skipped");
            if start > now_tick {
                break;
            }
            self.elapsed = start;
            if slot.level() == 0 {
                return self.pop_first(slot);
            }
            self.cascade(slot);
        }
        self.elapsed = now_tick;
        None
    }

    /// Unlinks and returns any entry, due or not. Used to empty the wheel at shutdown.
    pub(crate) fn pop_any(&mut self) -> Option<NonNull<E>> {
        let slot = self.table.as_deref()?.next_slot()?;
        self.pop_first(slot)
    }

    fn pop_first(&mut self, slot: SlotIndex) -> Option<NonNull<E>> {
        let table = self.table.as_deref_mut()?;
        let first = table.lists[slot.index()].first?;
        // SAFETY: an entry of a list is linked into this table (WHEEL-3).
        unsafe { table.unlink(first) };
        self.len -= 1;
        Some(first)
    }

    /// Moves the entries of a slot to lower levels. `elapsed` must be the start of the slot.
    fn cascade(&mut self, slot: SlotIndex) {
        debug_assert_eq!(slot.start(self.elapsed), self.elapsed);
        let Some(table) = self.table.as_deref_mut() else { return };
        let mut next = table.take(slot);
        while let Some(entry) = next {
            // SAFETY: to its owner, the entry is still linked, so it is alive (WHEEL-2). The wheel
            // is borrowed mutably (WHEEL-1).
            let links = unsafe { links(entry) };
            next = links.next.get();
            let lower = SlotIndex::of(links.deadline_tick.get(), self.elapsed);
            debug_assert!(lower.level() < slot.level(), "a cascade goes to lower levels");
            // SAFETY: WHEEL-1 and WHEEL-2 as above, and `take` emptied its list.
            unsafe { table.append(lower, entry) };
        }
    }
}

impl<E: Linked> Drop for Wheel<E> {
    fn drop(&mut self) {
        // The owner of a linked entry would call `remove` on a freed table. The wheel's owner
        // empties it with `pop_any` first.
        debug_assert!(self.is_empty() || std::thread::panicking(), "dropped with entries");
    }
}

#[cfg(all(test, not(loom)))]
#[path = "wheel_tests.rs"]
mod tests;
