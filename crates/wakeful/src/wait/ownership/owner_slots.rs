//! Owner slots, which any thread may read at any time.
//!
//! A slot has one owner. An [`OwnerTable`] has a few slots, and flags for owners without a slot or
//! name.
//!
//! - OWNER-1. One thread at a time writes a slot: its claimant, until it frees the slot. The slots
//!   of a resource record are written by the holder of the list's lock. Only the owner itself
//!   clears the flag for an unpolled grant.
//! - OWNER-2. A writer stores `site` before `task`. Before replacing one owner with another, it
//!   stores FREE in `task`. So a reader that finds the same task before and after it reads the site
//!   has that task's site.
//!
//! Orderings: the Release store of `task` pairs with the Acquire load of a reader, which then sees
//! the site. The Release store of `site` pairs with the Acquire load of `site`. So a reader that
//! sees a newer site than its task's finds a newer task afterwards.

use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::ownership::owner::Owner;
use std::panic::Location;
use std::ptr;

/// A slot for one owner.
#[derive(Debug)]
pub(crate) struct OwnerSlot {
    /// The id of a task or `block_on` future, 0 for any other owner; or one of the values below.
    task: AtomicU64,
    /// Where the owner acquired the resource, perhaps with UNPOLLED in its lowest bit.
    site: AtomicPtr<Location<'static>>,
}

/// The value of a slot without an owner.
const FREE: u64 = u64::MAX;
/// The value of a claimed slot whose owner is not written yet.
const CLAIMED: u64 = u64::MAX - 1;
/// The value of an occupied slot whose owner is in the resource record.
const IN_RECORD: u64 = u64::MAX - 2;
/// A flag in the site: see [`Owner::granted_unpolled`].
const UNPOLLED: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > UNPOLLED);

/// The state of a slot, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Free,
    /// The owner is about to be written, or about to leave.
    Claimed,
    /// Occupied; the owner is in the resource record.
    InRecord,
    Named(Owner),
}

fn site_word(owner: Owner) -> *mut Location<'static> {
    let site = owner.site.map_or(ptr::null(), ptr::from_ref).cast_mut();
    if owner.granted_unpolled { site.map_addr(|address| address | UNPOLLED) } else { site }
}

