//! Deadlocks through threads: closures of the blocking pool in `blocking_lock`, and `block_on` inside of a task.

use std::sync::Arc;
use std::thread;

use wakeful::inspect::{Certainty, Report};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, RwLock, Semaphore, oneshot};
use wakeful::task::{block_in_place, spawn_blocking, yield_now};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().on_report(|_| {}).build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().report_blocked_after(None).on_report(|_| {});
    builder.build().unwrap()
}

/// Diagnoses from outside until there is a deadlock.
fn deadlock_of(handle: &Handle) -> Report {
    loop {
        let found = handle.diagnose();
        if let Some(found) = found.into_iter().find(|it| matches!(it, Report::Deadlock(_))) {
            return found;
        }
        thread::yield_now();
    }
}

/// The calls in which the tasks of the cycle wait, sorted.
fn kinds(report: &Report) -> Vec<&'static str> {
    let Report::Deadlock(deadlock) = report else { panic!("{report}") };
    let mut kinds: Vec<_> = deadlock.edges().iter().map(|edge| edge.kind()).collect();
    kinds.sort_unstable();
    kinds
}

#[test]
fn a_closure_waits_for_a_lock_of_the_task_that_awaits_it() {
    for rt in [current_thread(), multi_thread()] {
        let handle = rt.handle().clone();
        let lock = Arc::new(Mutex::new(()));
        let (give, mut given) = oneshot::channel();
        let task = rt.spawn(async move {
            let guard = lock.lock().await;
            let theirs = lock.clone();
            let closure = spawn_blocking(move || drop(theirs.blocking_lock()));
            give.send(closure.abort_handle()).unwrap();
            let ended = closure.await;
            drop(guard);
            ended.unwrap();
        });
        let aborts = task.abort_handle();
        let looks = thread::spawn(move || {
            let report = deadlock_of(&handle);
            aborts.abort();
            report
        });
        assert!(rt.block_on(task).unwrap_err().is_cancelled());
        let report = looks.join().unwrap();
        assert_eq!(kinds(&report), ["JoinHandle", "Mutex::lock"], "{report}");
        assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
        assert!(given.try_recv().is_ok());
    }
}

#[test]
fn a_closure_waits_for_access_of_the_task_that_awaits_it() {
    for rt in [current_thread(), multi_thread()] {
        let handle = rt.handle().clone();
        let (lock, slots) = (Arc::new(RwLock::new(())), Arc::new(Semaphore::new(1)));
        let task = rt.spawn(async move {
            let reads = lock.read().await;
            let theirs = lock.clone();
            let closure = spawn_blocking(move || drop(theirs.blocking_write()));
            let _slot = slots.acquire().await.unwrap();
            closure.await.unwrap();
            drop(reads);
        });
        let aborts = task.abort_handle();
        let looks = thread::spawn(move || {
            let report = deadlock_of(&handle);
            aborts.abort();
            report
        });
        assert!(rt.block_on(task).unwrap_err().is_cancelled());
        let report = looks.join().unwrap();
        assert_eq!(kinds(&report), ["JoinHandle", "RwLock::write"], "{report}");
    }
}

