//! What a task waits for: a record that its leaf futures write and other threads read.
//!
//! Actors: a *leaf future* that returns `Pending` writes the record of the task that polls it, with
//! a few plain stores ([`WaitWriter`]). The *thread that removes the task's waiter* from a wait
//! list detaches the link. *Diagnostics* (dumps, reports, the deadlock scanner) read at any time.
//!
//! A wait is *linked* if the waker of its task is known to be queued at the recorded target. The
//! deadlock scanner trusts only linked waits (`RECORD-1` in `wait::ownership::resource_record`).
//!
//! The record itself has space for one wait. A second wait in the same poll moves both to a wait set
//! ([`wait_set`](super::wait_set)), on a cold path. So does a wait in a later poll, while the first is
//! still linked to a resource: the task is still queued there.

use super::poll_stamp::PollStamp;
use super::wait_kind::WaitKind;
use super::wait_set::WaitSet;
use super::wait_target::TargetWord;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::*};
use std::panic::Location;
use std::ptr::NonNull;

/// What a task was last seen waiting for, in the task's header.
pub(crate) struct WaitRecord {
    /// A [`TargetWord`]: kind, link and value in one word, so that readers see all or none of a
    /// write. Only `set_target` stores here.
    target: AtomicU64,
    /// Where the task waits: a [`SiteWord`].
    site: AtomicPtr<Location<'static>>,
    /// Milliseconds of the runtime's clock when the wait began. With the kind SET: the index of the
    /// wait set.
    since_ms: AtomicU32,
    /// Three values, so that a record takes one store:
    ///
    /// - bits 0 to 7: the [`WaitKind`], or NOTHING, or SET,
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
/// The kind in the tag of a record whose waits are in a wait set. No [`WaitKind`] has this number.
const SET: u8 = 254;
const OUTCOME_SHIFT: u32 = 8;

/// A wait, as it was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) kind: WaitKind,
    pub(crate) target: TargetWord,
    pub(crate) site: &'static Location<'static>,
    pub(crate) since_ms: u32,
}

/// The site of a wait, with a flag: the place is where the resource was made, because the future does
/// not know where it is awaited.
#[derive(Clone, Copy)]
pub(super) struct SiteWord(*mut Location<'static>);

const OF_RESOURCE: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > OF_RESOURCE);

impl SiteWord {
    #[inline]
    pub(super) fn new(site: &'static Location<'static>, of_resource: bool) -> Self {
        let flag = if of_resource { OF_RESOURCE } else { 0 };
        Self(std::ptr::from_ref(site).cast_mut().map_addr(|address| address | flag))
    }

    /// Reads a word that only results of `new` are stored in, or null.
    pub(super) fn load(
        word: &AtomicPtr<Location<'static>>,
    ) -> Option<(&'static Location<'static>, bool)> {
        let word = word.load(Relaxed);
        // SAFETY: only a `&'static` with the flag that is removed, or null, is stored there.
        let site = unsafe { word.map_addr(|address| address & !OF_RESOURCE).as_ref() }?;
        Some((site, word.addr() & OF_RESOURCE != 0))
    }

    #[inline]
    pub(super) fn store(self, word: &AtomicPtr<Location<'static>>) {
        word.store(self.0, Relaxed);
    }
}

/// Whether a wait is linked, and through which waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Where the task's waker is, is not known.
    None,
    /// The task's own waker is queued at the target (RECORD-1).
    Direct,
    /// A foreign waker is queued at the target. The future that it belongs to was polled by the task,
    /// through a future that makes wakers of its own.
    Indirect,
}

/// A wait of a record, with its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedWait {
    /// Its target is not linked.
    pub(crate) wait: Wait,
    pub(crate) link: Link,
    /// The site of the wait is where the resource was made.
    pub(crate) at_resource: bool,
    /// The poll that recorded it.
    pub(crate) poll: PollStamp,
}

