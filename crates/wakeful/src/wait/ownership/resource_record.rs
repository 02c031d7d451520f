//! Who has a thing that others wait for, where anybody may read it; and records of
//! tasks that lead there.
//!
//! A thing notes its holder in its own memory (`holder`), which is cheap and cannot
//! be read by a stranger: by the time it comes, the thing may be gone, or moved. So
//! a thing that makes somebody wait gets a [`ResourceRecord`] (a *plate*): a few words of
//! memory that are never given back, only used again for another thing. Whoever queues up
//! copies the holders there, and so does whoever hands the thing on while others wait; a
//! thing that nobody waits for costs nothing of this.
//!
//! All records stand in a table that only grows. A task that queues up writes the record's
//! index into its wait record, and links it ([`WaitLink`]). A reader finds the record by that
//! index, which the table checks: no number out of a wait record becomes an address.
//!
//! - RECORD-1. A wait record is linked under the lock of the list, while a waiter with the own
//!   waker of the wait record's task is in it. The thread that takes the waiter out detaches
//!   the link under the same lock. A wait record that another future has written since is
//!   not linked.
//!
//! - RECORD-2. A guard or a permit that owns its share in the thing, and so can go to any task or
//!   thread, says so when it is made, for good: from then on who got the thing is told, and
//!   not taken for who has it.
//!
//! So a linked wait record is exact: if its task has one live waker, the thing's list
//! has that waker, and nothing but this thing, or an abort, can ever wake the task.
//! A task that waits for two things at once has one wait record, and the last to attach
//! has it; detaching takes away whatever link is there. A link too few loses a piece of
//! information until the next poll; none is ever too many.

use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use crate::sys::sync::const_unless_model;
use crate::task::context;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::WaitRecord;
use crate::task::wait_target::{RecordIndex, TargetWord, WaitTarget};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::owner_slots::{OwnerSlot, OwnerTable, SlotState};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The holders of one thing, as last told. Never freed.
#[derive(Debug)]
pub(crate) struct ResourceRecord {
    /// The linked target that leads here.
    linked: TargetWord,
    pub(crate) owner_table: OwnerTable,
    /// The one in front of the queue, if it has got a part of what it asks for: it keeps
    /// that from those behind it.
    partial_waiter: OwnerSlot,
    /// Those who are named may have given the thing to others (RECORD-2).
    moved: AtomicBool,
}

/// Every record there is.
struct Table {
    /// By index. Only grows.
    all: Vec<&'static ResourceRecord>,
    /// Records that no thing has.
    spare: Vec<&'static ResourceRecord>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { all: Vec::new(), spare: Vec::new() });

/// The table, locked. No foreign code runs under the lock.
fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn add(&mut self) -> &'static ResourceRecord {
        let linked = TargetWord::of_record(RecordIndex(self.all.len() as u64)).linked();
        let (owner_table, partial_waiter) = (OwnerTable::none(), OwnerSlot::new());
        let moved = AtomicBool::new(false);
        let record =
            Box::leak(Box::new(ResourceRecord { linked, owner_table, partial_waiter, moved }));
        self.all.push(record);
        record
    }
}

