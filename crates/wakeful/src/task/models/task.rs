//! Models of the state word: who may touch the future, who frees the cell, and
//! whether a wake-up can get lost. A task is reduced to its word; what the word
//! answers is done as `runnable` and `waker` do it. Whoever is told to schedule
//! is also the worker, so that no queue stands between the steps.

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::{UnsafeCell, thread};
use crate::task::duty::{Complete, DropJoin, EndPoll, Release, Shutdown, Start, Wake};
use crate::task::models::scheduler::{model, start};
use crate::task::state::State;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// In [`Task::left`]: polls leave no wakers.
const NOT_LEFT: u32 = u32::MAX;

/// A task without a cell.
struct Task {
    state: State,
    /// Stands for the future and its output; TASK-1 says who may touch it. True
    /// while the future is there.
    future: UnsafeCell<bool>,
    /// There is a spare waker (TASK-6); TASK-1 says who may touch this.
    spare: UnsafeCell<bool>,
    /// Where the waker lies that a poll left behind, in the models that have it so.
    left: AtomicU32,
    /// Stands for what is written at spawn (TASK-5): which life of the cell it is.
    life: UnsafeCell<u32>,
    /// What two wakers write before they wake; the task is done once it has
    /// seen as many as `needs`.
    news: [AtomicU32; 2],
    needs: u32,
    tally: Tally,
}

/// Verdicts, counted. Not part of the model, hence std's.
#[derive(Default)]
struct Tally {
    finished: AtomicUsize,
    outputs_dropped: AtomicUsize,
    freed: AtomicUsize,
    orphans: AtomicUsize,
}

// SAFETY: TASK-1 and TASK-5 guard the cells; loom checks it.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

impl Task {
    /// A task just spawned, of which `wakers` and `handles` are about as well.
    fn spawned(needs: u32, wakers: u32, handles: u32) -> Arc<Task> {
        let task = Task {
            state: State::free(),
            future: UnsafeCell::new(true),
            spare: UnsafeCell::new(false),
            left: AtomicU32::new(NOT_LEFT),
            life: UnsafeCell::new(1),
            news: [AtomicU32::new(0), AtomicU32::new(0)],
            needs,
            tally: Tally::default(),
        };
        task.state.publish(0);
        (0..wakers).for_each(|_| task.state.clone_waker());
        (0..handles).for_each(|_| task.state.clone_handle());
        Arc::new(task)
    }

    fn bring_news(&self, from: usize) {
        self.news[from].store(1, Relaxed);
    }

    /// `Runnable::run`.
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

    /// The first poll starts outside of `run`.
    fn start(&self) {
        assert_eq!(self.state.start_poll(), Start::PollWithSpare);
        self.set_spare(true);
    }

    /// Gives back whether there was one before.
    fn set_spare(&self, spare: bool) -> bool {
        // SAFETY: TASK-1; loom checks it.
        self.spare.with_mut(|old| unsafe { std::mem::replace(&mut *old, spare) })
    }

    /// `waker::clone` in a poll.
    fn clone_own(&self) {
        if !self.set_spare(false) {
            self.state.clone_waker();
        }
    }

    /// `waker::drop_waker` in a poll.
    fn drop_own(&self) {
        if self.set_spare(true) {
            assert_eq!(self.state.drop_waker(), Release::Nothing);
        }
    }

