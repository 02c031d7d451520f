//! The writing side of a wait record, used by a leaf future that returns `Pending`.

use super::words::{LinkWord, SiteWord};
use super::{Link, NOTHING, RecordedWait, SET, SET_FLAG, Wait, WaitRecord, YIELD};
use crate::sys::sync::atomic::Ordering::*;
use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_set::WaitSet;
use crate::task::wait_target::TargetWord;
use std::panic::Location;
use std::ptr::NonNull;

/// The right to write a wait record in a given poll.
#[derive(Clone, Copy)]
pub(crate) struct WaitWriter<'a> {
    pub(crate) waiting: &'a WaitRecord,
    pub(crate) stamp: PollStamp,
}

impl WaitWriter<'_> {
    /// Records a wait whose target is unlinked.
    #[inline]
    pub(crate) fn record(self, wait: Wait) {
        self.record_unlinked(wait, false);
    }

    /// Records a wait whose target is unlinked.
    ///
    /// `at_resource` says that its site is where the resource was created.
    #[inline]
    pub(in crate::task) fn record_unlinked(self, wait: Wait, at_resource: bool) {
        let Wait { kind, target, site, since_ms } = wait;
        if self.is_first() {
            self.waiting.set_target(target, Relaxed);
            self.describe(&wait, at_resource);
        } else if at_resource {
            self.add(kind, target, site, since_ms, Link::None, true);
        } else {
            self.add_unlinked(kind, target, site, since_ms);
        }
    }

    /// [`add`](Self::add) for a wait that is not linked. All arguments fit in registers, so a
    /// function without a stack frame can tail-call this.
    #[cold]
    #[inline(never)]
    fn add_unlinked(
        self,
        kind: WaitKind,
        target: TargetWord,
        site: &'static Location<'static>,
        since_ms: u32,
    ) {
        self.add(kind, target, site, since_ms, Link::None, false);
    }

    /// Records a wait whose target is linked. Returns the word of the link, unless there are too many waits.
    #[inline]
    pub(crate) fn record_linked(self, wait: Wait) -> Option<LinkWord> {
        let Wait { kind, target, site, since_ms } = wait;
        debug_assert!(target.is_linked(), "{wait:?} is for neither a record nor a task");
        if !self.is_first() {
            return self.add(kind, target, site, since_ms, Link::Direct, false);
        }
        self.describe(&wait, false);
        Some(self.attach(target))
    }

    #[inline]
    fn attach(self, target: TargetWord) -> LinkWord {
        // Release pairs with the Acquire load of `read_single`.
        self.waiting.set_target(target, Release);
        LinkWord(NonNull::from(&self.waiting.target))
    }

    /// Records a wait whose target is linked through a foreign waker, always in a wait set.
    #[cold]
    pub(crate) fn record_indirect(self, wait: Wait) -> Option<LinkWord> {
        let set = self.set_for_poll().unwrap_or_else(|| self.give_set());
        self.add_to_set(set, self.recorded(wait, Link::Indirect, false))
    }

    /// Records a wait, and keeps the link if the wait is already linked to the same target.
    #[inline]
    pub(crate) fn record_keeping_link(self, wait: Wait) {
        let is_same = self.waiting.target(Relaxed).unlinked() == wait.target;
        if is_same && !self.waiting.has_set() {
            return self.describe(&wait, false);
        }
        self.record(wait);
    }

    /// Returns whether the next wait may overwrite the record, because no recorded wait must be kept.
    ///
    /// Waits of this poll and waits that are linked to a resource record are kept. A wait for a
    /// task is kept only in the poll that recorded it, because the end of that task does not remove
    /// the link.
    #[inline]
    fn is_first(self) -> bool {
        // The exclusive or leaves SET_FLAG, the difference of the stamps, and the lower half of the
        // tag. So `differs` is below `ONE_POLL` in the same poll, and negative if there is a set.
        const ONE_POLL: i32 = PollStamp::from_doubled(2).to_word().cast_signed();
        let differs = (self.waiting.tag.load(Relaxed) ^ self.stamp.to_word()).cast_signed();
        differs >= ONE_POLL && !self.waiting.target(Relaxed).is_linked_record()
    }

    fn recorded(self, wait: Wait, link: Link, at_resource: bool) -> RecordedWait {
        let wait = Wait { target: wait.target.unlinked(), ..wait };
        RecordedWait { wait, link, at_resource, poll: self.stamp }
    }

    /// Records a wait, and keeps the recorded waits that must be kept (`is_first`).
    ///
    /// Takes the fields of the wait, so that callers keep them in registers.
    #[cold]
    #[inline(never)]
    fn add(
        self,
        kind: WaitKind,
        target: TargetWord,
        site: &'static Location<'static>,
        since_ms: u32,
        link: Link,
        at_resource: bool,
    ) -> Option<LinkWord> {
        let new = self.recorded(Wait { kind, target, site, since_ms }, link, at_resource);
        if let Some(set) = self.set_for_poll() {
            return self.add_to_set(set, new);
        }
        let tag = self.waiting.tag.load(Relaxed);
        let is_kept = match tag as u8 {
            // The word belongs to a waiter (SET-2).
            _ if self.waiting.target(Relaxed).is_linked_record() => true,
            // Nothing is recorded, or the wait is over.
            NOTHING | YIELD => false,
            _ if !PollStamp::from_word(tag).same_poll(self.stamp) => false,
            _ => !self.waiting.read_single(tag).is_some_and(|own| own.is_same(&new.wait)),
        };
        if is_kept {
            return self.add_to_set(self.give_set(), new);
        }
        self.describe(&new.wait, at_resource);
        let word = self.attach(new.target());
        (link != Link::None).then_some(word)
    }

    fn add_to_set(self, set: &'static WaitSet, new: RecordedWait) -> Option<LinkWord> {
        let word = set.add(&self.waiting.target, &new);
        // Release pairs with the Acquire load of `waits`: a reader that sees SET sees the index.
        self.waiting.tag.store(SET_FLAG | u32::from(SET) | self.stamp.to_word(), Release);
        word
    }

    /// Returns the record's wait set, cleared of earlier polls, or releases a set that is no longer
    /// needed.
    fn set_for_poll(self) -> Option<&'static WaitSet> {
        let set = self.waiting.set()?;
        if set.begin_poll(&self.waiting.target, self.stamp) {
            self.waiting.release_set(u32::from(NOTHING));
            return None;
        }
        Some(set)
    }

    /// Gives the record a wait set, and moves the recorded wait into the set.
    fn give_set(self) -> &'static WaitSet {
        let (set, tag) = (WaitSet::obtain(), self.waiting.tag.load(Relaxed));
        let target = self.waiting.target(Relaxed);
        let is_of_this_poll = PollStamp::from_word(tag).same_poll(self.stamp);
        let single = self.waiting.read_single(tag);
        let is_wait = !matches!(tag as u8, NOTHING | YIELD);
        match single.filter(|_| is_wait && (is_of_this_poll || target.is_linked_record())) {
            Some(single) => set.take_over(&single),
            // The word belongs to a waiter of an earlier `block_on` of this thread (SET-2), so slot 0
            // stays unused.
            None if target.is_linked_record() => {}
            None => self.waiting.set_target(TargetWord::NONE, Relaxed),
        }
        // This call keeps the wait that was just moved.
        set.begin_poll(&self.waiting.target, self.stamp);
        self.waiting.since_ms.store(set.index(), Relaxed);
        set
    }

    /// Returns whether this poll has recorded no wait yet.
    #[inline]
    fn has_none_in_this_poll(self) -> bool {
        let tag = self.waiting.tag.load(Relaxed);
        tag as u8 == NOTHING || !PollStamp::from_word(tag).same_poll(self.stamp)
    }

    /// Records that a future inside the task yields because the budget is exhausted.
    pub(crate) fn record_budget_yield(self, site: &'static Location<'static>, since_ms: u32) {
        self.record_yield_as(WaitKind::Yield as u32 | self.stamp.to_word(), site, since_ms);
    }

    /// Records that the task yields. No resource holds a waker for a yield, so linked waits are
    /// kept.
    #[inline]
    pub(crate) fn record_yield(self, site: &'static Location<'static>, since_ms: u32) {
        self.record_yield_as(WaitKind::Yield as u32, site, since_ms);
    }

    #[inline]
    fn record_yield_as(self, tag: u32, site: &'static Location<'static>, since_ms: u32) {
        if self.waiting.has_set() || self.waiting.target(Relaxed).is_linked_record() {
            self.add(WaitKind::Yield, TargetWord::NONE, site, since_ms, Link::None, false);
            return;
        }
        self.waiting.describe(tag, since_ms, SiteWord::new(site, false));
    }

    #[inline]
    fn describe(self, wait: &Wait, at_resource: bool) {
        let site = SiteWord::new(wait.site, at_resource);
        self.waiting.describe(wait.kind as u32 | self.stamp.to_word(), wait.since_ms, site);
    }

    /// Replaces the site of the wait that this poll recorded last.
    ///
    /// If this poll has recorded none, records a wait of kind `Unknown` at this site.
    #[inline]
    pub(crate) fn set_site(self, site: &'static Location<'static>) {
        let has_none = self.has_none_in_this_poll();
        let must_keep = has_none && self.waiting.target(Relaxed).is_linked_record();
        if must_keep || self.waiting.has_set() {
            return self.set_site_in_set(site);
        }
        SiteWord::new(site, false).store(&self.waiting.site);
        if has_none {
            self.waiting.set_target(TargetWord::NONE, Relaxed);
            self.waiting.tag.store(WaitKind::Unknown as u32 | self.stamp.to_word(), Release);
        }
    }

    #[cold]
    fn set_site_in_set(self, site: &'static Location<'static>) {
        if self.has_none_in_this_poll() {
            self.add(WaitKind::Unknown, TargetWord::NONE, site, 0, Link::None, false);
        } else if let Some(set) = self.waiting.set() {
            set.set_site(&self.waiting.target, site);
        }
    }
}
