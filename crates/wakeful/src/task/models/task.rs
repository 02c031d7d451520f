//! Loom models of the state word: access to the future, freeing of the cell, and lost wake-ups.

use crate::sys::sync::atomic::Ordering::*;
use crate::task::duty::{Complete, DropJoin, EndPoll, Release, Shutdown, Start};
use crate::task::models::model_task::{Task, join, with};
use crate::task::models::scheduler::{model, start};

/// Two wakes, by reference and by value, while the task is polled. A poll must see the writes of
/// each thread before its wake.
///
/// Detects a wake that is lost between the last check of a poll and its end, and a wake that finds
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

/// TASK-6: polls store their spare waker and another waker, and two threads wake them. The next
/// poll drops the wakers that were not taken.
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
/// Detects a NOTIFIED that is cleared without acquiring the writes of its waker.
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
/// Detects a walker that counts a handle of a cell that is being freed. Detects one that reads the
/// spawn-time fields (TASK-5) while they are written for the next task.
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
