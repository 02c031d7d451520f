//! `LocalSet`: its tasks run only while it is polled, only on its thread, and are dropped there, whatever other
//! threads do meanwhile.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Barrier, mpsc as std_mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::channel::oneshot;
use futures::executor;
use futures::future::{join, join_all, select};
use wakeful::runtime::{Builder, LocalOptions, LocalRuntime, OrphanPolicy, UnhandledPanic};
use wakeful::task::{
    self, JoinHandle, LocalSet, block_in_place, may_wait_forever, spawn_local, yield_now,
};

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod shelf;
    pub mod stays;
}
use support::panic_site::panic_site;
use support::runtimes::{bound_this_binary, current_thread, multi_thread, runtimes, watch};
use support::shelf::Shelf;
use support::stays::{CountingWaker, DropLog, Trace};

const OUTSIDE: &str =
    "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`";

fn poll_with<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Whatever a test starts, it runs fewer rounds where each step is interpreted.
const ROUNDS: usize = if cfg!(miri) { 5 } else { 500 };

#[test]
fn tasks_run_in_the_order_of_their_spawns_and_wakes() {
    for runtime in runtimes() {
        let trace = Trace::new();
        let set = LocalSet::new();
        let task = |name: &'static str| {
            let trace = trace.clone();
            async move {
                for turn in 1..=2 {
                    trace.note(format!("{name}{turn}"));
                    yield_now().await;
                }
            }
        };
        set.spawn_local(task("early"));
        set.block_on(&runtime, async {
            trace.note("main");
            let a = spawn_local(task("a"));
            let b = spawn_local(task("b"));
            a.await.unwrap();
            trace.note("a is done");
            b.await.unwrap();
        });
        let expected = ["main", "early1", "a1", "b1", "early2", "a2", "b2", "a is done"];
        assert_eq!(trace.take(), expected, "{}", runtime.name);
    }
}

#[test]
fn tasks_wait_while_nobody_polls_the_set() {
    let runtime = current_thread();
    let set = LocalSet::new();
    let runs = Rc::new(Cell::new(0));
    let counted = runs.clone();
    let task = set.spawn_local(async move {
        loop {
            counted.set(counted.get() + 1);
            yield_now().await;
        }
    });
    runtime.block_on(yield_now());
    assert_eq!(runs.get(), 0, "no poll of the set, no turn");
    set.block_on(&runtime, yield_now());
    let after = runs.get();
    assert!(after > 0);
    runtime.block_on(async {
        for _ in 0..100 {
            yield_now().await;
        }
    });
    assert_eq!(runs.get(), after, "run_until is over");
    task.abort();
    set.block_on(&runtime, async { assert!(task.await.unwrap_err().is_cancelled()) });
}

#[test]
fn awaiting_the_set_runs_all_tasks_to_their_end() {
    for runtime in runtimes() {
        let set = LocalSet::new();
        let done = Rc::new(Cell::new(0));
        for depth in 0..10 {
            let done = done.clone();
            set.spawn_local(async move { descend(depth, done).await });
        }
        runtime.block_on(set);
        assert_eq!(done.get(), (1..=10).sum::<usize>(), "{}", runtime.name);
        runtime.block_on(LocalSet::new());
    }
}

/// Spawns its successor without awaiting it.
fn descend(depth: usize, done: Rc<Cell<usize>>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        yield_now().await;
        if depth > 0 {
            spawn_local(descend(depth - 1, done.clone()));
        }
        done.set(done.get() + 1);
    })
}

#[test]
fn a_set_needs_no_runtime() {
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel();
    let task = set.spawn_local(async move { rx.await.unwrap() + 1 });
    let sender = thread::spawn(move || tx.send(41).unwrap());
    assert_eq!(executor::block_on(set.run_until(task)).unwrap(), 42);
    sender.join().unwrap();

    let log = DropLog::new();
    let stays = log.stays();
    set.spawn_local(async move { drop(stays) });
    log.assert_dropped_here(0);
    drop(set);
    log.assert_dropped_here(1);
}

#[test]
fn spawn_local_outside_panics_at_the_caller() {
    let check = |site: support::panic_site::PanicSite| {
        assert_eq!(site.message, OUTSIDE);
        assert_eq!(site.file, file!());
    };
    check(panic_site(|| spawn_local(async {})));
    check(panic_site(|| task::Builder::new().spawn_local(async {})));
    let set = LocalSet::new();
    set.spawn_local(async {});
    check(panic_site(|| spawn_local(async {})));
    executor::block_on(set.run_until(yield_now()));
    check(panic_site(|| spawn_local(async {})));
    for runtime in runtimes() {
        runtime.block_on(async { check(panic_site(|| spawn_local(async {}))) });
        let in_task = runtime.spawn(async { panic_site(|| spawn_local(async {})) });
        check(runtime.block_on(in_task).unwrap());
    }
}

