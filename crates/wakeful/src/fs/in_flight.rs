//! The life of a file operation from its start to its outcome, on io_uring or on the blocking pool.
//!
//! A started [`Operation`] becomes an [`InFlightOp`]. The kernel or a thread of the pool holds it
//! until the operation is finished. [`OpFuture`](super::op_future::OpFuture) waits for it.
//!
//! ```text
//! diagram
//!              submit()                complete()
//!   begin() ──────────────────► kernel ────────► finish() ──► poll()
//!      │  not for the ring,        │ unsupported, interrupted,
//!      ▼  or not accepted          ▼ or the submitting thread exited
//!   to_pool() ◄────────────────────┘            run() ──► finish()
//! ```
//!
//! - FILEOP-2. While the kernel executes an operation, the operation stays untouched in its
//!   `InFlightOp`.
#![allow(unsafe_code)]

use super::op::{Operation, Step, runtime_shut_down};
use super::write_behind::WriteQueue;
use crate::driver::in_flight::{Completion, CompletionContext, OpId};
use crate::driver::uring::Ring;
use crate::runtime::context::{self, RuntimeRef};
use crate::runtime::task_api::blocking::spawn_internal;
use crate::runtime::task_api::spawn::no_runtime;
use crate::sys::sync::ignore_poison;
use crate::sys::unwind::catch_and_forget;
use crate::wait::wake_batch::wake_all;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// An operation that was started, shared by its executor and its waiters.
pub(super) struct InFlightOp<T: Operation> {
    state: Mutex<State<T>>,
    /// Keeps the runtime and its ring alive until the operation has finished.
    runtime: Arc<RuntimeRef>,
}

struct State<T: Operation> {
    /// The operation, while the kernel executes it (FILEOP-2).
    operation: Option<T>,
    /// The operation's submission, for cancelling it while the kernel executes it.
    submission: Option<(Arc<Ring>, OpId)>,
    outcome: Outcome<T::Output>,
    waker: Option<Waker>,
    /// Wakers of other tasks that wait for the outcome (`poll_shared`).
    other_wakers: Vec<Waker>,
    /// Whether no task waits for the outcome, now or later.
    abandoned: bool,
    /// The queue of the file, if the operation's future was dropped.
    detached_to: Option<Arc<WriteQueue>>,
}

enum Outcome<R> {
    Pending,
    Finished(io::Result<R>),
    Taken,
}

/// Makes sure that completions of the runtime's ring are processed while a task waits for one.
///
/// If no thread drives that runtime, a thread of the blocking pool does so.
pub(super) fn ensure_ring_is_driven(runtime: &RuntimeRef) {
    runtime.shared.ensure_ring_driven();
}

/// Starts an operation on the current runtime.
///
/// If the runtime has shut down, the calling thread executes an operation that must finish; any
/// other operation fails.
///
/// # Panics
///
/// Panics if called outside of a runtime.
#[track_caller]
pub(super) fn start<T: Operation>(operation: T) -> Arc<InFlightOp<T>> {
    let runtime = match context::runtime_ref() {
        Ok(runtime) => runtime,
        Err(_) => no_runtime(),
    };
    let is_closing = runtime.shared.base().is_closing();
    let in_flight = Arc::new(InFlightOp::new(None, runtime));
    match is_closing {
        false => in_flight.begin(operation),
        true => drop(PoolJob { operation: Some(operation), in_flight: in_flight.clone() }),
    }
    in_flight
}

impl<T: Operation> InFlightOp<T> {
    fn new(operation: Option<T>, runtime: Arc<RuntimeRef>) -> Self {
        let state = State {
            operation,
            submission: None,
            outcome: Outcome::Pending,
            waker: None,
            other_wakers: Vec::new(),
            abandoned: false,
            detached_to: None,
        };
        Self { state: Mutex::new(state), runtime }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        ignore_poison(self.state.lock())
    }

    /// Submits the operation to the ring if possible, otherwise to the pool.
    #[track_caller]
    fn begin(self: &Arc<Self>, operation: T) {
        if let Some(operation) = self.submit(operation) {
            self.to_pool(operation);
        }
    }

