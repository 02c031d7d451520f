//! Handles to a runtime, for spawning and blocking from anywhere.

use super::context::{self, Entered};
use crate::inspect::{self, Dump, Report};
use crate::runtime::inner::{Flavor, Shared};
use crate::runtime::task_api::{blocking, spawn};
use crate::runtime::{Id, RuntimeFlavor, RuntimeMetrics};
use crate::scheduler::block_on::BlockOnGuard;
use crate::task::block_on::BlockOnVia;
use crate::task::{JoinHandle, enter_guard};
use crate::telemetry::trace_buffer::TraceBuffer;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A reference to a runtime; cheap to clone, usable from any thread.
///
/// It does not keep the runtime running: once the
/// [`Runtime`](super::Runtime) is dropped, tasks spawned through a handle are
/// cancelled at once.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

/// Makes a runtime the thread's current one until it is dropped; from
/// [`Handle::enter`].
///
/// The runtime itself may be shut down before that: the guard keeps what it needs.
#[must_use = "the runtime is left again when the guard is dropped"]
pub struct EnterGuard<'a> {
    _inside: Inside,
    _handle: PhantomData<&'a Handle>,
}

/// What the guard holds. It borrows nothing, and has the destructor, so that the
/// compiler knows that the guard's does not need what it borrows.
struct Inside {
    entered: Entered<'static>,
    /// A guard can be leaked, or dropped out of order, and then the thread may
    /// stay in the runtime's context for good: this reference is leaked as well.
    keep: ManuallyDrop<Arc<Shared>>,
}

// SAFETY: through a shared reference a guard can be asked nothing. It has to be
// dropped on the thread that has entered, and is: it is not `Send`.
unsafe impl Sync for Inside {}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.entered.leave() {
            // SAFETY: dropped once, here; the context does not refer to it now.
            unsafe { ManuallyDrop::drop(&mut self.keep) };
        }
    }
}

impl Handle {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The runtime that the calling thread is in.
    ///
    /// # Panics
    ///
    /// Outside of a runtime. Call it from a task, inside `block_on`, or while an
    /// [`EnterGuard`] is held, or use [`try_current`](Self::try_current).
    #[track_caller]
    pub fn current() -> Self {
        match context::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// The runtime that the calling thread is in, if there is one.
    ///
    /// # Errors
    ///
    /// Outside of a runtime.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::try_current()
    }

