//! Detection of a channel's first sender that is kept by mistake, for diagnostics.
//!
//! A task that clones a sender for each worker often forgets to drop the original. Its `recv` then waits forever after
//! the last worker has ended. The waiting task must not be blamed for a sender that another task uses. So the channel's
//! first sender counts as *kept* by a task only if
//!
//! - that task created each of its clones,
//! - all other senders were dropped,
//! - and no message was sent since.
//!
//! A sender that another task clones, or that sends a message while it is the only one, is permanently *exempt*. So is
//! a sender that was downgraded, because any task may upgrade the weak sender.
//!
//! The *note* that the sender is kept is written to the channel's resource record. The receiver obtains the record when
//! it waits and the first sender may become the only one. Two actors write the note: the receiver when it waits, and
//! the actor that drops the last other sender. A receiver that has waited since before the first clone was created has
//! no record. It is not blamed before its next message.
//!
//! Rules:
//! - FIRST-1. An actor that writes the note then reads the number of senders with a read-modify-write. It also reads
//!   whether the sender is exempt, and whether the receiver waits with a waker of its task. If one of these has
//!   changed, it removes the note. An actor that clones the first sender counts the clone, and then removes the note.
//!   An actor that exempts the sender, or waits with another waker, stores that flag first, and then removes the note.
//!
//! The race to fear: a clone is created while the note is written, and the note stays. It cannot happen: one of the two
//! read-modify-writes of the number comes first. If the clone's is first, the writer sees it. Otherwise the cloning
//! actor sees the note. The flags and the note are written and read with SeqCst, so the same holds for them. A note
//! that is lost, because one writer removes another's, is a missed report.
//!
//! Nothing here is part of the channel's protocol, so models leave it out.

use super::chan::Chan;
use crate::sys::IS_MODEL;
use crate::task::context;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::wait::ownership::stall_note::Stall;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*, fence};

/// The state of the first sender.
pub(super) struct FirstSender {
    /// The position of the tail when the first sender became the only one; otherwise NOT_SOLE.
    sole_since: AtomicU64,
    /// The task that created all its clones; 0 if it has none, or is exempt.
    cloned_by: AtomicU64,
    is_exempt: AtomicBool,
    /// Whether the receiver's last wait left a waker of its own task. A waker of a set of futures does not count:
    /// another future of the set may own the sender.
    has_direct_wait: AtomicBool,
}

/// Not a valid position: positions have fewer bits.
const NOT_SOLE: u64 = u64::MAX;

impl FirstSender {
    pub(super) const fn new() -> Self {
        let (sole_since, cloned_by) = (AtomicU64::new(NOT_SOLE), AtomicU64::new(0));
        let (is_exempt, has_direct_wait) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { sole_since, cloned_by, is_exempt, has_direct_wait }
    }

    /// Returns whether the first sender is the only one left, and may be kept by a task.
    fn is_sole(&self) -> bool {
        self.sole_since.load(Relaxed) != NOT_SOLE
    }

    /// Returns whether the first sender was cloned, always by the same task.
    #[inline]
    pub(super) fn may_be_kept(&self) -> bool {
        self.cloned_by.load(Relaxed) != 0
    }

    /// Returns the task that created all clones of the first sender, if any.
    fn cloner(&self) -> Option<u64> {
        let task = self.cloned_by.load(SeqCst);
        (task != 0 && !self.is_exempt.load(SeqCst)).then_some(task)
    }
}

impl<T> Chan<T> {
    /// Records that the current task has cloned the first sender.
    #[inline]
    pub(super) fn record_clone_of_first(&self) {
        let first = &self.first_sender;
        if IS_MODEL || first.is_exempt.load(Relaxed) {
            return;
        }
        let (own, cloner) = (context::current_id(), first.cloned_by.load(Relaxed));
        if own == 0 || cloner != own || first.is_sole() || self.has_recv_note() {
            self.record_clone_slow(own);
        }
    }

    #[cold]
    fn record_clone_slow(&self, own: u64) {
        let first = &self.first_sender;
        let is_other =
            first.cloned_by.compare_exchange(0, own, SeqCst, SeqCst).is_err_and(|by| by != own);
        if own == 0 || is_other || self.has_sent_as_sole() {
            return self.exempt_first();
        }
        first.sole_since.store(NOT_SOLE, Relaxed);
        if let Some(record) = self.send_waiters.record.get() {
            record.recv_stall.clear();
        }
    }

    /// Records that a sender other than the first was dropped, and one is left.
    #[cold]
    pub(super) fn record_last_but_one(&self) {
        if self.first_sender.cloner().is_none() {
            return;
        }
        self.first_sender.sole_since.store(self.load_tail().position(), Relaxed);
        // A receiver that obtains the record now either reads the position stored above, or is seen here.
        fence(SeqCst);
        if let Some(record) = self.send_waiters.record.get() {
            self.record_kept_sender(record);
        }
    }

    /// Obtains the record, and writes the note if the first sender is the only one.
    ///
    /// `is_direct`: the receiver waits with a waker of its task.
    #[cold]
    pub(super) fn record_wait_for_first(&self, is_direct: bool) {
        let (first, record) = (&self.first_sender, self.send_waiters.record.get());
        // Unchanged since the previous wait. The actor that drops the last other sender then finds the record. The
        // receiver obtained the record before a fence, after which it would have seen the first sender alone.
        let is_recorded =
            first.has_direct_wait.load(Relaxed) == is_direct && (record.is_some() || !is_direct);
        if is_recorded && !first.is_sole() {
            return;
        }
        if self.has_sent_as_sole() {
            return self.exempt_first();
        }
        first.has_direct_wait.store(is_direct, SeqCst);
        if !is_direct {
            if let Some(record) = record {
                record.recv_stall.clear();
            }
            return;
        }
        let obtain = || self.send_waiters.with(|list| list.record.obtain());
        let record = record.unwrap_or_else(obtain);
        // Pairs with the fence of `record_last_but_one`.
        fence(SeqCst);
        if self.first_sender.is_sole() {
            self.record_kept_sender(record);
        }
    }

    /// Exempts the first sender: it was dropped, or any task may be about to send.
    pub(super) fn exempt_first(&self) {
        self.first_sender.is_exempt.store(true, SeqCst);
        if !self.first_sender.may_be_kept() {
            return;
        }
        self.first_sender.cloned_by.store(0, SeqCst);
        self.first_sender.sole_since.store(NOT_SOLE, Relaxed);
        if let Some(record) = self.send_waiters.record.get() {
            record.recv_stall.clear();
        }
    }

    /// Writes the note (FIRST-1).
    fn record_kept_sender(&self, record: &ResourceRecord) {
        let Some(task) = self.first_sender.cloner() else { return };
        if !self.first_sender.has_direct_wait.load(SeqCst) {
            return;
        }
        record.recv_stall.set(Stall {
            task,
            count: 0,
            total: 0,
            created_at: Some(self.created_at),
        });
        let is_direct = || self.first_sender.has_direct_wait.load(SeqCst);
        if !self.has_one_sender() || self.first_sender.cloner().is_none() || !is_direct() {
            record.recv_stall.clear();
        }
    }

    fn has_recv_note(&self) -> bool {
        self.send_waiters.record.get().is_some_and(|record| record.recv_stall.is_set())
    }

    fn has_sent_as_sole(&self) -> bool {
        let sole_since = self.first_sender.sole_since.load(Relaxed);
        sole_since != NOT_SOLE && sole_since != self.load_tail().position()
    }
}
