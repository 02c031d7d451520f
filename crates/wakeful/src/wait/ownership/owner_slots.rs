//! The names of those who have a thing, where anybody may read them at any time: a few
//! places, each for one holder, and whether there are others.
//!
//! - OWNER-1. A place is written by one at a time: whoever claimed it, until it frees it, and
//!   for those of a plate, the holder of the list's lock. Only the flag that says
//!   whether the holder has taken up what it was granted is cleared by the holder itself.
//! - OWNER-2. What is written goes `site`, then `task`; and before a name is replaced by
//!   another one, `task` is NOBODY for a moment. So a reader that finds the same task
//!   before and after it has read the site has read the site of that task.
//!
//! Orderings: the Release store of `task` pairs with the Acquire load of a reader, which
//! sees the site that was stored before. The Release store of `site` pairs with the
//! Acquire load of `site`: a reader that sees a newer site than that of the task it has
//! seen finds a newer task afterwards, too.

use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::wait::ownership::owner::Owner;
use std::panic::Location;
use std::ptr;

/// Where one holder's name stands.
#[derive(Debug)]
pub(crate) struct OwnerSlot {
    /// The number of a task or root, 0 for something else; or one of those below.
    task: AtomicU64,
    /// Where it got the thing, perhaps with UNPOLLED in its lowest bit.
    site: AtomicPtr<Location<'static>>,
}

/// Nobody has the place.
const NOBODY: u64 = u64::MAX;
/// Somebody has it and has not said who it is.
const SOMEBODY: u64 = u64::MAX - 1;
/// Somebody has it whose name stands elsewhere.
const ELSEWHERE: u64 = u64::MAX - 2;
/// In the site: see [`Owner::granted`].
const UNPOLLED: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > UNPOLLED);

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Free,
    /// It is about to say who it is, or to leave.
    Claimed,
    /// Its name stands elsewhere.
    InRecord,
    Named(Owner),
}

fn word(held: Owner) -> *mut Location<'static> {
    let site = held.site.map_or(ptr::null(), ptr::from_ref).cast_mut();
    if held.granted_unpolled { site.map_addr(|address| address | UNPOLLED) } else { site }
}

impl OwnerSlot {
    const_unless_model! {
        pub(crate) fn new() -> Self {
            Self { task: AtomicU64::new(NOBODY), site: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Takes a place that is nobody's. Of several at the same moment one gets it.
    #[inline]
    pub(crate) fn claim(&self) -> bool {
        self.task.load(Relaxed) == NOBODY
            && self.task.compare_exchange(NOBODY, SOMEBODY, SeqCst, Relaxed).is_ok()
    }

    /// OWNER-1: by whoever has claimed it; OWNER-2: no name stands there.
    #[inline]
    pub(crate) fn write(&self, held: Owner) {
        self.site.store(word(held), Release);
        self.task.store(held.task, Release);
    }

    /// OWNER-1: writes another name over whatever is there.
    #[inline]
    pub(crate) fn replace(&self, held: Owner) {
        self.task.store(NOBODY, Relaxed);
        self.write(held);
    }

    /// As `replace`, unless it is there already.
    pub(crate) fn update(&self, seen: SlotState) {
        if self.read() == seen {
            return;
        }
        match seen {
            SlotState::Free => self.free(),
            SlotState::Claimed => self.task.store(SOMEBODY, Release),
            SlotState::InRecord => self.mark_in_record(),
            SlotState::Named(held) => self.replace(held),
        }
    }

    /// OWNER-1: it is somebody's whose name stands elsewhere.
    #[inline]
    pub(crate) fn mark_in_record(&self) {
        self.task.store(ELSEWHERE, Release);
    }

    /// Whether this task is named here; a hint, unless the place is its own.
    #[inline]
    pub(crate) fn is_owned_by(&self, task: u64) -> bool {
        self.task.load(Relaxed) == task
    }

    /// OWNER-1: the holder, which is named here, has taken up what it was granted.
    #[inline]
    pub(crate) fn mark_polled(&self, site: &'static Location<'static>) {
        self.site.store(ptr::from_ref(site).cast_mut(), Release);
    }

    /// Nobody has it.
    #[inline]
    pub(crate) fn free(&self) {
        // Release: what comes next is written later.
        self.task.store(NOBODY, Release);
    }

    /// The same, in the one order of all that is SeqCst.
    pub(crate) fn free_seq_cst(&self) {
        self.task.swap(NOBODY, SeqCst);
    }

    pub(crate) fn read(&self) -> SlotState {
        // SeqCst: for who has written something before, and reads what another wrote before
        // it reads that.
        let task = self.task.load(SeqCst);
        match task {
            NOBODY => return SlotState::Free,
            SOMEBODY => return SlotState::Claimed,
            ELSEWHERE => return SlotState::InRecord,
            _ => {}
        }
        let site = self.site.load(Acquire);
        // OWNER-2.
        if self.task.load(Relaxed) != task {
            return SlotState::Claimed;
        }
        let granted = site.addr() & UNPOLLED != 0;
        // SAFETY: only `&'static`s are stored here, and that bit.
        let site = unsafe { site.map_addr(|address| address & !UNPOLLED).as_ref() };
        SlotState::Named(Owner { task, site, granted_unpolled: granted })
    }
}

/// A few places, and whether there are holders without one. On a plate.
#[derive(Debug)]
pub(crate) struct OwnerTable {
    pub(crate) slots: [OwnerSlot; OWNER_SLOTS],
    others: AtomicU32,
}

/// How many holders are named at most.
pub(crate) const OWNER_SLOTS: usize = 4;

impl OwnerTable {
    const_unless_model! {
        pub(crate) fn none() -> Self {
            Self {
                slots: [OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new(), OwnerSlot::new()],
                others: AtomicU32::new(0),
            }
        }
    }

    /// Whether some of the holders are not named, or not yet.
    pub(crate) fn has_unlisted(&self) -> bool {
        self.others.load(Relaxed) != 0
            || self.slots.iter().any(|place| place.read() == SlotState::Claimed)
    }

    #[inline]
    pub(crate) fn set_unlisted(&self, others: bool) {
        let others = u32::from(others);
        if self.others.load(Relaxed) != others {
            self.others.store(others, Relaxed);
        }
    }

    pub(crate) fn named(&self) -> Vec<Owner> {
        let name = |place: &OwnerSlot| match place.read() {
            SlotState::Named(held) => Some(held),
            _ => None,
        };
        self.slots.iter().filter_map(name).collect()
    }

    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|place| place.update(SlotState::Free));
        self.set_unlisted(false);
    }
}
