//! The diagnostic record of a `block_on` future.
//!
//! The future of `block_on` is not a task and has no cell, but waits, holds locks and spawns tasks
//! as a task does. Its thread writes the record; dumps, reports and the watchdog read it.

use super::context;
use super::header::FutureMemory;
use super::poll_stamp::PollStamp;
use super::wait_record::{WaitRecord, WaitWriter};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::task::{RawWakerVTable, Waker};

/// The bit that distinguishes the id of a `block_on` future from a task's [`Id`](super::Id). Ids
/// have no bits above it, so those can store flags.
const BLOCK_ON_BIT: u64 = 1 << 60;

/// Returns whether this is the id of a `block_on` future rather than a task.
#[inline]
pub(crate) fn is_block_on_id(id: u64) -> bool {
    id & BLOCK_ON_BIT != 0
}

/// The diagnostic record of one thread's `block_on`, written by that thread and read by any.
pub(crate) struct BlockOnRecord {
    /// The lower half counts down from `u32::MAX`. Tasks store the lower half of their parent's id,
    /// and no task's id is that high.
    pub(crate) id: u64,
    pub(crate) waiting: WaitRecord,
    /// Twice the number of polls: even while the future is being polled, odd between polls.
    poll_counter: AtomicU32,
    /// The value of `poll_counter` when `block_on` was called.
    counter_at_start: AtomicU32,
    /// The number of polls that woke the future from inside.
    self_wakes: AtomicU32,
    /// The value of `poll_counter` in the poll whose self-wake is already counted or must not count.
    self_wake_seen_in: AtomicU32,
    /// When the future first returned `Pending`, in milliseconds of the runtime's clock, or UNKNOWN.
    first_waited_ms: AtomicU32,
    /// Where `block_on` was called; null before the first call.
    site: AtomicPtr<Location<'static>>,
    /// The address and size of the future; 0 if unknown.
    future: AtomicPtr<()>,
    future_len: AtomicU32,
    /// The data and the vtable of the waker that the future is polled with.
    waker: AtomicPtr<()>,
    waker_vtable: AtomicPtr<RawWakerVTable>,
    /// The address of the scheduler, plus one if `block_on` was called on a handle. Null between
    /// two calls of `block_on`.
    scheduler: AtomicPtr<()>,
    /// The id of the task or outer `block_on` future whose poll called this `block_on`; 0 for none.
    outer: AtomicU64,
}

/// The object that `block_on` was called on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOnVia {
    /// A runtime, which is borrowed until `block_on` returns, so no thread can shut it down.
    Runtime = 0,
    /// A handle. Another thread may shut the runtime down, which ends the future's waits.
    Handle = 1,
}

/// The value of `first_waited_ms` before the future has returned `Pending`.
const UNKNOWN: u32 = u32::MAX;
/// A value of `self_wake_seen_in` that no poll has: the counter is even in a poll, and this is odd.
const NO_POLL: u32 = u32::MAX;