impl RecordedWait {
    /// Returns the target, with its link.
    pub(super) fn target(&self) -> TargetWord {
        match self.link {
            Link::None => self.wait.target,
            Link::Direct | Link::Indirect => self.wait.target.linked(),
        }
    }

    /// Returns whether `wait` is this wait, recorded again.
    pub(super) fn is_same(&self, wait: &Wait) -> bool {
        // The sites of these may have been replaced by that of the call (`set_site`).
        let site_counts = !wait.kind.is_for_descriptor() && wait.kind != WaitKind::Join;
        self.wait.kind == wait.kind
            && self.wait.target == wait.target
            && (!site_counts || std::ptr::eq(self.wait.site, wait.site))
    }
}

/// The target word of a wait that is linked, for the thread that removes the link.
///
/// The lowest bit of the address is set if the link is indirect.
#[derive(Clone, Copy)]
pub(crate) struct LinkWord(NonNull<AtomicU64>);

const INDIRECT: usize = 1;
const _: () = assert!(align_of::<AtomicU64>() > INDIRECT);

impl LinkWord {
    pub(super) fn new(word: NonNull<AtomicU64>, link: Link) -> Self {
        Self(if link == Link::Indirect {
            word.map_addr(|address| address | INDIRECT)
        } else {
            word
        })
    }

    #[inline]
    pub(crate) fn is_indirect(self) -> bool {
        self.0.addr().get() & INDIRECT != 0
    }

    /// Removes a direct link: the task's waker is no longer queued there.
    ///
    /// # Safety
    ///
    /// The link is direct, and the task's wait record is alive.
    #[inline]
    pub(crate) unsafe fn detach(self) {
        debug_assert!(!self.is_indirect());
        // SAFETY: the word is in the wait record, or in a wait set, which is never freed.
        let word = unsafe { self.0.as_ref() };
        let target = TargetWord::from_bits(word.load(Relaxed));
        if target.is_linked() {
            // The task does not write to a word that is linked to a record (SET-2).
            word.store(target.unlinked().to_bits(), Relaxed);
        }
    }

    /// Removes an indirect link to this target.
    #[cold]
    pub(crate) fn detach_indirect(self, linked: TargetWord) {
        Self::detach_expected(self.indirect_word(), linked);
    }

    pub(super) fn detach_expected(word: &AtomicU64, linked: TargetWord) {
        // Relaxed: the link is all that is removed.
        let unlinked = linked.unlinked().to_bits();
        let _ = word.compare_exchange(linked.to_bits(), unlinked, Relaxed, Relaxed);
    }

