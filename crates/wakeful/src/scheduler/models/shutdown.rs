//! Loom models of shutdown: the last thread drops all remaining tasks, however late another thread
//! queues a task. The threads here take the steps of `MultiThread::{while_active, leave}`, of the
//! watchdog's rescue and of `block_in_place`.

use crate::scheduler::multi_thread::shutdown::{GateExit, ShutdownGate};
use crate::sys::sync::{Mutex, thread};
use crate::task::models::scheduler::model;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct ModelScheduler {
    shutdown_gate: ShutdownGate,
    /// A worker's queue, from which the watchdog may take tasks.
    ring: Mutex<usize>,
    /// The injector; `None` if it is closed.
    injector: Mutex<Option<usize>>,
    /// The results. Not part of the model.
    cancelled: AtomicUsize,
    closed_arenas: AtomicUsize,
}

impl ModelScheduler {
    fn new(workers: usize, tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            shutdown_gate: ShutdownGate::new(workers),
            ring: Mutex::new(tasks),
            injector: Mutex::new(Some(0)),
            cancelled: AtomicUsize::new(0),
            closed_arenas: AtomicUsize::new(0),
        })
    }

    /// Takes the steps of `MultiThread::drop_tasks`.
    fn drop_tasks(&self) {
        let ring = std::mem::take(&mut *self.ring.lock());
        let injected = self.injector.lock().take().unwrap_or(0);
        self.cancelled.fetch_add(ring + injected, Relaxed);
    }

    fn close_arenas(&self) {
        self.drop_tasks();
        self.closed_arenas.fetch_add(1, Relaxed);
    }

    fn detach(&self) {
        if self.shutdown_gate.detach() == GateExit::Last {
            self.close_arenas();
        }
    }

    fn deactivate(&self) {
        if self.shutdown_gate.deactivate() == GateExit::Last {
            self.drop_tasks();
        }
    }

    fn leave(&self) {
        self.deactivate();
        self.detach();
    }

    /// Takes the steps of a visit of the watchdog.
    fn rescue(&self) {
        if !self.shutdown_gate.try_attach() {
            return;
        }
        // Same steps as `MultiThread::while_active`.
        if self.shutdown_gate.try_activate() {
            let moved = std::mem::take(&mut *self.ring.lock());
            // SHUTDOWN-1: this thread is active, so the injector is open.
            *self.injector.lock().as_mut().expect("open while a thread is active") += moved;
            self.deactivate();
        }
        self.detach();
    }

    /// Takes the steps at the end of a poll that has blocked in place and requeues its task.
    fn requeue(&self) {
        let mut injector = self.injector.lock();
        match injector.as_mut() {
            Some(tasks) => *tasks += 1,
            None => drop(self.cancelled.fetch_add(1, Relaxed)),
        }
    }

    fn check(&self, tasks: usize) {
        assert_eq!(self.closed_arenas.load(Relaxed), 1, "the last thread closes the arenas, once");
        assert_eq!(self.cancelled.load(Relaxed), tasks, "every task is found");
    }
}

#[test]
fn tasks_that_the_watchdog_moves_are_found() {
    model(3, || {
        let scheduler = ModelScheduler::new(2, 2);
        let (other, watchdog) = (scheduler.clone(), scheduler.clone());
        let threads =
            [thread::spawn(move || other.leave()), thread::spawn(move || watchdog.rescue())];
        scheduler.leave();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        scheduler.check(2);
    });
}

#[test]
fn a_poll_that_blocks_in_place_requeues_after_the_others_left() {
    model(3, || {
        let scheduler = ModelScheduler::new(1, 1);
        // The worker blocks in place, and another thread takes its active count.
        scheduler.shutdown_gate.attach_again();
        let (successor, watchdog) = (scheduler.clone(), scheduler.clone());
        let threads =
            [thread::spawn(move || successor.leave()), thread::spawn(move || watchdog.rescue())];
        scheduler.requeue();
        scheduler.detach();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        scheduler.check(2);
    });
}

/// A poll blocks in place while the runtime closes and the other worker leaves. No other thread takes
/// over its core, so the poll's thread deactivates itself. Catches a count that is released twice or
/// never.
#[test]
fn a_poll_that_blocks_in_place_while_the_runtime_closes_deactivates() {
    model(3, || {
        let scheduler = ModelScheduler::new(2, 1);
        let (other, watchdog) = (scheduler.clone(), scheduler.clone());
        let threads =
            [thread::spawn(move || other.leave()), thread::spawn(move || watchdog.rescue())];
        scheduler.shutdown_gate.attach_again();
        scheduler.leave();
        // The closure ends, and then the poll.
        scheduler.requeue();
        scheduler.detach();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        scheduler.check(2);
    });
}
