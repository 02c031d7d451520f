//! The waits of a task that waits in several futures at once: its wait set.
//!
//! A wait record has space for one wait. When a poll records a second one, the record gets a
//! [`WaitSet`]: a few [`Slot`]s in memory that is never freed, only reused for another task. Sets are
//! in a table that only grows. The record names its set by the index in that table, so readers turn
//! no number into an address.
//!
//! - SET-1. Only the thread that polls the task obtains, fills and releases its set. Other threads
//!   only read it, and remove links.
//! - SET-2. A slot that is linked to a resource record belongs to the waiter in the list of that
//!   resource, also in later polls. The thread that removes the waiter removes the link
//!   (RECORD-1). Until then the task does not reuse the slot.
//! - SET-3. Every other slot belongs to the poll that wrote it. The first wait of the next poll
//!   frees it.
//! - SET-4. The target of slot 0 is the `target` word of the wait record itself. So a waiter that was
//!   linked before the record got a set still refers to the right word.
//!
//! The race to fear: a thread removes a link while the task writes to the same word, so that one of
//! the two writes is lost. It cannot happen. The task writes only to words that are not linked to a
//! record (SET-2), and other threads write only to words that are.
//!
//! An *indirect* link is that of a waiter with a foreign waker, made by a future that polls others
//! with wakers of its own, such as `FuturesUnordered`. Such a waiter can outlive the task, and its
//! set is then in use by another task. So an indirect link is removed by an exchange that expects the
//! link. At worst it removes an equal link of the other task, which loses information until the next
//! poll of that task. It never makes a link.

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
use std::sync::atomic::AtomicPtr as StdPtr;
use std::sync::{Mutex, MutexGuard};

/// The slots of one part of a set. Most tasks that wait in several futures wait in two or three.
const SLOTS: usize = 4;
/// The most parts of a set, so a set has at most 16 slots.
const PARTS: usize = 4;
/// A set is released after this many polls in a row that had one wait.
const SINGLES: u32 = 16;
/// The number of free lists, to keep worker threads from competing for one.
const SHARDS: usize = 8;

/// The link of the slot is indirect. Above the kind in a slot's tag.
const INDIRECT: u32 = 1 << 8;
/// The kind of a free slot.
const FREE: u8 = 0;

/// One wait of a set.
struct Slot {
    target: AtomicU64,
    site: AtomicPtr<Location<'static>>,
    since_ms: AtomicU32,
    /// The kind in bits 0 to 7, INDIRECT, and the [`PollStamp`] in the upper half.
    tag: AtomicU32,
}

impl Slot {
    fn new() -> Self {
        Self {
            target: AtomicU64::new(TargetWord::NONE.to_bits()),
            site: AtomicPtr::new(ptr::null_mut()),
            since_ms: AtomicU32::new(0),
            tag: AtomicU32::new(u32::from(FREE)),
        }
    }

    fn kind(&self) -> u8 {
        self.tag.load(Relaxed) as u8
    }

    fn describe(&self, new: &RecordedWait) {
        self.since_ms.store(new.wait.since_ms, Relaxed);
        SiteWord::new(new.wait.site, new.at_resource).store(&self.site);
        let indirect = if new.link == Link::Indirect { INDIRECT } else { 0 };
        let upper = new.poll.to_word() & !0xffff;
        // Release pairs with the Acquire load of `read`: a reader that sees the kind sees the site.
        self.tag.store(new.wait.kind as u32 | indirect | upper, Release);
    }

    fn free(&self) {
        self.tag.store(u32::from(FREE), Relaxed);
    }

    /// Reads the slot, whose target is at `word`.
    fn read(&self, word: &AtomicU64) -> Option<RecordedWait> {
        // Acquire pairs with the Release store of a link.
        let target = TargetWord::from_bits(word.load(Acquire));
        let tag = self.tag.load(Acquire);
        if tag as u8 == FREE {
            return None;
        }
        let (site, at_resource) = SiteWord::load(&self.site)?;
        let link = match () {
            () if !target.is_linked() => Link::None,
            () if tag & INDIRECT != 0 => Link::Indirect,
            () => Link::Direct,
        };
        let kind = WaitKind::from_u8(tag as u8);
        let since_ms = self.since_ms.load(Relaxed);
        let wait = Wait { kind, target: target.unlinked(), site, since_ms };
        Some(RecordedWait { wait, link, at_resource, poll: PollStamp::from_word(tag) })
    }
}

