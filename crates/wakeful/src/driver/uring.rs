//! Station 6 for files: one worker's io_uring. An operation on a file comes from
//! the poll of a future, lies in its slot (`in_flight`) while the kernel works on
//! it, and leaves by `Completion::land` when the worker's poller finds its completion.
//!
//! Every worker has its own ring, made when it first needs one. Only the worker's
//! thread begins operations there, others at most cancel them: so its lock is free
//! as a rule, and the ring's descriptor is watched by the very poller that the
//! worker sleeps in. An operation is
//! submitted at once, so whoever was told that it is on its way can rely on it:
//! the kernel has it.
//!
//! What the kernel completes on the spot is found in the queue right after
//! submitting. Completions are peeked at, never waited for: to ask the kernel for
//! one with a time-out of zero costs many times as much as a system call.

use super::in_flight::{Completion, CompletionContext, InFlight, Slot};
use crate::sys::sync::ignore_poison;
use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, opcode};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

/// Entries that can wait for one submission: one, and the cancels of a shutdown.
const ENTRIES: u32 = 64;
/// Completions that can wait to be looked at; beyond that the kernel keeps them.
const COMPLETIONS: u32 = 1024;
/// The number of completions that nobody waits for.
const NOBODY: u64 = u64::MAX;
/// How often a submission that the kernel has no room for is tried again.
const ATTEMPTS: u32 = 100;

pub(crate) struct Ring {
    inner: Mutex<Inner>,
    /// Operations that the kernel has.
    in_flight: AtomicUsize,
    probe: Probe,
    fd: RawFd,
}

struct Inner {
    /// Dropped by hand: not while the kernel has operations (F1).
    uring: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<InFlight>,
    /// The kernel refused a submission: it is not asked again, since what it did
    /// not take still lies in the queue.
    broken: bool,
}

/// Operations that are done, on their way out of the lock.
type Completed = Vec<(Arc<dyn Completion>, i32)>;

impl Ring {
    /// Makes a ring whose operations may occupy at most `threads` of the kernel's
    /// threads.
    ///
    /// # Errors
    ///
    /// If the kernel has none, forbids it, or has one too old to be relied on.
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        let uring =
            IoUring::builder().setup_cqsize(COMPLETIONS).setup_clamp().dontfork().build(ENTRIES)?;
        let has = uring.params();
        if !has.is_feature_nodrop()
            || !has.is_feature_submit_stable()
            || !has.is_feature_rw_cur_pos()
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        // Older kernels choose for themselves.
        let _ = uring.submitter().register_iowq_max_workers(&mut [threads, threads]);
        let fd = uring.as_raw_fd();
        let inner = Inner {
            uring: ManuallyDrop::new(uring),
            slots: ManuallyDrop::new(InFlight::default()),
            broken: false,
        };
        Ok(Self { inner: Mutex::new(inner), in_flight: AtomicUsize::new(0), probe, fd })
    }

    /// Whether the kernel knows this kind of operation.
    pub(crate) fn supports(&self, code: u8) -> bool {
        self.probe.is_supported(code)
    }

    /// Its descriptor, for the poller.
    pub(super) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Whether the kernel has operations.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.load(Acquire) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        ignore_poison(self.inner.lock())
    }

    /// Hands an operation to the kernel. It may land before this returns.
    ///
    /// # Errors
    ///
    /// If the kernel did not take it.
    ///
    /// # Safety
    ///
    /// What the entry points to is owned by `operation`, and stays where it is and
    /// untouched until it has landed (F1).
    pub(crate) unsafe fn submit(
        &self,
        entry: Entry,
        operation: Arc<dyn Completion>,
    ) -> Result<Slot, NotTaken> {
        let mut landed = Completed::new();
        let submitted = {
            let mut inner = self.lock();
            let slot = inner.slots.put(operation);
            // SAFETY: by contract; the slot keeps the operation.
            let taken = unsafe { inner.enter(entry.user_data(slot.number()), &mut landed) };
            let submitted = match taken {
                Ok(()) => Ok(slot),
                Err(NotTaken) => {
                    inner.slots.take(slot.number());
                    Err(NotTaken)
                }
            };
            inner.reap(&mut landed);
            self.in_flight.store(inner.slots.len(), Release);
            submitted
        };
        land(landed, CompletionContext::Driving);
        submitted
    }

    /// Nobody waits for this operation any more: if the kernel has not done it
    /// yet, it need not.
    pub(crate) fn cancel(&self, slot: Slot, operation: *const ()) {
        let mut landed = Completed::new();
        {
            let mut inner = self.lock();
            if inner.slots.holds(slot, operation) {
                inner.cancel(slot, &mut landed);
                inner.reap(&mut landed);
                self.in_flight.store(inner.slots.len(), Release);
            }
        }
        land(landed, CompletionContext::Driving);
    }

    /// Passes on what is done, without a system call. Answers how many it was.
    pub(crate) fn turn(&self) -> usize {
        if self.is_busy() { self.pass_on(CompletionContext::Driving) } else { 0 }
    }

    fn pass_on(&self, place: CompletionContext) -> usize {
        let mut landed = Completed::new();
        {
            let mut inner = self.lock();
            inner.reap(&mut landed);
            self.in_flight.store(inner.slots.len(), Release);
        }
        let count = landed.len();
        land(landed, place);
        count
    }

    /// Waits until the kernel has nothing any more, on a thread that may block.
    /// What nobody needs is cancelled first.
    pub(crate) fn drain(&self) {
        let mut landed = Completed::new();
        {
            let mut inner = self.lock();
            for slot in inner.slots.dispensable() {
                inner.cancel(slot, &mut landed);
            }
        }
        land(landed, CompletionContext::Blocking);
        loop {
            let landed = self.pass_on(CompletionContext::Blocking);
            if !self.is_busy() {
                return;
            }
            if landed == 0 {
                self.wait();
            }
        }
    }

    /// Waits until there is a completion, for a moment: another thread may find it
    /// first, and then there may be none any more.
    pub(crate) fn wait(&self) {
        // SAFETY: the ring is borrowed, so its descriptor is open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let moment = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        match rustix::event::poll(&mut fds, Some(&moment)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("waiting for file operations failed: {error}"),
        }
    }
}