#[test]
fn a_local_runtime_is_a_place_for_local_tasks_too() {
    let runtime = LocalRuntime::new().unwrap();
    let log = DropLog::new();
    runtime.block_on(async {
        let stays = log.stays();
        spawn_local(async move { drop(stays) }).await.unwrap();
        log.assert_dropped_here(1);
        // The innermost place is the one that counts.
        let set = LocalSet::new();
        let stays = log.stays();
        set.run_until(async {
            spawn_local(may_wait_forever(async move {
                let _stays = stays;
                pending::<()>().await;
            }));
            yield_now().await;
        })
        .await;
        log.assert_dropped_here(1);
        drop(set);
        log.assert_dropped_here(2);
    });
    let handle = runtime.handle().clone();
    let elsewhere = thread::spawn(move || {
        let _entered = handle.enter();
        panic_site(|| spawn_local(async {}))
    });
    let site = elsewhere.join().unwrap();
    assert_eq!(
        site.message,
        "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was created on"
    );
    assert_eq!(site.file, file!());
}

#[test]
fn spawn_goes_to_the_runtime_and_spawn_local_stays() {
    let runtime = multi_thread(2);
    let here = thread::current().id();
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        let elsewhere = wakeful::spawn(async { thread::current().id() });
        assert_ne!(elsewhere.await.unwrap(), here);
        let ids = join_all((0..100).map(|_| spawn_local(async { thread::current().id() }))).await;
        assert!(ids.into_iter().all(|id| id.unwrap() == here));
        let outside = wakeful::spawn(async { panic_site(|| spawn_local(async {})).message });
        assert_eq!(outside.await.unwrap(), OUTSIDE, "a worker is not inside the set");
    });
}

#[test]
fn sets_nest_and_the_innermost_is_found() {
    let runtime = current_thread();
    let trace = Trace::new();
    let (outer, inner) = (LocalSet::new(), Rc::new(LocalSet::new()));
    let mine = trace.clone();
    let nested = inner.clone();
    let task = outer.spawn_local(async move {
        let traced = mine.clone();
        nested
            .run_until(async {
                spawn_local(async move { traced.note("inner") });
                yield_now().await;
            })
            .await;
        let traced = mine.clone();
        nested.spawn_local(async move { traced.note("inner, but nobody polls it") });
        spawn_local(async move { mine.note("outer") });
    });
    outer.block_on(&runtime, task).unwrap();
    runtime.block_on(outer);
    assert_eq!(trace.take(), ["inner", "outer"]);
}

#[test]
fn a_task_may_poll_its_own_set() {
    let set = Rc::new(LocalSet::new());
    let trace = Trace::new();
    let (mine, traced) = (Rc::downgrade(&set), trace.clone());
    let task = set.spawn_local(async move {
        let set = mine.upgrade().unwrap();
        let other = traced.clone();
        let inside = set.run_until(async {
            spawn_local(async move { other.note("run from inside") }).await.unwrap();
        });
        inside.await;
        traced.note("back");
    });
    let traced = trace.clone();
    set.spawn_local(async move { traced.note("neighbour") });
    executor::block_on(set.run_until(task)).unwrap();
    assert_eq!(trace.take(), ["neighbour", "run from inside", "back"]);
}