    /// Returns the word of an indirect link.
    fn indirect_word(self) -> &'static AtomicU64 {
        assert!(self.is_indirect());
        // SAFETY: `new` set the bit that is removed. An indirect link is always in a wait set
        // (`WaitWriter::record_indirect`), which is never freed.
        unsafe { &*self.0.as_ptr().map_addr(|address| address & !INDIRECT) }
    }

    /// Returns whether this word still has the direct link to that target.
    ///
    /// # Safety
    ///
    /// The task's wait record is alive.
    #[inline]
    pub(crate) unsafe fn has_direct(self, linked: TargetWord) -> bool {
        // SAFETY: the word is in the wait record, or in a wait set, which is never freed.
        !self.is_indirect() && unsafe { self.0.as_ref() }.load(Relaxed) == linked.to_bits()
    }
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

    /// Removes the waits and the outcome.
    #[inline]
    pub(crate) fn clear(&self) {
        self.replace_tag(0);
    }

    /// Returns how the task ended; 0 if it has not.
    #[inline]
    pub(crate) fn outcome(&self) -> u8 {
        (self.tag.load(Relaxed) >> OUTCOME_SHIFT) as u8
    }

    /// Stores how the task ended, and removes the waits.
    #[inline]
    pub(crate) fn set_outcome(&self, outcome: u8) {
        self.replace_tag(u32::from(outcome) << OUTCOME_SHIFT);
    }

    #[inline]
    fn replace_tag(&self, tag: u32) {
        if self.tag.load(Relaxed) as u8 == SET {
            self.release_set(tag);
        } else {
            self.tag.store(tag, Relaxed);
        }
    }

    #[cold]
    fn release_set(&self, tag: u32) {
        let set = self.set();
        self.tag.store(tag, Relaxed);
        // Relaxed: the target of slot 0 belongs to the record again (SET-4).
        self.set_target(TargetWord::NONE, Relaxed);
        if let Some(set) = set {
            set.release();
        }
    }

    /// Returns the wait set, if the tag says that there is one. For the thread that polls the task,
    /// this is its set. Another thread may get the set of another task.
    fn set(&self) -> Option<&'static WaitSet> {
        match self.tag.load(Acquire) as u8 {
            SET => WaitSet::at(self.since_ms.load(Relaxed)),
            _ => None,
        }
    }

    #[inline]
    fn target(&self, ordering: Ordering) -> TargetWord {
        TargetWord::from_bits(self.target.load(ordering))
    }

    #[inline]
    fn set_target(&self, target: TargetWord, ordering: Ordering) {
        self.target.store(target.to_bits(), ordering);
    }

    /// Removes the link to this target, a task: its join waker is dropped.
    ///
    /// This may race with a write of the waiting task on another thread, so it is an exchange.
    #[cold]
    pub(crate) fn detach_task(&self, task: TargetWord) {
        LinkWord::detach_expected(&self.target, task.linked());
        if let Some(set) = self.set() {
            set.detach_target(&self.target, task.linked());
        }
    }

    /// Returns whether this record has the indirect link at this word.
    #[cold]
    pub(crate) fn has_indirect(&self, word: LinkWord) -> bool {
        self.set().is_some_and(|set| set.has_word(&self.target, word.indirect_word()))
    }

    /// Returns whether the record was written in that poll, and not by a yield.
    #[inline]
    pub(crate) fn is_from_poll(&self, poll: PollStamp) -> bool {
        let tag = self.tag.load(Relaxed);
        !matches!(tag as u8, NOTHING | YIELD) && PollStamp::from_word(tag).same_poll(poll)
    }

    #[inline]
    fn describe(&self, tag: u32, since_ms: u32, site: SiteWord) {
        self.since_ms.store(since_ms, Relaxed);
        site.store(&self.site);
        // Release pairs with the Acquire load of `read`: a reader that sees the kind does not see
        // the site of the task before in this cell.
        self.tag.store(tag, Release);
    }

    /// Replaces only the time when the waits of the last poll began.
    pub(crate) fn set_since_ms(&self, since_ms: u32) {
        match self.set() {
            Some(set) => set.set_since_ms(&self.target, since_ms),
            None => self.since_ms.store(since_ms, Relaxed),
        }
    }

    /// Returns the wait that explains most, without its link: that of
    /// [`waits`](Self::waits) that comes first.
    pub(crate) fn read(&self) -> Option<Wait> {
        self.waits().0.first().map(|recorded| recorded.wait)
    }

    /// Returns all recorded waits, and whether the record had space for all of them.
    ///
    /// Their order does not depend on the order in which the task polled them. A wait that explains
    /// more comes first: a lock before a channel, and a timer last.
    ///
    /// The fields are read one by one. A reader that races with the task may combine two records,
    /// but never reads half of a field.
    pub(crate) fn waits(&self) -> (Vec<RecordedWait>, bool) {
        let tag = self.tag.load(Acquire);
        let mut waits = match tag as u8 {
            NOTHING => (Vec::new(), true),
            SET => match WaitSet::at(self.since_ms.load(Relaxed)) {
                Some(set) => set.read(&self.target),
                None => (Vec::new(), false),
            },
            _ => (self.read_single(tag).into_iter().collect(), true),
        };
        waits.0.sort_by_key(|RecordedWait { wait, link, .. }| {
            let site = (wait.site.file(), wait.site.line(), wait.site.column());
            (*link == Link::None, wait.kind.rank(), site, wait.target.unlinked().to_bits())
        });
        waits
    }

    fn read_single(&self, tag: u32) -> Option<RecordedWait> {
        let kind = WaitKind::from_u8(tag as u8);
        // Acquire pairs with the Release store of a link.
        let target = match kind {
            WaitKind::Yield => TargetWord::NONE,
            _ => self.target(Acquire),
        };
        let (site, at_resource) = SiteWord::load(&self.site)?;
        let link = if target.is_linked() { Link::Direct } else { Link::None };
        let since_ms = self.since_ms.load(Relaxed);
        let wait = Wait { kind, target: target.unlinked(), site, since_ms };
        Some(RecordedWait { wait, link, at_resource, poll: PollStamp::from_word(tag) })
    }

    /// Removes the link of the record itself, as a waiter does that was linked there.
    #[cfg(test)]
    pub(crate) fn detach(&self) {
        // SAFETY: the link is direct, and the record is alive.
        unsafe { LinkWord(NonNull::from(&self.target)).detach() };
    }
}