    /// Makes this runtime the thread's current one, so that `spawn` and the like
    /// find it.
    ///
    /// # Panics
    ///
    /// If guards are dropped in another order than the reverse of their making.
    pub fn enter(&self) -> EnterGuard<'_> {
        let keep = self.shared.clone();
        // SAFETY: the guard gives `keep` up only when it has left the context.
        let entered = unsafe { context::enter_leakable(&keep) };
        let inside = Inside { entered, keep: ManuallyDrop::new(keep) };
        EnterGuard { _inside: inside, _handle: PhantomData }
    }

    /// Spawns a task on this runtime; it starts to run at once, awaited or not.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn::spawn_on(&self.shared, future, spawn::birth_here())
    }

    /// Runs a closure that may block on a thread of the blocking pool.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        blocking::spawn_blocking_on(&self.shared, func, None, true)
    }

    /// Runs a future on the calling thread, to its end.
    ///
    /// On a current-thread runtime this drives neither tasks nor timers: those
    /// run only while some thread is in [`Runtime::block_on`](super::Runtime::block_on).
    ///
    /// # Panics
    ///
    /// From within a runtime, or if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _driving = enter_guard::start_driving(true);
        let _entered = context::enter(&self.shared);
        match &self.shared.flavor {
            Flavor::Current(scheduler) => {
                scheduler.estate.block_on(future, BlockOnVia::Handle, BlockOnGuard::park)
            }
            Flavor::Multi(scheduler) => scheduler.block_on(future, BlockOnVia::Handle),
        }
    }

    /// Which kind of runtime this is.
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        match &self.shared.flavor {
            Flavor::Current(_) => RuntimeFlavor::CurrentThread,
            Flavor::Multi(_) => RuntimeFlavor::MultiThread,
        }
    }

    /// The runtime's id, unique in the process.
    pub fn id(&self) -> Id {
        self.shared.id
    }

    /// The name that [`Builder::name`](super::Builder::name) gave.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Every task and worker of the runtime, at this moment: what each does, and
    /// what it waits for. Any thread may take it, at any time; nothing is stopped or
    /// polled for it.
    pub fn dump(&self) -> Dump {
        Dump::take(self.shared.looks(), self.name())
    }

    /// Switches the flight recorder on or off: while it is on, each worker notes what it
    /// does (polls, wake-ups, spawns, sleeps, thefts) in a ring of the last few thousand
    /// events, which [`trace`](Self::trace) gives out. It starts with the next turn of
    /// each worker's loop, and times every poll, so it costs a little while it is on. What
    /// other threads spawn or wake is noted in a ring of its own.
    pub fn record(&self, on: bool) {
        self.shared.looks().recorders().iter().for_each(|recorder| recorder.switch(on));
        self.shared.looks().estate().elsewhere.switch(on);
        self.shared.reporter.recorder.switch(on);
    }

    /// Whether the flight recorder is on.
    pub fn is_recording(&self) -> bool {
        self.shared.reporter.recorder.is_on()
    }

    /// What the flight recorder has noted, as JSON for `chrome://tracing` or Perfetto: a row
    /// per worker, one of all other threads, and one of reports. Tasks go by their names; those
    /// that have ended, by their numbers.
    pub fn trace(&self) -> String {
        let looks = self.shared.looks();
        let workers = looks.recorders().into_iter().map(TraceBuffer::read).enumerate();
        let mut rows: Vec<_> =
            workers.map(|(worker, noted)| (format!("worker {worker}"), noted)).collect();
        rows.push(("other threads".to_owned(), looks.estate().elsewhere.read()));
        rows.push(("reports".to_owned(), self.shared.reporter.recorder.read()));
        let dump = self.dump();
        let names = dump.tasks().iter().filter_map(|task| Some((task.id()?, task.info())));
        let names = names.map(|(id, who)| (id.as_u64(), who.to_string())).collect();
        inspect::chrome_trace(&rows, &names)
    }

    /// Looks who waits for whom, now: deadlocks and the like, as they would be
    /// [reported](super::Builder::on_report) when the runtime falls quiet. What is found
    /// is given back, and not reported; an empty list means that all is well with those
    /// who wait.
    pub fn diagnose(&self) -> Vec<Report> {
        inspect::scan(self.shared.looks(), self.name()).reports
    }

    /// MetricsSnapshot about the runtime.
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::new(self.clone())
    }
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.shared.id)
            .field("name", &self.shared.name)
            .field("flavor", &self.runtime_flavor())
            .finish()
    }
}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish()
    }
}

/// The thread is in no runtime; from [`Handle::try_current`].
pub struct TryCurrentError {
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Missing,
}

impl TryCurrentError {
    pub(crate) fn missing() -> Self {
        Self { kind: Kind::Missing }
    }

    /// Whether there is no runtime in this thread's context.
    pub fn is_missing_context(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// Whether the thread's context is already being torn down. The context
    /// here needs no destructor, so it outlives everything else on its thread.
    pub fn is_thread_local_destroyed(&self) -> bool {
        false
    }
}

impl fmt::Debug for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryCurrentError").field("kind", &self.kind).finish()
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "there is no reactor running, must be called from the context of a Tokio 1.x runtime, \
             which here is one of wakeful's: call it in `#[wakeful::main]`, in \
             `Runtime::block_on` or in a task, or hold the guard of `Handle::enter` meanwhile",
        )
    }
}

impl std::error::Error for TryCurrentError {}