#[test]
fn dropping_the_set_drops_tasks_in_every_state_on_its_thread() {
    for runtime in runtimes() {
        let (log, shelf) = (DropLog::new(), Shelf::default());
        let set = LocalSet::new();
        let mut joins = Vec::new();
        let mut spawn = |future: Pin<Box<dyn Future<Output = ()>>>| {
            let stays = log.stays();
            joins.push(set.spawn_local(async move {
                let _stays = stays;
                future.await;
            }));
        };
        spawn(Box::pin(shelf.wait()));
        spawn(Box::pin(shelf.wait()));
        spawn(Box::pin(async {
            loop {
                yield_now().await;
            }
        }));
        spawn(Box::pin(may_wait_forever(pending())));
        set.block_on(&runtime, yield_now());
        let stays = log.stays();
        joins.push(set.spawn_local(async move {
            let _stays = stays;
            unreachable!("never polled");
        }));
        assert_eq!(shelf.len(), 2);
        let mut wakers = shelf.take();
        // One of the waiting tasks is woken, from another thread, and lies in the injector.
        let woken = wakers.pop().unwrap();
        thread::spawn(move || woken.wake()).join().unwrap();
        log.assert_dropped_here(0);
        drop(set);
        log.assert_dropped_here(5);
        for join in joins {
            assert!(runtime.block_on(join).unwrap_err().is_cancelled(), "{}", runtime.name);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[test]
fn a_drop_may_wake_and_spawn() {
    /// Wakes all wakers on a shelf and spawns a task when it is dropped.
    struct Busy {
        shelf: Rc<Shelf>,
        log: DropLog,
        spawned: Rc<RefCell<Vec<JoinHandle<()>>>>,
    }
    impl Drop for Busy {
        fn drop(&mut self) {
            self.shelf.open();
            let stays = self.log.stays();
            let late = spawn_local(async move {
                drop(stays);
                unreachable!("the set is gone");
            });
            self.spawned.borrow_mut().push(late);
        }
    }
    let runtime = current_thread();
    let (log, shelf) = (DropLog::new(), Rc::new(Shelf::default()));
    let spawned = Rc::new(RefCell::new(Vec::new()));
    let set = LocalSet::new();
    for _ in 0..3 {
        let busy = Busy { shelf: shelf.clone(), log: log.clone(), spawned: spawned.clone() };
        let (wait, stays) = (shelf.wait(), log.stays());
        set.spawn_local(async move {
            let _held = (busy, stays);
            wait.await;
            unreachable!("woken too late to be polled");
        });
    }
    set.block_on(&runtime, yield_now());
    drop(set);
    log.assert_dropped_here(6);
    let late = spawned.take();
    assert_eq!(late.len(), 3);
    for join in late {
        assert!(executor::block_on(join).unwrap_err().is_cancelled());
    }
}

#[test]
fn wakers_and_handles_may_outlive_the_set() {
    let runtime = current_thread();
    let shelf = Shelf::default();
    let set = LocalSet::new();
    let waiting = set.spawn_local(shelf.wait());
    let aborts = waiting.abort_handle();
    let done = set.spawn_local(async { Rc::new(7) });
    set.block_on(&runtime, yield_now());
    let [waker] = <[Waker; 1]>::try_from(shelf.take()).unwrap();
    assert!(!waiting.is_finished() && done.is_finished());
    drop(set);
    assert!(waiting.is_finished());

    waker.wake_by_ref();
    let clone = waker.clone();
    thread::spawn(move || {
        clone.wake_by_ref();
        drop(clone.clone());
        clone.wake();
        aborts.abort();
        drop(aborts);
    })
    .join()
    .unwrap();
    assert!(executor::block_on(waiting).unwrap_err().is_cancelled());
    assert_eq!(*executor::block_on(done).unwrap(), 7, "an output waits for its handle");
    waker.wake();
}

#[test]
fn the_last_reference_may_go_on_another_thread() {
    let runtime = current_thread();
    let shelf = Shelf::default();
    let set = LocalSet::new();
    let join = set.spawn_local(shelf.wait());
    set.block_on(&runtime, yield_now());
    let wakers = shelf.take();
    drop(set);
    thread::spawn(move || {
        drop(join);
        drop(wakers);
    })
    .join()
    .unwrap();
}

#[test]
fn tasks_are_woken_from_other_threads() {
    const TASKS: usize = 16;
    for runtime in runtimes() {
        let set = LocalSet::new();
        let sums: Vec<JoinHandle<usize>> = set.block_on(&runtime, async {
            let (joins, senders): (Vec<_>, Vec<_>) = (0..TASKS)
                .map(|_| {
                    let (tx, rx) = futures::channel::mpsc::channel::<usize>(0);
                    (spawn_local(sum(rx)), tx)
                })
                .unzip();
            let threads: Vec<_> = senders
                .into_iter()
                .map(|mut tx| {
                    thread::spawn(move || {
                        for n in 0..ROUNDS {
                            executor::block_on(futures::SinkExt::send(&mut tx, n)).unwrap();
                        }
                    })
                })
                .collect();
            // The set is polled while the threads are at it, and until all have ended.
            wakeful::task::spawn_blocking(|| {
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            })
            .await
            .unwrap();
            joins
        });
        for join in sums {
            let sum = set.block_on(&runtime, join).unwrap();
            assert_eq!(sum, (0..ROUNDS).sum::<usize>(), "{}", runtime.name);
        }
    }
}

async fn sum(mut rx: futures::channel::mpsc::Receiver<usize>) -> usize {
    let mut sum = 0;
    while let Some(n) = futures::StreamExt::next(&mut rx).await {
        sum += n;
    }
    sum
}

/// Threads wake, abort and let go of tasks in the very moment in which the set goes.
#[test]
fn wakes_and_aborts_may_race_with_the_end_of_the_set() {
    const THREADS: usize = 3;
    let runtime = current_thread();
    for round in 0..ROUNDS {
        let (log, shelf) = (DropLog::new(), Shelf::default());
        let set = LocalSet::new();
        let joins: Vec<_> = (0..THREADS * 2)
            .map(|_| {
                let (stays, wait) = (log.stays(), shelf.wait());
                set.spawn_local(async move {
                    wait.await;
                    drop(stays);
                })
            })
            .collect();
        set.block_on(&runtime, yield_now());
        let mut wakers = shelf.take().into_iter();
        let mut joins = joins.into_iter();
        let start = Arc::new(Barrier::new(THREADS + 1));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (start, waker, other) =
                    (start.clone(), wakers.next().unwrap(), wakers.next().unwrap());
                let (join, aborted) = (joins.next().unwrap(), joins.next().unwrap());
                thread::spawn(move || {
                    start.wait();
                    waker.wake();
                    aborted.abort();
                    drop((join, other));
                    aborted
                })
            })
            .collect();
        start.wait();
        if round % 2 == 0 {
            shelf.open();
            set.block_on(&runtime, yield_now());
        }
        drop(set);
        log.assert_dropped_here(THREADS * 2);
        for thread in threads {
            // Aborted, or just done before.
            if let Err(error) = runtime.block_on(thread.join().unwrap()) {
                assert!(error.is_cancelled());
            }
        }
    }
}

#[test]
fn abort_from_elsewhere_drops_the_future_here() {
    for runtime in runtimes() {
        let (log, shelf) = (DropLog::new(), Shelf::default());
        let set = LocalSet::new();
        let (stays, wait) = (log.stays(), shelf.wait());
        let join = set.spawn_local(async move {
            wait.await;
            drop(stays);
        });
        set.block_on(&runtime, yield_now());
        // Aborted and awaited on another thread, dropped on this one.
        let (tx, rx) = oneshot::channel();
        let awaiting = thread::spawn(move || {
            join.abort();
            tx.send(()).unwrap();
            executor::block_on(join)
        });
        runtime.block_on(rx).unwrap();
        log.assert_dropped_here(0);
        runtime.block_on(set);
        log.assert_dropped_here(1);
        assert!(awaiting.join().unwrap().unwrap_err().is_cancelled());
    }
}

#[test]
fn a_local_task_is_awaited_on_a_worker() {
    let runtime = multi_thread(2);
    let here = thread::current().id();
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        let (tx, rx) = oneshot::channel();
        let local = spawn_local(async move {
            rx.await.unwrap();
            thread::current().id()
        });
        let ran_on = wakeful::spawn(async move {
            tx.send(()).unwrap();
            (local.await.unwrap(), thread::current().id())
        });
        let (local, worker) = ran_on.await.unwrap();
        assert_eq!(local, here);
        assert_ne!(worker, here);
    });
}

