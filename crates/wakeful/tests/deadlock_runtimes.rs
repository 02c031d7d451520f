//! Deadlocks through several runtimes of one process.

use std::sync::Arc;
use std::thread;

use wakeful::inspect::{Certainty, Report};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, oneshot};

fn runtime(name: &str) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().name(name).on_report(|_| {}).build().unwrap()
}

/// Diagnoses until there is a deadlock.
fn deadlock_of(handle: &Handle) -> Report {
    loop {
        let found = handle.diagnose();
        if let Some(found) = found.into_iter().find(|it| matches!(it, Report::Deadlock(_))) {
            return found;
        }
        thread::yield_now();
    }
}

/// A task awaits a task of another runtime, which waits for the first task's lock.
#[test]
fn a_task_awaits_another_runtime_that_waits_for_its_lock() {
    let (first, second) = (runtime("first"), runtime("second"));
    let lock = Arc::new(Mutex::new(()));
    let theirs = second.handle().clone();
    let waits = first.spawn(async move {
        let guard = lock.lock().await;
        let clone = lock.clone();
        let ended = theirs.spawn(async move { drop(clone.lock().await) }).await;
        drop(guard);
        ended.unwrap();
    });
    for handle in [first.handle(), second.handle()] {
        let report = deadlock_of(handle);
        assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
        let Report::Deadlock(deadlock) = &report else { panic!("{report}") };
        let mut kinds: Vec<_> = deadlock.edges().iter().map(|edge| edge.kind()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["JoinHandle", "Mutex::lock"], "{report}");
        for edge in deadlock.edges() {
            let runtime = if edge.kind() == "JoinHandle" { "first" } else { "second" };
            assert_eq!(edge.runtime(), Some(runtime), "{report}");
            assert!(report.to_string().contains(&format!("runtime     {runtime:?}\n")), "{report}");
        }
    }
    waits.abort();
    assert!(first.block_on(waits).unwrap_err().is_cancelled());
}

/// Two tasks of two runtimes lock in opposite orders.
#[test]
fn two_runtimes_lock_in_opposite_orders() {
    let runtimes = [runtime("first"), runtime("second")];
    let locks = [Arc::new(Mutex::new(())), Arc::new(Mutex::new(()))];
    let tasks = [0, 1].map(|nth| {
        let (own, other) = (locks[nth].clone(), locks[1 - nth].clone());
        runtimes[nth].spawn(async move {
            let _own = own.lock().await;
            while other.try_lock().is_ok() {
                wakeful::task::yield_now().await;
            }
            drop(other.lock().await);
        })
    });
    let report = deadlock_of(runtimes[1].handle());
    let Report::Deadlock(deadlock) = &report else { panic!("{report}") };
    assert_eq!(deadlock.edges().len(), 2, "{report}");
    tasks.iter().for_each(|task| task.abort());
}

/// The task of the other runtime goes on later: nothing is reported.
#[test]
fn a_lock_of_another_runtime_that_is_released_later_is_not_reported() {
    let (first, second) = (runtime("first"), runtime("second"));
    let lock = Arc::new(Mutex::new(()));
    let (let_go, goes) = oneshot::channel::<()>();
    let (tx, rx) = std::sync::mpsc::channel();
    let theirs = lock.clone();
    let holds = second.spawn(async move {
        let _guard = theirs.lock().await;
        tx.send(()).unwrap();
        goes.await.unwrap();
    });
    rx.recv().unwrap();
    let waits = first.spawn(async move { drop(lock.lock().await) });
    for _ in 0..200 {
        for handle in [first.handle(), second.handle()] {
            let found = handle.diagnose();
            assert!(found.is_empty(), "{found:?}");
        }
        thread::yield_now();
    }
    let_go.send(()).unwrap();
    first.block_on(async { waits.await.unwrap() });
    second.block_on(async { holds.await.unwrap() });
}
