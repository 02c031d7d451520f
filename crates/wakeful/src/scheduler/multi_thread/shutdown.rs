//! Shutdown of the work-stealing scheduler: decides which thread drops its tasks, and which one
//! frees its memory.
//!
//! The runtime's owner starts it, or after a fatal error the first worker that sees the error. The
//! closing thread sets `closing` and unparks all threads. Each worker leaves. The last one closes
//! the injector and drops every future. Threads that block in place are not waited for until then,
//! because they may wait for just that. The last thread of all drops what those have left behind
//! and closes the arenas. A waker that fires meanwhile finds the injector closed and discards its
//! task.
//!
//! [`ShutdownGate`] has two counts of threads. *Attached* threads may touch cells of the arenas.
//! *Active* threads are attached and may also move tasks between queues.
//!
//! Actors: *workers* are active from the start. *Spare workers* are active while they may hold
//! tasks. The *watchdog* is attached while it visits the scheduler, and active while it moves
//! tasks. A thread that *blocks in place* passes its active count on to another thread, or gives it
//! up. It stays attached until its poll has ended.
//!
//! ```text
//! diagram
//!            try_attach()              try_activate()              attach_again()
//!    detached ───────────► attached ─────────────────► active ────────────────────► attached twice
//!        ▲                  │    ▲                       │                                │
//!        └──── detach() ◄───┘    └──── deactivate() ◄────┘                                │
//!        └──────────────────────────────────────────────────────────────── detach() ◄─────┘
//! ```
//!
//! - SHUTDOWN-1. A thread that moves tasks between queues is active. The last thread to deactivate
//!   closes the injector and drops its tasks and every other future. So no moved task is missed.
//!   The watchdog that rescues tasks from a worker's ring puts them into an open injector, or is
//!   the last active thread itself.
//! - SHUTDOWN-2. A thread that may touch a cell of the arenas is attached. The last thread to
//!   detach drops what is left and closes the arenas. A poll that blocks in place may end after the
//!   tasks were dropped and requeue its task. It finds the injector closed. It cancels the task
//!   itself, unless the thread of SHUTDOWN-1 has found it in the arena. Then it detaches.
//! - SHUTDOWN-3. A count that has reached zero stays zero: no thread enters any more.
//! - SHUTDOWN-4. No active thread runs foreign code that may wait: closures of `block_in_place`,
//!   report hooks. That code may wait for a timer, a descriptor or a task of this runtime. These
//!   waits end only after the last thread has deactivated. The callbacks `on_thread_start`,
//!   `on_thread_park` and `on_thread_unpark` are the exception, because the worker needs its core
//!   afterwards. For these, the thread in `block_on` closes the drivers itself
//!   (`MultiThread::park_in_block_on`).
//!
//! The race to fear: a thread enters while the last one leaves. It cannot happen. Entering adds one
//! to a count that is not zero, in one step. So either the leaving thread is not the last, or the
//! entering thread finds zero and stays out. A thread attaches first. If it then cannot activate,
//! it detaches again, and may be the last one by then. (Model: `models/shutdown.rs`.)
//!
//! Orderings: every step is AcqRel, so the last thread to leave sees what all others did.

use crate::scheduler::multi_thread::MultiThread;
use crate::scheduler::multi_thread::core::WorkerCore;
use crate::scheduler::multi_thread::threads::WorkerThread;
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};

/// Counts the threads that may move tasks and those that may touch them.
pub(crate) struct ShutdownGate {
    active: AtomicUsize,
    attached: AtomicUsize,
}

/// Whether a thread was the last to leave a count.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateExit {
    NotLast,
    /// The caller has to do what SHUTDOWN-1 or SHUTDOWN-2 says.
    Last,
}

impl ShutdownGate {
    /// Creates the gate of a scheduler whose workers are all active.
    pub(crate) fn new(workers: usize) -> Self {
        Self { active: AtomicUsize::new(workers), attached: AtomicUsize::new(workers) }
    }

    /// Attaches the calling thread. Returns false if it is too late (SHUTDOWN-3).
    pub(crate) fn try_attach(&self) -> bool {
        increment_unless_zero(&self.attached)
    }

    /// Makes an attached thread active. Returns false if it is too late (SHUTDOWN-3); the thread is
    /// still attached then.
    pub(crate) fn try_activate(&self) -> bool {
        increment_unless_zero(&self.active)
    }

    /// Makes an active thread inactive. It is still attached.
    pub(crate) fn deactivate(&self) -> GateExit {
        decrement(&self.active)
    }

    /// Attaches an active thread once more. It passes its first two counts on to another thread.
    pub(crate) fn attach_again(&self) {
        self.attached.fetch_add(1, AcqRel);
    }

    /// Detaches a thread that is not active.
    pub(crate) fn detach(&self) -> GateExit {
        decrement(&self.attached)
    }
}

