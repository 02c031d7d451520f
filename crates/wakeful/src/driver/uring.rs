//! Station 6 for files: one worker's io_uring.
//!
//! The poll of a future submits an operation. While the kernel executes the operation, it is in the
//! [`InFlight`] table. When the worker's poller sees the completion, the ring calls
//! [`Completion::complete`].
//!
//! Each worker has its own ring, created on first use. Only the worker's thread submits
//! operations; other threads at most cancel them. So the lock is normally uncontended. The ring's
//! file descriptor is registered with the poller that the worker parks in.
//!
//! Every operation is submitted at once: when [`Ring::submit`] returns `Ok`, the kernel has it. If
//! the kernel completes an operation during submission, its completion is in the queue right
//! afterwards.
//!
//! The ring peeks at completions. It never waits for them with `io_uring_enter`, because a call with
//! a zero time-out costs many times as much as a plain system call.

use super::in_flight::{Completion, CompletionContext, InFlight, OpId};
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

/// Size of the submission queue: one operation, and the cancellations of a shutdown.
const ENTRIES: u32 = 64;
/// Size of the completion queue. The kernel buffers completions that don't fit.
const COMPLETIONS: u32 = 1024;
/// `user_data` of cancellation requests, whose completions are ignored.
const IGNORED: u64 = u64::MAX;
/// The number of attempts to submit while the kernel is short of memory.
const ATTEMPTS: u32 = 100;

/// An io_uring instance with the operations that were submitted to it.
pub(crate) struct Ring {
    inner: Mutex<Inner>,
    /// The length of `Inner::operations`, readable without the lock. Stored with Release under the
    /// lock, loaded with Acquire in `is_busy`.
    in_flight: AtomicUsize,
    probe: Probe,
    fd: RawFd,
}

struct Inner {
    /// Both are dropped only if no operation is in flight (RING-1).
    uring: ManuallyDrop<IoUring>,
    operations: ManuallyDrop<InFlight>,
    /// Whether a submission has failed. Its entry is still in the submission queue, so the ring must
    /// not be entered again with new entries.
    broken: bool,
}

/// Completed operations with their results, to be processed after the lock is released.
type Completed = Vec<(Arc<dyn Completion>, i32)>;

impl Ring {
    /// Creates a ring whose operations use at most `threads` worker threads of the kernel.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no io_uring, forbids it, or lacks a required feature.
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        let uring =
            IoUring::builder().setup_cqsize(COMPLETIONS).setup_clamp().dontfork().build(ENTRIES)?;
        let params = uring.params();
        if !params.is_feature_nodrop()
            || !params.is_feature_submit_stable()
            || !params.is_feature_rw_cur_pos()
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        // Fails on kernels that don't support the limit, which use their own.
        let _ = uring.submitter().register_iowq_max_workers(&mut [threads, threads]);
        let fd = uring.as_raw_fd();
        let inner = Inner {
            uring: ManuallyDrop::new(uring),
            operations: ManuallyDrop::new(InFlight::default()),
            broken: false,
        };
        Ok(Self { inner: Mutex::new(inner), in_flight: AtomicUsize::new(0), probe, fd })
    }

    /// Returns whether the kernel supports this opcode.
    pub(crate) fn supports(&self, opcode: u8) -> bool {
        self.probe.is_supported(opcode)
    }

    /// Returns the file descriptor that becomes readable when there are completions.
    pub(super) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Returns whether any operation is in flight.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.load(Acquire) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        ignore_poison(self.inner.lock())
    }

    /// Submits an operation. It may complete before this call returns.
    ///
    /// # Errors
    ///
    /// Fails if the kernel did not accept the operation, and never will.
    ///
    /// # Safety
    ///
    /// `operation` must own the memory that `entry` points to. That memory must neither move nor be
    /// touched until the operation has completed (RING-1).
    pub(crate) unsafe fn submit(
        &self,
        entry: Entry,
        operation: Arc<dyn Completion>,
    ) -> Result<OpId, SubmitError> {
        let mut completed = Completed::new();
        let submitted = {
            let mut inner = self.lock();
            let id = inner.operations.insert(operation);
            // SAFETY: the caller guarantees RING-1 for the memory; the table keeps the operation.
            let entered = unsafe { inner.enter(entry.user_data(id.user_data()), &mut completed) };
            let submitted = match entered {
                Ok(()) => Ok(id),
                Err(SubmitError) => {
                    inner.operations.remove(id.user_data());
                    Err(SubmitError)
                }
            };
            inner.reap(&mut completed);
            self.in_flight.store(inner.operations.len(), Release);
            submitted
        };
        complete_all(completed, CompletionContext::DriverThread);
        submitted
    }

    /// Asks the kernel to cancel an operation, if it is still in flight.
    ///
    /// `operation` is the address of the operation, since its id may have been reused.
    pub(crate) fn cancel(&self, id: OpId, operation: *const ()) {
        let mut completed = Completed::new();
        {
            let mut inner = self.lock();
            if inner.operations.contains(id, operation) {
                inner.cancel(id, &mut completed);
                inner.reap(&mut completed);
                self.in_flight.store(inner.operations.len(), Release);
            }
        }
        complete_all(completed, CompletionContext::DriverThread);
    }

    /// Processes the completions that are in the queue, without a system call.
    ///
    /// Returns their number.
    pub(crate) fn process_completions(&self) -> usize {
        if self.is_busy() { self.process(CompletionContext::DriverThread) } else { 0 }
    }

    fn process(&self, context: CompletionContext) -> usize {
        let mut completed = Completed::new();
        {
            let mut inner = self.lock();
            inner.reap(&mut completed);
            self.in_flight.store(inner.operations.len(), Release);
        }
        let count = completed.len();
        complete_all(completed, context);
        count
    }

    /// Blocks until no operation is in flight, and cancels operations that need not finish.
    pub(crate) fn drain(&self) {
        let mut completed = Completed::new();
        {
            let mut inner = self.lock();
            for id in inner.operations.cancellable() {
                inner.cancel(id, &mut completed);
            }
        }
        complete_all(completed, CompletionContext::BlockingThread);
        loop {
            let count = self.process(CompletionContext::BlockingThread);
            if !self.is_busy() {
                return;
            }
            if count == 0 {
                self.wait_for_completion();
            }
        }
    }

    /// Blocks until there is a completion, for at most 5 ms.
    ///
    /// The limit is needed because another thread may process the last completion meanwhile.
    pub(crate) fn wait_for_completion(&self) {
        // SAFETY: `self` is borrowed, so the ring's file descriptor stays open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        match rustix::event::poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("waiting for io_uring completions failed: {error}"),
        }
    }
}