#[test]
fn a_panic_goes_to_the_handle_and_nowhere_else() {
    let runtime = current_thread();
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        let bad = spawn_local(async { panic_quietly("boom") });
        let good = spawn_local(async { 1 });
        let error = bad.await.unwrap_err();
        assert!(error.is_panic());
        assert_eq!(error.into_panic().downcast_ref(), Some(&"boom"));
        assert_eq!(good.await.unwrap(), 1);
    });
}

/// Panics without a message from the hook.
fn panic_quietly(why: &'static str) {
    std::panic::resume_unwind(Box::new(why));
}

#[test]
fn a_set_may_go_down_for_a_panic() {
    const DOWN: &str =
        "a spawned task panicked and the LocalSet is configured to shutdown on unhandled panic";
    let runtime = current_thread();
    let (log, shelf) = (DropLog::new(), Shelf::default());
    let mut set = LocalSet::new();
    set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    let (stays, wait) = (log.stays(), shelf.wait());
    let other = set.spawn_local(async move {
        wait.await;
        drop(stays);
    });
    let bad = set.spawn_local(async { panic_quietly("boom") });
    for _ in 0..2 {
        let poll = AssertUnwindSafe(|| set.block_on(&runtime, may_wait_forever(pending::<()>())));
        assert_eq!(panic_site(poll).message, DOWN);
        log.assert_dropped_here(1);
    }
    assert!(executor::block_on(other).unwrap_err().is_cancelled());
    assert!(executor::block_on(bad).unwrap_err().is_panic());
    let stays = log.stays();
    let late = set.spawn_local(async move { drop(stays) });
    log.assert_dropped_here(2);
    assert!(executor::block_on(late).unwrap_err().is_cancelled());
    shelf.open();
}

