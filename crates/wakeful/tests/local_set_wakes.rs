//! `LocalSet`: work wakes the task that polls the set, and panics and orphans are reported.

use std::cell::Cell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::channel::oneshot;
use futures::executor;
use futures::future::{join, select};
use wakeful::runtime::{Builder, OrphanPolicy, UnhandledPanic};
use wakeful::task::{self, LocalSet, may_wait_forever, spawn_local, yield_now};

mod support {
    pub mod not_send;
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::not_send::{CountingWaker, DropLog};
use support::panic_site::panic_site;
use support::runtimes::{current_thread, runtimes, watch};
use support::waker_store::WakerStore;

fn poll_with<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
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
    let (log, store) = (DropLog::new(), WakerStore::default());
    let mut set = LocalSet::new();
    set.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    let (not_send, wait) = (log.not_send(), store.wait());
    let other = set.spawn_local(async move {
        wait.await;
        drop(not_send);
    });
    let bad = set.spawn_local(async { panic_quietly("boom") });
    for _ in 0..2 {
        let poll = AssertUnwindSafe(|| set.block_on(&runtime, may_wait_forever(pending::<()>())));
        let message = panic_site(poll).message;
        let task = format!("    task        task {}\n    message     \"boom\"\n", bad.id());
        assert!(message.starts_with(&format!("{DOWN}\n{task}    spawned     at ")), "{message}");
        assert!(
            message.ends_with("policy      shut down (UnhandledPanic::ShutdownRuntime)"),
            "{message}"
        );
        log.assert_dropped_here(1);
    }
    assert!(executor::block_on(other).unwrap_err().is_cancelled());
    assert!(executor::block_on(bad).unwrap_err().is_panic());
    let not_send = log.not_send();
    let late = set.spawn_local(async move { drop(not_send) });
    log.assert_dropped_here(2);
    assert!(executor::block_on(late).unwrap_err().is_cancelled());
    store.open();
}

#[test]
fn a_panic_of_the_future_leaves_the_set_usable() {
    let runtime = current_thread();
    let set = LocalSet::new();
    let task = set.spawn_local(async { 3 });
    let poll = AssertUnwindSafe(|| set.block_on(&runtime, async { panic_quietly("main") }));
    assert!(catch_unwind(poll).is_err());
    let outside = panic_site(|| spawn_local(async {})).message;
    assert!(outside.starts_with("`spawn_local` called from outside"), "{outside}");
    assert_eq!(set.block_on(&runtime, task).unwrap(), 3);
}

