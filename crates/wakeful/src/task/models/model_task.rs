//! A task that is reduced to its state word, for the models in `task`.
//!
//! Its callers take the steps of `runnable` and `waker`. The thread whose duty is to schedule the
//! task runs it at once, so no queue is between the steps.

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::{UnsafeCell, thread};
use crate::task::duty::{Complete, DropJoin, EndPoll, Release, Start, Wake};
use crate::task::state::State;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The value of [`Task::stored`] in models whose polls store no wakers.
const STORES_NONE: u32 = u32::MAX;

/// A task without a cell.
pub(super) struct Task {
    pub(super) state: State,
    /// Models the future and its output, which TASK-1 guards. True until the future is dropped.
    pub(super) future: UnsafeCell<bool>,
    /// Whether there is a spare waker (TASK-6). Guarded by TASK-1.
    pub(super) spare: UnsafeCell<bool>,
    /// The number of wakers that a poll has stored for other threads, in models that store wakers.
    pub(super) stored: AtomicU32,
    /// Models the fields that are written at spawn (TASK-5): the number of the task in this cell.
    pub(super) generation: UnsafeCell<u32>,
    /// Flags that two threads set before they wake. The task is ready once it has seen `needs` of them.
    pub(super) events: [AtomicU32; 2],
    pub(super) needs: u32,
    pub(super) tally: Tally,
}

/// Counted results, which are not part of the model, so the atomics are std's.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) finished: AtomicUsize,
    pub(super) outputs_dropped: AtomicUsize,
    pub(super) freed: AtomicUsize,
    pub(super) orphans: AtomicUsize,
}

// SAFETY: TASK-1 and TASK-5 guard the cells, which loom checks.
unsafe impl Send for Task {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for Task {}

impl Task {
    /// Creates a task that was just spawned, with additional `wakers` and `handles`.
    pub(super) fn spawned(needs: u32, wakers: u32, handles: u32) -> Arc<Task> {
        let task = Task {
            state: State::free(),
            future: UnsafeCell::new(true),
            spare: UnsafeCell::new(false),
            stored: AtomicU32::new(STORES_NONE),
            generation: UnsafeCell::new(1),
            events: [AtomicU32::new(0), AtomicU32::new(0)],
            needs,
            tally: Tally::default(),
        };
        task.state.publish(0);
        (0..wakers).for_each(|_| task.state.clone_waker());
        (0..handles).for_each(|_| task.state.clone_handle());
        Arc::new(task)
    }

    pub(super) fn fire(&self, from: usize) {
        self.events[from].store(1, Relaxed);
    }

    /// Takes the steps of `Runnable::run`.
    pub(super) fn run(&self) {
        match self.state.start_poll() {
            Start::Poll => self.poll(),
            Start::PollWithSpare => {
                self.set_spare(true);
                self.poll();
            }
            Start::Cancel => self.finish(),
        }
    }

    /// Starts the first poll outside `run`.
    pub(super) fn start(&self) {
        assert_eq!(self.state.start_poll(), Start::PollWithSpare);
        self.set_spare(true);
    }

    /// Sets whether there is a spare waker, and returns the old value.
    pub(super) fn set_spare(&self, spare: bool) -> bool {
        // SAFETY: TASK-1, which loom checks.
        self.spare.with_mut(|old| unsafe { std::mem::replace(&mut *old, spare) })
    }

    /// Takes the steps of `waker::clone` in a poll.
    pub(super) fn clone_own(&self) {
        if !self.set_spare(false) {
            self.state.clone_waker();
        }
    }

    /// Takes the steps of `waker::drop_waker` in a poll.
    pub(super) fn drop_own(&self) {
        if self.set_spare(true) {
            assert_eq!(self.state.drop_waker(), Release::Nothing);
        }
    }

    /// Takes the steps of `runnable::poll`, for a future that does not wake itself.
    pub(super) fn poll(&self) {
        if self.poll_future() || (self.stored.load(Relaxed) != STORES_NONE && self.store_wakers()) {
            return self.finish();
        }
        match self.state.end_poll(false, self.set_spare(false)) {
            EndPoll::Idle => {}
            EndPoll::Requeue => self.run(),
            EndPoll::Cancel => self.finish(),
            EndPoll::Orphan => {
                self.tally.orphans.fetch_add(1, Relaxed);
                self.released(self.state.drop_handle());
            }
        }
    }

