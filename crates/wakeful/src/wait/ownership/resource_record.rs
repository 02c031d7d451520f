//! Records of contended resources, and the links from waiting tasks to them.
//!
//! A resource stores its owner in its own memory (`owner`). That is cheap, but other threads cannot
//! read the resource, which may be moved or freed. So a resource with a waiter gets a
//! [`ResourceRecord`], a few words that are never freed, only reused for another resource. A task
//! that enters the wait list, or grants the resource while others wait, copies the owners to the
//! record. A resource without waiters pays nothing for this.
//!
//! All records are in a table that only grows. A task that enters a wait list stores the index of
//! the record in its wait record and links it ([`WaitLink`]). Readers find the record by that
//! index, which the table checks, so no number from a wait record becomes an address.
//!
//! - RECORD-1. A wait record is linked under the lock of the list, while a waiter with the waker of
//!   that task is in the list. The thread that removes the waiter detaches the link under the same
//!   lock. Each waiter links its own word, even if a task has several waiters (`task::wait_set`).
//! - RECORD-2. A guard or permit that owns its share of the resource can move to any task or
//!   thread. Creating one marks the resource permanently. From then on, reports say that the guard
//!   may have been moved. Child tasks of the task that acquired the guard may also hold it.
//!
//! So a link is exact. If the task has as many live wakers as direct links, each of its wakers is
//! in the list of one of these resources. Then only these resources, or an abort, can wake the
//! task.
//!
//! A future that polls others with its own wakers hides the task's waker from the list. Then the
//! link is *indirect*: it shows what the task waits for, but proves nothing.

use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use crate::sys::sync::{const_unless_model, ignore_poison};
use crate::task::context;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::LinkWord;
use crate::task::wait_target::{RecordIndex, TargetWord, WaitTarget};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::owner_slots::{OwnerSlot, OwnerTable, SlotState};
use crate::wait::ownership::stall_note::StallNote;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

/// The owners of one contended resource, as last written. Never freed.
#[derive(Debug)]
pub(crate) struct ResourceRecord {
    /// The linked target that refers to this record.
    linked: TargetWord,
    pub(crate) owner_table: OwnerTable,
    /// The front waiter, if it was granted a part of its request, which later waiters lack.
    partial_waiter: OwnerSlot,
    /// Whether the named owners may have moved their guards to other tasks (RECORD-2).
    movable: AtomicBool,
    /// The tasks of a `JoinSet`, any of which can end the wait. Empty for other resources.
    members: Mutex<Vec<u64>>,
    /// The reason for a long wait for the resource, or, for a channel, for capacity.
    pub(crate) stall: StallNote,
    /// The reason for a long wait for a message of the channel.
    pub(crate) recv_stall: StallNote,
}

/// All records.
struct Table {
    /// Indexed by [`RecordIndex`]. Only grows.
    all: Vec<&'static ResourceRecord>,
    /// The records that are not used by a resource.
    unused: Vec<&'static ResourceRecord>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { all: Vec::new(), unused: Vec::new() });

/// Locks the table. No foreign code runs under the lock.
fn table() -> MutexGuard<'static, Table> {
    ignore_poison(TABLE.lock())
}

impl Table {
    fn add(&mut self) -> &'static ResourceRecord {
        let linked = TargetWord::of_record(RecordIndex(self.all.len() as u64)).linked();
        let (owner_table, partial_waiter) = (OwnerTable::none(), OwnerSlot::new());
        let (movable, members) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let (stall, recv_stall) = (StallNote::none(), StallNote::none());
        let record = ResourceRecord {
            linked,
            owner_table,
            partial_waiter,
            movable,
            members,
            stall,
            recv_stall,
        };
        let record = Box::leak(Box::new(record));
        self.all.push(record);
        record
    }
}

impl ResourceRecord {
    /// Returns the target of a wait for the resource of this record, not linked.
    #[inline]
    pub(crate) fn target(&self) -> TargetWord {
        self.linked.unlinked()
    }

