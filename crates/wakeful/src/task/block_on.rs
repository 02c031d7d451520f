//! The future of `block_on`, as far as it is like a task: it waits for things,
//! holds things and spawns tasks. It has no cell; what can be told of it is here.

use super::poll_stamp::PollStamp;
use super::wait_record::{WaitRecord, WaitWriter};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::task::{RawWakerVTable, Waker};

/// Marks the number of a root, which is no [`Id`](super::Id). No bit above it is set in
/// any number, so that there is room for flags beside one.
const ROOT: u64 = 1 << 60;

/// Whether this is the number of a root and not of a task.
#[inline]
pub(crate) fn is_block_on_id(id: u64) -> bool {
    id & ROOT != 0
}

/// What is known of one thread's `block_on`. Written by that thread, read by anybody.
pub(crate) struct BlockOnRecord {
    /// Counts down from the end of 32 bits, so that it shares its lower half, which
    /// is what tasks remember of their parent, with no task.
    pub(crate) id: u64,
    pub(crate) waiting: WaitRecord,
    /// Goes up by two with every poll; odd while none is going on.
    rests: AtomicU32,
    /// What that was when `block_on` was called.
    began: AtomicU32,
    /// How often it was woken in its own poll. Written by the thread that is in there.
    self_wakes: AtomicU32,
    /// The poll in which such a wake-up was counted, or is not to be.
    woken_in: AtomicU32,
    /// Milliseconds of the runtime's clock when it first had to wait, or UNKNOWN.
    spawned_ms: AtomicU32,
    /// Where `block_on` was called; null before.
    site: AtomicPtr<Location<'static>>,
    /// The data of the waker that this root is polled with, and what its clones do with it.
    waker: AtomicPtr<()>,
    waker_vtable: AtomicPtr<RawWakerVTable>,
    /// Tells the scheduler whose `block_on` it is from others, one byte further on if it was
    /// called on a handle; null between two.
    home: AtomicPtr<()>,
}

/// What `block_on` was called on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOnVia {
    /// Borrowed until it returns, so nobody can shut it down.
    Runtime = 0,
    /// The runtime may be shut down by whoever has it, which ends what is waited for.
    Handle = 1,
}

/// It had not to wait yet.
const UNKNOWN: u32 = u32::MAX;
/// No poll has an odd number.
const NO_POLL: u32 = u32::MAX;

impl BlockOnRecord {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(u32::MAX as u64);
        Self {
            id: ROOT | NEXT.fetch_sub(1, Relaxed) & u64::from(u32::MAX),
            waiting: WaitRecord::nothing(),
            rests: AtomicU32::new(0),
            began: AtomicU32::new(0),
            self_wakes: AtomicU32::new(0),
            woken_in: AtomicU32::new(NO_POLL),
            spawned_ms: AtomicU32::new(UNKNOWN),
            site: AtomicPtr::new(ptr::null_mut()),
            waker: AtomicPtr::new(ptr::null_mut()),
            waker_vtable: AtomicPtr::new(ptr::null_mut()),
            home: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// One `block_on` begins, of the scheduler `home`.
    pub(crate) fn begin(
        &self,
        site: &'static Location<'static>,
        home: *const (),
        through: BlockOnVia,
    ) {
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        self.waiting.clear();
        self.spawned_ms.store(UNKNOWN, Relaxed);
        let began = (self.rests.load(Relaxed) | 1).wrapping_add(1);
        self.rests.store(began, Relaxed);
        self.began.store(began, Relaxed);
        let home = home.cast_mut().cast::<u8>().wrapping_add(through as usize);
        self.home.store(home.cast(), Relaxed);
    }

    /// It has to wait, at this moment.
    pub(crate) fn record_first_wait(&self, now_ms: u32) {
        if self.spawned_ms.load(Relaxed) == UNKNOWN {
            self.spawned_ms.store(now_ms.min(UNKNOWN - 1), Relaxed);
        }
    }

    /// When it first had to wait, if it had to.
    pub(crate) fn first_waited_ms(&self) -> Option<u32> {
        Some(self.spawned_ms.load(Relaxed)).filter(|spawned_ms| *spawned_ms != UNKNOWN)
    }

    /// It ends.
    pub(crate) fn end(&self) {
        self.home.store(ptr::null_mut(), Relaxed);
    }

    /// Whether it is a `block_on` of this scheduler.
    pub(crate) fn belongs_to(&self, home: *const ()) -> bool {
        self.home.load(Relaxed).addr() & !(BlockOnVia::Handle as usize) == home.addr()
    }

    /// A poll begins: of one that rested before, or the first.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        self.rests.store(self.rests.load(Relaxed) & !1, Relaxed);
    }

