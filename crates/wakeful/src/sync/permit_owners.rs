//! The tasks that hold a semaphore's permits, for the deadlock scanner.
//!
//! A few owners are recorded by name, each in its own slot. The others are only counted. While the
//! count is 0, all owners are known. While it is not 0, new owners are only counted, except in the
//! first slot: naming four of ten frequently changing owners would not be worth its cost.
//!
//! Rules:
//! - PERMIT-4. The first slot belongs to the task that sets FIRST in the semaphore's word. The task
//!   sets FIRST in the operation that acquires its permits, and clears FIRST in the operation that
//!   releases them. So recording a single owner costs two stores. The other slots are claimed one
//!   by one.
//! - PERMIT-5. A task writes its name after it has acquired permits. Unless it owns the first slot,
//!   it then checks for waiting tasks, and publishes the owners if there are any (`publish`). A
//!   task that releases permits leaves its slot after the release, and checks again. Only the first
//!   slot is emptied before the release, while FIRST still marks it as occupied. So at any time
//!   each owner's slot holds its name or a mark that the name is missing, or the owner is about to
//!   publish.
//! - PERMIT-6. The first task that enqueues itself copies the names to the resource record, under
//!   the list's lock, after it has set WAITERS. Later waiters need not copy, because every owner
//!   publishes while WAITERS is set. The first waiter may find the mark of a missing name. Then the
//!   marked owner is about to write its name, or it is leaving, for which it needs the lock, and
//!   publishes. The waiter does not wait for either. It copies the mark, which readers interpret as
//!   "unknown" (`OwnerTable::has_unlisted`). A waiter that is polled again and finds the mark in
//!   the record copies the names again. The deadlock scanner wakes such a waiter.
//! - PERMIT-7. The name of an owner that was granted its permits is only in the resource record.
//!   The slot is marked accordingly (`SlotState::InRecord`). The granting task writes the name
//!   under the list's lock, and the owner accepts it.
//! - PERMIT-8. The first waiter may have a part of the permits it requested (PERMIT-2). The waiters
//!   behind it would get these permits if it left. So the resource record names it as the partial
//!   waiter while it has a part. The record is written under the list's lock.
//!
//! The race to fear: an owner claims its slot and sees no waiter, while the first waiter copies an
//! empty slot. It cannot happen: each actor first writes, and then reads the other's write.
//! Claiming or leaving a slot is a SeqCst read-modify-write, and so is setting WAITERS. So the
//! owner publishes, or the waiter finds the owner's name or mark. For the first slot the mark is
//! FIRST, in the word in which WAITERS is set, so there is no race and nothing to check.

use crate::sys::membarrier;
use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::owner_slots::{OWNER_SLOTS, OwnerSlot, OwnerTable, SlotState};
use std::panic::Location;

/// The owners of a semaphore's permits, stored in the semaphore itself.
pub(super) struct PermitOwners {
    slots: [OwnerSlot; OWNER_SLOTS],
    /// The number of owners without a slot. Briefly too small if an owner leaves that was counted
    /// in a critical section that has not ended.
    unnamed: AtomicU32,
}

/// State that the list's lock guards.
#[derive(Clone, Copy)]
pub(super) struct ListState {
    /// The change of `unnamed` in this critical section. Usually 0, because one owner leaves as
    /// another arrives. See [`PermitOwners::flush`].
    unnamed_change: i32,
    /// Whether the resource record names a partial waiter (PERMIT-8).
    pub(super) has_partial_waiter: bool,
}

impl ListState {
    pub(super) const NEW: Self = Self { unnamed_change: 0, has_partial_waiter: false };
}

/// Where an owner is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerIndex(u8);

impl OwnerIndex {
    /// The first slot (PERMIT-4).
    pub(super) const FIRST: OwnerIndex = OwnerIndex(1);
    /// Only counted.
    const UNNAMED: OwnerIndex = OwnerIndex(OWNER_SLOTS as u8 + 1);
    /// Holds no permits.
    pub(super) const NONE: OwnerIndex = OwnerIndex(0);