    fn obtain() -> &'static ResourceRecord {
        let mut table = table();
        table.unused.pop().unwrap_or_else(|| table.add())
    }

    /// Returns the record with this index, if it exists.
    pub(crate) fn at(index: RecordIndex) -> Option<&'static ResourceRecord> {
        table().all.get(usize::try_from(index.0).ok()?).copied()
    }

    /// Clears the record for another resource.
    fn recycle(&'static self) {
        self.owner_table.clear();
        self.partial_waiter.free();
        self.movable.store(false, Relaxed);
        self.set_members(Vec::new());
        self.stall.clear();
        self.recv_stall.clear();
        // The atomics of one model execution cannot be used in the next.
        if !IS_MODEL {
            table().unused.push(self);
        }
    }

    /// Sets the owner of a resource that has one owner at a time.
    #[inline]
    pub(crate) fn set_owner(&self, owner: Owner) {
        self.owner_table.slots[0].replace(owner);
    }

    /// Sets or removes the only owner, unless it is unchanged.
    pub(crate) fn update_owner(&self, owner: Option<Owner>) {
        self.owner_table.slots[0].update(owner.map_or(SlotState::Free, SlotState::Named));
    }

    /// Sets or removes the front waiter that was granted a part of its request. The caller holds the
    /// lock of the list.
    pub(crate) fn set_partial_waiter(&self, waiter: Option<Owner>) {
        self.partial_waiter.update(waiter.map_or(SlotState::Free, SlotState::Named));
    }

    /// Returns the front waiter, if it was granted a part of its request.
    pub(crate) fn partial_waiter(&self) -> Option<Owner> {
        match self.partial_waiter.read() {
            SlotState::Named(waiter) => Some(waiter),
            _ => None,
        }
    }

    /// Sets the tasks of a `JoinSet`.
    pub(crate) fn set_members(&self, tasks: Vec<u64>) {
        *ignore_poison(self.members.lock()) = tasks;
    }

    /// Returns the named owners, or the tasks of a `JoinSet`.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        let members = ignore_poison(self.members.lock());
        let member = |&task: &u64| Owner { task, site: None, granted_unpolled: false };
        members.iter().map(member).chain(self.owner_table.named()).collect()
    }

    /// Returns whether some owners are not named.
    pub(crate) fn has_unlisted(&self) -> bool {
        self.owner_table.has_unlisted()
    }

    /// Returns whether the named owners may have moved their guards to other tasks (RECORD-2).
    pub(crate) fn may_have_moved(&self) -> bool {
        self.movable.load(Acquire)
    }

    /// Returns all owners if they are known: at least one, and all named.
    pub(crate) fn known_owners(&self) -> Option<Vec<Owner>> {
        let owners = self.owners();
        (!owners.is_empty() && !self.has_unlisted()).then_some(owners)
    }

    /// Returns the number of a target in dumps and reports. Equal targets have equal numbers.
    ///
    /// A record is shown as its address, which differs from every task id and descriptor.
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

/// The number of deadlock scans that have requested the tasks of `JoinSet`s.
static MEMBER_REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Requests that each `JoinSet` lists its tasks when its waiter is polled again.
///
/// The scan then wakes that waiter.
pub(crate) fn request_members() {
    // Release pairs with the Acquire load below, if the wake-up does not order the two anyway.
    MEMBER_REQUESTS.fetch_add(1, Release);
}

/// Returns how often the tasks of `JoinSet`s have been requested.
#[inline]
pub(crate) fn member_requests() -> u32 {
    MEMBER_REQUESTS.load(Acquire)
}

/// A cell for the record of a resource and the MOVABLE flag, stored beside the wait list.
#[derive(Debug)]
pub(crate) struct RecordCell(AtomicPtr<ResourceRecord>);

/// A flag in the address of a record: a movable guard or permit was created (RECORD-2).
const MOVABLE: usize = 1;
const _: () = assert!(align_of::<ResourceRecord>() > MOVABLE);

impl RecordCell {
    const_unless_model! {
        pub(crate) fn none() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static ResourceRecord> {
        // SAFETY: only `assign` stores a record here, as a `&'static`, and `mark_movable` adds the
        // bit that is removed.
        unsafe { self.0.load(Acquire).map_addr(|address| address & !MOVABLE).as_ref() }
    }

    /// Records that a guard or permit was created that can move to any task or thread (RECORD-2).
    #[inline]
    pub(crate) fn mark_movable(&self) {
        if self.0.load(Relaxed).addr() & MOVABLE == 0 {
            self.mark_movable_slow();
        }
    }

    #[cold]
    fn mark_movable_slow(&self) {
        self.update(|record| record.map_addr(|address| address | MOVABLE));
        if let Some(record) = self.get() {
            record.movable.store(true, Release);
        }
    }

    /// Replaces the word with the result of `new`, and returns the old word.
    fn update(
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

    /// Returns the record, or assigns one. The caller must hold the lock of the list.
    #[inline]
    pub(crate) fn obtain(&self) -> &'static ResourceRecord {
        self.get().unwrap_or_else(|| self.assign())
    }

    #[cold]
    fn assign(&self) -> &'static ResourceRecord {
        let record = ResourceRecord::obtain();
        let new = ptr::from_ref(record).cast_mut();
        let flags = |old: *mut ResourceRecord| old.addr() & MOVABLE;
        // This and `mark_movable` exchange the same word, so one of the two sees the other's write.
        let old = self.update(|old| new.map_addr(|address| address | flags(old)));
        if flags(old) != 0 {
            record.movable.store(true, Release);
        }
        record
    }

    /// Returns the unlinked target of a wait for `resource`: its record, or its address if it has
    /// no record.
    #[inline]
    pub(crate) fn target<T: ?Sized>(&self, resource: &T) -> TargetWord {
        match self.get() {
            Some(record) => record.target(),
            None => TargetWord::of_address(resource),
        }
    }
}