#[test]
fn one_poll_runs_61_tasks_and_asks_for_another() {
    let (woken, waker) = CountingWaker::new();
    let set = LocalSet::new();
    let runs = Rc::new(Cell::new(0));
    for _ in 0..100 {
        let runs = runs.clone();
        set.spawn_local(async move { runs.set(runs.get() + 1) });
    }
    let mut until = pin!(set.run_until(pending::<()>()));
    assert!(poll_with(until.as_mut(), &waker).is_pending());
    assert_eq!((runs.get(), woken.take()), (61, 1));
    assert!(poll_with(until.as_mut(), &waker).is_pending());
    assert_eq!((runs.get(), woken.take()), (100, 0));
}

#[test]
fn busy_tasks_starve_neither_the_future_nor_the_runtime() {
    let runtime = current_thread();
    let set = LocalSet::new();
    set.spawn_local(async {
        loop {
            yield_now().await;
        }
    });
    set.block_on(&runtime, async {
        for _ in 0..10 {
            yield_now().await;
        }
        wakeful::spawn(async {}).await.unwrap();
    });
}

#[test]
fn whoever_polls_the_set_is_woken_for_work_from_outside() {
    let (woken, waker) = CountingWaker::new();
    let (set, shelf) = (LocalSet::new(), Shelf::default());
    let mut until = pin!(set.run_until(pending::<()>()));
    let mut poll = || assert!(poll_with(until.as_mut(), &waker).is_pending());
    poll();
    assert_eq!(woken.take(), 0);
    set.spawn_local(shelf.wait());
    assert_eq!(woken.take(), 1, "spawned from outside of a poll");
    set.spawn_local(shelf.wait());
    assert_eq!(woken.take(), 0, "once is enough");
    poll();
    {
        let _inside = set.enter();
        spawn_local(shelf.wait());
    }
    assert_eq!(woken.take(), 1, "spawned through a guard");
    poll();
    let mut wakers = shelf.take();
    wakers.pop().unwrap().wake();
    assert_eq!(woken.take(), 1, "woken on the set's thread");
    poll();
    let other = wakers.pop().unwrap();
    thread::spawn(move || other.wake()).join().unwrap();
    assert_eq!(woken.take(), 1, "woken on another thread");
    poll();
    assert_eq!(woken.take(), 0);
}

#[test]
fn the_latest_waker_is_the_one_that_is_woken() {
    let set = LocalSet::new();
    let ((first, first_waker), (second, second_waker)) =
        (CountingWaker::new(), CountingWaker::new());
    let mut until = pin!(set.run_until(pending::<()>()));
    assert!(poll_with(until.as_mut(), &first_waker).is_pending());
    assert!(poll_with(until.as_mut(), &second_waker).is_pending());
    set.spawn_local(async {});
    assert_eq!(second.take(), 1);
    drop(first);
}

#[test]
fn several_futures_drive_one_set_and_each_is_enough() {
    let set = LocalSet::new();
    let ((first, first_waker), (second, second_waker)) =
        (CountingWaker::new(), CountingWaker::new());
    let (tx, rx) = oneshot::channel();
    let mut short = Box::pin(set.run_until(rx));
    let mut long = pin!(set.run_until(pending::<()>()));
    assert!(poll_with(long.as_mut(), &first_waker).is_pending());
    assert!(poll_with(short.as_mut(), &second_waker).is_pending());
    set.spawn_local(async {});
    assert_eq!((first.take(), second.take()), (1, 1), "either may be the one that is polled");
    assert!(poll_with(long.as_mut(), &first_waker).is_pending());
    assert!(poll_with(short.as_mut(), &second_waker).is_pending());

    // The one that was polled last goes: the other must take over.
    tx.send(()).unwrap();
    second.take();
    assert!(poll_with(short.as_mut(), &second_waker).is_ready());
    drop(short);
    assert_eq!(first.take(), 1);
    assert!(poll_with(long.as_mut(), &first_waker).is_pending());
    set.spawn_local(async {});
    assert_eq!((first.take(), second.take()), (1, 0));
}

