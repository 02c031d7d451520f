//! The record of what a task waits for, written by its leaf futures and read by other threads.
//!
//! Actors: a *leaf future* that returns `Pending` writes the record of the task that polls it, with
//! a few plain stores ([`WaitWriter`]). The *thread that removes the task's waiter* from a wait
//! list detaches the link. *Diagnostics* (dumps, reports, the deadlock scanner) read at any time.
//!
//! A wait is *linked* if a waker is known to be queued at the recorded target ([`Link`]). A direct
//! link is exact (`RECORD-1` in `wait::ownership::resource_record`): the deadlock scanner proves
//! from direct links alone that only these resources can wake the task.
//!
//! The record itself has space for one wait. A second wait in the same poll moves both waits to a
//! wait set ([`wait_set`](super::wait_set)), on a cold path. So does a wait in a later poll while
//! the first is still linked to a resource, because the task is still queued at that resource.

mod words;
mod writer;

pub(crate) use words::LinkWord;
pub(super) use words::SiteWord;
pub(crate) use writer::WaitWriter;

use super::poll_stamp::PollStamp;
use super::wait_kind::WaitKind;
use super::wait_set::WaitSet;
use super::wait_target::TargetWord;
use crate::sys::sort::sort_by_key;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::*};
use std::panic::Location;

/// The waits that a task recorded last; part of the task's header.
pub(crate) struct WaitRecord {
    /// A [`TargetWord`]: kind, link and value in one word, so that readers see all or none of a
    /// write.
    ///
    /// The thread that polls the task writes this word, through `set_target` or as slot 0 of the
    /// wait set (SET-4). While the word is linked to a resource record, only the thread that
    /// removes the waiter writes it (SET-2).
    target: AtomicU64,
    /// The site of the wait: a [`SiteWord`].
    site: AtomicPtr<Location<'static>>,
    /// When the wait began, in milliseconds of the runtime's clock. With the kind SET: the index of
    /// the wait set.
    since_ms: AtomicU32,
    /// Several values, so that a record takes one store:
    ///
    /// - bits 0 to 7: the [`WaitKind`], or NOTHING, or SET,
    /// - bits 8 to 15: the task's outcome (`cell::outcome`), written under TASK-1 before COMPLETE,
    /// - bits 16 to 30: the [`PollStamp`] of the poll that wrote the record,
    /// - bit 31: set exactly if the kind is SET (`SET_FLAG`).
    ///
    /// The outcome is here because there is space. It never coexists with a kind, because a task
    /// that has ended does not wait.
    tag: AtomicU32,
}

/// The kind in a tag without a wait: nothing is recorded, or the task has ended.
const NOTHING: u8 = 0;
const YIELD: u8 = WaitKind::Yield as u8;
/// The kind in the tag of a record whose waits are in a wait set. No [`WaitKind`] has this number.
const SET: u8 = 254;
/// The sign bit of a tag whose kind is SET. One signed comparison distinguishes a wait of an
/// earlier poll from a wait of this poll and from a set (`WaitWriter::is_first`).
const SET_FLAG: u32 = 1 << 31;
const OUTCOME_SHIFT: u32 = 8;

/// A recorded wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) kind: WaitKind,
    pub(crate) target: TargetWord,
    pub(crate) site: &'static Location<'static>,
    pub(crate) since_ms: u32,
}

/// Whether a wait is linked, and through which waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The location of the task's waker is unknown.
    None,
    /// The task's own waker is queued at the target (RECORD-1).
    Direct,
    /// A foreign waker is queued at the target. The task polls the waiting future through a future
    /// that creates its own wakers, such as `FuturesUnordered`.
    Indirect,
}