/// The error of an operation that the kernel did not accept.
#[derive(Debug)]
pub(crate) struct SubmitError;

impl Inner {
    /// Submits one entry.
    ///
    /// # Safety
    ///
    /// The contract of [`Ring::submit`]. After an error the kernel never sees the entry.
    unsafe fn enter(&mut self, entry: Entry, completed: &mut Completed) -> Result<(), SubmitError> {
        // SAFETY: the caller guarantees RING-1 for the entry.
        if self.broken || unsafe { self.uring.submission().push(&entry) }.is_err() {
            return Err(SubmitError);
        }
        for _ in 0..ATTEMPTS {
            let entered = self.uring.submit();
            if self.uring.submission().is_empty() {
                return Ok(());
            }
            match entered.map_err(|error| Errno::from_io_error(&error)) {
                Ok(_) | Err(Some(Errno::INTR)) => {}
                // The kernel is out of memory, or its completion backlog is full.
                Err(Some(Errno::AGAIN | Errno::BUSY)) => {
                    self.reap(completed);
                    std::thread::yield_now();
                }
                Err(_) => break,
            }
        }
        self.broken = true;
        Err(SubmitError)
    }

    fn cancel(&mut self, id: OpId, completed: &mut Completed) {
        let entry = opcode::AsyncCancel::new(id.user_data()).build().user_data(IGNORED);
        // Without the cancellation the operation just runs to its end.
        // SAFETY: the entry holds no pointers.
        let _ = unsafe { self.enter(entry, completed) };
    }

    /// Moves all completions out of the queue.
    fn reap(&mut self, completed: &mut Completed) {
        loop {
            for completion in self.uring.completion() {
                if completion.user_data() != IGNORED {
                    let operation = self.operations.remove(completion.user_data());
                    completed.push((operation, completion.result()));
                }
            }
            if !self.uring.submission().cq_overflow() {
                return;
            }
            const GET_EVENTS: u32 = 1;
            // The kernel buffered completions that did not fit into the queue. Entering the ring
            // moves them into the queue.
            // SAFETY: the call submits no entry and passes no argument.
            let entered = unsafe { self.uring.submitter().enter::<()>(0, 0, GET_EVENTS, None) };
            if entered.is_err() {
                return;
            }
        }
    }
}

/// Calls [`Completion::complete`], which runs foreign code, after the lock was released.
fn complete_all(completed: Completed, context: CompletionContext) {
    for (operation, result) in completed {
        operation.complete(result, context);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // RING-1: operations in flight are leaked, and so is the ring that the kernel reports to.
        // (None is expected here, because an operation keeps its runtime alive, and thereby the
        // ring.)
        if self.operations.len() == 0 {
            // SAFETY: both are dropped once, here.
            unsafe {
                ManuallyDrop::drop(&mut self.uring);
                ManuallyDrop::drop(&mut self.operations);
            }
        }
    }
}