    /// The poll has ended, and was not the last.
    #[inline]
    pub(crate) fn end_poll(&self) {
        // Release: who sees the end of the poll sees what it wrote.
        self.rests.store((self.rests.load(Relaxed) | 1).wrapping_add(2), Release);
    }

    pub(crate) fn is_polled(&self) -> bool {
        self.rests.load(Acquire).is_multiple_of(2)
    }

    /// Polls that have begun.
    pub(crate) fn polls(&self) -> u32 {
        let rests = self.rests.load(Acquire);
        let ended = rests.wrapping_sub(self.began.load(Relaxed)) / 2;
        ended + u32::from(rests.is_multiple_of(2))
    }

    /// Which poll is going on, of all that the thread ever had here; odd: none is.
    pub(crate) fn poll(&self) -> u32 {
        self.rests.load(Acquire)
    }

    /// What tells this poll, or the last one, from those before; for records.
    pub(crate) fn poll_stamp(&self) -> PollStamp {
        let rests = self.rests.load(Acquire);
        // Odd, it has gone on by one already.
        PollStamp::from_doubled(if rests.is_multiple_of(2) { rests } else { rests.wrapping_sub(3) })
    }

    /// Where it says what it waits for.
    pub(super) fn wait_writer(&self) -> WaitWriter<'_> {
        WaitWriter { waiting: &self.waiting, stamp: self.poll_stamp() }
    }

    /// The thread that is in there wakes it.
    #[inline]
    pub(crate) fn count_self_wake(&self) {
        let poll = self.rests.load(Relaxed);
        // Once per poll, however often it wakes itself.
        if poll.is_multiple_of(2) && self.woken_in.load(Relaxed) != poll {
            self.woken_in.store(poll, Relaxed);
            self.self_wakes.store(self.self_wakes.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// This poll has run tasks, of which more are to be run: if it wakes itself now, that
    /// is not spinning.
    pub(crate) fn mark_worked(&self) {
        self.woken_in.store(self.rests.load(Relaxed), Relaxed);
    }

    pub(crate) fn self_wakes(&self) -> u32 {
        self.self_wakes.load(Relaxed)
    }

    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.waker.store(waker.data().cast_mut(), Relaxed);
        self.waker_vtable.store(ptr::from_ref(waker.vtable()).cast_mut(), Relaxed);
    }

    /// Whether this waker is one of ours for it. Somebody else's may have the same data.
    pub(super) fn is_waker(&self, waker: &Waker) -> bool {
        ptr::eq(self.waker.load(Relaxed), waker.data())
            && ptr::eq(self.waker_vtable.load(Relaxed), waker.vtable())
    }

    pub(crate) fn site(&self) -> Option<&'static Location<'static>> {
        // SAFETY: only `begin` stores here, and only `&'static`s.
        unsafe { self.site.load(Relaxed).as_ref() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BlockOnRecord, BlockOnVia};
    use std::panic::Location;
    use std::ptr;

    #[test]
    fn it_wakes_itself_once_per_poll_and_not_for_the_work_of_others() {
        let note = BlockOnRecord::new();
        note.begin(Location::caller(), ptr::null(), BlockOnVia::Runtime);
        let poll = |worked: bool, wakes: u32| {
            note.begin_poll();
            if worked {
                note.mark_worked();
            }
            (0..wakes).for_each(|_| note.count_self_wake());
            note.end_poll();
            note.self_wakes()
        };
        let counts = [poll(false, 2), poll(true, 1), poll(false, 0), poll(false, 1)];
        assert_eq!(counts, [1, 1, 1, 2]);
        note.count_self_wake();
        assert_eq!(note.self_wakes(), 2, "nobody polls it");
    }
}
