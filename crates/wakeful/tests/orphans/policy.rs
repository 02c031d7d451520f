//! `OrphanPolicy`: what a runtime does besides the report.

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc as std_mpsc;
use std::task::Poll;
use std::thread;

use futures::executor;
use wakeful::runtime::OrphanPolicy;

use super::{Drops, serial};
use crate::support::panic_site::panic_site;
use crate::support::runtimes::TestRuntime;
use crate::support::waker_store::WakerStore;

#[test]
fn policy_abort_drops_the_task_and_wakes_its_handle() {
    for rt in serial(OrphanPolicy::Abort) {
        let drops = Drops::default();
        let mark = drops.clone();
        let task = rt.spawn(async move {
            let _mark = mark;
            pending::<()>().await;
        });
        let id = task.id();
        let error = rt.block_on(task).unwrap_err();
        assert!(error.is_orphaned() && error.is_cancelled() && !error.is_panic(), "{}", rt.name);
        assert_eq!(error.id(), id);
        assert!(error.to_string().starts_with(&format!("task {id} was cancelled")), "{error}");
        assert_eq!(drops.0.load(SeqCst), 1, "{}", rt.name);
        assert_eq!(rt.reports.wait_for_one().id(), id);

        // A foreign thread drops the last waker while the runtime sleeps.
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        let id = task.id();
        rt.settle();
        let foreign = thread::spawn(move || drop(store));
        let error = rt.block_on(task).unwrap_err();
        assert!(error.is_orphaned(), "{}", rt.name);
        assert_eq!(rt.reports.wait_for_one().id(), id);
        foreign.join().unwrap();
    }
}

#[test]
fn policy_panic_ends_block_on_with_the_report() {
    for rt in serial(OrphanPolicy::Panic) {
        let task = rt.spawn(pending::<()>());
        let id = task.id();
        let panic = panic_site(AssertUnwindSafe(|| rt.block_on(pending::<()>())));
        let report = rt.reports.wait_for_one();
        assert_eq!(report.id(), id, "{}", rt.name);
        assert_eq!(panic.message, report.to_string(), "{}", rt.name);
        assert_eq!(panic.file, file!(), "the panic is at the call of block_on");
        let TestRuntime { runtime, .. } = rt;
        drop(runtime);
        assert!(executor::block_on(task).unwrap_err().is_orphaned());
    }
}

#[test]
fn policy_panic_reaches_a_block_on_that_sleeps() {
    for rt in serial(OrphanPolicy::Panic) {
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        rt.settle();
        let foreign = thread::spawn(move || drop(store));
        let ended = catch_unwind(AssertUnwindSafe(|| rt.block_on(pending::<()>())));
        let text = *ended.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(text, rt.reports.wait_for_one().to_string(), "{}", rt.name);
        foreign.join().unwrap();
        drop(task);
    }
}

/// The function that blocks on the runtime.
#[derive(Clone, Copy, Debug)]
enum Through {
    Runtime,
    /// On a current-thread runtime this drives nothing.
    Handle,
}

impl Through {
    #[track_caller]
    fn block_on<F: Future>(self, rt: &TestRuntime, future: F) -> F::Output {
        match self {
            Through::Runtime => rt.block_on(future),
            Through::Handle => rt.handle().block_on(future),
        }
    }
}

#[test]
fn policy_panic_fails_a_block_on_that_is_done_in_the_poll_that_lost_the_waker() {
    for through in [Through::Runtime, Through::Handle] {
        for rt in serial(OrphanPolicy::Panic) {
            let store = WakerStore::default();
            let task = rt.spawn(store.wait());
            rt.settle();
            let last_step = async move { drop(store) };
            let panic = panic_site(AssertUnwindSafe(|| through.block_on(&rt, last_step)));
            let report = rt.reports.wait_for_one();
            assert_eq!(report.id(), task.id(), "{} through its {through:?}", rt.name);
            assert_eq!(panic.message, report.to_string());
            assert_eq!(panic.file, file!());
        }
    }
}

#[test]
fn policy_panic_also_fails_a_block_on_while_another_thread_runs_the_tasks() {
    for rt in serial(OrphanPolicy::Panic) {
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        rt.settle();
        let (inside, is_inside) = std_mpsc::channel();
        let (first, second) = thread::scope(|scope| {
            let root = poll_fn(move |_| {
                inside.send(()).unwrap();
                Poll::<()>::Pending
            });
            let other = scope.spawn(|| panic_site(AssertUnwindSafe(|| rt.block_on(root))));
            is_inside.recv().unwrap();
            let last_step = async move { drop(store) };
            let panic = panic_site(AssertUnwindSafe(|| rt.block_on(last_step)));
            (panic, other.join().unwrap())
        });
        let report = rt.reports.wait_for_one();
        assert_eq!(report.id(), task.id(), "{}", rt.name);
        assert_eq!((&first.message, &second.message), (&report.to_string(), &report.to_string()));
    }
}

#[test]
fn policy_panic_drops_all_other_tasks_too() {
    for rt in serial(OrphanPolicy::Panic) {
        let (store, other) = (WakerStore::default(), WakerStore::default());
        let lost = rt.spawn(store.wait());
        let bystander = rt.spawn(other.wait());
        rt.settle();
        // A foreign thread drops the last waker while all workers sleep.
        thread::spawn(move || drop(store)).join().unwrap();
        assert_eq!(rt.reports.wait_for_one().id(), lost.id(), "{}", rt.name);
        if rt.name == "current_thread" {
            panic_site(AssertUnwindSafe(|| rt.block_on(pending::<()>())));
        }
        let error = executor::block_on(bystander).unwrap_err();
        assert!(error.is_cancelled() && !error.is_orphaned(), "{}", rt.name);
        assert!(executor::block_on(lost).unwrap_err().is_orphaned(), "{}", rt.name);
        let late = rt.spawn(async {});
        assert!(executor::block_on(late).unwrap_err().is_cancelled(), "{}", rt.name);
    }
}

#[test]
fn policy_panic_ends_every_block_on() {
    for rt in serial(OrphanPolicy::Panic) {
        let (inside, are_inside) = std_mpsc::channel();
        let texts: Vec<String> = thread::scope(|scope| {
            let roots: Vec<_> = [Through::Runtime, Through::Handle]
                .repeat(2)
                .into_iter()
                .map(|through| {
                    let (rt, inside) = (&rt, inside.clone());
                    scope.spawn(move || {
                        let root = poll_fn(|_| {
                            inside.send(()).unwrap();
                            Poll::<()>::Pending
                        });
                        catch_unwind(AssertUnwindSafe(|| through.block_on(rt, root))).unwrap_err()
                    })
                })
                .collect();
            (0..4).for_each(|_| are_inside.recv().unwrap());
            rt.spawn(pending::<()>());
            let panics = roots.into_iter().map(|root| root.join().unwrap());
            panics.map(|panic| *panic.downcast::<String>().unwrap()).collect()
        });
        let report = rt.reports.wait_for_one().to_string();
        assert!(texts.iter().all(|text| *text == report), "{}: {texts:?}", rt.name);
        for through in [Through::Runtime, Through::Handle] {
            let late = panic_site(AssertUnwindSafe(|| through.block_on(&rt, async {})));
            assert_eq!((late.message, &*late.file), (report.clone(), file!()), "{}", rt.name);
        }
    }
}
