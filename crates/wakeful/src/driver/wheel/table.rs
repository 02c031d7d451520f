//! The lists of a timer wheel, and bit sets of the lists in use.

use super::{Linked, links};
use std::ptr::NonNull;

/// Bits per digit.
pub(super) const BITS: u32 = 8;
/// Slots per level.
pub(super) const SLOTS: usize = 1 << BITS;
pub(super) const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;

const _: () = assert!(SLOTS == 1 << u8::BITS, "a slot is a byte");
const _: () = assert!(LEVELS <= u16::BITS as usize, "one bit per level");
const _: () = assert!(LEVELS * SLOTS < SlotIndex::UNLINKED.0 as usize, "UNLINKED is not a slot");

/// The index of one list of the table: its level times `SLOTS`, plus its slot in the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotIndex(u16);

impl SlotIndex {
    pub(super) const UNLINKED: SlotIndex = SlotIndex(u16::MAX);

    /// Returns the slot for `deadline_tick` (WHEEL-4).
    #[inline]
    pub(super) fn of(deadline_tick: u64, elapsed: u64) -> SlotIndex {
        debug_assert!(deadline_tick >= elapsed);
        let differing = deadline_tick ^ elapsed;
        let level = (differing | 1).ilog2() / BITS;
        SlotIndex::new(level as usize, (deadline_tick >> (level * BITS)) as u8)
    }

    #[inline]
    pub(super) fn new(level: usize, slot: u8) -> SlotIndex {
        debug_assert!(level < LEVELS);
        SlotIndex((level * SLOTS) as u16 + u16::from(slot))
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.index() / SLOTS
    }

    #[inline]
    pub(super) fn digit(self) -> u8 {
        self.index() as u8
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        debug_assert!(self != SlotIndex::UNLINKED);
        usize::from(self.0)
    }

    /// Returns the first tick of the slot: the digits of `elapsed` above the level, the slot's own
    /// digit, then zeros.
    #[inline]
    pub(super) fn start(self, elapsed: u64) -> u64 {
        let low_bits = self.level() as u32 * BITS;
        let above = (elapsed >> low_bits) & !(SLOTS as u64 - 1);
        (above | u64::from(self.digit())) << low_bits
    }
}

/// All lists, and bit sets of the lists in use.
pub(super) struct Table<E> {
    /// Bit `n` is set if level `n` has a slot in use.
    pub(super) levels: u16,
    /// The slots in use, by level.
    pub(super) occupied: [SlotSet; LEVELS],
    /// Indexed by `SlotIndex::index`.
    pub(super) lists: [List<E>; LEVELS * SLOTS],
}

/// A set of slots of one level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotSet([u64; SLOTS / 64]);

impl SlotSet {
    #[inline]
    fn insert(&mut self, slot: u8) {
        self.0[usize::from(slot) / 64] |= 1 << (slot % 64);
    }

    #[inline]
    fn remove(&mut self, slot: u8) {
        self.0[usize::from(slot) / 64] &= !(1 << (slot % 64));
    }

    #[inline]
    pub(super) fn contains(&self, slot: u8) -> bool {
        self.0[usize::from(slot) / 64] & (1 << (slot % 64)) != 0
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    #[inline]
    fn first(&self) -> Option<u8> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some((word * 64) as u8 + self.0[word].trailing_zeros() as u8)
    }
}

/// A doubly linked list of entries.
pub(super) struct List<E> {
    pub(super) first: Option<NonNull<E>>,
    pub(super) last: Option<NonNull<E>>,
}