    /// Submits the operation to the ring. Returns it if that is not possible.
    fn submit(self: &Arc<Self>, mut operation: T) -> Option<T> {
        let shared = &self.runtime.shared;
        if NESTED_COMPLETIONS.get() >= MAX_NESTED {
            return Some(operation);
        }
        let Some(ring) = shared.ring().filter(|ring| ring.supports(T::OPCODE)) else {
            return Some(operation);
        };
        let Some(mut entry) = operation.submission_entry() else { return Some(operation) };
        if operation.may_block() {
            entry = entry.flags(io_uring::squeue::Flags::ASYNC);
        }
        self.lock().operation = Some(operation);
        shared.files.count_uring_op();
        shared.clock().hold_auto_advance();
        // SAFETY: the operation owns what the entry points to (FILEOP-1). It stays untouched in
        // `self` (FILEOP-2), which the ring keeps until the completion.
        match unsafe { ring.submit(entry, self.clone()) } {
            Ok(id) => {
                let mut state = self.lock();
                // Unless it has already completed.
                if state.operation.is_some() {
                    state.submission = Some((ring.clone(), id));
                }
                None
            }
            Err(_not_accepted) => {
                self.release_clock();
                self.lock().operation.take()
            }
        }
    }

    #[track_caller]
    fn to_pool(self: &Arc<Self>, operation: T) {
        let shared = &self.runtime.shared;
        shared.files.count_pool_op();
        let job = PoolJob { operation: Some(operation), in_flight: self.clone() };
        // The outcome arrives through `finish`, not through the join handle.
        drop(spawn_internal(shared, move || job.run(), None, T::MUST_FINISH));
    }

    fn release_clock(&self) {
        if self.runtime.shared.clock().release_auto_advance() {
            self.runtime.shared.config().hooks.auto_advance_released();
        }
    }

    fn finish(&self, outcome: io::Result<T::Output>) {
        let (waker, other_wakers, detached_to) = {
            let mut state = self.lock();
            state.outcome = Outcome::Finished(outcome);
            (state.waker.take(), std::mem::take(&mut state.other_wakers), state.detached_to.take())
        };
        wake_all(waker.into_iter().chain(other_wakers));
        if let Some(queue) = detached_to {
            queue.finish_detached_op(T::CHANGES_FILE, &self.runtime);
        }
    }

    /// Polls for the outcome, which is returned once. Only the task that polled last is woken.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<T::Output>> {
        // Cloning and dropping a waker runs foreign code, so both happen outside of the lock.
        let waker = cx.waker().clone();
        self.poll_with(|state| state.waker.replace(waker))
    }

    /// Polls for the outcome on behalf of one of several tasks. All are woken; the first to poll
    /// gets the outcome.
    pub(super) fn poll_shared(&self, cx: &mut Context<'_>) -> Poll<io::Result<T::Output>> {
        let waker = cx.waker().clone();
        self.poll_with(|state| {
            if state.other_wakers.iter().any(|other| other.will_wake(&waker)) {
                return Some(waker);
            }
            state.other_wakers.push(waker);
            None
        })
    }

    /// `register` returns a waker to be dropped after the lock is released.
    fn poll_with(
        &self,
        register: impl FnOnce(&mut State<T>) -> Option<Waker>,
    ) -> Poll<io::Result<T::Output>> {
        let unneeded = {
            let mut state = self.lock();
            match std::mem::replace(&mut state.outcome, Outcome::Taken) {
                Outcome::Finished(outcome) => return Poll::Ready(outcome),
                Outcome::Taken => panic!("polled after its outcome was taken"),
                Outcome::Pending => {}
            }
            state.outcome = Outcome::Pending;
            register(&mut state)
        };
        drop(unneeded);
        ensure_ring_is_driven(&self.runtime);
        Poll::Pending
    }

    /// Returns the runtime that the operation was started on.
    pub(super) fn runtime(&self) -> &Arc<RuntimeRef> {
        &self.runtime
    }

    /// Registers an unfinished operation, whose future is dropped, with the queue of its file.
    pub(super) fn detach_to(&self, queue: Arc<WriteQueue>) {
        let mut state = self.lock();
        if let Outcome::Pending = state.outcome {
            queue.add_detached_op(T::CHANGES_FILE, &self.runtime);
            state.detached_to = Some(queue);
        }
    }

    /// Drops the wakers of an operation that no task waits for any more. Cancels it, unless it must
    /// finish.
    pub(super) fn abandon(&self) {
        let wakers = {
            let mut state = self.lock();
            state.abandoned = true;
            (state.waker.take(), std::mem::take(&mut state.other_wakers))
        };
        drop(wakers);
        if !T::MUST_FINISH {
            let submission = self.lock().submission.take();
            if let Some((ring, id)) = submission {
                ring.cancel(id, std::ptr::from_ref(self).cast());
            }
        }
    }

    fn take_step(self: &Arc<Self>, step: Step<T>, context: CompletionContext) {
        use CompletionContext::{BlockingThread, DriverThread};
        match (step, context) {
            (Step::Done(outcome), _) => self.finish(outcome),
            (Step::Resubmit(operation), DriverThread) => self.begin(operation),
            (Step::RunOnPool(operation), DriverThread) => self.to_pool(operation),
            (Step::Resubmit(operation) | Step::RunOnPool(operation), BlockingThread) => {
                self.finish(operation.run());
            }
        }
    }

    /// Returns whether an operation that was not executed may be abandoned.
    ///
    /// This is the case if no task waits for it, or if the runtime has cancelled it during
    /// shutdown, since it might block forever.
    fn may_give_up(&self, context: CompletionContext) -> bool {
        let is_closing = || self.runtime.shared.base().is_closing();
        self.lock().abandoned || context == CompletionContext::BlockingThread || is_closing()
    }
}