#[test]
fn several_futures_drive_one_set_in_a_runtime() {
    for runtime in runtimes() {
        let set = LocalSet::new();
        let trip = || set.run_until(async { spawn_local(yield_now()).await.unwrap() });
        runtime.block_on(async {
            join(join(trip(), trip()), trip()).await;
            let never = pin!(set.run_until(may_wait_forever(pending::<()>())));
            let spawned = pin!(async { set.spawn_local(yield_now()).await.unwrap() });
            select(never, spawned).await;
        });
    }
}

#[test]
fn a_future_that_is_done_or_dropped_leaves_no_waker_behind() {
    let set = LocalSet::new();
    let (woken, waker) = CountingWaker::new();
    let mut dropped = Box::pin(set.run_until(pending::<()>()));
    assert!(poll_with(dropped.as_mut(), &waker).is_pending());
    assert_eq!(woken.kept_elsewhere(), 1);
    drop(dropped);
    assert_eq!(woken.kept_elsewhere(), 0);

    let (tx, rx) = oneshot::channel();
    let mut done = pin!(set.run_until(rx));
    assert!(poll_with(done.as_mut(), &waker).is_pending());
    tx.send(()).unwrap();
    assert!(poll_with(done.as_mut(), &waker).is_ready());
    assert_eq!(woken.kept_elsewhere(), 0, "although the future itself is still there");

    let mut set = set;
    let shelf = Shelf::default();
    set.spawn_local(shelf.wait());
    assert!(poll_with(Pin::new(&mut set), &waker).is_pending());
    assert_eq!(woken.kept_elsewhere(), 1);
    shelf.open();
    assert!(poll_with(Pin::new(&mut set), &waker).is_ready());
    assert_eq!(woken.kept_elsewhere(), 0);
}

#[test]
fn guards_enter_and_leave_in_any_order() {
    let (first, second) = (LocalSet::new(), LocalSet::new());
    let runs = Rc::new(Cell::new((0, 0)));
    let note = |in_first: bool| {
        let runs = runs.clone();
        async move {
            let (a, b) = runs.get();
            runs.set(if in_first { (a + 1, b) } else { (a, b + 1) });
        }
    };
    let outer = first.enter();
    let inner = second.enter();
    spawn_local(note(false));
    drop(outer);
    spawn_local(note(false));
    drop(inner);
    assert_eq!(panic_site(|| spawn_local(async {})).message, OUTSIDE);

    let outer = first.enter();
    let inner = second.enter();
    drop(inner);
    spawn_local(note(true));
    drop(outer);
    executor::block_on(first);
    assert_eq!(runs.get(), (1, 0));
    executor::block_on(second);
    assert_eq!(runs.get(), (1, 2));
}

#[test]
fn a_guard_may_outlive_the_set() {
    let log = DropLog::new();
    let set = LocalSet::new();
    let guard = set.enter();
    let stays = log.stays();
    spawn_local(async move { drop(stays) });
    drop(set);
    log.assert_dropped_here(1);
    let stays = log.stays();
    let late = spawn_local(async move { drop(stays) });
    log.assert_dropped_here(2);
    drop(guard);
    assert!(executor::block_on(late).unwrap_err().is_cancelled());
    // One that is never dropped at all does no harm either.
    std::mem::forget(LocalSet::new().enter());
    drop(spawn_local(async {}));
}

#[test]
fn a_guard_held_inside_a_task_stays_entered() {
    let (outer, inner) = (LocalSet::new(), Rc::new(LocalSet::new()));
    let (tx, rx) = oneshot::channel::<()>();
    let entered = inner.clone();
    let task = outer.spawn_local(async move {
        let _guard = entered.enter();
        rx.await.unwrap();
    });
    executor::block_on(outer.run_until(yield_now()));
    let join = spawn_local(async { 5 });
    tx.send(()).unwrap();
    executor::block_on(outer.run_until(task)).unwrap();
    assert_eq!(panic_site(|| spawn_local(async {})).message, OUTSIDE);
    assert_eq!(executor::block_on(inner.run_until(join)).unwrap(), 5);
}

#[test]
fn blocking_in_place_is_refused_inside() {
    let runtime = multi_thread(2);
    let set = LocalSet::new();
    let refused = || {
        let text = panic_site(|| block_in_place(|| ())).message;
        assert!(text.starts_with("can call blocking only when"), "{text}");
    };
    set.block_on(&runtime, async {
        refused();
        spawn_local(async move { refused() }).await.unwrap();
        wakeful::spawn(async { block_in_place(|| ()) }).await.unwrap();
    });
    runtime.block_on(async { block_in_place(|| ()) });
    // No runtime, nobody to be held up.
    executor::block_on(set.run_until(async { block_in_place(|| ()) }));
}