/// A wait of a record, with its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedWait {
    /// The wait, with the link flag removed from its target.
    pub(crate) wait: Wait,
    pub(crate) link: Link,
    /// Whether the site of the wait is the site where the resource was created.
    pub(crate) at_resource: bool,
    /// The poll that recorded the wait.
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
        // `set_site` may have replaced the site of a wait for a descriptor or a task.
        let site_counts = !wait.kind.is_for_descriptor() && wait.kind != WaitKind::Join;
        self.wait.kind == wait.kind
            && self.wait.target == wait.target
            && (!site_counts || std::ptr::eq(self.wait.site, wait.site))
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

    /// Removes the outcome of the previous task in this cell, whose waits `set_outcome` has
    /// removed.
    #[inline]
    pub(crate) fn clear_outcome(&self) {
        self.store_outcome(0);
    }

    /// Returns the task's outcome, or 0 if it has not ended.
    #[inline]
    pub(crate) fn outcome(&self) -> u8 {
        (self.tag.load(Relaxed) >> OUTCOME_SHIFT) as u8
    }

    /// Stores the task's outcome, and removes the waits.
    #[inline]
    pub(crate) fn set_outcome(&self, outcome: u8) {
        self.replace_tag(u32::from(outcome) << OUTCOME_SHIFT);
    }

    /// Replaces the outcome of a task that has ended, whose waits are already removed.
    #[inline]
    pub(crate) fn store_outcome(&self, outcome: u8) {
        debug_assert!(!self.has_set(), "the task has not ended");
        self.tag.store(u32::from(outcome) << OUTCOME_SHIFT, Relaxed);
    }

    #[inline]
    fn replace_tag(&self, tag: u32) {
        if self.has_set() {
            self.release_set(tag);
        } else {
            self.tag.store(tag, Relaxed);
        }
    }

    /// Returns whether the waits are in a wait set. Only for the thread that polls the task.
    #[inline]
    fn has_set(&self) -> bool {
        self.tag.load(Relaxed) & SET_FLAG != 0
    }

    /// Replaces the tag of a record with a wait set, and releases the set.
    #[cold]
    fn release_set(&self, tag: u32) {
        let set = self.set();
        self.tag.store(tag, Relaxed);
        // The target of slot 0 belongs to the record again (SET-4), unless it is linked (SET-2).
        if !self.target(Relaxed).is_linked_record() {
            self.set_target(TargetWord::NONE, Relaxed);
        }
        if let Some(set) = set {
            set.release();
        }
    }

    /// Returns the wait set, if the tag says that the record has one.
    ///
    /// The thread that polls the task gets the task's set. Another thread may get another task's
    /// set.
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

    /// Removes the link to `task`, whose join waker is being dropped.
    ///
    /// Uses an exchange, because the waiting task may write the same word on another thread.
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

    /// Writes all fields of a single wait except the target.
    #[inline]
    fn describe(&self, tag: u32, since_ms: u32, site: SiteWord) {
        self.since_ms.store(since_ms, Relaxed);
        site.store(&self.site);
        // Release pairs with the Acquire load of `waits`. So a reader that sees this kind does not
        // see the site of the previous task in this cell.
        self.tag.store(tag, Release);
    }

    /// Replaces only the time when the waits of the last poll began.
    pub(crate) fn set_since_ms(&self, since_ms: u32) {
        match self.set() {
            Some(set) => set.set_since_ms(&self.target, since_ms),
            None => self.since_ms.store(since_ms, Relaxed),
        }
    }

    /// Returns the first of [`waits`](Self::waits): the wait that explains most.
    pub(crate) fn read(&self) -> Option<Wait> {
        self.waits().0.first().map(|recorded| recorded.wait)
    }

    /// Returns all recorded waits, and whether the record had space for all of them.
    ///
    /// The waits are sorted by how much they explain: a lock before a channel, and a timer last.
    /// Their order does not depend on the order in which the task polled them.
    ///
    /// The fields are read one by one. A reader that races with the task may combine fields of two
    /// records, but never reads half of a field.
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
        sort_by_key(&mut waits.0, |RecordedWait { wait, link, .. }| {
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

    /// Removes the link of the record itself, as a waiter linked there would.
    #[cfg(test)]
    pub(crate) fn detach(&self) {
        // SAFETY: the link is direct, and the record is alive.
        unsafe { LinkWord(std::ptr::NonNull::from(&self.target)).detach() };
    }
}

impl Drop for WaitRecord {
    fn drop(&mut self) {
        self.clear();
    }
}