    /// Converts to the payload of a grant, in which 0 means that there is none.
    pub(super) fn to_payload(self) -> u32 {
        u32::from(self.0)
    }

    pub(super) fn from_payload(payload: u32) -> Self {
        OwnerIndex(payload as u8)
    }

    /// Returns whether the owner holds permits and is not in the first slot.
    #[inline]
    pub(super) fn is_after_first(self) -> bool {
        self.0 > OwnerIndex::FIRST.0
    }

    /// Takes over the index of `other` if this one is `NONE`. Called when two permits are merged;
    /// the index that is left in `other` is cleared when it is dropped.
    pub(super) fn keep_one(&mut self, other: &mut Self) {
        if *self == OwnerIndex::NONE {
            std::mem::swap(self, other);
        }
    }

    fn nth(nth: usize) -> Self {
        OwnerIndex(nth as u8 + 1)
    }

    #[inline]
    fn of(self, slots: &[OwnerSlot; OWNER_SLOTS]) -> Option<&OwnerSlot> {
        slots.get(usize::from(self.0).wrapping_sub(1))
    }
}

impl PermitOwners {
    const_unless_model! {
        pub(super) fn new() -> Self {
            Self {
                slots: [OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new()],
                unnamed: AtomicU32::new(0),
            }
        }
    }

    /// Records a task that has acquired permits and set FIRST (PERMIT-5).
    #[inline(always)]
    pub(super) fn record_first(&self, held: Owner) {
        self.slots[0].write(held);
    }

    /// Records a task that has acquired permits without FIRST. The caller then checks whether a
    /// task waits.
    pub(super) fn record_after_first(&self, held: Owner) -> OwnerIndex {
        let mut owner = OwnerIndex::UNNAMED;
        if self.unnamed.load(Relaxed) == 0
            && let Some((free, slot)) = self.claim_slot()
        {
            slot.write(held);
            owner = free;
        } else {
            self.unnamed.fetch_add(1, SeqCst);
        }
        membarrier::fence_in_models();
        owner
    }

    fn claim_slot(&self) -> Option<(OwnerIndex, &OwnerSlot)> {
        let mut slots = self.slots.iter().enumerate().skip(1);
        let (nth, slot) = slots.find(|(_, slot)| slot.claim())?;
        Some((OwnerIndex::nth(nth), slot))
    }

    /// Empties the first slot. Called before FIRST is cleared (PERMIT-5).
    #[inline]
    pub(super) fn clear_first(&self) {
        self.slots[0].free();
    }

    /// Clears an owner that has released its permits and is not in the first slot (PERMIT-5).
    pub(super) fn clear_after_first(&self, owner: OwnerIndex) {
        match owner.of(&self.slots) {
            Some(slot) => slot.free_seq_cst(),
            None => _ = self.unnamed.fetch_sub(1, SeqCst),
        }
        membarrier::fence_in_models();
    }

    /// Clears an owner that releases its permits under the list's lock. The first slot is empty
    /// already (PERMIT-5).
    #[inline]
    pub(super) fn clear(
        &self,
        owner: OwnerIndex,
        state: &mut ListState,
        names: Option<&OwnerTable>,
    ) {
        if owner == OwnerIndex::UNNAMED {
            state.unnamed_change -= 1;
        } else if let Some(slot) = owner.of(&self.slots) {
            if owner != OwnerIndex::FIRST {
                slot.free();
            }
            if let Some(published) = names.and_then(|names| owner.of(&names.slots)) {
                // Another task may have claimed the slot meanwhile.
                published.update(slot.read());
            }
        }
    }

