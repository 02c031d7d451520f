//! What a task waits for: a record that its leaf futures write and other threads read.
//!
//! Actors: a *leaf future* that returns `Pending` writes the record of the task that polls it, with
//! a few plain stores ([`WaitWriter`]). The *thread that removes the task's waiter* from a wait
//! list detaches the link. *Diagnostics* (dumps, reports, the deadlock scanner) read at any time.
//!
//! A record is *linked* if the waker of its task is known to be queued at the recorded target. The
//! deadlock scanner trusts only linked records (`RECORD-1` in `wait::ownership::resource_record`).

use super::poll_stamp::PollStamp;
use super::wait_kind::WaitKind;
use super::wait_target::{TargetWord, WaitTarget};
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::*};
use std::panic::Location;
use std::ptr::NonNull;

/// What a task was last seen waiting for, in the task's header.
pub(crate) struct WaitRecord {
    /// A [`TargetWord`]: kind, link and value in one word, so that readers see all or none of a
    /// write. Only `set_target` stores here.
    target: AtomicU64,
    /// Where the task waits. The bit [`OF_RESOURCE`] says that the resource was made there.
    site: AtomicPtr<Location<'static>>,
    /// Milliseconds of the runtime's clock when the wait began.
    since_ms: AtomicU32,
    /// Three values, so that a record takes one store:
    ///
    /// - bits 0 to 7: the [`WaitKind`], or NOTHING,
    /// - bits 8 to 15: how the task ended (`cell::outcome`), written under TASK-1 before COMPLETE,
    /// - the upper half: the [`PollStamp`] of the poll that wrote the record.
    ///
    /// The outcome is here because there is space. It never coexists with a kind: a task that has
    /// ended does not wait.
    tag: AtomicU32,
}

/// The kind in a tag without a wait: nothing is recorded, or the task has ended.
const NOTHING: u8 = 0;
const YIELD: u8 = WaitKind::Yield as u8;
const OUTCOME_SHIFT: u32 = 8;
/// A flag in the address of a site: the place is where the resource was made, because the future does
/// not know where it is awaited.
const OF_RESOURCE: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > OF_RESOURCE);

/// A copy of a [`WaitRecord`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) kind: WaitKind,
    pub(crate) target: TargetWord,
    pub(crate) site: &'static Location<'static>,
    pub(crate) since_ms: u32,
}

impl WaitRecord {
    pub(crate) fn nothing() -> Self {
        Self {
            target: AtomicU64::new(TargetWord::NONE.to_bits()),
            site: AtomicPtr::new(std::ptr::null_mut()),
            since_ms: AtomicU32::new(0),
            tag: AtomicU32::new(0),
        }
    }

    /// Removes the wait and the outcome.
    #[inline]
    pub(crate) fn clear(&self) {
        self.tag.store(0, Relaxed);
    }

    /// Returns how the task ended; 0 if it has not.
    #[inline]
    pub(crate) fn outcome(&self) -> u8 {
        (self.tag.load(Relaxed) >> OUTCOME_SHIFT) as u8
    }

    /// Stores how the task ended, and removes the wait.
    #[inline]
    pub(crate) fn set_outcome(&self, outcome: u8) {
        self.tag.store(u32::from(outcome) << OUTCOME_SHIFT, Relaxed);
    }

    #[inline]
    fn target(&self, ordering: Ordering) -> TargetWord {
        TargetWord::from_bits(self.target.load(ordering))
    }

    #[inline]
    fn set_target(&self, target: TargetWord, ordering: Ordering) {
        self.target.store(target.to_bits(), ordering);
    }

    /// Links the record: from now on the task's waker is queued at this linked target.
    #[inline]
    pub(crate) fn attach(&self, target: TargetWord) {
        debug_assert!(target.is_linked(), "{target:?} is neither a resource record nor a task");
        // Release pairs with the Acquire load of `linked_target`.
        self.set_target(target, Release);
    }

    /// Removes the link, whatever the target is: the task's waker is no longer queued there.
    ///
    /// This may race with a write of the task on another thread. Then one of the two writes is
    /// lost, but no link is made.
    #[inline]
    pub(crate) fn detach(&self) {
        let target = self.target(Relaxed);
        if target.is_linked() {
            self.set_target(target.unlinked(), Relaxed);
        }
    }

    /// Returns where the task's waker is queued, if the record is linked.
    pub(crate) fn linked_target(&self) -> Option<WaitTarget> {
        let target = self.target(Acquire);
        if let NOTHING | YIELD = self.tag.load(Relaxed) as u8 {
            return None; // the wait is overwritten, or is of the task before in this cell
        }
        target.is_linked().then(|| target.target())
    }

    /// Returns whether the record was written in that poll, and not by a yield.
    #[inline]
    pub(crate) fn is_from_poll(&self, poll: PollStamp) -> bool {
        let tag = self.tag.load(Relaxed);
        !matches!(tag as u8, NOTHING | YIELD) && PollStamp::from_word(tag).same_poll(poll)
    }

    /// `site` is a `&'static Location`, perhaps with the flag OF_RESOURCE.
    #[inline]
    fn describe(&self, tag: u32, since_ms: u32, site: *const Location<'static>) {
        self.since_ms.store(since_ms, Relaxed);
        self.site.store(site.cast_mut(), Relaxed);
        // Release pairs with the Acquire load of `read`: a reader that sees the kind does not see
        // the site of the task before in this cell.
        self.tag.store(tag, Release);
    }

