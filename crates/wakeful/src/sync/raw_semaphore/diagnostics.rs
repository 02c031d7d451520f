//! Diagnostics of a semaphore: its owners, and requests that can never be granted.
//!
//! Nothing here decides which task gets permits. The rules PERMIT-4 to PERMIT-8 are in `permit_owners`.

use super::{FIRST, List, RawSemaphore, WAITERS};
use crate::sync::permit_owners::{ListState, OwnerIndex};
use crate::sync::raw_semaphore::waiters::record_partial_waiter;
use crate::sys::sync::atomic::Ordering::*;
use crate::task::context;
use crate::task::wait_target::TargetWord;
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::{RecordCell, ResourceRecord};
use crate::wait::ownership::stall_note::Stall;
use std::panic::Location;

impl RawSemaphore {
    /// Records the owner of permits that were available. `has_first`: the caller has set FIRST.
    pub(super) fn record_owner(&self, has_first: bool, held: Owner) -> OwnerIndex {
        if has_first {
            self.owners.record_first(held);
            return OwnerIndex::FIRST;
        }
        let owner = self.owners.record_after_first(held);
        self.publish_if_waiters();
        owner
    }

    /// Records the current task as the owner of permits that were split off.
    pub(in crate::sync) fn record_split(&self, site: &'static Location<'static>) -> OwnerIndex {
        self.record_owner(false, Owner::current(site))
    }

    /// Records the first waiter as an owner.
    #[inline]
    pub(super) fn record_grant(&self, list: &mut List<'_>, held: Owner) -> OwnerIndex {
        let word = self.word.load(Relaxed);
        let has_first = word & FIRST == 0;
        if has_first {
            // PERMIT-1: a task waits.
            self.word.store(word | FIRST, Relaxed);
        }
        let names = list.record.get().map(|record| &record.owner_table);
        self.owners.record_grant(has_first, held, list, names)
    }

    pub(super) fn clear_after_first(&self, owner: OwnerIndex) {
        self.owners.clear_after_first(owner);
        self.publish_if_waiters();
    }

    /// Clears an owner that has released its permits, or releases them in this critical section.
    #[inline]
    pub(super) fn clear(&self, list: &mut List<'_>, owner: OwnerIndex) {
        if owner == OwnerIndex::FIRST {
            self.owners.clear_first();
            if list.is_empty() {
                self.word.fetch_and(!FIRST, Release);
            } else {
                // PERMIT-1, PERMIT-3.
                self.word.store(self.word.load(Relaxed) & !FIRST, Relaxed);
            }
        }
        let names = list.record.get().map(|record| &record.owner_table);
        self.owners.clear(owner, list, names);
    }

    /// Clears an owner that has no permits to release.
    #[cold]
    pub(in crate::sync) fn forget_owner(&self, owner: OwnerIndex) {
        self.waiters.with(|list| {
            self.clear(list, owner);
            self.flush(list);
        });
    }

    /// Publishes changed counts and the partial waiter. Called before the list's lock is released.
    #[inline]
    pub(super) fn flush(&self, list: &mut List<'_>) {
        let names = list.record.get().map(|record| &record.owner_table);
        self.owners.flush(list, names);
        let is_partial = list.front().is_some_and(|front| front.missing < front.requested);
        if is_partial || list.has_partial_waiter {
            record_partial_waiter(list);
        }
    }

    /// PERMIT-5: publishes the owners if a task waits, after an owner other than the first changed.
    pub(super) fn publish_if_waiters(&self) {
        if self.word.load(SeqCst) & WAITERS != 0 {
            self.publish_owners();
        }
    }

    /// Copies the owners to the resource record, where the deadlock scanner reads them.
    #[cold]
    fn publish_owners(&self) {
        self.waiters.with(|list| {
            if let Some(record) = list.record.get() {
                self.publish_locked(list, record);
            }
        });
    }

    /// Copies the owners to the resource record (PERMIT-6). The caller holds the list's lock.
    pub(super) fn publish_locked(&self, state: &ListState, record: &ResourceRecord) {
        let has_first = self.word.load(SeqCst) & FIRST != 0;
        self.owners.publish(has_first, state, &record.owner_table);
    }

    /// Records that permits may move to any task or thread, because their guard borrows nothing.
    #[inline]
    pub(in crate::sync) fn mark_movable(&self) {
        self.waiters.record.mark_movable();
    }

    /// Returns the resource record, if a task has ever waited.
    #[inline]
    pub(in crate::sync) fn resource_record(&self) -> Option<&'static ResourceRecord> {
        self.waiters.record.get()
    }

    /// Returns the target that waiting tasks record, for a waiter that is polled again.
    pub(in crate::sync) fn target(&self) -> TargetWord {
        let Some(record) = self.resource_record() else { return TargetWord::of_address(self) };
        if record.owner_table.has_unnamed() {
            self.publish_owners(); // PERMIT-6
        }
        record.target()
    }

    /// Describes the queue in the report of a task that waits forever for `requested` permits.
    pub(in crate::sync) fn describe_to_waiter(&self, requested: usize) -> String {
        let own = context::current_id();
        let ahead = self.waiters.with(|list| {
            let front = list.front()?;
            Some((front.task == own, front.requested, front.missing, front.site))
        });
        let plural = if requested == 1 { "" } else { "s" };
        let request = format!("requests {requested} permit{plural}");
        match ahead {
            Some((true, requested, missing, _)) => {
                format!("{request}, of which {} are free", requested - missing)
            }
            Some((false, ahead, _, site)) => {
                format!("{request}, behind a request for {ahead} at {site}")
            }
            None => request,
        }
    }

    /// Records a request for more permits than ever existed, or a new request of the task that made one.
    /// The caller holds the list's lock.
    #[inline]
    pub(super) fn record_request(&self, requested: usize, record: &ResourceRecord) {
        let (requested, total_permits) = (requested as u64, self.total_permits.load(Relaxed));
        let recorded = record.stall.get();
        // A semaphore that never had permits is a gate: tasks wait for its first permits.
        if recorded.is_none() && (requested <= total_permits || total_permits == 0) {
            return;
        }
        let task = context::current_id();
        // The first such request stays, because the queue is stuck behind it.
        let is_replaced = recorded
            .is_none_or(|recorded| recorded.task == task || recorded.count <= total_permits);
        match requested > total_permits {
            _ if !is_replaced => {}
            true => record.stall.set(Stall {
                task,
                count: requested,
                total: total_permits,
                created_at: None,
            }),
            false => record.stall.clear(),
        }
    }

    /// Corrects the note about a request after permits were added.
    #[cold]
    pub(super) fn update_recorded_request(&self) {
        self.waiters.with(|list| {
            let Some(record) = list.record.get() else { return };
            let (recorded, total_permits) = (record.stall.get(), self.total_permits.load(Relaxed));
            match recorded {
                Some(recorded) if recorded.count > total_permits => {
                    record.stall.set(Stall { total: total_permits, ..recorded })
                }
                _ => record.stall.clear(),
            }
        });
    }
}

/// Removes the note about a request of this task, whose waiter leaves. The caller holds the list's lock.
pub(super) fn forget_request(task: u64, record: &RecordCell) {
    if let Some(record) = record.get()
        && record.stall.get().is_some_and(|recorded| recorded.task == task)
    {
        record.stall.clear();
    }
}