impl ResourceRecord {
    fn obtain() -> &'static ResourceRecord {
        let mut table = table();
        table.spare.pop().unwrap_or_else(|| table.add())
    }

    /// The record with this index, if there is one.
    pub(crate) fn at(index: RecordIndex) -> Option<&'static ResourceRecord> {
        table().all.get(usize::try_from(index.0).ok()?).copied()
    }

    fn give_back(&'static self) {
        self.owner_table.clear();
        self.partial_waiter.free();
        self.moved.store(false, Relaxed);
        // What belongs to one run of a model is of no use to the next.
        if !IS_MODEL {
            table().spare.push(self);
        }
    }

    /// The one that has a thing which one at a time can have.
    #[inline]
    pub(crate) fn set_owner(&self, held: Owner) {
        self.owner_table.slots[0].replace(held);
    }

    /// The same, if it is known who it is, and unless it is noted already.
    pub(crate) fn update_owner(&self, held: Option<Owner>) {
        self.owner_table.slots[0].update(held.map_or(SlotState::Free, SlotState::Named));
    }

    /// The one that waits in front with a part of what it asks for, or nobody. Under the
    /// list's lock.
    pub(crate) fn set_partial_waiter(&self, held: Option<Owner>) {
        self.partial_waiter.update(held.map_or(SlotState::Free, SlotState::Named));
    }

    /// The one that waits in front with a part of what it asks for.
    pub(crate) fn partial_waiter(&self) -> Option<Owner> {
        match self.partial_waiter.read() {
            SlotState::Named(held) => Some(held),
            _ => None,
        }
    }

    pub(crate) fn owners(&self) -> Vec<Owner> {
        self.owner_table.named()
    }

    /// Whether there are holders that are not named.
    pub(crate) fn has_unlisted(&self) -> bool {
        self.owner_table.has_unlisted()
    }

    /// Whether those who are named may have given the thing to others.
    pub(crate) fn may_have_moved(&self) -> bool {
        self.moved.load(Acquire)
    }

    /// All holders, if they are known for certain: at least one, and no others.
    pub(crate) fn certain_owners(&self) -> Option<Vec<Owner>> {
        let holders = self.owners();
        let are_all = !holders.is_empty() && !self.has_unlisted() && !self.may_have_moved();
        are_all.then_some(holders)
    }

    /// What stands for the target in dumps and reports. Equal targets have equal numbers. A
    /// record stands under its address, which no task id and no descriptor equals.
    pub(crate) fn display_number(target: WaitTarget) -> u64 {
        match target {
            WaitTarget::Number(number) => number,
            WaitTarget::Task(id) => id,
            WaitTarget::Record(index) => {
                Self::at(index).map_or(0, |record| ptr::from_ref(record).addr() as u64)
            }
        }
    }
}

/// A thing's plate, once it has one. Lies beside the thing's list. Perhaps with PASSED.
#[derive(Debug)]
pub(crate) struct RecordCell(AtomicPtr<ResourceRecord>);

/// In the address of a plate: there was a guard or permit that owns its share in the thing.
const PASSED: usize = 1;
const _: () = assert!(align_of::<ResourceRecord>() > PASSED);

impl RecordCell {
    const_unless_model! {
        pub(crate) fn none() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static ResourceRecord> {
        // SAFETY: only `first` stores here, and `mark_movable` adds that bit.
        unsafe { self.0.load(Acquire).map_addr(|address| address & !PASSED).as_ref() }
    }

    /// RECORD-2: there is a guard or permit that can go to any task or thread.
    #[inline]
    pub(crate) fn mark_movable(&self) {
        if self.0.load(Relaxed).addr() & PASSED == 0 {
            self.mark_movable_slow();
        }
    }

    #[cold]
    fn mark_movable_slow(&self) {
        self.change(|plate| plate.map_addr(|address| address | PASSED));
        if let Some(plate) = self.get() {
            plate.moved.store(true, Release);
        }
    }

    /// Gives back what was there before.
    fn change(
        &self,
        new: impl Fn(*mut ResourceRecord) -> *mut ResourceRecord,
    ) -> *mut ResourceRecord {
        let mut old = self.0.load(Acquire);
        loop {
            match self.0.compare_exchange(old, new(old), AcqRel, Acquire) {
                Ok(_) => return old,
                Err(seen) => old = seen,
            }
        }
    }

    /// The plate, or a new one. Under the list's lock.
    #[inline]
    pub(crate) fn obtain(&self) -> &'static ResourceRecord {
        self.get().unwrap_or_else(|| self.first())
    }

    #[cold]
    fn first(&self) -> &'static ResourceRecord {
        let plate = ResourceRecord::obtain();
        let new = ptr::from_ref(plate).cast_mut();
        let flags = |old: *mut ResourceRecord| old.addr() & PASSED;
        // Both who come here and who passes it on exchange the word: one sees the other.
        let old = self.change(|old| new.map_addr(|address| address | flags(old)));
        if flags(old) != 0 {
            plate.moved.store(true, Release);
        }
        plate
    }

    /// The target of a wait for `resource`, not linked: its record, or its address while it has
    /// none.
    #[inline]
    pub(crate) fn target<T: ?Sized>(&self, resource: &T) -> TargetWord {
        match self.get() {
            Some(plate) => plate.linked.unlinked(),
            None => TargetWord::of_address(resource),
        }
    }
}

impl Drop for RecordCell {
    fn drop(&mut self) {
        if let Some(plate) = self.get() {
            plate.give_back();
        }
    }
}

/// What a task waits for at a plate, and where.
pub(crate) type WaitReason = (WaitKind, &'static Location<'static>);