thread_local! {
    /// The number of `complete` calls on this thread's stack. Each may submit the next entry of its
    /// operation, and other operations may complete during that submission.
    static NESTED_COMPLETIONS: Cell<u32> = const { Cell::new(0) };
}

/// The maximum nesting depth of completions. Beyond it, operations continue on the pool.
const MAX_NESTED: u32 = 8;

/// Counts a call of `complete` while it lasts.
struct NestedGuard;

impl NestedGuard {
    fn enter() -> Self {
        NESTED_COMPLETIONS.set(NESTED_COMPLETIONS.get() + 1);
        Self
    }
}

impl Drop for NestedGuard {
    fn drop(&mut self) {
        NESTED_COMPLETIONS.set(NESTED_COMPLETIONS.get() - 1);
    }
}

impl<T: Operation> Completion for InFlightOp<T> {
    fn complete(self: Arc<Self>, result: i32, context: CompletionContext) {
        let _nested = NestedGuard::enter();
        self.release_clock();
        let operation = {
            let mut state = self.lock();
            state.submission = None;
            state.operation.take().expect("the operation is stored until it completes")
        };
        let result =
            u32::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()));
        let step = match result {
            Err(error) if T::is_not_executed(error) => {
                if !T::MUST_FINISH && self.may_give_up(context) {
                    drop(operation);
                    Step::Done(Err(runtime_shut_down()))
                } else {
                    Step::RunOnPool(operation)
                }
            }
            result => operation.completed(result),
        };
        // If the pool cannot start a thread, it panics. Before that it drops the job, which
        // finishes the operation. The panic must not end the thread that drives the ring.
        catch_and_forget(|| self.take_step(step, context));
    }

    fn must_finish(&self) -> bool {
        T::MUST_FINISH
    }
}

/// An operation that was sent to the blocking pool.
struct PoolJob<T: Operation> {
    operation: Option<T>,
    in_flight: Arc<InFlightOp<T>>,
}

impl<T: Operation> PoolJob<T> {
    fn run(mut self) {
        if let Some(operation) = self.operation.take() {
            self.in_flight.finish(operation.run());
        }
    }
}

impl<T: Operation> Drop for PoolJob<T> {
    fn drop(&mut self) {
        match self.operation.take() {
            // The pool dropped the job because it is closed or has no threads. An operation that
            // must finish runs here.
            Some(operation) if T::MUST_FINISH => self.in_flight.finish(operation.run()),
            Some(operation) => {
                drop(operation);
                self.in_flight.finish(Err(runtime_shut_down()));
            }
            None if std::thread::panicking() => self.in_flight.finish(Err(runtime_shut_down())),
            None => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "in_flight_tests.rs"]
mod tests;