/// A worker may run a set to its end inside of one poll; its own memory and queue are its own again afterwards.
#[test]
fn a_worker_may_poll_a_set_of_its_own() {
    let runtime = multi_thread(2);
    let result = runtime.spawn(async {
        let before = wakeful::spawn(async { 1 });
        let sum = {
            let set = LocalSet::new();
            let local = set.spawn_local(async {
                let inner = wakeful::spawn(async { 10 });
                let local = spawn_local(async { 100 });
                (inner, local.await.unwrap())
            });
            let (inner, sum) = executor::block_on(set.run_until(local)).unwrap();
            (inner, sum)
        };
        let after = wakeful::spawn(async { 1000 });
        before.await.unwrap() + sum.0.await.unwrap() + sum.1 + after.await.unwrap()
    });
    assert_eq!(runtime.block_on(result).unwrap(), 1111);
}

#[test]
fn tasks_have_a_budget_of_their_own() {
    let runtime = current_thread();
    let spend = || async {
        let mut spent = 0;
        let mut all = pin!(async {
            loop {
                task::consume_budget().await;
                spent += 1;
            }
        });
        poll_fn(|cx| {
            assert!(all.as_mut().poll(cx).is_pending() as u8 == 1);
            Poll::Ready(())
        })
        .await;
        spent
    };
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        task::consume_budget().await;
        let local = spawn_local(spend());
        assert_eq!(spend().await, 127, "run_until spends the budget of its caller");
        assert_eq!(local.await.unwrap(), 128);
    });
}

#[test]
fn orphans_are_reported_to_the_runtime_that_polls_the_set() {
    for runtime in runtimes() {
        let set = LocalSet::new();
        let line = line!() + 1;
        let lost = task::Builder::new().name("lost").spawn_local_on(pending::<()>(), &set).unwrap();
        let shelf = Shelf::default();
        let later = set.spawn_local(shelf.wait());
        set.block_on(&runtime, yield_now());
        let [report] = <[_; 1]>::try_from(runtime.reports.take()).unwrap();
        assert_eq!((report.name(), report.id()), (Some("lost"), lost.id()), "{}", runtime.name);
        assert_eq!((report.spawned_at().file(), report.spawned_at().line()), (file!(), line));
        // The last waker of the other goes while nobody polls the set, on a thread of no runtime.
        let wakers = shelf.take();
        thread::spawn(move || drop(wakers)).join().unwrap();
        assert_eq!(runtime.reports.wait_for_one().id(), later.id());
    }
}

#[test]
fn orphans_meet_the_runtimes_policy() {
    let runtime = watch("abort", Builder::new_current_thread().on_orphan(OrphanPolicy::Abort));
    let (log, shelf) = (DropLog::new(), Shelf::default());
    let set = LocalSet::new();
    let (stays, wait) = (log.stays(), shelf.wait());
    let late = set.spawn_local(async move {
        wait.await;
        drop(stays);
    });
    set.block_on(&runtime, async {
        assert!(spawn_local(pending::<()>()).await.unwrap_err().is_orphaned());
    });
    assert_eq!(runtime.reports.take().len(), 1);
    let wakers = shelf.take();
    thread::spawn(move || drop(wakers)).join().unwrap();
    log.assert_dropped_here(0);
    assert!(set.block_on(&runtime, late).unwrap_err().is_orphaned());
    log.assert_dropped_here(1);
    assert_eq!(runtime.reports.take().len(), 1);
}

#[test]
fn nothing_is_reported_of_tasks_that_go_down_with_their_set() {
    for runtime in runtimes() {
        let set = LocalSet::new();
        // Each holds what would wake the next.
        let (mut tx, first) = oneshot::channel::<()>();
        let stop = set.spawn_local(async move { first.await.unwrap() });
        for _ in 0..5 {
            let (previous, rx) = oneshot::channel::<()>();
            let next = std::mem::replace(&mut tx, previous);
            set.spawn_local(async move {
                let _ = rx.await;
                let _ = next.send(());
            });
        }
        set.block_on(&runtime, yield_now());
        drop(set);
        drop(tx);
        assert!(runtime.block_on(stop).unwrap_err().is_cancelled());
    }
}

#[test]
fn a_forever_task_is_no_orphan() {
    let runtime = current_thread();
    let set = LocalSet::new();
    let keeper =
        task::Builder::new().forever().spawn_local_on(pending::<()>(), &set).unwrap();
    set.block_on(&runtime, yield_now());
    assert!(!keeper.is_finished());
}