#[test]
fn one_poll_runs_61_tasks_and_wakes_itself() {
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
fn work_from_outside_wakes_the_polling_task() {
    let (woken, waker) = CountingWaker::new();
    let (set, store) = (LocalSet::new(), WakerStore::default());
    let mut until = pin!(set.run_until(pending::<()>()));
    let mut poll = || assert!(poll_with(until.as_mut(), &waker).is_pending());
    poll();
    assert_eq!(woken.take(), 0);
    set.spawn_local(store.wait());
    assert_eq!(woken.take(), 1, "spawned from outside of a poll");
    set.spawn_local(store.wait());
    assert_eq!(woken.take(), 0, "once is enough");
    poll();
    {
        let _inside = set.enter();
        spawn_local(store.wait());
    }
    assert_eq!(woken.take(), 1, "spawned through a guard");
    poll();
    let mut wakers = store.take();
    wakers.pop().unwrap().wake();
    assert_eq!(woken.take(), 1, "woken on the set's thread");
    poll();
    let other = wakers.pop().unwrap();
    thread::spawn(move || other.wake()).join().unwrap();
    assert_eq!(woken.take(), 1, "woken on another thread");
    poll();
    assert_eq!(woken.take(), 0);
}

/// A task that becomes ready during a poll runs in that poll, without a wake.
#[test]
fn work_from_inside_does_not_wake_the_polling_task() {
    let (woken, waker) = CountingWaker::new();
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel::<()>();
    let runs = Rc::new(Cell::new(0));
    let counted = runs.clone();
    set.spawn_local(async move {
        rx.await.unwrap();
        let (tx, rx) = oneshot::channel::<()>();
        spawn_local(async move { tx.send(()).unwrap() });
        rx.await.unwrap();
        yield_now().await;
        counted.set(counted.get() + 1);
    });
    let (start, started) = oneshot::channel::<()>();
    let mut until = pin!(set.run_until(async {
        started.await.unwrap();
        tx.send(()).unwrap();
        pending::<()>().await;
    }));
    assert!(poll_with(until.as_mut(), &waker).is_pending());
    start.send(()).unwrap();
    assert_eq!(woken.take(), 1, "the future itself");
    assert!(poll_with(until.as_mut(), &waker).is_pending());
    assert_eq!((runs.get(), woken.take()), (1, 0));
}

#[test]
fn the_latest_waker_is_woken() {
    let set = LocalSet::new();
    let ((first, first_waker), (second, second_waker)) =
        (CountingWaker::new(), CountingWaker::new());
    let mut until = pin!(set.run_until(pending::<()>()));
    assert!(poll_with(until.as_mut(), &first_waker).is_pending());
    assert!(poll_with(until.as_mut(), &second_waker).is_pending());
    assert_eq!(first.other_clones(), 0);
    set.spawn_local(async {});
    assert_eq!((first.take(), second.take()), (0, 1));
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
    assert_eq!((first.take(), second.take()), (1, 1), "the set may poll either task");
    assert!(poll_with(long.as_mut(), &first_waker).is_pending());
    assert!(poll_with(short.as_mut(), &second_waker).is_pending());

    // The future that was polled last is dropped, so work must wake the other one.
    tx.send(()).unwrap();
    assert_eq!((first.take(), second.take()), (0, 1), "the future itself was woken");
    assert!(poll_with(short.as_mut(), &second_waker).is_ready());
    drop(short);
    assert_eq!((first.take(), second.take()), (0, 0), "it leaves no work behind");
    set.spawn_local(async {});
    assert_eq!((first.take(), second.take()), (1, 0));

    // A future that spawns in its last poll leaves work behind.
    assert!(poll_with(long.as_mut(), &first_waker).is_pending());
    let mut spawning = pin!(set.run_until(async { drop(spawn_local(async {})) }));
    assert!(poll_with(spawning.as_mut(), &second_waker).is_ready());
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
fn a_future_that_is_done_leaves_no_waker_behind_and_one_that_is_dropped_does() {
    let set = LocalSet::new();
    let (woken, waker) = CountingWaker::new();
    let mut dropped = Box::pin(set.run_until(pending::<()>()));
    assert!(poll_with(dropped.as_mut(), &waker).is_pending());
    assert_eq!(woken.other_clones(), 1);
    drop(dropped);
    assert_eq!(woken.other_clones(), 1);
    set.spawn_local(async {});
    assert_eq!((woken.take(), woken.other_clones()), (1, 0), "the set has work");

    let (tx, rx) = oneshot::channel();
    let mut done = Box::pin(set.run_until(rx));
    assert!(poll_with(done.as_mut(), &waker).is_pending());
    tx.send(()).unwrap();
    assert!(poll_with(done.as_mut(), &waker).is_ready());
    assert_eq!(woken.other_clones(), 0, "although the future itself is still there");
    drop(done);

    let mut set = set;
    let store = WakerStore::default();
    set.spawn_local(store.wait());
    assert!(poll_with(Pin::new(&mut set), &waker).is_pending());
    assert_eq!(woken.other_clones(), 1);
    store.open();
    assert!(poll_with(Pin::new(&mut set), &waker).is_ready());
    assert_eq!(woken.other_clones(), 0);
}

#[test]
fn orphans_are_reported_to_the_runtime_that_polls_the_set() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = watch("report", builder.worker_threads(1));
        let set = LocalSet::new();
        let line = line!() + 1;
        let lost = task::Builder::new().name("lost").spawn_local_on(pending::<()>(), &set).unwrap();
        let store = WakerStore::default();
        let later = set.spawn_local(store.wait());
        set.block_on(&runtime, yield_now());
        let [report] = <[_; 1]>::try_from(runtime.reports.take()).unwrap();
        assert_eq!((report.name(), report.id()), (Some("lost"), lost.id()));
        assert_eq!((report.spawned_at().file(), report.spawned_at().line()), (file!(), line));
        // A thread outside the runtime drops the last waker of the other task while the set is not polled.
        let wakers = store.take();
        thread::spawn(move || drop(wakers)).join().unwrap();
        assert_eq!(runtime.reports.wait_for_one().id(), later.id());
    }
}

#[test]
fn orphans_meet_the_runtimes_policy() {
    let runtime = watch("abort", Builder::new_current_thread().on_orphan(OrphanPolicy::Abort));
    let (log, store) = (DropLog::new(), WakerStore::default());
    let set = LocalSet::new();
    let (not_send, wait) = (log.not_send(), store.wait());
    let late = set.spawn_local(async move {
        wait.await;
        drop(not_send);
    });
    set.block_on(&runtime, async {
        assert!(spawn_local(pending::<()>()).await.unwrap_err().is_orphaned());
    });
    assert_eq!(runtime.reports.take().len(), 1);
    let wakers = store.take();
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
        // Each task holds the waker of the other. The first one to be dropped makes the other an orphan.
        let stores = [WakerStore::default(), WakerStore::default()];
        let waits = [stores[1].wait(), stores[0].wait()];
        let tasks: Vec<_> = stores
            .into_iter()
            .zip(waits)
            .map(|(store, wait)| {
                set.spawn_local(async move {
                    wait.await;
                    drop(store);
                })
            })
            .collect();
        set.block_on(&runtime, yield_now());
        drop(set);
        for task in tasks {
            assert!(runtime.block_on(task).unwrap_err().is_cancelled(), "{}", runtime.name);
        }
    }
}

#[test]
fn a_forever_task_is_no_orphan() {
    let runtime = current_thread();
    let set = LocalSet::new();
    let keeper = task::Builder::new().forever().spawn_local_on(pending::<()>(), &set).unwrap();
    set.block_on(&runtime, yield_now());
    assert!(!keeper.is_finished());
}