fn increment_unless_zero(count: &AtomicUsize) -> bool {
    let more = |count: usize| (count > 0).then_some(count + 1);
    count.fetch_update(AcqRel, Acquire, more).is_ok()
}

fn decrement(count: &AtomicUsize) -> GateExit {
    match count.fetch_sub(1, AcqRel) {
        0 => unreachable!("the leaving thread was counted"),
        1 => GateExit::Last,
        _ => GateExit::NotLast,
    }
}

impl MultiThread {
    /// Closes the scheduler: no thread enters it any more, and all threads leave.
    pub(crate) fn close(&self) {
        // Every closing thread sets this: when one returns, no thread is started any more.
        self.lock_threads().closed = true;
        if !self.base.start_closing() {
            return;
        }
        // The watchdog may wait in the poller of a lost worker.
        self.base.notify_progress();
        self.release_unstarted_workers();
        self.unpark_all();
        // A worker in one of the user's callbacks may be in `block_on`.
        self.base.unpark_block_ons();
    }

    /// Unparks the workers if there was a fatal error. The first worker that sees it closes the
    /// scheduler.
    pub(crate) fn propagate_fatal_error(&self) {
        if self.base.has_fatal_error() {
            self.unpark_all();
        }
    }

    /// Leaves in place of the workers that have no thread.
    pub(super) fn release_unstarted_workers(&self) {
        for worker in &self.workers {
            let mut thread = worker.thread.lock();
            if !matches!(&*thread, WorkerThread::NotStarted(_)) {
                continue;
            }
            *thread = WorkerThread::Starting;
            drop(thread);
            self.mark_found(worker);
            worker.metrics.mark_awake();
            self.leave();
        }
    }

    /// Attaches and activates a thread that may hold tasks. Returns false if it is too late.
    pub(crate) fn try_enter(&self) -> bool {
        if !self.shutdown_gate.try_attach() {
            return false;
        }
        if self.shutdown_gate.try_activate() {
            return true;
        }
        self.detach();
        false
    }

    /// Attaches a thread that reads tasks and moves none. Returns false if it is too late.
    pub(crate) fn try_attach(&self) -> bool {
        self.shutdown_gate.try_attach()
    }

    /// Runs `f`, which may move tasks, on an attached thread. Does nothing if the tasks were
    /// dropped already.
    pub(crate) fn while_active(&self, f: impl FnOnce()) {
        if self.shutdown_gate.try_activate() {
            f();
            self.deactivate();
        }
    }

    /// Deactivates the calling thread. The last one drops the tasks (SHUTDOWN-1).
    pub(crate) fn deactivate(&self) {
        if self.shutdown_gate.deactivate() == GateExit::Last {
            self.drop_tasks();
        }
    }

    /// Deactivates and detaches the calling thread.
    pub(crate) fn leave(&self) {
        self.deactivate();
        self.detach();
    }

    /// Attaches a thread that is about to block in place. Another thread takes its active count.
    pub(crate) fn attach_again(&self) {
        self.shutdown_gate.attach_again();
    }

    /// Detaches the calling thread. The last one frees the memory (SHUTDOWN-2).
    pub(crate) fn detach(&self) {
        if self.shutdown_gate.detach() == GateExit::Last {
            self.close_arenas();
        }
    }

    /// Drops every future. No task can run any more.
    ///
    /// Called by the last active thread, and once more by the last attached one. The drivers are
    /// closed first. Otherwise a destructor that waits for a timer or a socket of this runtime
    /// would wait for the thread that it is on.
    fn drop_tasks(&self) {
        let injected = self.injector.close();
        self.shut_drivers();
        // No thread polls any more, except in `block_in_place`.
        self.for_each_task(|task| self.base.count_if_never_polled(&task));
        for task in injected {
            task.cancel();
        }
        self.cores.iter().for_each(WorkerCore::cancel_queued);
        for arena in &self.arenas {
            arena.cancel_all();
        }
        self.base.cancel_external();
        self.base.config.hooks.drivers_closed();
    }

    /// Ends every wait for a timer or a descriptor of this runtime.
    pub(crate) fn shut_drivers(&self) {
        for worker in &self.workers {
            worker.timers.close();
            if let Some(poller) = worker.poller.get() {
                poller.shut_down();
            }
        }
    }

    fn close_arenas(&self) {
        self.drop_tasks();
        let own = self.cores.iter().filter_map(WorkerCore::take_allocator);
        for allocator in own.chain(self.base.take_external_allocator()) {
            // Keeps the scheduler alive for cells that outlive it. `last_cell_freed` returns this
            // reference. If there are no such cells, it is dropped here.
            self.kept_alive.lock().push(self.to_arc());
            if allocator.close().is_some() {
                let reference = self.kept_alive.lock().pop();
                drop(reference);
            }
        }
    }
}
