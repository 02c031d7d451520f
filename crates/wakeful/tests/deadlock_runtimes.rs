//! Deadlocks through several runtimes of one process.

use std::sync::{Arc, mpsc};
use std::thread;

use wakeful::inspect::{Certainty, Report};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, oneshot};
use wakeful::task::{Id, JoinHandle};

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
    }
    waits.abort();
    assert!(first.block_on(waits).unwrap_err().is_cancelled());
}

/// Two tasks of two runtimes lock in opposite orders.
#[test]
fn two_runtimes_lock_in_opposite_orders() {
    let runtimes = [runtime("first"), runtime("second")];
    let tasks = lock_in_opposite_orders([runtimes[0].handle(), runtimes[1].handle()]);
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
    let (tell, told) = std::sync::mpsc::channel();
    let theirs = lock.clone();
    let holds = second.spawn(async move {
        let _guard = theirs.lock().await;
        tell.send(()).unwrap();
        goes.await.unwrap();
    });
    told.recv().unwrap();
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

/// Spawns two tasks that lock in opposite orders.
fn lock_in_opposite_orders(on: [&Handle; 2]) -> [JoinHandle<()>; 2] {
    let locks = [Arc::new(Mutex::new(())), Arc::new(Mutex::new(()))];
    [0, 1].map(|nth| {
        let (own, other) = (locks[nth].clone(), locks[1 - nth].clone());
        on[nth].spawn(async move {
            let _own = own.lock().await;
            while other.try_lock().is_ok() {
                wakeful::task::yield_now().await;
            }
            drop(other.lock().await);
        })
    })
}

fn ids_of(tasks: &[JoinHandle<()>; 2]) -> [Option<Id>; 2] {
    [0, 1].map(|nth| Some(tasks[nth].id()))
}

fn number_of(task: &JoinHandle<()>) -> u64 {
    task.id().to_string().parse().unwrap()
}

/// A cycle through two runtimes is reported by the runtime of the lowest task id, and by no other.
///
/// Each runtime has a cycle of its own after that. A scan that finds it also finds the first cycle.
#[test]
fn a_cycle_through_two_runtimes_is_reported_by_one() {
    let (tell, told) = mpsc::channel();
    let runtimes = [0, 1].map(|nth| {
        let tell = tell.clone();
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all();
        builder.on_report(move |report| drop(tell.send((nth, Handle::current(), report.clone()))));
        builder.build().unwrap()
    });
    let handles = [runtimes[0].handle(), runtimes[1].handle()];
    let shared = lock_in_opposite_orders(handles);
    let lowest = usize::from(number_of(&shared[1]) < number_of(&shared[0]));
    // Waits for the report of these tasks by one runtime. A repetition of the first comes from `lowest`.
    let wait_for = |tasks: [Option<Id>; 2], wanted: usize| loop {
        let (nth, current, report) = told.recv().unwrap();
        assert_eq!(current.id(), handles[nth].id(), "the hook runs in its runtime");
        let Report::Deadlock(deadlock) = &report else { panic!("{report}") };
        let has = |id| deadlock.edges().iter().any(|edge| edge.task().id() == id);
        match () {
            () if tasks.into_iter().all(has) => break assert_eq!(nth, wanted, "{report}"),
            () => assert!(ids_of(&shared).into_iter().all(has) && nth == lowest, "{report}"),
        }
    };
    wait_for(ids_of(&shared), lowest);
    for nth in [0, 1] {
        let own = lock_in_opposite_orders([handles[nth]; 2]);
        wait_for(ids_of(&own), nth);
        own.iter().for_each(JoinHandle::abort);
    }
    shared.iter().for_each(JoinHandle::abort);
}
