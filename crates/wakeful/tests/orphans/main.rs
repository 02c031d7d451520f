//! A task that can never run again is reported: at once, exactly once, and never wrongly.

mod policy;

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc as std_mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::channel::oneshot;
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::task::{self, yield_now};
use wakeful::time::{Duration, advance, sleep};

#[path = "../support"]
mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::runtimes::{TestRuntime, serial_builders, watch};
use support::waker_store::WakerStore;

fn serial(policy: OrphanPolicy) -> impl Iterator<Item = TestRuntime> {
    serial_builders()
        .into_iter()
        .map(move |(name, mut builder)| watch(name, builder.on_orphan(policy)))
}

/// Counts its drops.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn pending_without_a_waker_is_reported_with_all_there_is_to_know() {
    for rt in serial(OrphanPolicy::Report) {
        let (task, line) = (rt.spawn(pending::<()>()), line!());
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!(orphan.id(), task.id(), "{}", rt.name);
        assert_eq!(orphan.name(), None);
        assert_eq!((orphan.spawned_at().file(), orphan.spawned_at().line()), (file!(), line));
        assert_eq!(orphan.polls(), 1);
        assert_eq!(orphan.last_waited_for(), None);
        assert_eq!(rt.metrics().orphaned_tasks(), 1);
        assert!(!task.is_finished(), "the default is to report, and to leave the task alone");

        let text = orphan.to_string();
        let site = format!("at {}:{line}:", file!());
        for part in
            [&format!("task {} can never", task.id()), &site, ", 1 poll\n", "may_wait_forever"]
        {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }

        task.abort();
        let error = rt.block_on(task).unwrap_err();
        assert!(error.is_cancelled() && !error.is_orphaned(), "the user ended it: {error}");

        let named = task::Builder::new().name("ledger keeper");
        let task = named.spawn_on(pending::<()>(), rt.handle()).unwrap();
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.name()), (task.id(), Some("ledger keeper")), "{}", rt.name);
        let start =
            format!("orphan (proven): task {} \"ledger keeper\" can never run again", task.id());
        assert!(orphan.to_string().starts_with(&start), "{orphan}");
    }
}

#[test]
fn the_report_says_what_the_task_last_waited_for() {
    for rt in serial(OrphanPolicy::Report) {
        let (sites, lines) = std_mpsc::channel();
        let also_sites = sites.clone();
        let turn = rt.spawn(async move {
            sites.send(line!() + 1).unwrap();
            yield_now().await;
            pending::<()>().await;
        });
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.polls()), (turn.id(), 2), "{}", rt.name);
        let (what, site) = orphan.last_waited_for().unwrap();
        assert_eq!(what, "its next poll (yield_now)");
        assert_eq!((site.file(), site.line()), (file!(), lines.recv().unwrap()));

        let join = rt.spawn(async move {
            also_sites.send(line!() + 1).unwrap();
            wakeful::spawn(async {}).await.unwrap();
            pending::<()>().await;
        });
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.polls()), (join.id(), 2), "{}", rt.name);
        let (what, site) = orphan.last_waited_for().unwrap();
        assert_eq!(what, "a task to end (JoinHandle)");
        assert_eq!((site.file(), site.line()), (file!(), lines.recv().unwrap()));
        assert!(
            orphan.to_string().contains(&format!("(JoinHandle), spawned at {site}")),
            "{orphan}"
        );
    }
}

