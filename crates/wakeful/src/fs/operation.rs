//! An operation on files, from its start to its outcome, whoever carries it out.
//!
//! An [`Operation`] owns everything it needs: buffers, names, the file. Started,
//! it becomes a [`Flight`], which the kernel or a thread of the pool holds until it
//! is done; [`Perform`] is the future that waits for it.
//!
//! ```text
//! diagram
//!              to_ring()                 land()
//!   begin() ──────────────────► kernel ────────► finish() ──► poll()
//!      │  not for the ring,        │ unsupported, interrupted,
//!      ▼  or not taken             ▼ or the thread that submitted is gone
//!   to_pool() ◄────────────────────┘            run() ──► finish()
//! ```
//!
//! - O1. What the entry of an operation points to lies on the heap and is owned by
//!   the operation: it stays where it is when the operation is moved.
//! - O2. While the kernel has an operation, it lies in its flight untouched.
#![allow(unsafe_code)]

use super::write_behind::Writer;
use crate::driver::in_flight::{Completion, CompletionContext, OpId};
use crate::driver::uring::Ring;
use crate::runtime::context::{self, RuntimeRef};
use crate::runtime::task_api::blocking::spawn_blocking_on;
use crate::runtime::task_api::spawn::no_runtime;
use crate::task::coop;
use crate::task::header::WaitKind;
use crate::wait;
use crate::wait::wake_batch::wake_all;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// Something that is to be done with files.
pub(super) trait Operation: Sized + Send + 'static {
    type Output: Send + 'static;

    /// What a task waits for meanwhile.
    const KIND: WaitKind;
    /// Whether it comes to its end although nobody waits for it any more.
    const MUST_FINISH: bool;
    /// Whether what is done with the file later must come after it.
    const CHANGES: bool = Self::MUST_FINISH;

    /// For the ring, if this is for a ring: its kind and what to do (O1).
    fn entry(&mut self) -> Option<io_uring::squeue::Entry> {
        None
    }

    /// The kind of operation that the ring must know.
    const CODE: u8 = 0;

    /// Whether the kernel may have to wait while it does what the entry says. Then a
    /// thread of the kernel does it: without that, `io_uring_enter` itself may wait.
    fn may_wait(&self) -> bool {
        true
    }

    /// The ring is done with what the entry said: what came of it.
    fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
        let _ = result;
        Step::Elsewhere(self)
    }

    /// Whether this error of the ring's means that nothing was done, for reasons of
    /// the ring's: cancelled because nobody waits, or because the thread that
    /// submitted it is gone; unknown to this kernel; refused for something that a
    /// system call may be asked. Every other error is for `landed`.
    fn is_undone(error: Errno) -> bool {
        use Errno as E;
        matches!(error, E::CANCELED | E::INTR | E::AGAIN | E::INVAL | E::NOSYS | E::OPNOTSUPP)
    }

    /// Does all of it on the calling thread, which may block.
    fn run(self) -> io::Result<Self::Output>;
}

/// Defines an operation that gives nothing but success, and comes to its end: what it
/// owns, its kind and entry for the ring, and what does the same without one.
macro_rules! plain_operation {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $type:ty),* }, $code:ident,
     changes: $changes:literal,
     |$entry:ident| $build:expr, |$run:ident| $call:expr) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $field: $type),*
        }

        impl Operation for $name {
            type Output = ();
            const KIND: WaitKind = WaitKind::FileOp;
            const MUST_FINISH: bool = true;
            const CHANGES: bool = $changes;
            const CODE: u8 = opcode::$code::CODE;

            fn entry(&mut self) -> Option<Entry> {
                let $entry = &*self;
                Some($build.build())
            }

            fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
                Step::Done(result.map(|_| ()).map_err(io::Error::from))
            }

            fn run(self) -> io::Result<()> {
                let $run = &self;
                $call
            }
        }
    };
}
pub(super) use plain_operation;

/// What follows when the ring is done with an entry.
#[must_use]
pub(super) enum Step<T: Operation> {
    Done(io::Result<T::Output>),
    /// There is more to do, in the ring if possible.
    Again(T),
    /// What is left is for a thread that may block.
    Elsewhere(T),
}

/// An operation under way.
pub(super) struct Flight<T: Operation> {
    state: Mutex<State<T>>,
    /// Keeps the runtime, and with it the ring, until the operation has landed.
    keeper: Arc<RuntimeRef>,
}