    /// The body of `runnable::poll`, for a future that does not wake itself.
    fn poll(&self) {
        if self.look() || (self.left.load(Relaxed) != NOT_LEFT && self.leave_waker()) {
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

    /// Leaves two wakers, of which one is the spare, for others to find, and looks again; if
    /// there is nothing to wait for, takes one back.
    fn leave_waker(&self) -> bool {
        (0..2).for_each(|_| self.clone_own());
        let not_found = self.left.swap(2, AcqRel);
        (0..not_found).for_each(|_| self.drop_own());
        let is_done = self.look();
        if is_done {
            (0..self.left.swap(0, AcqRel)).for_each(|_| self.drop_own());
        }
        is_done
    }

    /// Wakes by all the wakers that a poll has left.
    fn wake_left(&self) {
        for _ in 0..self.left.swap(0, AcqRel) {
            self.act(self.state.wake_by_val());
        }
    }

    /// The poll itself, under TASK-1.
    fn look(&self) -> bool {
        // SAFETY: TASK-1; loom checks it.
        self.future.with_mut(|future| assert!(unsafe { *future }, "polled without a future"));
        self.news.iter().map(|news| news.load(Relaxed)).sum::<u32>() >= self.needs
    }

    /// `vtable.cancel` or the end of the last poll, then `runnable::finish`.
    fn finish(&self) {
        // SAFETY: TASK-1; loom checks it.
        self.future.with_mut(|future| assert!(unsafe { std::mem::replace(&mut *future, false) }));
        self.tally.finished.fetch_add(1, Relaxed);
        match self.state.complete(self.set_spare(false)) {
            Complete::Done => return,
            Complete::WakeJoiner => unreachable!("nobody registered"),
            Complete::DropOutput => self.drop_output(),
        }
        self.released(self.state.release_running());
    }

    fn drop_output(&self) {
        // SAFETY: TASK-1 after COMPLETE; loom checks it.
        self.future.with_mut(|future| assert!(unsafe { !*future }));
        self.tally.outputs_dropped.fetch_add(1, Relaxed);
    }

    /// `waker::act`.
    fn act(&self, duty: Wake) {
        match duty {
            Wake::Nothing => {}
            Wake::Schedule => self.run(),
            Wake::Free => self.free(),
        }
    }

    /// `waker::act` with the queues closed.
    fn act_refused(&self, duty: Wake) {
        match duty {
            Wake::Schedule => self.released(self.state.refuse()),
            duty => self.act(duty),
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
        // SAFETY: nothing refers to the cell any more; loom checks it.
        self.future.with_mut(|future| assert!(unsafe { !*future }, "freed with its future"));
        self.tally.freed.fetch_add(1, Relaxed);
        self.state.retire();
    }

    /// `JoinHandle::drop` of a handle that was never polled.
    fn drop_join(&self) {
        match self.state.drop_join(false) {
            DropJoin::Nothing => {}
            DropJoin::Free => self.free(),
            DropJoin::DropWaker => unreachable!("nobody registered"),
            DropJoin::DropOutput => {
                self.drop_output();
                self.released(self.state.drop_handle());
            }
        }
    }

    /// Everybody is done: the future went once, the cell was freed once.
    fn assert_over(&self, orphans: usize) {
        assert_eq!(self.tally.finished.load(Relaxed), 1, "the future is still there");
        assert_eq!(self.tally.outputs_dropped.load(Relaxed), 1, "the output is still there");
        assert_eq!(self.tally.freed.load(Relaxed), 1, "the cell leaked");
        assert_eq!(self.tally.orphans.load(Relaxed), orphans);
    }
}

/// Starts a thread of the model with a reference of its own.
fn with(task: &Arc<Task>, f: impl FnOnce(&Task) + 'static) -> thread::JoinHandle<()> {
    let task = task.clone();
    thread::spawn(move || f(&task))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a model's thread panicked"));
}

/// Two wakes, one by reference and one by value, while the task is polled. What
/// each waker wrote before its wake must be seen by a poll: the task is done
/// only when it has seen both. Catches a wake that gets lost between the last
/// look of a poll and its end, and one that finds NOTIFIED and only loads it.
#[test]
fn no_wake_is_lost() {
    model(3, || {
        let task = Task::spawned(2, 2, 0);
        let by_ref = with(&task, |task| {
            task.bring_news(0);
            task.act(task.state.wake_by_ref());
            task.released(task.state.drop_waker());
        });
        let by_val = with(&task, |task| {
            task.bring_news(1);
            task.act(task.state.wake_by_val());
        });
        start();
        task.run();
        join([by_ref, by_val]);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-6: polls leave their spare waker and another, by which two threads wake; wakers that
/// nobody found go in the next poll. Catches a spare that is given out twice, forgotten or
/// taken back while somebody has it: the count says that the cell is free too early, or never.
#[test]
fn spare_wakers_are_counted() {
    model(3, || {
        let task = Task::spawned(2, 0, 0);
        task.left.store(0, Relaxed);
        let wakers = [0, 1].map(|from| {
            with(&task, move |task| {
                task.bring_news(from);
                task.wake_left();
            })
        });
        start();
        task.run();
        join(wakers);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-6 with nobody to wake: the waker that a poll has left is dropped by another thread, at
/// any moment. Catches a spare that hides an orphan, or makes one of a task that is polled.
#[test]
fn a_spare_waker_hides_no_orphan() {
    model(4, || {
        let task = Task::spawned(1, 0, 1);
        task.left.store(0, Relaxed);
        let dropper = with(&task, |task| {
            (0..task.left.swap(0, AcqRel)).for_each(|_| task.released(task.state.drop_waker()));
        });
        start();
        task.run();
        join([dropper]);
        let found = task.left.swap(0, AcqRel);
        (0..found).for_each(|_| task.released(task.state.drop_waker()));
        assert_eq!(task.tally.orphans.load(Relaxed), 1);
        task.act(task.state.abort(0));
        task.released(task.state.drop_handle());
        task.drop_join();
        task.assert_over(1);
    });
}

/// The last two wakers go without waking, while the poll that left them behind
/// ends. Whoever is last must notice, and nobody else. Catches an orphan that
/// both the end of the poll and the drop of a waker report, or neither.
#[test]
fn the_last_waker_gone_is_noticed_once() {
    model(4, || {
        let task = Task::spawned(1, 2, 1);
        let droppers = [0, 1].map(|_| with(&task, |task| task.released(task.state.drop_waker())));
        start();
        task.run();
        join(droppers);
        assert_eq!(task.tally.orphans.load(Relaxed), 1);
        task.act(task.state.abort(0));
        task.released(task.state.drop_handle());
        task.drop_join();
        task.assert_over(1);
    });
}

/// One waker goes, the other wakes and is used up by it. Catches a report about
/// a task that is on its way to be polled: between the drop and the wake the
/// count never reaches zero with nothing noted.
#[test]
fn a_wake_is_no_orphan() {
    model(4, || {
        let task = Task::spawned(1, 2, 0);
        let dropper = with(&task, |task| task.released(task.state.drop_waker()));
        let waker = with(&task, |task| {
            task.bring_news(0);
            task.act(task.state.wake_by_val());
        });
        start();
        task.run();
        join([dropper, waker]);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-3: the task woke itself and goes back to a queue with RUNNING kept, while
/// another thread wakes it and a third aborts it. Catches a second queue entry
/// (two threads in the future at once) and an abort or wake that the kept flag
/// swallows.
#[test]
fn a_task_that_keeps_running_hears_wakes_and_aborts() {
    model(4, || {
        let task = Task::spawned(1, 1, 1);
        task.start();
        let waker = with(&task, |task| {
            task.bring_news(0);
            task.act(task.state.wake_by_val());
        });
        let aborter = with(&task, |task| {
            task.act(task.state.abort(0));
            task.released(task.state.drop_handle());
        });
        start();
        // The first poll; it wakes itself, and the entry comes out again.
        task.look();
        task.run();
        join([waker, aborter]);
        task.drop_join();
        task.assert_over(0);
    });
}

/// TASK-3 again, with two wakers: the second may come between the two steps of the
/// start of a poll. Catches a NOTIFIED that is taken away without what came with
/// it.
#[test]
fn a_task_that_keeps_running_is_woken_twice() {
    model(4, || {
        let task = Task::spawned(2, 2, 0);
        task.start();
        let wakers = [0, 1].map(|from| {
            with(&task, move |task| {
                task.bring_news(from);
                task.act(task.state.wake_by_val());
            })
        });
        start();
        task.look();
        task.run();
        join(wakers);
        task.drop_join();
        task.assert_over(0);
    });
}

/// A task that nobody wakes is aborted while it is polled. Catches an abort that
/// goes unheard because the poll was not over, or was just over.
#[test]
fn an_abort_reaches_a_poll() {
    model(6, || {
        let task = Task::spawned(1, 1, 1);
        let aborter = with(&task, |task| {
            task.act(task.state.abort(0));
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

/// The task completes while one thread wakes it and another aborts it. Catches
/// an entry made for a task that is done, and a last reference that nobody or
/// everybody takes for the last.
#[test]
fn wake_and_abort_of_a_task_that_completes() {
    model(4, || {
        let task = Task::spawned(0, 1, 1);
        let waker = with(&task, |task| task.act(task.state.wake_by_val()));
        let aborter = with(&task, |task| {
            task.act(task.state.abort(0));
            task.released(task.state.drop_handle());
        });
        start();
        task.run();
        task.drop_join();
        join([waker, aborter]);
        task.assert_over(0);
    });
}

/// The poll, a waker, an abort handle and the JoinHandle all let go at once.
/// Catches an output that nobody or everybody drops, and a cell freed twice or
/// before the last of them let go (`retire` then finds it in use).
#[test]
fn references_go_in_any_order() {
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

/// The scheduler is closed: every queue is drained, and what is left in the heap
/// is claimed and dropped, while two wakers find the queues shut and let their
/// entries go. Catches a future dropped twice or not at all, and a flag that
/// stays behind without anybody to clear it, which would keep the cell for good.
#[test]
fn shutdown_against_late_wakers() {
    model(4, || {
        let task = Task::spawned(1, 2, 0);
        task.run();
        let wakers = [0, 1].map(|_| with(&task, |task| task.act_refused(task.state.wake_by_val())));
        start();
        assert_eq!(task.state.claim_for_shutdown(), Shutdown::DropFuture);
        task.finish();
        task.drop_join();
        join(wakers);
        task.assert_over(0);
    });
}

/// A spawn finds the queues closed while the closing thread comes across the new
/// task in the heap, and a third thread aborts it. Catches a future that both or
/// none of the two drop.
#[test]
fn shutdown_against_a_late_spawn() {
    model(4, || {
        let task = Task::spawned(1, 0, 1);
        let spawner = with(&task, |task| match task.state.claim_refused_spawn() {
            None => task.finish(),
            Some(release) => task.released(release),
        });
        let aborter = with(&task, |task| {
            task.act_refused(task.state.abort(0));
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

/// A poll that blocked in place ends after the queues were closed: its task was woken meanwhile,
/// by another or by itself, and is to be put back, while the closing thread comes across it in the
/// heap. Catches a future that both or none of the two drop.
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
            let waker = with(&task, |task| task.act_refused(task.state.wake_by_val()));
            start();
            if task.state.claim_for_shutdown() == Shutdown::DropFuture {
                task.finish();
            }
            join([poller, waker]);
            // Whoever closes looks once more, when all have left.
            if task.state.claim_for_shutdown() == Shutdown::DropFuture {
                task.finish();
            }
            task.drop_join();
            task.assert_over(0);
        });
    }
}

/// Somebody walks the heap without owning anything in it, while the task there
/// ends and the cell is filled anew. Catches a walker that takes a handle of a
/// cell that is being freed, or reads the spawn-time fields (TASK-5) of a task while
/// they are written for the next.
#[test]
fn a_walker_meets_a_cell_that_is_reused() {
    fn refill(task: &Task) {
        task.state.retire();
        // SAFETY: TASK-5: the cell is free and ours; loom checks it.
        task.life.with_mut(|life| unsafe { *life += 1 });
        task.state.publish(0);
    }
    model(4, || {
        let task = Task::spawned(0, 0, 0);
        let walker = with(&task, |task| {
            if task.state.try_clone_handle() {
                // SAFETY: TASK-5, a handle is held; loom checks it.
                task.life.with(|life| assert!(unsafe { *life } <= 2));
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
        // SAFETY: everybody else is gone.
        assert_eq!(task.life.with(|life| unsafe { *life }), 2, "nobody reused the cell");
    });
}