#[test]
fn the_report_says_which_moment_the_task_last_waited_for() {
    let mut builder = Builder::new_current_thread();
    let rt =
        watch("paused", builder.enable_all().start_paused(true).on_orphan(OrphanPolicy::Report));
    let line = line!() + 3;
    rt.block_on(async {
        advance(Duration::from_secs(1)).await;
        let mut sleep = Box::pin(sleep(Duration::from_millis(250)));
        let asleep = poll_fn(move |_| sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        wakeful::spawn(asleep);
        yield_now().await;
    });
    let orphan = rt.reports.wait_for_one();
    let (what, site) = orphan.last_waited_for().unwrap();
    assert_eq!(what, "a timer (sleep or interval)");
    assert_eq!((site.file(), site.line()), (file!(), line));
    assert_eq!(orphan.last_waited_until(), Some(Duration::from_millis(1_250)));
    let text = format!("{what}, 1.25s after the runtime started, created at {site}");
    assert!(orphan.to_string().contains(&text), "{orphan}");

    rt.spawn(pending::<()>());
    rt.block_on(yield_now());
    assert_eq!(rt.reports.wait_for_one().last_waited_until(), None);
}

#[test]
fn the_last_waker_dropped_later_is_noticed_in_the_drop() {
    for rt in serial(OrphanPolicy::Report) {
        // This thread, outside of the runtime, drops the last waker.
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        rt.settle();
        let mut wakers = store.take();
        let last = wakers.pop().unwrap();
        let clones = [last.clone(), last.clone()];
        drop(clones);
        assert!(rt.reports.take().is_empty(), "one is left, {}", rt.name);
        drop(last);
        assert_eq!(rt.reports.wait_for_one().id(), task.id(), "{}", rt.name);

        // A foreign thread drops the last waker.
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        rt.settle();
        thread::spawn(move || drop(store)).join().unwrap();
        assert_eq!(rt.reports.wait_for_one().id(), task.id(), "{}", rt.name);

        // Another task of the runtime drops the last waker.
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        rt.settle();
        rt.block_on(rt.spawn(async move { drop(store) })).unwrap();
        let orphan = rt.reports.wait_for_one();
        assert_eq!((orphan.id(), orphan.polls()), (task.id(), 1), "{}", rt.name);
        assert_eq!(rt.metrics().orphaned_tasks(), 3);
    }
}

#[test]
fn a_task_that_drops_its_own_waker_during_the_poll_is_an_orphan() {
    for rt in serial(OrphanPolicy::Report) {
        let cloned = rt.spawn(poll_fn(|cx| {
            drop(cx.waker().clone());
            Poll::<()>::Pending
        }));
        rt.settle();
        assert_eq!(rt.reports.wait_for_one().id(), cloned.id(), "{}", rt.name);

        // A JoinHandle that is polled and dropped takes the waker along.
        let store = WakerStore::default();
        let waits = store.wait();
        let mut other = Some(rt.spawn(waits));
        rt.settle();
        let joined = rt.spawn(poll_fn(move |cx| {
            let mut handle = other.take().expect("polled once");
            assert!(pin!(&mut handle).poll(cx).is_pending());
            Poll::<()>::Pending
        }));
        rt.settle();
        let orphan = rt.reports.wait_for_one();
        assert_eq!(orphan.id(), joined.id(), "{}", rt.name);
        assert_eq!(orphan.last_waited_for().unwrap().0, "a task to end (JoinHandle)");
        store.open();
        rt.settle();
    }
}

#[test]
fn a_waker_kept_from_another_task_orphans_the_task_that_polls_now() {
    for rt in serial(OrphanPolicy::Report) {
        // The future keeps its first waker, even after it moves to another task.
        let mut first_waker = None::<Waker>;
        let mut stubborn = Some(Box::pin(poll_fn(move |cx| {
            first_waker.get_or_insert_with(|| cx.waker().clone());
            Poll::<()>::Pending
        })));
        let (hand_on, taken) = oneshot::channel();
        let store = WakerStore::default();
        let waits = store.wait();
        let first = rt.spawn(async move {
            let mut future = stubborn.take().unwrap();
            let pending = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending()));
            assert!(pending.await);
            assert!(hand_on.send(future).is_ok());
            waits.await;
        });
        let second = rt.spawn(async move { taken.await.unwrap().await });
        rt.settle();
        assert_eq!(rt.reports.wait_for_one().id(), second.id(), "{}", rt.name);
        store.open();
        rt.block_on(first).unwrap();
    }
}

#[test]
fn waking_with_the_last_waker_is_no_loss() {
    for rt in serial(OrphanPolicy::Report) {
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        for round in 1..=3 {
            rt.settle();
            let mut wakers = store.take();
            assert_eq!(wakers.len(), 1, "round {round}, {}", rt.name);
            wakers.pop().unwrap().wake();
        }
        rt.settle();
        store.open();
        rt.block_on(task).unwrap();
    }
}

#[test]
fn a_task_that_waits_for_an_orphan_is_none_itself() {
    for rt in serial(OrphanPolicy::Report) {
        let orphan = rt.spawn(pending::<()>());
        let abort = orphan.abort_handle();
        let waiting = rt.spawn(orphan);
        rt.settle();
        assert_eq!(rt.reports.wait_for_one().id(), abort.id(), "{}", rt.name);
        abort.abort();
        assert!(rt.block_on(waiting).unwrap().unwrap_err().is_cancelled());
    }
}

#[test]
fn a_detached_task_is_watched_as_well() {
    for rt in serial(OrphanPolicy::Report) {
        let task = rt.spawn(pending::<()>());
        let id = task.id();
        drop(task);
        rt.settle();
        assert_eq!(rt.reports.wait_for_one().id(), id, "{}", rt.name);
    }
}

#[wakeful::test]
#[should_panic(expected = "can never run again")]
async fn a_wakeful_test_fails_instead_of_hanging() {
    wakeful::spawn(pending::<()>()).await.ok();
    pending::<()>().await;
}

#[wakeful::test]
#[should_panic(expected = "can never run again")]
async fn a_wakeful_test_fails_if_its_last_step_loses_a_waker() {
    let store = WakerStore::default();
    wakeful::spawn(store.wait());
    yield_now().await;
    drop(store);
}

#[wakeful::test(flavor = "multi_thread", worker_threads = 1)]
#[should_panic(expected = "can never run again")]
async fn so_does_one_on_many_threads() {
    let store = WakerStore::default();
    let task = wakeful::spawn(store.wait());
    while store.len() == 0 {
        yield_now().await;
    }
    // This task is behind it in the only worker's queue, so the poll is over.
    wakeful::spawn(yield_now()).await.unwrap();
    drop((store, task));
}

/// A report that is suppressed does not suppress a later one.
#[test]
fn a_flood_of_reports_is_held_back_and_silences_nothing_that_comes_later() {
    let reported = Arc::new(AtomicUsize::new(0));
    let counts = reported.clone();
    let rt = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_report(move |_| {
            counts.fetch_add(1, SeqCst);
        })
        .build()
        .unwrap();
    let orphans = |count: usize| {
        rt.block_on(async {
            (0..count).for_each(|_| drop(task::spawn(pending::<()>())));
            for _ in 0..count {
                yield_now().await;
            }
        });
        reported.swap(0, SeqCst)
    };
    assert_eq!(orphans(5_000), 1_000);
    assert_eq!(orphans(1), 0);
    rt.block_on(advance(Duration::from_secs(4)));
    assert_eq!((orphans(200), orphans(300)), (200, 200), "a hundred for each second");
    assert_eq!(rt.metrics().reports()[0].1, 5_501, "all are counted");
}