struct State<T: Operation> {
    /// The operation, while the kernel has it (O2).
    operation: Option<T>,
    slot: Option<(Arc<Ring>, OpId)>,
    outcome: Outcome<T::Output>,
    waker: Option<Waker>,
    /// Of those who wait for the end of it as well.
    others: Vec<Waker>,
    /// Nobody waits any more, and nobody will.
    abandoned: bool,
    /// The file that it was left to when nobody waited any more.
    left_to: Option<Arc<Writer>>,
}

enum Outcome<R> {
    Awaited,
    Here(io::Result<R>),
    Taken,
}

/// What tokio says when the pool that should have done it is gone.
pub(super) fn gone() -> io::Error {
    io::Error::other("background task failed")
}

/// For somebody who waits: where nobody may be driving the runtime that has the ring,
/// a thread of the pool looks after it.
pub(super) fn attend(keeper: &RuntimeRef) {
    keeper.shared.attend_ring();
}

/// Starts an operation on the current runtime; if that has shut down, it is done
/// here and now if it must be done at all.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub(super) fn start<T: Operation>(operation: T) -> Arc<Flight<T>> {
    let keeper = match context::keeper() {
        Ok(keeper) => keeper,
        Err(_) => no_runtime(),
    };
    let closing = keeper.shared.estate().is_closing();
    let state = State {
        operation: None,
        slot: None,
        outcome: Outcome::Awaited,
        waker: None,
        others: Vec::new(),
        abandoned: false,
        left_to: None,
    };
    let flight = Arc::new(Flight { state: Mutex::new(state), keeper });
    match closing {
        false => flight.begin(operation),
        true => drop(Job { operation: Some(operation), flight: flight.clone() }),
    }
    flight
}

impl<T: Operation> Flight<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To the ring if that is possible, otherwise to the pool.
    #[track_caller]
    fn begin(self: &Arc<Self>, operation: T) {
        let operation = match self.to_ring(operation) {
            None => return,
            Some(operation) => operation,
        };
        self.to_pool(operation);
    }

    /// Gives the operation back if it is not for the ring.
    fn to_ring(self: &Arc<Self>, mut operation: T) -> Option<T> {
        let shared = &self.keeper.shared;
        if LANDINGS.get() >= NESTED {
            return Some(operation);
        }
        let Some(ring) = shared.ring().filter(|ring| ring.supports(T::CODE)) else {
            return Some(operation);
        };
        let Some(mut entry) = operation.entry() else { return Some(operation) };
        if operation.may_wait() {
            entry = entry.flags(io_uring::squeue::Flags::ASYNC);
        }
        self.lock().operation = Some(operation);
        shared.files.count_ring();
        shared.clock().hold_auto_advance();
        // SAFETY: O1 and O2; the slot keeps this flight, which keeps the operation.
        match unsafe { ring.submit(entry, self.clone()) } {
            Ok(slot) => {
                let mut state = self.lock();
                if state.operation.is_some() {
                    state.slot = Some((ring.clone(), slot));
                }
                None
            }
            Err(_not_taken) => {
                self.release_clock();
                self.lock().operation.take()
            }
        }
    }

    #[track_caller]
    fn to_pool(self: &Arc<Self>, operation: T) {
        let shared = &self.keeper.shared;
        shared.files.count_pool();
        let job = Job { operation: Some(operation), flight: self.clone() };
        // The outcome comes by the flight.
        drop(spawn_blocking_on(shared, move || job.run(), None, T::MUST_FINISH));
    }

    fn release_clock(&self) {
        if self.keeper.shared.clock().release_auto_advance() {
            self.keeper.shared.config().witness.time_may_pass();
        }
    }

    fn finish(&self, outcome: io::Result<T::Output>) {
        let (waker, others, left_to) = {
            let mut state = self.lock();
            state.outcome = Outcome::Here(outcome);
            (state.waker.take(), std::mem::take(&mut state.others), state.left_to.take())
        };
        wake_all(waker.into_iter().chain(others));
        if let Some(file) = left_to {
            file.has_landed(T::CHANGES, &self.keeper);
        }
    }

    /// The outcome, once.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<T::Output>> {
        // Foreign code, so not under the lock; nor is what is replaced dropped there.
        let mine = cx.waker().clone();
        self.poll_with(|state| state.waker.replace(mine))
    }

    /// The outcome, for the first of several who wait for the end; all are woken.
    pub(super) fn poll_among_others(&self, cx: &mut Context<'_>) -> Poll<io::Result<T::Output>> {
        let mine = cx.waker().clone();
        self.poll_with(|state| {
            if state.others.iter().any(|other| other.will_wake(&mine)) {
                return Some(mine);
            }
            state.others.push(mine);
            None
        })
    }

    fn poll_with(
        &self,
        register: impl FnOnce(&mut State<T>) -> Option<Waker>,
    ) -> Poll<io::Result<T::Output>> {
        let superfluous = {
            let mut state = self.lock();
            match std::mem::replace(&mut state.outcome, Outcome::Taken) {
                Outcome::Here(outcome) => return Poll::Ready(outcome),
                Outcome::Taken => panic!("polled after its outcome was taken"),
                Outcome::Awaited => {}
            }
            state.outcome = Outcome::Awaited;
            register(&mut state)
        };
        drop(superfluous);
        attend(&self.keeper);
        Poll::Pending
    }

    pub(super) fn keeper(&self) -> &Arc<RuntimeRef> {
        &self.keeper
    }

    /// Nobody waits any more: what is done with the file after this comes after it.
    fn leave_to(&self, file: Arc<Writer>) {
        let mut state = self.lock();
        if let Outcome::Awaited = state.outcome {
            file.is_left_with(T::CHANGES, &self.keeper);
            state.left_to = Some(file);
        }
    }

    /// Nobody waits any more. If it need not come to its end, it may as well not.
    pub(super) fn abandon(&self) {
        let wakers = {
            let mut state = self.lock();
            state.abandoned = true;
            (state.waker.take(), std::mem::take(&mut state.others))
        };
        drop(wakers);
        if !T::MUST_FINISH {
            let slot = self.lock().slot.take();
            if let Some((ring, slot)) = slot {
                ring.cancel(slot, std::ptr::from_ref(self).cast());
            }
        }
    }
}