    /// Stores two wakers for other threads, one of them the spare waker, and checks again. If the
    /// task is ready, drops the stored wakers and returns true.
    pub(super) fn store_wakers(&self) -> bool {
        (0..2).for_each(|_| self.clone_own());
        let replaced = self.stored.swap(2, AcqRel);
        (0..replaced).for_each(|_| self.drop_own());
        let is_ready = self.poll_future();
        if is_ready {
            (0..self.stored.swap(0, AcqRel)).for_each(|_| self.drop_own());
        }
        is_ready
    }

    /// Wakes all wakers that a poll has stored.
    pub(super) fn wake_stored(&self) {
        for _ in 0..self.stored.swap(0, AcqRel) {
            self.perform(self.state.wake_by_val());
        }
    }

    /// Polls the future, under TASK-1. Returns whether it is ready.
    pub(super) fn poll_future(&self) -> bool {
        // SAFETY: TASK-1, which loom checks.
        self.future
            .with_mut(|future| assert!(unsafe { *future }, "polled after the future was dropped"));
        self.events.iter().map(|event| event.load(Relaxed)).sum::<u32>() >= self.needs
    }

    /// Takes the steps of `vtable.cancel` or the last poll, then of `runnable::finish`.
    pub(super) fn finish(&self) {
        // SAFETY: TASK-1, which loom checks.
        self.future.with_mut(|future| assert!(unsafe { std::mem::replace(&mut *future, false) }));
        self.tally.finished.fetch_add(1, Relaxed);
        match self.state.complete(self.set_spare(false)) {
            Complete::Done => return,
            Complete::WakeJoiner => unreachable!("no join waker is registered"),
            Complete::DropOutput => self.drop_output(),
        }
        self.released(self.state.release_running());
    }

    pub(super) fn drop_output(&self) {
        // SAFETY: TASK-1 after COMPLETE, which loom checks.
        self.future.with_mut(|future| assert!(unsafe { !*future }));
        self.tally.outputs_dropped.fetch_add(1, Relaxed);
    }

    /// Takes the steps of `waker::perform`.
    pub(super) fn perform(&self, duty: Wake) {
        match duty {
            Wake::Nothing => {}
            Wake::Schedule => self.run(),
            Wake::Free => self.free(),
        }
    }

    /// Takes the steps of `waker::perform` when the queues are closed.
    pub(super) fn perform_refused(&self, duty: Wake) {
        match duty {
            Wake::Schedule => self.released(self.state.discard_wake()),
            duty => self.perform(duty),
        }
    }

    pub(super) fn released(&self, duty: Release) {
        match duty {
            Release::Nothing => {}
            Release::Free => self.free(),
            Release::Orphan => {
                self.tally.orphans.fetch_add(1, Relaxed);
                self.released(self.state.drop_handle());
            }
        }
    }

    pub(super) fn free(&self) {
        // SAFETY: nothing refers to the cell, which loom checks.
        self.future
            .with_mut(|future| assert!(unsafe { !*future }, "freed before the future was dropped"));
        self.tally.freed.fetch_add(1, Relaxed);
        self.state.retire();
    }

    /// Takes the steps of `JoinHandle::drop` for a handle that was never polled.
    pub(super) fn drop_join(&self) {
        match self.state.drop_join(false) {
            DropJoin::Nothing => {}
            DropJoin::Free => self.free(),
            DropJoin::DropWaker => unreachable!("no join waker is registered"),
            DropJoin::DropOutput => {
                self.drop_output();
                self.released(self.state.drop_handle());
            }
        }
    }

    /// Checks the end: the future was dropped once, and the cell was freed once.
    pub(super) fn assert_over(&self, orphans: usize) {
        assert_eq!(self.tally.finished.load(Relaxed), 1, "the future was not dropped once");
        assert_eq!(self.tally.outputs_dropped.load(Relaxed), 1, "the output was not dropped once");
        assert_eq!(self.tally.freed.load(Relaxed), 1, "the cell was not freed once");
        assert_eq!(self.tally.orphans.load(Relaxed), orphans);
    }
}

/// Starts a model thread with its own reference.
pub(super) fn with(task: &Arc<Task>, f: impl FnOnce(&Task) + 'static) -> thread::JoinHandle<()> {
    let task = task.clone();
    thread::spawn(move || f(&task))
}

pub(super) fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model panicked"));
}