impl Drop for RecordCell {
    fn drop(&mut self) {
        if let Some(record) = self.get() {
            record.recycle();
        }
    }
}

/// Removes an indirect link to the resource.
#[cold]
#[inline(never)]
fn detach_indirect(word: LinkWord, resource: &RecordCell) {
    if let Some(resource) = resource.get() {
        word.detach_indirect(resource.linked);
    }
}

/// The kind and the site of a wait.
pub(crate) type WaitReason = (WaitKind, &'static Location<'static>);

/// The link that a waiter has created in a wait record, if any.
///
/// Part of the waiter's node, whose waker keeps the wait record of a direct link alive.
#[derive(Clone, Copy)]
pub(crate) struct WaitLink(Option<LinkWord>);

impl Default for WaitLink {
    fn default() -> Self {
        Self::NONE
    }
}

// SAFETY: all fields of a wait record are atomics.
unsafe impl Send for WaitLink {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for WaitLink {}

impl WaitLink {
    pub(crate) const NONE: WaitLink = WaitLink(None);

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Links the wait record of the task being polled, and records the wait itself.
    ///
    /// RECORD-1: the caller must hold the lock of the list, and the waiter must be or become part
    /// of the list with this waker.
    #[inline]
    pub(crate) fn attach_with(
        resource: &'static ResourceRecord,
        waker: &Waker,
        reason: WaitReason,
    ) -> Self {
        let (kind, site) = reason;
        Self(context::record_linked_wait(waker, resource.linked, kind, site))
    }

    /// Links the wait record again if the link was lost, when the waiter is polled again with the
    /// same waker.
    #[inline]
    pub(in crate::wait) fn attach_again(&mut self, resource: &RecordCell, waker: &Waker) {
        let Some(record) = resource.get() else { return };
        // SAFETY: the waker keeps the wait record of a direct link alive.
        let is_linked = |word: LinkWord| unsafe { word.has_direct(record.linked) };
        if !self.0.is_some_and(is_linked) {
            self.attach_anew(resource, waker);
        }
    }

    #[cold]
    fn attach_anew(&mut self, resource: &RecordCell, waker: &Waker) {
        // A foreign waker may already belong to another task.
        let is_kept = |word: LinkWord| word.is_indirect() && context::has_indirect_link(word);
        if !self.0.is_some_and(is_kept) {
            self.replace(resource, waker);
        }
    }

    /// Replaces the link with one of the task being polled, whose waker the waiter gets (RECORD-1).
    /// The caller must then describe the wait.
    #[cold]
    #[track_caller]
    pub(crate) fn replace(&mut self, resource: &RecordCell, waker: &Waker) {
        self.detach(resource);
        let reason = (WaitKind::Unknown, Location::caller());
        *self =
            resource.get().map_or(Self::NONE, |record| Self::attach_with(record, waker, reason));
    }

    /// Removes the link (RECORD-1). The waiter must have left the list, and its waker must still be
    /// alive.
    #[inline]
    pub(crate) fn detach(self, resource: &RecordCell) {
        match self.0 {
            None => {}
            Some(word) if word.is_indirect() => detach_indirect(word, resource),
            // SAFETY: the waker keeps the wait record alive.
            Some(word) => unsafe { word.detach() },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_by_their_own_index_only() {
        let records = [ResourceRecord::obtain(), ResourceRecord::obtain()];
        for record in records {
            let WaitTarget::Record(index) = record.linked.target() else {
                panic!("{:?} names no record", record.linked)
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
        records.into_iter().for_each(ResourceRecord::recycle);
    }

    /// The record of a dropped resource is cleared and reused. Other tests use records too, so the
    /// table may grow by a few.
    #[test]
    fn table_grows_only_with_concurrent_records() {
        let before = table().all.len();
        for round in 0..10_000 {
            let cell = RecordCell::none();
            cell.mark_movable();
            let record = cell.obtain();
            assert!(record.owners().is_empty() && record.partial_waiter().is_none(), "{round}");
            assert!(!record.has_unlisted() && record.may_have_moved(), "{round}");
            let owner = Owner { task: round, site: None, granted_unpolled: false };
            record.set_owner(owner);
            record.set_partial_waiter(Some(owner));
            record.owner_table.set_unlisted(true);
            let plain = RecordCell::none();
            assert!(!plain.obtain().may_have_moved(), "{round}");
        }
        let grown = table().all.len() - before;
        assert!(grown < 1_000, "{grown} new records for two resources at a time");
    }

    #[test]
    fn target_is_the_address_until_there_is_a_record() {
        let (resource, cell) = (7_u8, RecordCell::none());
        assert_eq!(cell.target(&resource), TargetWord::of_address(&resource));
        let record = cell.obtain();
        assert_eq!(cell.target(&resource).linked(), record.linked);
        assert!(!cell.target(&resource).is_linked());
    }
}