    /// Replaces only the time when the wait began.
    pub(crate) fn set_since_ms(&self, since_ms: u32) {
        self.since_ms.store(since_ms, Relaxed);
    }

    /// Returns whether the recorded place is where the resource was made.
    pub(crate) fn has_site_of_resource(&self) -> bool {
        self.site.load(Relaxed).addr() & OF_RESOURCE != 0
    }

    /// Returns the last recorded wait, without its link.
    ///
    /// The fields are read one by one. A reader that races with the task may combine two records,
    /// but never reads half of a field.
    pub(crate) fn read(&self) -> Option<Wait> {
        let kind = match self.tag.load(Acquire) as u8 {
            NOTHING => return None,
            kind => WaitKind::from_u8(kind),
        };
        let site = self.site.load(Relaxed).map_addr(|addr| addr & !OF_RESOURCE);
        let site = NonNull::new(site)?;
        let target = match kind {
            WaitKind::Yield => TargetWord::NONE,
            _ => self.target(Relaxed).unlinked(),
        };
        // SAFETY: `describe` and `set_site` store here, both a `&'static`. Its flag was removed, and
        // null was ruled out.
        let site = unsafe { site.as_ref() };
        Some(Wait { kind, target, site, since_ms: self.since_ms.load(Relaxed) })
    }
}

/// The right to write a wait record, and the poll in which it is used.
#[derive(Clone, Copy)]
pub(crate) struct WaitWriter<'a> {
    pub(crate) waiting: &'a WaitRecord,
    pub(crate) stamp: PollStamp,
}

impl WaitWriter<'_> {
    /// Records a wait. Its target is unlinked.
    #[inline]
    pub(crate) fn record(self, wait: Wait) {
        self.waiting.set_target(wait.target, Relaxed);
        self.describe(wait.kind, wait.since_ms, wait.site);
    }

    /// Records a wait at the place where its resource was made. Its target is unlinked.
    #[inline]
    pub(crate) fn record_at_resource(self, wait: Wait) {
        self.waiting.set_target(wait.target, Relaxed);
        let site = std::ptr::from_ref(wait.site).map_addr(|addr| addr | OF_RESOURCE);
        self.waiting.describe(wait.kind as u32 | self.stamp.to_word(), wait.since_ms, site);
    }

    /// Records a wait whose target is linked.
    #[inline]
    pub(crate) fn record_linked(self, wait: Wait) {
        self.describe(wait.kind, wait.since_ms, wait.site);
        self.waiting.attach(wait.target);
    }

    /// Records a wait, and keeps the link if the record is already linked to the same target.
    #[inline]
    pub(crate) fn record_keeping_link(self, wait: Wait) {
        if self.waiting.target(Relaxed).unlinked() != wait.target {
            self.waiting.set_target(wait.target, Relaxed);
        }
        self.describe(wait.kind, wait.since_ms, wait.site);
    }

    /// Records a wait, unless this poll has already recorded one.
    ///
    /// In that case the task waits for two events, so a link to a task is removed: another event
    /// can wake it as well.
    #[inline]
    pub(crate) fn record_if_none(self, wait: impl FnOnce() -> Wait) {
        if self.has_none_in_this_poll() {
            return self.record(wait());
        }
        if self.waiting.target(Relaxed).is_linked_task() {
            self.waiting.detach();
        }
    }

    #[inline]
    fn has_none_in_this_poll(self) -> bool {
        let tag = self.waiting.tag.load(Relaxed);
        tag as u8 == NOTHING || !PollStamp::from_word(tag).same_poll(self.stamp)
    }

    /// Returns whether this poll has recorded a wait that is still linked to a resource record.
    ///
    /// A link to a task does not count. If the waker of a `block_on` future is dropped together
    /// with a `JoinHandle`, the record of that future is not detached.
    #[inline]
    pub(crate) fn is_linked_to_resource(self) -> bool {
        self.waiting.target(Relaxed).is_linked_record() && self.waiting.is_from_poll(self.stamp)
    }

    /// Records that a future inside the task yields because the budget is spent.
    pub(crate) fn record_budget_yield(self, site: &'static Location<'static>, since_ms: u32) {
        self.describe(WaitKind::Yield, since_ms, site);
    }

    /// Records that the task yields. No resource holds a waker for a yield, so a link stays.
    #[inline]
    pub(crate) fn record_yield(self, site: &'static Location<'static>, since_ms: u32) {
        self.waiting.describe(WaitKind::Yield as u32, since_ms, site);
    }

    #[inline]
    fn describe(self, kind: WaitKind, since_ms: u32, site: &'static Location<'static>) {
        self.waiting.describe(kind as u32 | self.stamp.to_word(), since_ms, site);
    }

    /// Replaces the site of the wait that this poll has recorded.
    ///
    /// If this poll has recorded none, the wait becomes one of kind `Unknown` at this site.
    #[inline]
    pub(crate) fn set_site(self, site: &'static Location<'static>) {
        self.waiting.site.store(std::ptr::from_ref(site).cast_mut(), Relaxed);
        if self.has_none_in_this_poll() {
            self.waiting.set_target(TargetWord::NONE, Relaxed);
            self.waiting.tag.store(WaitKind::Unknown as u32 | self.stamp.to_word(), Release);
        }
    }
}