#[test]
fn a_set_in_thread_local_memory_goes_with_its_thread() {
    bound_this_binary();
    thread_local! {
        static SET: LocalSet = LocalSet::new();
    }
    let (dropped, drops) = std_mpsc::channel();
    struct Tell(std_mpsc::Sender<thread::ThreadId>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    let worker = thread::spawn(move || {
        SET.with(|set| {
            let tell = Tell(dropped);
            set.spawn_local(may_wait_forever(async move {
                let _tell = tell;
                pending::<()>().await;
            }));
            executor::block_on(set.run_until(yield_now()));
        });
        thread::current().id()
    });
    let id = worker.join().unwrap();
    assert_eq!(drops.recv().unwrap(), id);
    assert!(drops.recv().is_err());
}

#[test]
fn a_panicking_drop_stays_inside() {
    struct Bad(DropLog);
    impl Drop for Bad {
        fn drop(&mut self) {
            drop(self.0.stays());
            panic_quietly("in drop");
        }
    }
    let log = DropLog::new();
    let set = LocalSet::new();
    let joins: Vec<_> = (0..3)
        .map(|_| {
            let bad = Bad(log.clone());
            set.spawn_local(async move { drop(bad) })
        })
        .collect();
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(set)));
    assert!(dropped.is_ok());
    log.assert_dropped_here(3);
    for join in joins {
        assert!(executor::block_on(join).unwrap_err().is_panic());
    }
}

#[test]
fn a_panic_of_the_future_leaves_the_set_usable() {
    let runtime = current_thread();
    let set = LocalSet::new();
    let task = set.spawn_local(async { 3 });
    let poll = AssertUnwindSafe(|| set.block_on(&runtime, async { panic_quietly("main") }));
    assert!(catch_unwind(poll).is_err());
    assert_eq!(panic_site(|| spawn_local(async {})).message, OUTSIDE);
    assert_eq!(set.block_on(&runtime, task).unwrap(), 3);
}

#[test]
fn large_futures_and_outputs_stay_here_too() {
    let log = DropLog::new();
    let set = LocalSet::new();
    let (stays, kept) = (log.stays(), log.stays());
    let join = set.spawn_local(async move {
        let mut large = [1u8; 10_000];
        yield_now().await;
        large[17] = 2;
        drop(stays);
        (large, kept)
    });
    let (large, kept) = executor::block_on(set.run_until(join)).unwrap();
    assert_eq!(large.iter().map(|&n| usize::from(n)).sum::<usize>(), 10_001);
    drop(set);
    log.assert_dropped_here(1);
    drop(kept);
    log.assert_dropped_here(2);
}

#[test]
fn sets_have_ids_and_say_what_they_are() {
    let (mut first, second) = (LocalSet::new(), LocalSet::default());
    assert_ne!(first.id(), second.id());
    first.spawn_local(async {});
    first.unhandled_panic(UnhandledPanic::Ignore);
    assert!(format!("{first:?}").contains("tasks: 1"), "{first:?}");
    assert!(format!("{:?}", first.enter()).contains("LocalEnterGuard"));
}

/// Compiles only while the type has not the trait: two ways to name the same thing are ambiguous.
macro_rules! assert_not_impl {
    ($type:ty: $trait:path) => {{
        trait Ambiguous<A> {
            fn some_item() {}
        }
        impl<T: ?Sized> Ambiguous<()> for T {}
        struct Has;
        impl<T: ?Sized + $trait> Ambiguous<Has> for T {}
        <$type as Ambiguous<_>>::some_item();
    }};
}

#[test]
fn a_set_cannot_leave_its_thread() {
    assert_not_impl!(LocalSet: Send);
    assert_not_impl!(LocalSet: Sync);
    assert_not_impl!(task::LocalEnterGuard: Send);
    assert_not_impl!(task::futures::RunUntil<'static, std::future::Ready<()>>: Send);
    assert_not_impl!(task::futures::RunUntil<'static, std::future::Ready<()>>: Unpin);
    assert_not_impl!(JoinHandle<Rc<()>>: Send);
    fn unpin<T: Unpin>() {}
    unpin::<LocalSet>();
}

#[test]
fn a_local_runtime_polls_a_set() {
    let reports = support::runtimes::Reports::new();
    let runtime = Builder::new_current_thread()
        .on_report(reports.hook())
        .build_local(LocalOptions::default())
        .unwrap();
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel();
    let task = set.spawn_local(async move { rx.await.unwrap() });
    runtime.block_on(async {
        wakeful::spawn(async move { tx.send(9).unwrap() });
        assert_eq!(set.run_until(task).await.unwrap(), 9);
    });
}