impl Drop for WaitRecord {
    fn drop(&mut self) {
        self.clear();
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
        self.record_unlinked(wait, false);
    }

    /// Records a wait at the place where its resource was made. Its target is unlinked.
    #[inline]
    pub(crate) fn record_at_resource(self, wait: Wait) {
        self.record_unlinked(wait, true);
    }

    #[inline]
    fn record_unlinked(self, wait: Wait, at_resource: bool) {
        if self.is_first() {
            self.waiting.set_target(wait.target, Relaxed);
            self.describe(&wait, at_resource);
        } else {
            self.add(wait, Link::None, at_resource);
        }
    }

    /// Records a wait whose target is linked. Returns where, unless there are too many waits.
    #[inline]
    pub(crate) fn record_linked(self, wait: Wait) -> Option<LinkWord> {
        debug_assert!(wait.target.is_linked(), "{wait:?} is for neither a record nor a task");
        if !self.is_first() {
            return self.add(wait, Link::Direct, false);
        }
        self.describe(&wait, false);
        Some(self.attach(wait.target))
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
        if is_same && !matches!(self.waiting.tag.load(Relaxed) as u8, SET) {
            return self.describe(&wait, false);
        }
        self.record(wait);
    }

    /// Returns whether the record has no wait that must be kept beside the next one: none of this
    /// poll, and none that is linked to a resource record.
    ///
    /// A link to a task counts only in the poll that made it. The end of the task does not remove it.
    #[inline]
    fn is_first(self) -> bool {
        let tag = self.waiting.tag.load(Relaxed);
        !PollStamp::from_word(tag).same_poll(self.stamp)
            && tag as u8 != SET
            && !self.waiting.target(Relaxed).is_linked_record()
    }

    fn recorded(self, wait: Wait, link: Link, at_resource: bool) -> RecordedWait {
        let wait = Wait { target: wait.target.unlinked(), ..wait };
        RecordedWait { wait, link, at_resource, poll: self.stamp }
    }

    /// Records a wait beside those that the record has, if they must be kept.
    #[cold]
    fn add(self, wait: Wait, link: Link, at_resource: bool) -> Option<LinkWord> {
        let new = self.recorded(wait, link, at_resource);
        if let Some(set) = self.set_for_poll() {
            return self.add_to_set(set, new);
        }
        let tag = self.waiting.tag.load(Relaxed);
        let is_kept = match tag as u8 {
            // Nothing is recorded, or the wait is over.
            NOTHING | YIELD => false,
            _ if self.waiting.target(Relaxed).is_linked_record() => true,
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
        self.waiting.tag.store(u32::from(SET) | self.stamp.to_word(), Release);
        word
    }

    /// Returns the wait set of the record, without the waits of earlier polls. Releases a set that
    /// is no longer needed.
    fn set_for_poll(self) -> Option<&'static WaitSet> {
        let set = self.waiting.set()?;
        if set.begin_poll(&self.waiting.target, self.stamp) {
            self.waiting.release_set(u32::from(NOTHING));
            return None;
        }
        Some(set)
    }