impl<T: Operation> Flight<T> {
    fn go_on(self: &Arc<Self>, step: Step<T>, place: CompletionContext) {
        match (step, place) {
            (Step::Done(outcome), _) => self.finish(outcome),
            (Step::Again(operation), CompletionContext::DriverThread) => self.begin(operation),
            (Step::Elsewhere(operation), CompletionContext::DriverThread) => {
                self.to_pool(operation)
            }
            (
                Step::Again(operation) | Step::Elsewhere(operation),
                CompletionContext::BlockingThread,
            ) => {
                self.finish(operation.run());
            }
        }
    }

    /// Whether nobody needs what was not done: nobody waits, or the runtime goes
    /// down and has cancelled it for that, since it might never end.
    fn is_dispensable(&self, place: CompletionContext) -> bool {
        let closing = || self.keeper.shared.estate().is_closing();
        self.lock().abandoned || place == CompletionContext::BlockingThread || closing()
    }
}

thread_local! {
    /// Landings on this thread that have not returned. What follows a landing may be
    /// submitted, and with that others may land.
    static LANDINGS: Cell<u32> = const { Cell::new(0) };
}

/// How many landings may lie within each other; what follows more goes to the pool.
const NESTED: u32 = 8;

/// A landing, while it lasts.
struct Nested;

impl Nested {
    fn begin() -> Self {
        LANDINGS.set(LANDINGS.get() + 1);
        Self
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        LANDINGS.set(LANDINGS.get() - 1);
    }
}

impl<T: Operation> Completion for Flight<T> {
    fn complete(self: Arc<Self>, result: i32, place: CompletionContext) {
        let _nested = Nested::begin();
        self.release_clock();
        let operation = {
            let mut state = self.lock();
            state.slot = None;
            state.operation.take().expect("an operation lies in its flight until it lands")
        };
        let result =
            u32::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()));
        let step = match result {
            Err(error) if T::is_undone(error) => {
                if !T::MUST_FINISH && self.is_dispensable(place) {
                    drop(operation);
                    Step::Done(Err(gone()))
                } else {
                    Step::Elsewhere(operation)
                }
            }
            result => operation.landed(result),
        };
        // A pool without a thread panics, after the job has been seen to: that is no
        // reason to end the thread that looks after the ring.
        let _ = catch_unwind(AssertUnwindSafe(|| self.go_on(step, place)));
    }

    fn must_finish(&self) -> bool {
        T::MUST_FINISH
    }
}

