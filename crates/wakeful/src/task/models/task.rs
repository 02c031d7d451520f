//! Models of the state word: access to the future, freeing of the cell, and lost wake-ups.
//!
//! A task is reduced to its state word. Its callers do what `runnable` and `waker` do. The thread
//! that is told to schedule the task runs it at once, so no queue is between the steps.

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::{UnsafeCell, thread};
use crate::task::duty::{Complete, DropJoin, EndPoll, Release, Shutdown, Start, Wake};
use crate::task::models::scheduler::{model, start};
use crate::task::state::State;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// In [`Task::stored`]: polls store no wakers.
const STORES_NONE: u32 = u32::MAX;

/// A task without a cell.
struct Task {
    state: State,
    /// Stands for the future and its output, which TASK-1 guards. True until the future is dropped.
    future: UnsafeCell<bool>,
    /// Whether there is a spare waker (TASK-6). Guarded by TASK-1.
    spare: UnsafeCell<bool>,
    /// How many wakers a poll has stored for other threads, in the models that do so.
    stored: AtomicU32,
    /// Stands for the fields that are written at spawn (TASK-5): the number of the task in this
    /// cell.
    generation: UnsafeCell<u32>,
    /// What two threads write before they wake. The task is ready once it has seen `needs` of them.
    events: [AtomicU32; 2],
    needs: u32,
    tally: Tally,
}

/// Counted results. They are not part of the model, so the atomics are std's.
#[derive(Default)]
struct Tally {
    finished: AtomicUsize,
    outputs_dropped: AtomicUsize,
    freed: AtomicUsize,
    orphans: AtomicUsize,
}

// SAFETY: TASK-1 and TASK-5 guard the cells, which loom checks.
unsafe impl Send for Task {}
// SAFETY: the reason for `Send` covers `Sync`.
unsafe impl Sync for Task {}