/// The kernel did not take an operation.
#[derive(Debug)]
pub(crate) struct NotTaken;

impl Inner {
    /// Submits one entry.
    ///
    /// # Safety
    ///
    /// As [`Ring::submit`]; if it is not taken, it never will be.
    unsafe fn enter(&mut self, entry: Entry, landed: &mut Completed) -> Result<(), NotTaken> {
        // SAFETY: by contract.
        if self.broken || unsafe { self.uring.submission().push(&entry) }.is_err() {
            return Err(NotTaken);
        }
        for _ in 0..ATTEMPTS {
            let entered = self.uring.submit();
            if self.uring.submission().is_empty() {
                return Ok(());
            }
            match entered.map_err(|error| Errno::from_io_error(&error)) {
                Ok(_) | Err(Some(Errno::INTR)) => {}
                // It has no memory, or no room for completions.
                Err(Some(Errno::AGAIN | Errno::BUSY)) => {
                    self.reap(landed);
                    std::thread::yield_now();
                }
                Err(_) => break,
            }
        }
        self.broken = true;
        Err(NotTaken)
    }

    fn cancel(&mut self, slot: Slot, landed: &mut Completed) {
        let entry = opcode::AsyncCancel::new(slot.number()).build().user_data(NOBODY);
        // If it is not taken, the operation takes its time.
        // SAFETY: the entry points to nothing.
        let _ = unsafe { self.enter(entry, landed) };
    }

    /// Takes out what is done.
    fn reap(&mut self, landed: &mut Completed) {
        loop {
            for completion in self.uring.completion() {
                if completion.user_data() != NOBODY {
                    landed.push((self.slots.take(completion.user_data()), completion.result()));
                }
            }
            if !self.uring.submission().cq_overflow() {
                return;
            }
            const GET_EVENTS: u32 = 1;
            // The kernel kept some back for want of room: it gives them when it is
            // entered.
            // SAFETY: submits nothing.
            let entered = unsafe { self.uring.submitter().enter::<()>(0, 0, GET_EVENTS, None) };
            if entered.is_err() {
                return;
            }
        }
    }
}

/// Outside of the lock.
fn land(landed: Completed, place: CompletionContext) {
    for (operation, result) in landed {
        operation.land(result, place);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // F1: what the kernel still has stays, and so does the ring that it
        // reports to. (A flight keeps its runtime, and with it the ring: this
        // is not expected to happen.)
        if self.slots.len() == 0 {
            // SAFETY: dropped once, here.
            unsafe {
                ManuallyDrop::drop(&mut self.uring);
                ManuallyDrop::drop(&mut self.slots);
            }
        }
    }
}