/// Two closures that lock in opposite orders. Neither is a task that waits.
#[test]
fn two_closures_lock_in_opposite_orders() {
    for rt in [current_thread(), multi_thread()] {
        let locks: [&'static Mutex<()>; 2] =
            [Box::leak(Box::new(Mutex::new(()))), Box::leak(Box::new(Mutex::new(())))];
        let _entered = rt.enter();
        for nth in [0, 1] {
            spawn_blocking(move || {
                let _own = locks[nth].blocking_lock();
                while locks[1 - nth].try_lock().is_ok() {
                    thread::yield_now();
                }
                drop(locks[1 - nth].blocking_lock());
            });
        }
        let report = deadlock_of(rt.handle());
        assert_eq!(kinds(&report), ["Mutex::lock", "Mutex::lock"], "{report}");
        assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
        drop(_entered);
        rt.shutdown_background();
    }
}

#[test]
fn a_closure_blocks_on_a_lock_of_the_task_that_awaits_it() {
    for rt in [current_thread(), multi_thread()] {
        let handle = rt.handle().clone();
        let lock = Arc::new(Mutex::new(()));
        let task = rt.spawn(async move {
            let guard = lock.lock().await;
            let theirs = lock.clone();
            let handle = Handle::current();
            let closure =
                spawn_blocking(move || handle.block_on(async { drop(theirs.lock().await) }));
            let ended = closure.await;
            drop(guard);
            ended.unwrap();
        });
        let aborts = task.abort_handle();
        let looks = thread::spawn(move || {
            let report = deadlock_of(&handle);
            aborts.abort();
            report
        });
        assert!(rt.block_on(task).unwrap_err().is_cancelled());
        let report = looks.join().unwrap();
        assert_eq!(kinds(&report), ["JoinHandle", "Mutex::lock", "block_on"], "{report}");
        assert!(
            report.to_string().contains("until the future of that block_on completes"),
            "{report}"
        );
    }
}

#[test]
fn a_task_blocks_in_place_on_a_lock_that_it_holds() {
    let rt = multi_thread();
    let lock: &'static Mutex<()> = Box::leak(Box::new(Mutex::new(())));
    let (let_go, goes) = std::sync::mpsc::channel();
    let task = rt.spawn(async move {
        let guard = lock.lock().await;
        let_go.send(()).unwrap();
        block_in_place(|| {
            Handle::current().block_on(async move {
                // A second task ends it, after the report.
                drop(lock.lock().await);
            });
        });
        drop(guard);
    });
    goes.recv().unwrap();
    let report = deadlock_of(rt.handle());
    assert_eq!(kinds(&report), ["Mutex::lock", "block_on"], "{report}");
    drop(task);
    rt.shutdown_background();
}

/// The guard leaves its task while the closure waits: nothing is reported as proven, and the program ends.
#[test]
fn a_closure_gets_its_lock_after_all() {
    for rt in [current_thread(), multi_thread()] {
        let lock: &'static Mutex<()> = Box::leak(Box::new(Mutex::new(())));
        let found = rt.block_on(async {
            let guard = lock.lock().await;
            let closure = spawn_blocking(move || drop(lock.blocking_lock()));
            let (give, given) = oneshot::channel();
            let looks = wakeful::spawn(async move {
                let _guard = guard;
                for _ in 0..100 {
                    yield_now().await;
                }
                let found = Handle::current().diagnose();
                give.send(found).unwrap();
            });
            looks.await.unwrap();
            closure.await.unwrap();
            given.await.unwrap()
        });
        assert!(found.iter().all(|it| it.certainty() == Certainty::Suspected), "{found:?}");
    }
}

fn one_pool_thread() -> [Runtime; 2] {
    let mut two = Builder::new_multi_thread();
    [&mut Builder::new_current_thread(), two.worker_threads(2)].map(|builder| {
        builder.enable_all().max_blocking_threads(1).report_blocked_after(None).on_report(|_| {});
        builder.build().unwrap()
    })
}

/// The only thread of the pool waits for a closure that needs a thread of the pool.
#[test]
fn a_closure_awaits_another_closure_of_a_full_pool() {
    for rt in one_pool_thread() {
        let handle = rt.handle().clone();
        let _entered = rt.enter();
        let (give, given) = std::sync::mpsc::channel();
        spawn_blocking(move || {
            let queued = handle.spawn_blocking(|| ());
            give.send(queued.abort_handle()).unwrap();
            drop(handle.block_on(queued));
        });
        let report = deadlock_of(rt.handle());
        assert_eq!(kinds(&report), ["JoinHandle", "block_on", "spawn_blocking"], "{report}");
        assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
        let text = report.to_string();
        assert!(text.contains("all threads of the blocking pool are occupied"), "{text}");
        assert!(text.contains("max_blocking_threads"), "{text}");
        given.recv().unwrap().abort();
        drop(_entered);
        rt.shutdown_background();
    }
}

/// The closure that occupies the pool ends after all: nothing is reported.
#[test]
fn a_full_pool_whose_closure_still_runs_is_not_reported() {
    for rt in one_pool_thread() {
        let _entered = rt.enter();
        let (let_go, goes) = std::sync::mpsc::channel::<()>();
        let runs = spawn_blocking(move || goes.recv().unwrap());
        let queued = spawn_blocking(|| ());
        for _ in 0..100 {
            let found = rt.handle().diagnose();
            assert!(found.is_empty(), "{found:?}");
            thread::yield_now();
        }
        let_go.send(()).unwrap();
        rt.block_on(async {
            runs.await.unwrap();
            queued.await.unwrap();
        });
    }
}