impl<E: Linked> Table<E> {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            levels: 0,
            occupied: [SlotSet::default(); LEVELS],
            lists: [const { List { first: None, last: None } }; LEVELS * SLOTS],
        })
    }

    /// Returns the slot whose entries are due first.
    #[inline]
    pub(super) fn next_slot(&self) -> Option<SlotIndex> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied[level].first();
        debug_assert!(slot.is_some(), "WHEEL-3");
        slot.map(|slot| SlotIndex::new(level, slot))
    }

    /// Appends `entry` to a list.
    ///
    /// # Safety
    ///
    /// WHEEL-1 and WHEEL-2 must hold for `entry`, and it must be in no list.
    #[inline]
    pub(super) unsafe fn append(&mut self, slot: SlotIndex, entry: NonNull<E>) {
        let list = &mut self.lists[slot.index()];
        let last = list.last.replace(entry);
        match last {
            // SAFETY: `last` is linked (WHEEL-3), so it is alive (WHEEL-2). The table is borrowed
            // mutably (WHEEL-1).
            Some(last) => unsafe { links(last) }.next.set(Some(entry)),
            None => {
                debug_assert!(list.first.is_none(), "WHEEL-3");
                list.first = Some(entry);
                self.occupied[slot.level()].insert(slot.digit());
                self.levels |= 1 << slot.level();
            }
        }
        // SAFETY: the caller guarantees WHEEL-1 and WHEEL-2 for `entry`.
        let links = unsafe { links(entry) };
        links.prev.set(last);
        links.next.set(None);
        links.slot.set(slot);
    }

    /// Removes `entry` from its list.
    ///
    /// # Safety
    ///
    /// `entry` must be linked into this table.
    #[inline]
    pub(super) unsafe fn unlink(&mut self, entry: NonNull<E>) {
        // SAFETY: the entry is linked, so it is alive (WHEEL-2). The table is borrowed mutably
        // (WHEEL-1).
        let own = unsafe { links(entry) };
        let slot = own.slot.replace(SlotIndex::UNLINKED);
        let (prev, next) = (own.prev.take(), own.next.take());
        let list = &mut self.lists[slot.index()];
        debug_assert_eq!(prev.is_none(), list.first == Some(entry), "WHEEL-3");
        debug_assert_eq!(next.is_none(), list.last == Some(entry), "WHEEL-3");
        match prev {
            // SAFETY: a neighbour is linked into the same list (WHEEL-3), so it is alive too.
            Some(prev) => unsafe { links(prev) }.next.set(next),
            None => list.first = next,
        }
        match next {
            // SAFETY: linked and alive, like `prev`.
            Some(next) => unsafe { links(next) }.prev.set(prev),
            None => list.last = prev,
        }
        if list.first.is_none() {
            self.mark_empty(slot);
        }
    }

    /// Empties a list and returns its first entry.
    ///
    /// The entries still link to each other and refer to the list: the caller must append each of
    /// them to another list.
    pub(super) fn take(&mut self, slot: SlotIndex) -> Option<NonNull<E>> {
        let list = &mut self.lists[slot.index()];
        list.last = None;
        let first = list.first.take();
        self.mark_empty(slot);
        first
    }

    fn mark_empty(&mut self, slot: SlotIndex) {
        let occupied = &mut self.occupied[slot.level()];
        debug_assert!(occupied.contains(slot.digit()), "WHEEL-3: emptied twice");
        occupied.remove(slot.digit());
        if occupied.is_empty() {
            self.levels &= !(1 << slot.level());
        }
    }

    /// Returns the earliest deadline of a list, or `None` if it is empty or has more than `limit`
    /// entries.
    pub(super) fn earliest(&self, slot: SlotIndex, limit: usize) -> Option<u64> {
        let mut earliest = None;
        let mut next = self.lists[slot.index()].first;
        for _ in 0..limit {
            let Some(entry) = next else { return earliest };
            // SAFETY: the entry is linked (WHEEL-3), so it is alive (WHEEL-2). The table is
            // borrowed (WHEEL-1).
            let links = unsafe { links(entry) };
            let deadline_tick = links.deadline_tick.get();
            earliest = Some(earliest.map_or(deadline_tick, |tick: u64| tick.min(deadline_tick)));
            next = links.next.get();
        }
        if next.is_none() { earliest } else { None }
    }
}