/// An operation on its way to a thread of the pool.
struct Job<T: Operation> {
    operation: Option<T>,
    flight: Arc<Flight<T>>,
}

impl<T: Operation> Job<T> {
    fn run(mut self) {
        if let Some(operation) = self.operation.take() {
            self.flight.finish(operation.run());
        }
    }
}

impl<T: Operation> Drop for Job<T> {
    fn drop(&mut self) {
        // Dropped instead of run: the pool is closed, or has no threads. What must
        // come to its end does so here.
        match self.operation.take() {
            Some(operation) if T::MUST_FINISH => self.flight.finish(operation.run()),
            Some(operation) => {
                drop(operation);
                self.flight.finish(Err(gone()));
            }
            None if std::thread::panicking() => self.flight.finish(Err(gone())),
            None => {}
        }
    }
}

/// Does an operation and waits for its outcome.
#[must_use = "futures do nothing unless polled"]
pub(super) struct Perform<T: Operation> {
    stage: Stage<T>,
    /// The file that it is about.
    file: Option<Arc<Writer>>,
    site: &'static Location<'static>,
}

enum Stage<T: Operation> {
    New(T),
    Flying(Arc<Flight<T>>),
    Over,
}

impl<T: Operation> Perform<T> {
    /// `site` is where the user called.
    pub(super) fn new(operation: T, site: &'static Location<'static>) -> Self {
        Self { stage: Stage::New(operation), file: None, site }
    }

    /// The file waits for it if nobody else does.
    pub(super) fn about(mut self, file: &Arc<Writer>) -> Self {
        self.file = Some(file.clone());
        self
    }
}

impl<T: Operation> Unpin for Perform<T> {}

impl<T: Operation> Future for Perform<T> {
    type Output = io::Result<T::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = ready!(coop::poll_proceed(cx));
        if let Stage::New(_) = self.stage {
            super::page_cache::is_allowed()?;
            let Stage::New(operation) = std::mem::replace(&mut self.stage, Stage::Over) else {
                unreachable!("looked a moment ago")
            };
            self.stage = Stage::Flying(start(operation));
        }
        let Stage::Flying(flight) = &self.stage else { panic!("polled after completion") };
        match flight.poll(cx) {
            Poll::Ready(outcome) => {
                progress.made_progress();
                self.stage = Stage::Over;
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                wait::waiting_on(T::KIND, &**flight, self.site);
                Poll::Pending
            }
        }
    }
}

impl<T: Operation> Drop for Perform<T> {
    fn drop(&mut self) {
        if let Stage::Flying(flight) = &self.stage {
            // First: with the other it may land.
            if let Some(file) = self.file.take() {
                flight.leave_to(file);
            }
            flight.abandon();
        }
    }
}

/// An operation that no ring knows: a closure for the pool.
pub(super) struct Call<F, const MUST_FINISH: bool>(F);

impl<F, R, const MUST_FINISH: bool> Operation for Call<F, MUST_FINISH>
where
    F: FnOnce() -> io::Result<R> + Send + 'static,
    R: Send + 'static,
{
    type Output = R;
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = MUST_FINISH;

    fn run(self) -> io::Result<R> {
        (self.0)()
    }
}

/// Something for the pool that comes to its end; for [`start`].
pub(super) fn job<F>(f: F) -> impl Operation<Output = ()>
where
    F: FnOnce() + Send + 'static,
{
    Call::<_, true>(move || {
        f();
        Ok(())
    })
}

/// Runs a closure in the pool.
pub(super) fn call<F, R>(site: &'static Location<'static>, f: F) -> Perform<Call<F, false>>
where
    F: FnOnce() -> io::Result<R> + Send + 'static,
    R: Send + 'static,
{
    Perform::new(Call(f), site)
}

/// The same with a closure that changes something, and comes to its end.
pub(super) fn change<F, R>(site: &'static Location<'static>, f: F) -> Perform<Call<F, true>>
where
    F: FnOnce() -> io::Result<R> + Send + 'static,
    R: Send + 'static,
{
    Perform::new(Call(f), site)
}

#[cfg(all(test, not(loom)))]
#[path = "operation_tests.rs"]
mod tests;