    /// Records the waiter `held` that is granted permits, under the list's lock (PERMIT-7).
    ///
    /// `has_first`: the caller has set FIRST for it.
    #[inline]
    pub(super) fn record_grant(
        &self,
        has_first: bool,
        held: Owner,
        state: &mut ListState,
        names: Option<&OwnerTable>,
    ) -> OwnerIndex {
        if has_first || !self.has_unnamed_owners(state) {
            let first = || Some((OwnerIndex::FIRST, &self.slots[0]));
            if let Some(names) = names
                && let Some((owner, slot)) = if has_first { first() } else { self.claim_slot() }
                && let Some(published) = owner.of(&names.slots)
            {
                slot.mark_in_record();
                published.replace(held);
                return owner;
            }
        }
        state.unnamed_change += 1;
        if let Some(names) = names {
            // Not deferred: the waiter may run before the count is flushed.
            names.set_unlisted(true);
        }
        OwnerIndex::UNNAMED
    }

    /// Accepts a grant for `task`. Returns false if the record names another task.
    #[inline]
    pub(super) fn accept_grant(
        owner: OwnerIndex,
        task: u64,
        site: &'static Location<'static>,
        names: Option<&OwnerTable>,
    ) -> bool {
        if owner == OwnerIndex::UNNAMED {
            return true;
        }
        let Some(slot) = names.and_then(|names| owner.of(&names.slots)) else { return true };
        let is_own = slot.is_owned_by(task);
        if is_own {
            slot.mark_polled(site);
        }
        is_own
    }

    /// Accepts a grant for a task that did not enqueue the waiter. The caller holds the list's
    /// lock.
    pub(super) fn accept_grant_as(owner: OwnerIndex, held: Owner, names: Option<&OwnerTable>) {
        if let Some(slot) = names.and_then(|names| owner.of(&names.slots)) {
            slot.replace(held);
        }
    }

    /// Adds the changes of this critical section to the count. Called before the list's lock is
    /// released.
    #[inline]
    pub(super) fn flush(&self, state: &mut ListState, names: Option<&OwnerTable>) {
        if state.unnamed_change != 0 {
            let change = std::mem::take(&mut state.unnamed_change);
            self.unnamed.fetch_add(change.cast_unsigned(), SeqCst);
            if let Some(names) = names {
                self.publish_unnamed(state, names);
            }
        }
    }

    fn has_unnamed_owners(&self, state: &ListState) -> bool {
        self.unnamed.load(SeqCst) as i32 + state.unnamed_change > 0
    }

    fn publish_unnamed(&self, state: &ListState, names: &OwnerTable) {
        names.set_unlisted(self.has_unnamed_owners(state));
    }

    /// Returns the state of each slot. `has_first`: FIRST is set.
    fn slot_states(&self, has_first: bool) -> impl Iterator<Item = SlotState> {
        self.slots.iter().enumerate().map(move |(nth, slot)| match slot.read() {
            SlotState::Free if nth == 0 && has_first => SlotState::Claimed,
            seen => seen,
        })
    }

