//! The wait set: the waits of a task that waits in several futures at once.
//!
//! A wait record has space for one wait. When a poll records a second one, the record gets a
//! [`WaitSet`], which has a few [`Slot`]s. Its memory is never freed, only reused for another task.
//! Sets are in a table that only grows. The record identifies its set by the index in that table,
//! so readers never convert a number into an address.
//!
//! - SET-1. Only the thread that polls the task obtains, fills and releases its set. Other threads
//!   only read it, and remove links.
//! - SET-2. A target word that is linked to a resource record belongs to the waiter in that
//!   resource's list, even in later polls and after the end of the task. Only the thread that
//!   removes the waiter writes to the word, and removes the link (RECORD-1). Until then no task
//!   reuses the word.
//! - SET-3. Every other slot belongs to the poll that wrote it. The first wait of the next poll
//!   frees the slot.
//! - SET-4. The target of slot 0 is the `target` word of the wait record itself. So a waiter that
//!   was linked before the record got a set still refers to the correct word.
//!
//! The race to fear: a thread removes a link while a task writes to the same word, and one of the
//! two writes is lost. It cannot happen (SET-2). A task writes only to words that are not linked to
//! a record. The thread that removes a waiter writes only to the word that its waiter has linked. So
//! a direct link is removed by a load and a plain store.
//!
//! A waiter can outlive the task that created its link. Its future was moved out of the task, or is
//! inside a future with its own wakers, such as `FuturesUnordered` (an *indirect* link). Then the
//! set of the ended task is *lingering*: no task obtains it before its last link is removed. A
//! leaked waiter keeps such a set forever.
//!
//! An indirect link is removed by an exchange that expects the link. By SET-2 the exchange always
//! succeeds, so a plain store would suffice. The exchange only limits the damage if a caller
//! violates SET-2: it cannot overwrite the wait of another task.

mod slot;
mod table;

use self::slot::{FREE, Slot};
use self::table::{LINGERING, own_shard, unused};
use super::poll_stamp::PollStamp;
use super::wait_kind::WaitKind;
use super::wait_record::{Link, LinkWord, RecordedWait, SiteWord, Wait};
use super::wait_target::TargetWord;
use crate::sys::IS_MODEL;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::sys::sync::ignore_poison;
use std::iter;
use std::panic::Location;
use std::ptr::{self, NonNull};

/// The number of slots of one part of a set. Most tasks that wait in several futures wait in two or
/// three.
const SLOTS: usize = 4;
/// The maximum number of parts of a set, so a set has at most 16 slots.
const PARTS: usize = 4;
/// The number of consecutive polls with one wait after which a set is released.
const SINGLES: u32 = 16;

/// The waits of one task. Never freed.
pub(super) struct WaitSet {
    index: u32,
    slots: [Slot; SLOTS],
    /// The next part, added once the task has more waits than this part has slots, and kept.
    next: AtomicPtr<WaitSet>,
    /// The last poll that recorded a wait, as a [`PollStamp`], and OVERFLOW.
    poll: AtomicU32,
    /// Bits 0 to 7: the number of the slot that was written last. Above: the number of consecutive
    /// polls that recorded one wait.
    last: AtomicU32,
}

/// A flag in `WaitSet::poll`: the poll has recorded more waits than there are slots.
const OVERFLOW: u32 = 1;
const ONE_SINGLE: u32 = 1 << 8;

impl WaitSet {
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Clears the set for another task (SET-1), which gets it once no slot is linked (SET-2).
    pub(super) fn release(&'static self) {
        for slot in self.parts().flat_map(|part| &part.slots) {
            slot.free();
            if !slot.is_linked() {
                slot.target.store(TargetWord::NONE.to_bits(), Relaxed);
            }
        }
        self.poll.store(0, Relaxed);
        self.last.store(0, Relaxed);
        // The atomics of one model execution cannot be used in the next.
        if IS_MODEL {
            return;
        }
        let mut list =
            if self.has_links() { ignore_poison(LINGERING.lock()) } else { unused(own_shard()) };
        list.push(self);
    }