impl Task {
    /// A task that was just spawned, with more `wakers` and `handles`.
    fn spawned(needs: u32, wakers: u32, handles: u32) -> Arc<Task> {
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

    fn fire(&self, from: usize) {
        self.events[from].store(1, Relaxed);
    }

    /// Does what `Runnable::run` does.
    fn run(&self) {
        match self.state.start_poll() {
            Start::Poll => self.poll(),
            Start::PollWithSpare => {
                self.set_spare(true);
                self.poll();
            }
            Start::Cancel => self.finish(),
        }
    }

    /// Starts the first poll outside of `run`.
    fn start(&self) {
        assert_eq!(self.state.start_poll(), Start::PollWithSpare);
        self.set_spare(true);
    }

    /// Sets whether there is a spare waker. Returns the old value.
    fn set_spare(&self, spare: bool) -> bool {
        // SAFETY: TASK-1, which loom checks.
        self.spare.with_mut(|old| unsafe { std::mem::replace(&mut *old, spare) })
    }

    /// Does what `waker::clone` does in a poll.
    fn clone_own(&self) {
        if !self.set_spare(false) {
            self.state.clone_waker();
        }
    }

    /// Does what `waker::drop_waker` does in a poll.
    fn drop_own(&self) {
        if self.set_spare(true) {
            assert_eq!(self.state.drop_waker(), Release::Nothing);
        }
    }

    /// Does what `runnable::poll` does, for a future that does not wake itself.
    fn poll(&self) {
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

    /// Stores two wakers for other threads, one of them the spare one, and checks again. Returns
    /// true if the task is ready; the stored wakers are then dropped.
    fn store_wakers(&self) -> bool {
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
    fn wake_stored(&self) {
        for _ in 0..self.stored.swap(0, AcqRel) {
            self.perform(self.state.wake_by_val());
        }
    }

    /// Polls the future, under TASK-1. Returns whether it is ready.
    fn poll_future(&self) -> bool {
        // SAFETY: TASK-1, which loom checks.
        self.future
            .with_mut(|future| assert!(unsafe { *future }, "polled after the future was dropped"));
        self.events.iter().map(|event| event.load(Relaxed)).sum::<u32>() >= self.needs
    }

    /// Does what `vtable.cancel` or the last poll does, then what `runnable::finish` does.
    fn finish(&self) {
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

    fn drop_output(&self) {
        // SAFETY: TASK-1 after COMPLETE, which loom checks.
        self.future.with_mut(|future| assert!(unsafe { !*future }));
        self.tally.outputs_dropped.fetch_add(1, Relaxed);
    }

    /// Does what `waker::perform` does.
    fn perform(&self, duty: Wake) {
        match duty {
            Wake::Nothing => {}
            Wake::Schedule => self.run(),
            Wake::Free => self.free(),
        }
    }

    /// Does what `waker::perform` does if the queues are closed.
    fn perform_refused(&self, duty: Wake) {
        match duty {
            Wake::Schedule => self.released(self.state.discard_wake()),
            duty => self.perform(duty),
        }
    }

    fn released(&self, duty: Release) {
        match duty {
            Release::Nothing => {}
            Release::Free => self.free(),
            Release::Orphan => {
                self.tally.orphans.fetch_add(1, Relaxed);
                self.released(self.state.drop_handle());
            }
        }
    }

    fn free(&self) {
        // SAFETY: nothing refers to the cell, which loom checks.
        self.future
            .with_mut(|future| assert!(unsafe { !*future }, "freed before the future was dropped"));
        self.tally.freed.fetch_add(1, Relaxed);
        self.state.retire();
    }

    /// Does what `JoinHandle::drop` does for a handle that was never polled.
    fn drop_join(&self) {
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
    fn assert_over(&self, orphans: usize) {
        assert_eq!(self.tally.finished.load(Relaxed), 1, "the future was not dropped once");
        assert_eq!(self.tally.outputs_dropped.load(Relaxed), 1, "the output was not dropped once");
        assert_eq!(self.tally.freed.load(Relaxed), 1, "the cell was not freed once");
        assert_eq!(self.tally.orphans.load(Relaxed), orphans);
    }
}

/// Starts a thread of the model with its own reference.
fn with(task: &Arc<Task>, f: impl FnOnce(&Task) + 'static) -> thread::JoinHandle<()> {
    let task = task.clone();
    thread::spawn(move || f(&task))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model panicked"));
}

/// Two wakes, by reference and by value, while the task is polled. A poll must see what each thread
/// wrote before its wake.
///
/// Detects a wake that is lost between the last check of a poll and its end, and one that finds
/// NOTIFIED and only loads it.
#[test]
fn no_wake_is_lost() {
    model(3, || {
        let task = Task::spawned(2, 2, 0);
        let by_ref = with(&task, |task| {
            task.fire(0);
            task.perform(task.state.wake_by_ref());
            task.released(task.state.drop_waker());
        });
        let by_val = with(&task, |task| {
            task.fire(1);
            task.perform(task.state.wake_by_val());
        });
        start();
        task.run();
        join([by_ref, by_val]);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-6: polls store their spare waker and another one, and two threads wake them. The next poll
/// drops those that were not taken.
///
/// Detects a spare waker that is used twice, lost, or subtracted while it is in use. The cell would
/// be freed too early or never.
#[test]
fn spare_wakers_are_counted() {
    model(3, || {
        let task = Task::spawned(2, 0, 0);
        task.stored.store(0, Relaxed);
        let wakers = [0, 1].map(|from| {
            with(&task, move |task| {
                task.fire(from);
                task.wake_stored();
            })
        });
        start();
        task.run();
        join(wakers);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-6 without a wake: another thread drops the waker that a poll has stored.
///
/// Detects a spare waker that hides an orphan, or one that makes a running task an orphan.
#[test]
fn spare_waker_hides_no_orphan() {
    model(4, || {
        let task = Task::spawned(1, 0, 1);
        task.stored.store(0, Relaxed);
        let dropper = with(&task, |task| {
            (0..task.stored.swap(0, AcqRel)).for_each(|_| task.released(task.state.drop_waker()));
        });
        start();
        task.run();
        join([dropper]);
        let left = task.stored.swap(0, AcqRel);
        (0..left).for_each(|_| task.released(task.state.drop_waker()));
        assert_eq!(task.tally.orphans.load(Relaxed), 1);
        task.perform(task.state.abort(0));
        task.released(task.state.drop_handle());
        task.drop_join();
        task.assert_over(1);
    });
}

/// The last two wakers are dropped without a wake, while the poll that stored them ends.
///
/// Detects an orphan that the end of the poll and the drop of a waker both report, or neither.
#[test]
fn orphan_is_reported_once() {
    model(4, || {
        let task = Task::spawned(1, 2, 1);
        let droppers = [0, 1].map(|_| with(&task, |task| task.released(task.state.drop_waker())));
        start();
        task.run();
        join(droppers);
        assert_eq!(task.tally.orphans.load(Relaxed), 1);
        task.perform(task.state.abort(0));
        task.released(task.state.drop_handle());
        task.drop_join();
        task.assert_over(1);
    });
}

/// One waker is dropped, the other wakes by value.
///
/// Detects an orphan report about a task that is notified.
#[test]
fn woken_task_is_no_orphan() {
    model(4, || {
        let task = Task::spawned(1, 2, 0);
        let dropper = with(&task, |task| task.released(task.state.drop_waker()));
        let waker = with(&task, |task| {
            task.fire(0);
            task.perform(task.state.wake_by_val());
        });
        start();
        task.run();
        join([dropper, waker]);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-3: the task woke itself and is queued with RUNNING set, while one thread wakes it and
/// another aborts it.
///
/// Detects a second queue entry (two threads in the future at once), and a wake or abort that is
/// lost because RUNNING is set.
#[test]
fn self_woken_task_is_woken_and_aborted() {
    model(4, || {
        let task = Task::spawned(1, 1, 1);
        task.start();
        let waker = with(&task, |task| {
            task.fire(0);
            task.perform(task.state.wake_by_val());
        });
        let aborter = with(&task, |task| {
            task.perform(task.state.abort(0));
            task.released(task.state.drop_handle());
        });
        start();
        // The first poll wakes itself, and the entry is taken from the queue again.
        task.poll_future();
        task.run();
        join([waker, aborter]);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-3 with two wakers: the second may come between the two steps of `start_poll`.
///
/// Detects a NOTIFIED that is cleared without acquiring what its waker wrote.
#[test]
fn self_woken_task_is_woken_twice() {
    model(4, || {
        let task = Task::spawned(2, 2, 0);
        task.start();
        let wakers = [0, 1].map(|from| {
            with(&task, move |task| {
                task.fire(from);
                task.perform(task.state.wake_by_val());
            })
        });
        start();
        task.poll_future();
        task.run();
        join(wakers);
        task.drop_join();
        task.assert_over(0);
    });
}

/// A task without wakes is aborted while it is polled.
///
/// Detects an abort that is lost because the poll was not over, or was just over.
#[test]
fn abort_reaches_a_running_task() {
    model(6, || {
        let task = Task::spawned(1, 1, 1);
        let aborter = with(&task, |task| {
            task.perform(task.state.abort(0));
            task.released(task.state.drop_handle());
        });
        start();
        task.run();
        join([aborter]);
        task.released(task.state.drop_waker());
        task.drop_join();
        task.assert_over(0);
    });
}

/// The task completes while one thread wakes it and another aborts it.
///
/// Detects a queue entry of a complete task, and a last reference that no thread or two threads
/// release.
#[test]
fn wake_and_abort_of_a_task_that_completes() {
    model(4, || {
        let task = Task::spawned(0, 1, 1);
        let waker = with(&task, |task| task.perform(task.state.wake_by_val()));
        let aborter = with(&task, |task| {
            task.perform(task.state.abort(0));
            task.released(task.state.drop_handle());
        });
        start();
        task.run();
        task.drop_join();
        join([waker, aborter]);
        task.assert_over(0);
    });
}

/// The poll, a waker, an abort handle and the JoinHandle release their references at once.
///
/// Detects an output that is dropped twice or never, and a cell that is freed twice or while it is
/// in use (`retire` checks that).
#[test]
fn references_are_released_in_any_order() {
    model(4, || {
        let task = Task::spawned(0, 1, 1);
        let others = with(&task, |task| {
            task.released(task.state.drop_handle());
            task.released(task.state.drop_waker());
        });
        let joiner = with(&task, Task::drop_join);
        start();
        task.run();
        join([others, joiner]);
        task.assert_over(0);
    });
}

/// The shutdown claims and drops the futures in the arena, while two wakers find the queues closed
/// and give up their entries.
///
/// Detects a future that is dropped twice or never, and a flag that no thread clears, which would
/// leak the cell.
#[test]
fn shutdown_against_late_wakers() {
    model(4, || {
        let task = Task::spawned(1, 2, 0);
        task.run();
        let wakers =
            [0, 1].map(|_| with(&task, |task| task.perform_refused(task.state.wake_by_val())));
        start();
        assert_eq!(task.state.claim_for_shutdown(), Shutdown::DropFuture);
        task.finish();
        task.drop_join();
        join(wakers);
        task.assert_over(0);
    });
}

/// A spawn finds the queues closed, the shutdown finds the new task in the arena, and a third
/// thread aborts it.
///
/// Detects a future that both or none of the first two drop.
#[test]
fn shutdown_against_a_late_spawn() {
    model(4, || {
        let task = Task::spawned(1, 0, 1);
        let spawner = with(&task, |task| match task.state.claim_refused_spawn() {
            None => task.finish(),
            Some(release) => task.released(release),
        });
        let aborter = with(&task, |task| {
            task.perform_refused(task.state.abort(0));
            task.released(task.state.drop_handle());
        });
        start();
        if task.state.claim_for_shutdown() == Shutdown::DropFuture {
            task.finish();
        }
        task.drop_join();
        join([spawner, aborter]);
        task.assert_over(0);
    });
}

/// A poll that blocked in place ends after the queues were closed. Its task was woken meanwhile, by
/// another thread or by itself, and the shutdown finds it in the arena.
///
/// Detects a future that both or none of the two drop.
#[test]
fn shutdown_against_a_late_end_of_a_poll() {
    for by_itself in [false, true] {
        model(4, move || {
            let task = Task::spawned(1, 1, 0);
            task.start();
            let poller = with(&task, move |task| {
                match task.state.end_poll(by_itself, task.set_spare(false)) {
                    EndPoll::Requeue => match task.state.claim_refused_requeue() {
                        None => task.finish(),
                        Some(release) => task.released(release),
                    },
                    EndPoll::Idle => {}
                    other => unreachable!("{other:?}"),
                }
            });
            let waker = with(&task, |task| task.perform_refused(task.state.wake_by_val()));
            start();
            if task.state.claim_for_shutdown() == Shutdown::DropFuture {
                task.finish();
            }
            join([poller, waker]);
            // The shutdown walks the arena once more, when all threads have left.
            if task.state.claim_for_shutdown() == Shutdown::DropFuture {
                task.finish();
            }
            task.drop_join();
            task.assert_over(0);
        });
    }
}

/// A thread walks the arena while a task ends and its cell is filled again.
///
/// Detects a walker that counts a handle of a cell that is being freed, or reads the spawn-time
/// fields (TASK-5) while they are written for the next task.
#[test]
fn walker_meets_a_reused_cell() {
    fn refill(task: &Task) {
        task.state.retire();
        // SAFETY: TASK-5: the cell is free and this thread owns it, which loom checks.
        task.generation.with_mut(|generation| unsafe { *generation += 1 });
        task.state.publish(0);
    }
    model(4, || {
        let task = Task::spawned(0, 0, 0);
        let walker = with(&task, |task| {
            if task.state.try_clone_handle() {
                // SAFETY: TASK-5: a handle is counted, which loom checks.
                task.generation.with(|generation| assert!(unsafe { *generation } <= 2));
                if task.state.drop_handle() == Release::Free {
                    refill(task);
                }
            }
        });
        start();
        assert_eq!(task.state.start_poll(), Start::PollWithSpare);
        assert_eq!(task.state.complete(true), Complete::Done);
        if task.state.drop_join(true) == DropJoin::Free {
            refill(&task);
        }
        join([walker]);
        // SAFETY: all other threads have ended.
        assert_eq!(
            task.generation.with(|generation| unsafe { *generation }),
            2,
            "the cell was not reused once"
        );
    });
}