/// Where the task of a waiter keeps its wait record, if it is linked. Part of the waiter's
/// entry, whose waker keeps the wait record alive.
#[derive(Clone, Copy)]
pub(in crate::wait) struct WaitLink(Option<NonNull<WaitRecord>>);

// SAFETY: a wait record is made of atomics.
unsafe impl Send for WaitLink {}
// SAFETY: as above.
unsafe impl Sync for WaitLink {}

impl WaitLink {
    pub(in crate::wait) const NONE: WaitLink = WaitLink(None);

    /// RECORD-1: under the list's lock, for a waiter that is or will be in the list with
    /// `waker`. No link if the waker is not that of the task being polled.
    #[inline]
    pub(in crate::wait) fn attach(plate: &'static ResourceRecord, waker: &Waker) -> Self {
        let record = context::wait_record_of(waker);
        if let Some(record) = record {
            // SAFETY: the task being polled has the wait record.
            unsafe { record.as_ref() }.attach(plate.linked);
        }
        Self(record)
    }

    /// As `attach`, for a task that says only now what it waits for.
    #[inline]
    pub(in crate::wait) fn attach_with(
        plate: &'static ResourceRecord,
        waker: &Waker,
        reason: WaitReason,
    ) -> Self {
        let (kind, site) = reason;
        Self(context::record_linked_wait(waker, plate.linked, kind, site))
    }

    /// The waiter was polled again, with the waker that it has.
    #[inline]
    pub(in crate::wait) fn attach_again(&mut self, plate: &'static ResourceRecord, waker: &Waker) {
        let new = Self::attach(plate, waker);
        if new.0.is_some() {
            // The waker is the same, so the wait record is.
            *self = new;
        }
    }

    /// RECORD-1: the waiter is out of the list, and its waker still there.
    #[inline]
    pub(in crate::wait) fn detach(self) {
        if let Some(record) = self.0 {
            // SAFETY: the waker, which is still there, keeps the wait record.
            unsafe { record.as_ref() }.detach();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_own_index_and_nothing_by_others() {
        let records = [ResourceRecord::obtain(), ResourceRecord::obtain()];
        for record in records {
            let WaitTarget::Record(index) = record.linked.target() else {
                panic!("{:?} leads to no record", record.linked)
            };
            assert!(ptr::eq(ResourceRecord::at(index).unwrap(), record));
            let address = ptr::from_ref(record).addr() as u64;
            assert_eq!(ResourceRecord::display_number(WaitTarget::Record(index)), address);
        }
        for index in [1 << 40, u64::MAX >> 3, u64::MAX] {
            let index = RecordIndex(index);
            assert!(ResourceRecord::at(index).is_none(), "{index:?}");
            assert_eq!(ResourceRecord::display_number(WaitTarget::Record(index)), 0);
        }
        records.into_iter().for_each(ResourceRecord::give_back);
    }

    /// A record is used again once its resource is dropped, without what was noted there. Other
    /// tests take records too, so the table may grow by a few.
    #[test]
    fn the_table_grows_with_the_resources_that_have_a_record_at_the_same_time() {
        let before = table().all.len();
        for round in 0..10_000 {
            let plate = RecordCell::none();
            plate.mark_movable();
            let record = plate.obtain();
            assert!(record.owners().is_empty() && record.partial_waiter().is_none(), "{round}");
            assert!(!record.has_unlisted() && record.may_have_moved(), "{round}");
            let held = Owner { task: round, site: None, granted_unpolled: false };
            record.set_owner(held);
            record.set_partial_waiter(Some(held));
            record.owner_table.set_unlisted(true);
            let plain = RecordCell::none();
            assert!(!plain.obtain().may_have_moved(), "{round}");
        }
        let grown = table().all.len() - before;
        assert!(grown < 1_000, "{grown} new records for two resources at a time");
    }

    /// The target of a wait is the address of the resource before there is a record, and the
    /// record from then on.
    #[test]
    fn a_resource_is_named_by_its_record_once_it_has_one() {
        let (resource, plate) = (7_u8, RecordCell::none());
        assert_eq!(plate.target(&resource), TargetWord::of_address(&resource));
        let record = plate.obtain();
        assert_eq!(plate.target(&resource).linked(), record.linked);
        assert!(!plate.target(&resource).is_linked());
    }
}