    /// Copies all names to the resource record (PERMIT-6). The caller holds the list's lock.
    ///
    /// `has_first`: FIRST is set.
    pub(super) fn publish(&self, has_first: bool, state: &ListState, names: &OwnerTable) {
        let mut has_unnamed = false;
        membarrier::fence_in_models(); // after the operation that set WAITERS
        for (seen, published) in self.slot_states(has_first).zip(&names.slots) {
            has_unnamed |= seen == SlotState::Claimed;
            if seen != SlotState::InRecord {
                published.update(seen); // PERMIT-7
            }
        }
        names.set_unnamed(has_unnamed);
        self.publish_unnamed(state, names);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn held(task: u64) -> Owner {
        Owner { task, site: Some(Location::caller()), granted_unpolled: false }
    }

    /// Copies the owners to a resource record and returns the recorded names and whether all owners
    /// are known.
    fn published(owners: &PermitOwners, has_first: bool, state: &ListState) -> (Vec<u64>, bool) {
        let names = OwnerTable::none();
        owners.publish(has_first, state, &names);
        (names.named().iter().map(|held| held.task).collect(), !names.has_unlisted())
    }

    #[test]
    fn owners_are_named_until_there_are_too_many() {
        let (owners, state) = (PermitOwners::new(), ListState::NEW);
        owners.record_first(held(1));
        let mut behind: Vec<OwnerIndex> =
            (2..=4).map(|task| owners.record_after_first(held(task))).collect();
        assert_eq!(published(&owners, true, &state), (vec![1, 2, 3, 4], true));
        let fifth = owners.record_after_first(held(5));
        assert_eq!(published(&owners, true, &state), (vec![1, 2, 3, 4], false));
        // Two of the named owners leave. Not all owners are known, so new ones are only counted.
        behind.drain(..2).for_each(|owner| owners.clear_after_first(owner));
        assert_eq!(published(&owners, true, &state), (vec![1, 4], false));
        let sixth = owners.record_after_first(held(6));
        assert_eq!((fifth, sixth), (OwnerIndex::UNNAMED, OwnerIndex::UNNAMED));
        owners.clear_after_first(fifth);
        assert_eq!(published(&owners, true, &state), (vec![1, 4], false));
        owners.clear_after_first(sixth);
        assert_eq!(published(&owners, true, &state), (vec![1, 4], true), "all are known again");
        owners.clear_first();
        assert_eq!(
            published(&owners, true, &state),
            (vec![4], false),
            "the first slot is marked, and has no name"
        );
        assert_eq!(published(&owners, false, &state), (vec![4], true));
    }

    #[test]
    fn granted_permits_are_named_by_the_record_alone() {
        let (owners, mut state) = (PermitOwners::new(), ListState::NEW);
        let names = OwnerTable::none();
        let first = owners.record_grant(true, held(1).granted_unpolled(), &mut state, Some(&names));
        let second =
            owners.record_grant(false, held(2).granted_unpolled(), &mut state, Some(&names));
        let again = [first, second].map(|owner| OwnerIndex::from_payload(owner.to_payload()));
        assert_eq!(again, [first, second]);
        assert!(PermitOwners::accept_grant(second, 2, Location::caller(), Some(&names)));
        assert!(
            !PermitOwners::accept_grant(first, 3, Location::caller(), Some(&names)),
            "another task polls"
        );
        // Copying the names again does not change them.
        owners.publish(true, &state, &names);
        assert!(!names.has_unnamed());
        let granted: Vec<(u64, bool)> =
            names.named().iter().map(|held| (held.task, held.granted_unpolled)).collect();
        assert_eq!(granted, [(1, true), (2, false)]);
        // Owners that were counted under the lock may leave without it.
        let rest = [3, 4, 5].map(|task| {
            owners.record_grant(false, held(task).granted_unpolled(), &mut state, Some(&names))
        });
        assert_eq!(rest[2], OwnerIndex::UNNAMED);
        assert!(names.has_unlisted());
        owners.clear_after_first(rest[2]);
        owners.publish(true, &state, &names);
        assert!(!names.has_unlisted());
        owners.flush(&mut state, Some(&names));
        owners.clear_first();
        owners.clear(first, &mut state, Some(&names));
        assert_eq!(names.named().len(), 3);
        assert_eq!(OwnerIndex::from_payload(0), OwnerIndex::NONE);
    }

    #[test]
    fn counting_under_the_lock_or_without_it_gives_the_same_count() {
        let (owners, mut state) = (PermitOwners::new(), ListState::NEW);
        let names = OwnerTable::none();
        let all: Vec<OwnerIndex> =
            (1..=4).map(|task| owners.record_after_first(held(task))).collect();
        assert_eq!(all[3], OwnerIndex::UNNAMED);
        // One owner is recorded without the lock and cleared under it; another the other way round.
        owners.clear(all[3], &mut state, Some(&names));
        owners.flush(&mut state, Some(&names));
        let granted =
            owners.record_grant(false, held(5).granted_unpolled(), &mut state, Some(&names));
        assert_eq!(granted, OwnerIndex::UNNAMED, "all slots are occupied");
        owners.flush(&mut state, Some(&names));
        owners.clear_after_first(granted);
        owners.clear_after_first(all[0]);
        assert_eq!(owners.record_after_first(held(6)), all[0], "all owners are known");
    }
}