/// The waits of one task. Never freed.
pub(super) struct WaitSet {
    index: u32,
    slots: [Slot; SLOTS],
    /// The next part, once the task has waited for more than this part has slots. It stays.
    next: AtomicPtr<WaitSet>,
    /// The last poll that recorded a wait, as the upper half of a word, and OVERFLOW.
    poll: AtomicU32,
    /// The number of the slot that was written last, in bits 0 to 7. Above: how many polls in a row
    /// recorded one wait.
    last: AtomicU32,
}

/// A flag in `WaitSet::poll`: the poll has recorded more waits than there are slots.
const OVERFLOW: u32 = 1;
const ONE_SINGLE: u32 = 1 << 8;

/// All sets, in chunks that are never freed. Chunk `k` has `FIRST_CHUNK << k` entries.
///
/// A poll that records several waits reads the table each time, so reading takes no lock. std's atomics
/// also in models: a set is reached through an index that its task has published.
static CHUNKS: [StdPtr<StdPtr<WaitSet>>; 26] = [const { StdPtr::new(ptr::null_mut()) }; 26];
const FIRST_CHUNK: u32 = 64;
/// The number of sets. Locked while one is added.
static COUNT: Mutex<u32> = Mutex::new(0);

/// Returns the chunk of an index, and the position in it.
fn position(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2();
    (chunk as usize, (index - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
}

static UNUSED: [Mutex<Vec<&'static WaitSet>>; SHARDS] = [const { Mutex::new(Vec::new()) }; SHARDS];

/// Locks a free list. No foreign code runs under the lock.
fn unused(shard: usize) -> MutexGuard<'static, Vec<&'static WaitSet>> {
    ignore_poison(UNUSED[shard % SHARDS].lock())
}

/// Returns the free list of the calling thread. Threads have stacks of different pages.
fn own_shard() -> usize {
    let on_stack = 0_u8;
    ptr::from_ref(&on_stack).addr() >> 21
}

impl WaitSet {
    /// Returns a set without waits.
    pub(super) fn obtain() -> &'static WaitSet {
        let own = own_shard();
        let reused = (0..SHARDS).find_map(|shard| unused(own + shard).pop());
        reused.unwrap_or_else(Self::add_to_table)
    }

    fn add_to_table() -> &'static WaitSet {
        let mut count = ignore_poison(COUNT.lock());
        let index = *count;
        let set: &'static WaitSet = Box::leak(Box::new(WaitSet {
            index,
            slots: [Slot::new(), Slot::new(), Slot::new(), Slot::new()],
            next: AtomicPtr::new(ptr::null_mut()),
            poll: AtomicU32::new(0),
            last: AtomicU32::new(0),
        }));
        let (chunk, position) = position(index);
        let mut entries = CHUNKS[chunk].load(Relaxed);
        if entries.is_null() {
            let vacant = |_| StdPtr::new(ptr::null_mut());
            let new: Box<[_]> = (0..FIRST_CHUNK << chunk).map(vacant).collect();
            entries = Box::leak(new).as_mut_ptr();
            // Release pairs with the Acquire load of `at`.
            CHUNKS[chunk].store(entries, Release);
        }
        // SAFETY: the chunk has more entries than `position`, and is never freed.
        let entry = unsafe { &*entries.add(position) };
        // Release pairs with the Acquire load of `at`.
        entry.store(ptr::from_ref(set).cast_mut(), Release);
        *count = index.checked_add(1).expect("fewer than 2^32 tasks wait at once");
        set
    }

    /// Returns the set with this index, if there is one.
    pub(super) fn at(index: u32) -> Option<&'static WaitSet> {
        let (chunk, position) = position(index);
        let entries = CHUNKS.get(chunk)?.load(Acquire);
        if entries.is_null() {
            return None;
        }
        // SAFETY: the chunk has more entries than `position`, and is never freed. An entry is null or a
        // `&'static`.
        unsafe { (*entries.add(position)).load(Acquire).as_ref() }
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Clears the set for another task (SET-1).
    pub(super) fn release(&'static self) {
        for part in self.parts() {
            for slot in &part.slots {
                slot.free();
                slot.target.store(TargetWord::NONE.to_bits(), Relaxed);
            }
        }
        self.poll.store(0, Relaxed);
        self.last.store(0, Relaxed);
        // The atomics of one execution of a model cannot be used in the next.
        if !IS_MODEL {
            unused(own_shard()).push(self);
        }
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
        // A reader that races with a release may follow parts of another set, but not for ever.
        iter::successors(Some(self), |part| part.next()).take(PARTS)
    }

    /// Returns all slots with their target words. `first` is that of the wait record (SET-4).
    fn slots<'a>(
        &'static self,
        first: &'a AtomicU64,
    ) -> impl Iterator<Item = (&'static Slot, &'a AtomicU64)> {
        let slots = self.parts().flat_map(|part| &part.slots);
        slots.enumerate().map(move |(n, slot)| (slot, if n == 0 { first } else { &slot.target }))
    }

    /// Moves the only wait of a record to slot 0. Its target stays where it is (SET-4).
    pub(super) fn take_over(&self, single: &RecordedWait) {
        self.slots[0].describe(single);
        self.poll.store(single.poll.to_word() & !0xffff, Relaxed);
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
        self.poll.store(stamp.to_word() & !0xffff, Relaxed);
        links == 0 && singles >= SINGLES
    }

    /// Records a wait of the poll that [`begin_poll`](Self::begin_poll) was called for.
    ///
    /// Returns the word of its target, or `None` if all slots are in use.
    pub(super) fn add(&'static self, first: &AtomicU64, new: &RecordedWait) -> Option<LinkWord> {
        let equal = self.equal_slot(first, new);
        let is_known = equal.is_some();
        let Some((number, slot, word)) = equal.or_else(|| self.free_slot(first, new.link)) else {
            self.poll.fetch_or(OVERFLOW, Relaxed);
            return None;
        };
        self.set_last(number);
        if is_known && let Some(own) = slot.read(word).filter(|own| own.link != Link::None) {
            // It began when it was linked, and stays linked.
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
    /// Each waiter that is linked to a resource record has a slot of its own.
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
                // Linked, and described only now.
                let is_new_link = own.link != Link::None && own.wait.kind == WaitKind::Unknown;
                own.is_same(&new.wait) || (is_new_link && own.wait.target == new.wait.target)
            })
        };
        let mut slots = self.slots(first).enumerate();
        slots
            .find(|(_, (slot, word))| is_equal(slot, word))
            .map(|(n, (slot, word))| (n, slot, word))
    }

    /// Returns a free slot for a wait with this link. Adds a part to the set if there is none.
    ///
    /// An indirect link never gets slot 0, whose word is in the wait record (SET-4): the foreign waker
    /// in the list does not keep that record alive.
    fn free_slot<'a>(
        &'static self,
        first: &'a AtomicU64,
        link: Link,
    ) -> Option<(usize, &'static Slot, &'a AtomicU64)> {
        let find = || {
            let is_free = |slot: &Slot, word: &AtomicU64| {
                // A link without a description is left over from another task (SET-2).
                let target = TargetWord::from_bits(word.load(Relaxed));
                slot.kind() == FREE || !(target.is_linked_record() || self.is_current(slot))
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

    /// Replaces the time when the waits of the last poll began.
    pub(super) fn set_since_ms(&'static self, first: &AtomicU64, since_ms: u32) {
        for (slot, _) in self.slots(first).filter(|(slot, _)| self.is_current(slot)) {
            slot.since_ms.store(since_ms, Relaxed);
        }
    }

    /// Returns whether the set has the slot with this target word.
    pub(super) fn has_word(&'static self, first: &AtomicU64, word: *const AtomicU64) -> bool {
        self.slots(first).any(|(_, own)| ptr::eq(own, word))
    }

    /// Removes the link to this target, if there is one.
    pub(super) fn detach_target(&'static self, first: &AtomicU64, linked: TargetWord) {
        for (_, word) in self.slots(first) {
            LinkWord::detach_expected(word, linked);
        }
    }

    /// Returns the waits, and whether they are all: those of the last poll that recorded one, and
    /// those with a link.
    pub(super) fn read(&'static self, first: &AtomicU64) -> (Vec<RecordedWait>, bool) {
        let is_complete = self.poll.load(Acquire) & OVERFLOW == 0;
        let slots = self.slots(first).filter_map(|(slot, word)| slot.read(word));
        let counts = |wait: &RecordedWait| wait.link != Link::None || self.is_in_poll(wait.poll);
        (slots.filter(counts).collect(), is_complete)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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

    /// More waits than slots: the set says so, and the next poll starts again.
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
                // Recorded twice, it is one wait.
                assert!(set.add(&first, &wait(number, stamp)).is_none());
                set.add(&first, &wait(number, stamp));
            }
            let (read, is_complete) = set.read(&first);
            assert_eq!((read.len() as u32, is_complete), (waits.min(16), waits <= 16), "{waits}");
        }
        set.release();
    }
}