impl OwnerSlot {
    const_unless_model! {
        pub(crate) fn new() -> Self {
            Self { task: AtomicU64::new(FREE), site: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Claims the slot if it is free. If several threads try, one succeeds.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        self.task.load(Relaxed) == FREE
            && self.task.compare_exchange(FREE, CLAIMED, SeqCst, Relaxed).is_ok()
    }

    /// Writes the owner. The caller must have claimed the slot (OWNER-1), which must have no owner
    /// (OWNER-2).
    #[inline]
    pub(crate) fn write(&self, owner: Owner) {
        self.site.store(site_word(owner), Release);
        self.task.store(owner.task, Release);
    }

    /// Replaces the owner. The caller must have the right of OWNER-1.
    #[inline]
    pub(crate) fn replace(&self, owner: Owner) {
        self.task.store(FREE, Relaxed);
        self.write(owner);
    }

    /// Sets the state of the slot, unless it is unchanged. The caller must have the right of
    /// OWNER-1.
    pub(crate) fn update(&self, state: SlotState) {
        if self.read() == state {
            return;
        }
        match state {
            SlotState::Free => self.free(),
            SlotState::Claimed => self.task.store(CLAIMED, Release),
            SlotState::InRecord => self.mark_in_record(),
            SlotState::Named(owner) => self.replace(owner),
        }
    }

    /// Marks the slot as occupied by an owner that is written in the resource record (OWNER-1).
    #[inline]
    pub(crate) fn mark_in_record(&self) {
        self.task.store(IN_RECORD, Release);
    }

    /// Returns whether the slot names this task: a hint, unless the slot belongs to the task.
    #[inline]
    pub(crate) fn is_owned_by(&self, task: u64) -> bool {
        self.task.load(Relaxed) == task
    }

    /// Records that the owner has polled its grant, at `site`. Only the owner may call this
    /// (OWNER-1).
    #[inline]
    pub(crate) fn mark_polled(&self, site: &'static Location<'static>) {
        self.site.store(ptr::from_ref(site).cast_mut(), Release);
    }

    /// Frees the slot.
    #[inline]
    pub(crate) fn free(&self) {
        // Release: later stores of a site stay after this one (OWNER-2).
        self.task.store(FREE, Release);
    }

    /// Frees the slot with a SeqCst operation.
    pub(crate) fn free_seq_cst(&self) {
        self.task.swap(FREE, SeqCst);
    }

    pub(crate) fn read(&self) -> SlotState {
        // SeqCst, for protocols in which two threads each write a word and then read the other's
        // word.
        let task = self.task.load(SeqCst);
        match task {
            FREE => return SlotState::Free,
            CLAIMED => return SlotState::Claimed,
            IN_RECORD => return SlotState::InRecord,
            _ => {}
        }
        let site = self.site.load(Acquire);
        // OWNER-2: checks that the task is unchanged.
        if self.task.load(Relaxed) != task {
            return SlotState::Claimed;
        }
        let granted_unpolled = site.addr() & UNPOLLED != 0;
        // SAFETY: only a `&'static` or null is stored here, plus the bit that is removed.
        let site = unsafe { site.map_addr(|address| address & !UNPOLLED).as_ref() };
        SlotState::Named(Owner { task, site, granted_unpolled })
    }
}

/// The owner slots of a resource record, and whether there are owners without a slot.
#[derive(Debug)]
pub(crate) struct OwnerTable {
    pub(crate) slots: [OwnerSlot; OWNER_SLOTS],
    /// UNLISTED, UNNAMED and SCANNED. Written under the list's lock, except that a deadlock scan sets
    /// SCANNED without it.
    flags: AtomicU32,
}

/// A flag: there are owners without a slot.
const UNLISTED: u32 = 1;
/// A flag: an owner had a slot but no name when the names were copied.
const UNNAMED: u32 = 2;
/// A flag: a deadlock scan has woken a waiter since UNNAMED was set. If a concurrent update loses
/// the flag, the next scan wakes a waiter once more.
const SCANNED: u32 = 4;

/// The maximum number of owners that a table names.
pub(crate) const OWNER_SLOTS: usize = 4;

impl OwnerTable {
    const_unless_model! {
        pub(crate) fn none() -> Self {
            Self {
                slots: [OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new()],
                flags: AtomicU32::new(0),
            }
        }
    }

    /// Returns whether some owners are not named, or not yet.
    pub(crate) fn has_unlisted(&self) -> bool {
        self.flags.load(Relaxed) & UNLISTED != 0
            || self.slots.iter().any(|slot| slot.read() == SlotState::Claimed)
    }

    /// Returns whether an owner had a slot but no name when the names were copied.
    ///
    /// Without the list's lock, the result is a hint.
    #[inline]
    pub(crate) fn has_unnamed(&self) -> bool {
        self.flags.load(Relaxed) & UNNAMED != 0
    }

    /// Sets whether an owner has a slot but no name. Called while all names are copied.
    pub(crate) fn set_unnamed(&self, unnamed: bool) {
        self.set_flag(UNNAMED, unnamed);
        if unnamed {
            self.set_flag(SCANNED, false);
        }
    }

    /// Returns true to the first deadlock scan since a name was missing.
    ///
    /// That scan wakes a waiter, whose next poll copies the names.
    pub(crate) fn claim_scan_wake(&self) -> bool {
        self.has_unnamed() && self.flags.fetch_or(SCANNED, Relaxed) & SCANNED == 0
    }

    /// Sets whether there are owners without a slot.
    #[inline]
    pub(crate) fn set_unlisted(&self, unlisted: bool) {
        self.set_flag(UNLISTED, unlisted);
    }

    /// Sets or clears a flag. The caller holds the list's lock, so a load and a store suffice.
    ///
    /// May lose a concurrent [`claim_scan_wake`](Self::claim_scan_wake); see [`SCANNED`].
    #[inline]
    fn set_flag(&self, flag: u32, on: bool) {
        let old = self.flags.load(Relaxed);
        let new = if on { old | flag } else { old & !flag };
        if new != old {
            self.flags.store(new, Relaxed);
        }
    }

    /// Returns the owners that have a slot.
    pub(crate) fn named(&self) -> Vec<Owner> {
        let name = |slot: &OwnerSlot| match slot.read() {
            SlotState::Named(owner) => Some(owner),
            _ => None,
        };
        self.slots.iter().filter_map(name).collect()
    }

    /// Frees all slots.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.update(SlotState::Free));
        self.set_unlisted(false);
        self.set_unnamed(false);
        self.set_flag(SCANNED, false);
    }
}