    /// Gives the record a wait set, and moves its wait there.
    fn give_set(self) -> &'static WaitSet {
        let (set, tag) = (WaitSet::obtain(), self.waiting.tag.load(Relaxed));
        let target = self.waiting.target(Relaxed);
        let is_of_this_poll = PollStamp::from_word(tag).same_poll(self.stamp);
        let single = self.waiting.read_single(tag);
        let is_wait = !matches!(tag as u8, NOTHING | YIELD);
        match single.filter(|_| is_wait && (is_of_this_poll || target.is_linked_record())) {
            Some(single) => set.take_over(&single),
            None => self.waiting.set_target(TargetWord::NONE, Relaxed),
        }
        // Frees nothing of this poll, and none that is linked to a record.
        set.begin_poll(&self.waiting.target, self.stamp);
        self.waiting.since_ms.store(set.index(), Relaxed);
        set
    }

    #[inline]
    fn has_none_in_this_poll(self) -> bool {
        let tag = self.waiting.tag.load(Relaxed);
        tag as u8 == NOTHING || !PollStamp::from_word(tag).same_poll(self.stamp)
    }

    /// Records that a future inside the task yields because the budget is spent.
    pub(crate) fn record_budget_yield(self, site: &'static Location<'static>, since_ms: u32) {
        self.record_yield_as(WaitKind::Yield as u32 | self.stamp.to_word(), site, since_ms);
    }

    /// Records that the task yields. No resource holds a waker for a yield, so links stay.
    #[inline]
    pub(crate) fn record_yield(self, site: &'static Location<'static>, since_ms: u32) {
        self.record_yield_as(WaitKind::Yield as u32, site, since_ms);
    }

    #[inline]
    fn record_yield_as(self, tag: u32, site: &'static Location<'static>, since_ms: u32) {
        if self.waiting.tag.load(Relaxed) as u8 == SET {
            let kind = WaitKind::Yield;
            self.add(Wait { kind, target: TargetWord::NONE, site, since_ms }, Link::None, false);
            return;
        }
        self.waiting.describe(tag, since_ms, SiteWord::new(site, false));
    }

    #[inline]
    fn describe(self, wait: &Wait, at_resource: bool) {
        let site = SiteWord::new(wait.site, at_resource);
        self.waiting.describe(wait.kind as u32 | self.stamp.to_word(), wait.since_ms, site);
    }

    /// Replaces the site of the wait that this poll has recorded last.
    ///
    /// If this poll has recorded none, the wait becomes one of kind `Unknown` at this site.
    #[inline]
    pub(crate) fn set_site(self, site: &'static Location<'static>) {
        if self.waiting.tag.load(Relaxed) as u8 == SET {
            return self.set_site_in_set(site);
        }
        SiteWord::new(site, false).store(&self.waiting.site);
        if self.has_none_in_this_poll() {
            self.waiting.set_target(TargetWord::NONE, Relaxed);
            self.waiting.tag.store(WaitKind::Unknown as u32 | self.stamp.to_word(), Release);
        }
    }

    #[cold]
    fn set_site_in_set(self, site: &'static Location<'static>) {
        if self.has_none_in_this_poll() {
            let (kind, since_ms) = (WaitKind::Unknown, 0);
            self.add(Wait { kind, target: TargetWord::NONE, site, since_ms }, Link::None, false);
        } else if let Some(set) = self.waiting.set() {
            set.set_site(&self.waiting.target, site);
        }
    }
}
