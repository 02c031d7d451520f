//! Shutdown of the work-stealing scheduler: decides which thread drops the tasks, and which one
//! frees the memory.
//!
//! The runtime's owner starts the shutdown, or, after a fatal error, the first worker that sees the
//! error. The closing thread sets `closing` and unparks all threads. Each worker leaves. The last
//! one closes the injector and drops every future. It does not wait for threads that block in
//! place, because they may be waiting for those drops. The last thread of all drops the tasks that
//! those threads left behind, and closes the arenas. A waker that fires meanwhile finds the
//! injector closed and discards its task.
//!
//! [`ShutdownGate`] has two counts of threads. *Attached* threads may touch cells of the arenas.
//! *Active* threads are attached and may also move tasks between queues.
//!
//! Actors: *workers* are active from the start. *Spare workers* are active while they may hold
//! tasks. The *watchdog* is attached while it visits the scheduler, and active while it moves
//! tasks. A thread that *blocks in place* passes its active count to another thread, or gives the
//! count up. It stays attached until its poll has ended.
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
//!   closes the injector and drops its tasks and every other future. So no moved task is missed. A
//!   watchdog that rescues tasks from a worker's ring puts them into an open injector, or is the
//!   last active thread itself.
//! - SHUTDOWN-2. A thread that may touch a cell of the arenas is attached. The last thread to
//!   detach drops all remaining tasks and closes the arenas. A poll that blocks in place may end
//!   after the tasks were dropped, and requeue its task. Its thread then finds the injector closed
//!   and cancels the task, unless the thread of SHUTDOWN-1 has found the task in the arena. Then
//!   the thread detaches.
//! - SHUTDOWN-3. A count that has reached zero stays zero: no thread enters any more.
//! - SHUTDOWN-4. No active thread runs foreign code that may wait: closures of `block_in_place`,
//!   report hooks. That code may wait for a timer, a descriptor or a task of this runtime. Such
//!   waits end only after the last thread has deactivated. The callbacks `on_thread_start`,
//!   `on_thread_park` and `on_thread_unpark` are the exception, because the worker needs its core
//!   afterwards. For these, the thread in `block_on` closes the drivers itself
//!   (`MultiThread::park_in_block_on`).
//!
//! The race to fear: a thread enters while the last one leaves. It cannot happen: entering
//! increments a nonzero count in one atomic step. So either the leaving thread is not the last, or
//! the entering thread finds zero and stays out. A thread attaches before it activates. If it
//! cannot activate, it detaches again, and may then be the last attached thread. (Model:
//! `models/shutdown.rs`.)
//!
//! Orderings: every step is AcqRel, so the last thread to leave sees the writes of all others.

use crate::scheduler::multi_thread::MultiThread;
use crate::scheduler::multi_thread::core::WorkerCore;
use crate::scheduler::multi_thread::threads::WorkerThread;
use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};

/// Counts the threads that may move tasks and the threads that may touch them.
pub(crate) struct ShutdownGate {
    active: AtomicUsize,
    attached: AtomicUsize,
}

/// Whether a thread was the last to leave a count.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateExit {
    NotLast,
    /// The caller was the last, and has the duty of SHUTDOWN-1 or SHUTDOWN-2.
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

    /// Makes an attached thread active. Returns false if it is too late (SHUTDOWN-3).
    ///
    /// The thread stays attached in either case.
    pub(crate) fn try_activate(&self) -> bool {
        increment_unless_zero(&self.active)
    }

    /// Makes an active thread inactive; the thread stays attached.
    pub(crate) fn deactivate(&self) -> GateExit {
        decrement(&self.active)
    }

    /// Attaches an active thread once more, which will pass its first two counts to another thread.
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
    /// Closes the scheduler: no thread enters it from then on, and all threads leave.
    pub(crate) fn close(&self) {
        // Every closing thread sets this, so that no thread is started after it returns.
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

    /// After a fatal error, unparks the workers; the first one that sees the error closes the
    /// scheduler.
    pub(crate) fn propagate_fatal_error(&self) {
        if self.base.has_fatal_error() {
            self.unpark_all();
        }
    }

    /// Leaves the scheduler on behalf of the workers that have no thread.
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

    /// Attaches a thread that reads tasks but moves none. Returns false if it is too late.
    pub(crate) fn try_attach(&self) -> bool {
        self.shutdown_gate.try_attach()
    }

    /// Runs `f`, which may move tasks, on an attached thread, unless the tasks are already dropped.
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

    /// Attaches a thread that is about to block in place and pass its active count to another
    /// thread.
    pub(crate) fn attach_again(&self) {
        self.shutdown_gate.attach_again();
    }

    /// Detaches the calling thread. The last one frees the memory (SHUTDOWN-2).
    pub(crate) fn detach(&self) {
        if self.shutdown_gate.detach() == GateExit::Last {
            self.close_arenas();
        }
    }

    /// Drops every future, so that no task runs again.
    ///
    /// Called by the last active thread, and once more by the last attached one. The drivers are
    /// closed first. Otherwise a destructor that waits for a timer or a socket of this runtime
    /// would wait for its own thread.
    fn drop_tasks(&self) {
        let injected = self.injector.close();
        self.shut_drivers();
        // No thread polls tasks, except in `block_in_place`.
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
            // reference. If there are no such cells, the reference is dropped here.
            self.kept_alive.lock().push(self.to_arc());
            if allocator.close().is_some() {
                let reference = self.kept_alive.lock().pop();
                drop(reference);
            }
        }
    }
}