impl BlockOnRecord {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(u32::MAX as u64);
        Self {
            id: BLOCK_ON_BIT | NEXT.fetch_sub(1, Relaxed) & u64::from(u32::MAX),
            waiting: WaitRecord::nothing(),
            poll_counter: AtomicU32::new(0),
            counter_at_start: AtomicU32::new(0),
            self_wakes: AtomicU32::new(0),
            self_wake_seen_in: AtomicU32::new(NO_POLL),
            first_waited_ms: AtomicU32::new(UNKNOWN),
            site: AtomicPtr::new(ptr::null_mut()),
            future: AtomicPtr::new(ptr::null_mut()),
            future_len: AtomicU32::new(0),
            waker: AtomicPtr::new(ptr::null_mut()),
            waker_vtable: AtomicPtr::new(ptr::null_mut()),
            scheduler: AtomicPtr::new(ptr::null_mut()),
            outer: AtomicU64::new(0),
        }
    }

    /// Starts a `block_on` on the scheduler at this address.
    #[inline]
    pub(crate) fn begin(
        &self,
        site: &'static Location<'static>,
        scheduler: *const (),
        via: BlockOnVia,
    ) {
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        self.waiting.clear();
        self.first_waited_ms.store(UNKNOWN, Relaxed);
        self.outer.store(context::current_id(), Relaxed);
        let start = (self.poll_counter.load(Relaxed) | 1).wrapping_add(1);
        self.poll_counter.store(start, Relaxed);
        self.counter_at_start.store(start, Relaxed);
        let scheduler = scheduler.cast_mut().cast::<u8>().wrapping_add(via as usize);
        // Release pairs with the Acquire loads of `is_active` and `belongs_to`: a reader that finds
        // this `block_on` also finds it in its first poll, which needs no wake-up.
        self.scheduler.store(scheduler.cast(), Release);
    }

    /// Stores the time of the future's first wait. Later calls change nothing.
    pub(crate) fn record_first_wait(&self, now_ms: u32) {
        if self.first_waited_ms.load(Relaxed) == UNKNOWN {
            self.first_waited_ms.store(now_ms.min(UNKNOWN - 1), Relaxed);
        }
    }

    /// Returns when the future first had to wait, if ever.
    pub(crate) fn first_waited_ms(&self) -> Option<u32> {
        Some(self.first_waited_ms.load(Relaxed)).filter(|ms| *ms != UNKNOWN)
    }

    /// Stores the location of the future until the `block_on` ends.
    #[inline]
    pub(crate) fn set_future<F>(&self, future: &F) {
        let address = ptr::from_ref(future).cast_mut().cast();
        // Relaxed: a reader may combine the address of one future with the size of another. The
        // reader reads through the kernel (`sys::own_memory`), so it only gets meaningless bytes.
        self.future.store(address, Relaxed);
        self.future_len.store(size_of::<F>() as u32, Relaxed);
    }

    /// Returns the location of the future, whose memory may already be reused.
    pub(crate) fn future_memory(&self) -> FutureMemory {
        let (address, len) = (self.future.load(Relaxed).addr(), self.future_len.load(Relaxed));
        FutureMemory { address, len: len as usize, is_boxed: false }
    }

    /// Ends the `block_on`.
    #[inline]
    pub(crate) fn end(&self) {
        self.scheduler.store(ptr::null_mut(), Relaxed);
    }

    /// Returns the task or outer `block_on` future that waits for this `block_on`; 0 for none.
    pub(crate) fn outer(&self) -> u64 {
        self.outer.load(Relaxed)
    }

    /// Returns whether this thread is in a `block_on` of any scheduler.
    pub(crate) fn is_active(&self) -> bool {
        !self.scheduler.load(Acquire).is_null()
    }

    /// Returns whether this thread is in a `block_on` that was called on a runtime, not on a handle.
    pub(crate) fn is_via_runtime(&self) -> bool {
        let scheduler = self.scheduler.load(Acquire);
        !scheduler.is_null() && scheduler.addr() & BlockOnVia::Handle as usize == 0
    }

    /// Returns whether this thread is in a `block_on` of the scheduler at this address.
    pub(crate) fn belongs_to(&self, scheduler: *const ()) -> bool {
        self.scheduler.load(Acquire).addr() & !(BlockOnVia::Handle as usize) == scheduler.addr()
    }

    /// Starts a poll.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        self.poll_counter.store(self.poll_counter.load(Relaxed) & !1, Relaxed);
    }

    /// Ends a poll that returned `Pending`.
    #[inline]
    pub(crate) fn end_poll(&self) {
        // Release pairs with the Acquire loads below: a reader that sees the end of the poll sees
        // the poll's writes.
        self.poll_counter.store((self.poll_counter.load(Relaxed) | 1).wrapping_add(2), Release);
    }

    /// Returns whether the future is being polled.
    pub(crate) fn is_polled(&self) -> bool {
        self.poll_counter.load(Acquire).is_multiple_of(2)
    }

    /// Returns how many polls this `block_on` has started.
    pub(crate) fn polls(&self) -> u32 {
        let counter = self.poll_counter.load(Acquire);
        let ended = counter.wrapping_sub(self.counter_at_start.load(Relaxed)) / 2;
        ended + u32::from(counter.is_multiple_of(2))
    }

    /// Returns a number that identifies the current call of `block_on` on this thread.
    pub(crate) fn call_number(&self) -> u32 {
        self.counter_at_start.load(Acquire)
    }

    /// Returns twice the number of the current poll, counted per thread; the result is odd between
    /// polls.
    pub(crate) fn poll_number(&self) -> u32 {
        self.poll_counter.load(Acquire)
    }

    /// Returns the stamp that identifies the current or last poll in wait records.
    pub(crate) fn poll_stamp(&self) -> PollStamp {
        let counter = self.poll_counter.load(Acquire);
        // Between polls the counter is already past the last poll.
        let is_polled = counter.is_multiple_of(2);
        PollStamp::from_doubled(if is_polled { counter } else { counter.wrapping_sub(3) })
    }

    /// Returns the writer of the future's wait record, for the current poll.
    pub(super) fn wait_writer(&self) -> WaitWriter<'_> {
        WaitWriter { waiting: &self.waiting, stamp: self.poll_stamp() }
    }

    /// Counts a wake of the future by its own thread, once per poll and not between polls.
    #[inline]
    pub(crate) fn count_self_wake(&self) {
        let poll = self.poll_counter.load(Relaxed);
        if poll.is_multiple_of(2) && self.self_wake_seen_in.load(Relaxed) != poll {
            self.self_wake_seen_in.store(poll, Relaxed);
            self.self_wakes.store(self.self_wakes.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Marks that this poll ran tasks, so that a self-wake in it does not count as spinning.
    pub(crate) fn mark_worked(&self) {
        self.self_wake_seen_in.store(self.poll_counter.load(Relaxed), Relaxed);
    }

    /// Returns how many polls woke the future from inside.
    pub(crate) fn self_wakes(&self) -> u32 {
        self.self_wakes.load(Relaxed)
    }

    /// Stores the waker that the future is polled with.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.waker.store(waker.data().cast_mut(), Relaxed);
        self.waker_vtable.store(ptr::from_ref(waker.vtable()).cast_mut(), Relaxed);
    }

    /// Returns whether `waker` is this future's waker. A foreign waker may have the same data, but
    /// not the same vtable.
    pub(super) fn is_waker(&self, waker: &Waker) -> bool {
        ptr::eq(self.waker.load(Relaxed), waker.data())
            && ptr::eq(self.waker_vtable.load(Relaxed), waker.vtable())
    }

    /// Returns where `block_on` was last called, if ever.
    pub(crate) fn site(&self) -> Option<&'static Location<'static>> {
        // SAFETY: only `begin` stores here, and only a `&'static`.
        unsafe { self.site.load(Relaxed).as_ref() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BlockOnRecord, BlockOnVia};
    use std::panic::Location;
    use std::ptr;

    #[test]
    fn self_wakes_count_once_per_poll_unless_the_poll_ran_tasks() {
        let record = BlockOnRecord::new();
        record.begin(Location::caller(), ptr::null(), BlockOnVia::Runtime);
        let poll = |worked: bool, wakes: u32| {
            record.begin_poll();
            if worked {
                record.mark_worked();
            }
            (0..wakes).for_each(|_| record.count_self_wake());
            record.end_poll();
            record.self_wakes()
        };
        let counts = [poll(false, 2), poll(true, 1), poll(false, 0), poll(false, 1)];
        assert_eq!(counts, [1, 1, 1, 2]);
        record.count_self_wake();
        assert_eq!(record.self_wakes(), 2, "no poll is going on");
    }
}