    /// Returns whether any slot's own target word is linked, except slot 0, whose word is in the
    /// wait record (SET-4).
    fn has_links(&'static self) -> bool {
        self.parts().flat_map(|part| &part.slots).any(Slot::is_linked)
    }

    fn next(&self) -> Option<&'static WaitSet> {
        // SAFETY: only `next_or_new` stores here, and only a `&'static`.
        unsafe { self.next.load(Acquire).as_ref() }
    }

    fn next_or_new(&self) -> &'static WaitSet {
        self.next().unwrap_or_else(|| {
            let new = Self::obtain();
            // Release pairs with the Acquire load of `next`.
            self.next.store(ptr::from_ref(new).cast_mut(), Release);
            new
        })
    }

    fn parts(&'static self) -> impl Iterator<Item = &'static WaitSet> {
        // A reader that races with a release may follow parts of another set; the limit bounds
        // that.
        iter::successors(Some(self), |part| part.next()).take(PARTS)
    }

    /// Returns all slots with their target words. `first` is the wait record's target word (SET-4).
    fn slots<'a>(
        &'static self,
        first: &'a AtomicU64,
    ) -> impl Iterator<Item = (&'static Slot, &'a AtomicU64)> {
        let slots = self.parts().flat_map(|part| &part.slots);
        slots.enumerate().map(move |(n, slot)| (slot, if n == 0 { first } else { &slot.target }))
    }

    /// Moves the only wait of a record to slot 0, without moving its target (SET-4).
    pub(super) fn take_over(&self, single: &RecordedWait) {
        self.slots[0].describe(single);
        self.poll.store(single.poll.to_word(), Relaxed);
    }

    fn is_in_poll(&self, stamp: PollStamp) -> bool {
        PollStamp::from_word(self.poll.load(Relaxed)).same_poll(stamp)
    }

    /// Frees the waits of earlier polls (SET-3), before the first wait of a poll is recorded.
    ///
    /// Returns whether the record no longer needs the set.
    pub(super) fn begin_poll(&'static self, first: &AtomicU64, stamp: PollStamp) -> bool {
        if self.is_in_poll(stamp) {
            return false;
        }
        let (mut used, mut links) = (0, 0);
        for (slot, word) in self.slots(first) {
            used += u32::from(slot.kind() != FREE);
            match TargetWord::from_bits(word.load(Relaxed)) {
                target if target.is_linked_record() && slot.kind() != FREE => links += 1,
                _ => slot.free(),
            }
        }
        let singles = self.last.load(Relaxed) / ONE_SINGLE;
        let singles = if used <= 1 { singles + 1 } else { 0 };
        self.last.store(singles.min(SINGLES) * ONE_SINGLE, Relaxed);
        self.poll.store(stamp.to_word(), Relaxed);
        links == 0 && singles >= SINGLES
    }

    /// Records a wait of the poll that [`begin_poll`](Self::begin_poll) was called for.
    ///
    /// Returns the word of the wait's target, or `None` if all slots are in use.
    pub(super) fn add(&'static self, first: &AtomicU64, new: &RecordedWait) -> Option<LinkWord> {
        let equal = self.equal_slot(first, new);
        let is_known = equal.is_some();
        let Some((number, slot, word)) = equal.or_else(|| self.free_slot(first, new.link)) else {
            self.poll.fetch_or(OVERFLOW, Relaxed);
            return None;
        };
        self.set_last(number);
        if is_known && let Some(own) = slot.read(word).filter(|own| own.link != Link::None) {
            // The wait began when it was linked, and stays linked.
            let wait = Wait { since_ms: own.wait.since_ms, ..new.wait };
            slot.describe(&RecordedWait { wait, link: own.link, ..*new });
        } else {
            slot.describe(new);
            // Release pairs with the Acquire load of `Slot::read`: a reader that sees the link sees
            // the kind.
            word.store(new.target().to_bits(), Release);
        }
        (new.link != Link::None).then(|| LinkWord::new(NonNull::from(word), new.link))
    }

    fn set_last(&self, number: usize) {
        let singles = self.last.load(Relaxed) & !(ONE_SINGLE - 1);
        self.last.store(singles | number as u32, Relaxed);
    }

    /// Returns the slot that already records this wait.
    ///
    /// Each waiter that is linked to a resource record has its own slot.
    fn equal_slot<'a>(
        &'static self,
        first: &'a AtomicU64,
        new: &RecordedWait,
    ) -> Option<(usize, &'static Slot, &'a AtomicU64)> {
        if new.target().is_linked_record() {
            return None;
        }
        let is_equal = |slot: &Slot, word: &AtomicU64| {
            slot.read(word).is_some_and(|own| {
                // The waiter was linked earlier (`WaitLink::replace`), and is described only now.
                let is_new_link = own.link != Link::None && own.wait.kind == WaitKind::Unknown;
                own.is_same(&new.wait) || (is_new_link && own.wait.target == new.wait.target)
            })
        };
        let mut slots = self.slots(first).enumerate();
        slots
            .find(|(_, (slot, word))| is_equal(slot, word))
            .map(|(n, (slot, word))| (n, slot, word))
    }

    /// Returns a free slot for a wait with this link, and adds a part to the set if necessary.
    ///
    /// An indirect link never gets slot 0, whose word is in the wait record (SET-4). The foreign
    /// waker in the list does not keep that record alive.
    fn free_slot<'a>(
        &'static self,
        first: &'a AtomicU64,
        link: Link,
    ) -> Option<(usize, &'static Slot, &'a AtomicU64)> {
        let find = || {
            let is_free = |slot: &Slot, word: &AtomicU64| {
                let target = TargetWord::from_bits(word.load(Relaxed));
                let is_unused = slot.kind() == FREE || !self.is_current(slot);
                is_unused && !target.is_linked_record()
            };
            let mut slots = self.slots(first).enumerate().skip(usize::from(link == Link::Indirect));
            slots.find(|(_, (slot, word))| is_free(slot, word))
        };
        let found = find().or_else(|| {
            let parts = self.parts().count();
            let last = self.parts().last().filter(|_| parts < PARTS)?;
            last.next_or_new();
            find()
        });
        found.map(|(n, (slot, word))| (n, slot, word))
    }

    fn is_current(&self, slot: &Slot) -> bool {
        self.is_in_poll(PollStamp::from_word(slot.tag.load(Relaxed)))
    }

    /// Replaces the site of the wait that was recorded last.
    pub(super) fn set_site(&'static self, first: &AtomicU64, site: &'static Location<'static>) {
        let last = self.last.load(Relaxed) % ONE_SINGLE;
        if let Some((slot, _)) = self.slots(first).nth(last as usize) {
            SiteWord::new(site, false).store(&slot.site);
        }
    }

    /// Replaces the start time of the waits of the last poll.
    pub(super) fn set_since_ms(&'static self, first: &AtomicU64, since_ms: u32) {
        for (slot, _) in self.slots(first).filter(|(slot, _)| self.is_current(slot)) {
            slot.since_ms.store(since_ms, Relaxed);
        }
    }

    /// Returns whether the set has a slot with this target word.
    pub(super) fn has_word(&'static self, first: &AtomicU64, word: *const AtomicU64) -> bool {
        self.slots(first).any(|(_, own)| ptr::eq(own, word))
    }

    /// Removes the link to this target, if any.
    pub(super) fn detach_target(&'static self, first: &AtomicU64, linked: TargetWord) {
        for (_, word) in self.slots(first) {
            LinkWord::detach_expected(word, linked);
        }
    }

    /// Returns the waits of the last poll that recorded one, and all linked waits.
    ///
    /// Also returns whether the set had space for all of them.
    pub(super) fn read(&'static self, first: &AtomicU64) -> (Vec<RecordedWait>, bool) {
        let is_complete = self.poll.load(Acquire) & OVERFLOW == 0;
        let slots = self.slots(first).filter_map(|(slot, word)| slot.read(word));
        let counts = |wait: &RecordedWait| wait.link != Link::None || self.is_in_poll(wait.poll);
        (slots.filter(counts).collect(), is_complete)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::table::{COUNT, FIRST_CHUNK, position};
    use super::*;
    use crate::task::wait_target::RecordIndex;

    #[test]
    fn every_index_has_a_position_of_its_own() {
        let mut next = (0, 0);
        for index in 0..FIRST_CHUNK * 31 {
            assert_eq!(position(index), next, "{index}");
            let is_last = next.1 + 1 == (FIRST_CHUNK as usize) << next.0;
            next = if is_last { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        assert!(WaitSet::at(u32::MAX).is_none() && WaitSet::at(FIRST_CHUNK << 24).is_none());
    }

    #[test]
    fn sets_are_found_by_their_index_and_reused() {
        let sets: Vec<_> = (0..200).map(|_| WaitSet::obtain()).collect();
        for set in &sets {
            assert!(ptr::eq(WaitSet::at(set.index()).unwrap(), *set));
        }
        sets.into_iter().for_each(WaitSet::release);
        let before = *COUNT.lock().unwrap();
        for _ in 0..10_000 {
            WaitSet::obtain().release();
        }
        let grown = *COUNT.lock().unwrap() - before;
        assert!(grown < 1_000, "{grown} new sets for one at a time");
    }

    /// A waiter that outlives its task keeps the slot that it has linked (SET-2).
    #[test]
    fn a_set_is_not_reused_while_a_waiter_is_linked() {
        let (set, first) = (WaitSet::obtain(), AtomicU64::new(TargetWord::NONE.to_bits()));
        let (target, site) = (TargetWord::of_record(RecordIndex(7)), Location::caller());
        let wait = Wait { kind: WaitKind::Mutex, target, site, since_ms: 0 };
        let poll = PollStamp::from_doubled(2);
        let new = RecordedWait { wait, link: Link::Indirect, at_resource: false, poll };
        let word = set.add(&first, &new).expect("there is space");
        set.release();
        let obtain_until_new = || {
            let mut sets = Vec::new();
            loop {
                let before = *COUNT.lock().unwrap();
                sets.push(WaitSet::obtain());
                if sets.last().is_some_and(|new| new.index() >= before) {
                    return sets;
                }
            }
        };
        let sets = obtain_until_new();
        assert!(!sets.iter().any(|other| ptr::eq(*other, set)), "it is still linked");
        sets.into_iter().for_each(WaitSet::release);
        assert!(set.has_links(), "only the waiter removes its link");
        word.detach_indirect(target.linked());
        // Without its link the set is obtained again, here or by a test on another thread.
        let is_lingering = || LINGERING.lock().unwrap().iter().any(|other| ptr::eq(*other, set));
        let mut sets = Vec::new();
        while is_lingering() {
            sets.push(WaitSet::obtain());
            assert!(sets.len() < 100_000, "it is never obtained again");
        }
        sets.into_iter().for_each(WaitSet::release);
    }

    /// With more waits than slots, the set reports the overflow, and the next poll starts anew.
    #[test]
    fn a_set_is_bounded() {
        let (set, first) = (WaitSet::obtain(), AtomicU64::new(TargetWord::NONE.to_bits()));
        let wait = |number: u32, poll| {
            let (kind, site) = (WaitKind::Notified, Location::caller());
            let wait = Wait { kind, target: TargetWord::of_u32(number), site, since_ms: 0 };
            RecordedWait { wait, link: Link::None, at_resource: false, poll }
        };
        for (poll, waits) in [(2, 16), (4, 17), (6, 3), (8, 1)] {
            let stamp = PollStamp::from_doubled(poll);
            set.begin_poll(&first, stamp);
            for number in 0..waits {
                // A wait that is recorded twice counts once.
                assert!(set.add(&first, &wait(number, stamp)).is_none());
                set.add(&first, &wait(number, stamp));
            }
            let (read, is_complete) = set.read(&first);
            assert_eq!((read.len() as u32, is_complete), (waits.min(16), waits <= 16), "{waits}");
        }
        set.release();
    }
}
