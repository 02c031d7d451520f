//! Deadlocks of tasks that wait for any of several tasks or locks: `JoinSet`, `join_all`, `FuturesUnordered`, and two
//! branches of `join!`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use wakeful::inspect::{Certainty, Deadlock, Report};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, Semaphore, oneshot};
use wakeful::task::{JoinSet, yield_now};
use wakeful::time::{advance, sleep};

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(600);

type Program = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn runtimes() -> Vec<(Runtime, Receiver<Report>)> {
    let mut two = Builder::new_multi_thread();
    two.worker_threads(2);
    let build = |mut builder: Builder| {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        builder.enable_all().report_blocked_after(None).on_report(hook);
        (builder.build().unwrap(), rx)
    };
    [Builder::new_current_thread(), two].into_iter().map(build).collect()
}

/// Runs the program on every flavor until a suspected deadlock is reported.
fn reported(program: Program) -> Vec<Deadlock> {
    let report = |(rt, reports): (Runtime, Receiver<Report>)| {
        rt.block_on(async {
            let program = wakeful::spawn(program());
            let report = wakeful::task::spawn_blocking(move || reports.recv_timeout(LIMIT));
            let report = report.await.unwrap().expect("a report");
            program.abort();
            assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
            let Report::Deadlock(deadlock) = report else { panic!("{report}") };
            deadlock
        })
    };
    runtimes().into_iter().map(report).collect()
}

/// A `JoinSet` of more tasks than an owner table names, all of which need a lock of the task that awaits them.
#[test]
fn a_join_set_whose_tasks_need_a_lock_of_the_awaiter() {
    for deadlock in reported(|| {
        Box::pin(async {
            let lock = Arc::new(Mutex::new(0));
            let mut tasks = JoinSet::new();
            let _guard = lock.lock().await;
            for _ in 0..20 {
                let lock = lock.clone();
                tasks.spawn(async move { *lock.lock().await += 1 });
            }
            while tasks.join_next().await.is_some() {}
        })
    }) {
        let [joins, locks] = deadlock.edges() else { panic!("{deadlock}") };
        let kinds = [joins.kind(), locks.kind()];
        assert!(kinds.contains(&"JoinHandle") && kinds.contains(&"Mutex::lock"), "{deadlock}");
        assert!(joins.exits().is_empty() && locks.exits().is_empty(), "{deadlock}");
    }
}

/// Some tasks of the set end first. The set withdraws its list of tasks, and makes another.
#[test]
fn a_join_set_of_which_some_tasks_end() {
    for deadlock in reported(|| {
        Box::pin(async {
            let lock = Arc::new(Mutex::new(0));
            let mut tasks = JoinSet::new();
            for n in 1..=20 {
                tasks.spawn(async move { sleep(Duration::from_millis(n * 20)).await });
            }
            let own = lock.clone();
            let _guard = own.lock().await;
            tasks.spawn(async move { *lock.lock().await += 1 });
            while tasks.join_next().await.is_some() {}
        })
    }) {
        assert_eq!(deadlock.edges().len(), 2, "{deadlock}");
    }
}

#[test]
fn join_all_of_handles_whose_tasks_need_a_lock_of_the_awaiter() {
    for deadlock in reported(|| {
        Box::pin(async {
            let lock = Arc::new(Mutex::new(0));
            let _guard = lock.lock().await;
            let task = || {
                let lock = lock.clone();
                wakeful::spawn(async move { *lock.lock().await += 1 })
            };
            join_all([task(), task(), task()]).await;
        })
    }) {
        assert_eq!(deadlock.edges().len(), 2, "{deadlock}");
    }
}

/// Checks that both halves are told: each branch of the task waits for a lock that the other one holds.
fn check_branches(deadlock: &Deadlock) {
    let [one, other] = deadlock.edges() else { panic!("{deadlock}") };
    assert_eq!(one.task(), other.task(), "{deadlock}");
    assert_ne!(one.resource_id(), other.resource_id(), "{deadlock}");
    for edge in [one, other] {
        assert_eq!(edge.task(), edge.holder(), "{deadlock}");
        assert!(deadlock.to_string().contains(&edge.site().to_string()), "{deadlock}");
    }
    // Each branch waits below the line in which it acquired the lock that the other one waits for.
    assert_eq!(one.acquired_at().unwrap().line() + 2, other.site().line(), "{deadlock}");
    assert_eq!(other.acquired_at().unwrap().line() + 2, one.site().line(), "{deadlock}");
    let headline = deadlock.to_string();
    assert!(headline.contains("waits for several resources that it"), "{deadlock}");
}

/// Each branch has the lock that the other one needs. All wakers of the task are in the lists of these locks.
#[test]
fn two_branches_of_join_that_lock_in_different_order() {
    for deadlock in reported(|| {
        Box::pin(async {
            let (a, b) = (Mutex::new(()), Mutex::new(()));
            let one = async {
                let _a = a.lock().await;
                yield_now().await;
                drop(b.lock().await);
            };
            let other = async {
                let _b = b.lock().await;
                yield_now().await;
                drop(a.lock().await);
            };
            wakeful::join!(one, other);
        })
    }) {
        check_branches(&deadlock);
        assert!(deadlock.edges().iter().all(|edge| edge.exits().is_empty()), "{deadlock}");
    }
}

/// A collection that polls its futures with wakers of its own, and only those that were woken.
#[test]
fn futures_unordered_that_lock_in_different_order() {
    for deadlock in reported(|| {
        Box::pin(async {
            let (a, b) = (Mutex::new(()), Mutex::new(()));
            let lock_both = |first: &'static str, a, b| async move {
                let (a, b): (&Mutex<()>, &Mutex<()>) = (a, b);
                let _first = a.lock().await;
                yield_now().await;
                drop(b.lock().await);
                first
            };
            let mut all: FuturesUnordered<_> =
                [lock_both("a", &a, &b), lock_both("b", &b, &a)].into_iter().collect();
            while all.next().await.is_some() {}
        })
    }) {
        check_branches(&deadlock);
        let [exit] = deadlock.edges()[0].exits() else { panic!("{deadlock}") };
        assert!(exit.to_string().contains("another future of the same collection"), "{deadlock}");
        assert_eq!(deadlock.to_string().matches(&exit.to_string()).count(), 1, "{deadlock}");
    }
}

/// Diagnoses a program on a paused clock, after ten seconds, and lets it finish.
fn diagnosed(program: impl Future<Output = ()> + Send + 'static) -> Vec<Report> {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        let task = wakeful::spawn(program);
        let mut found = Vec::new();
        // The first scan asks for the tasks of sets, and a later one uses them.
        for _ in 0..3 {
            for _ in 0..3 {
                yield_now().await;
            }
            advance(Duration::from_secs(4)).await;
            yield_now().await;
            found.extend(Handle::current().diagnose());
        }
        task.await.unwrap();
        found
    })
}

#[test]
fn a_join_set_of_which_one_task_can_run_is_not_reported() {
    let found = diagnosed(async {
        let lock = Arc::new(Mutex::new(0));
        let mut tasks = JoinSet::new();
        let guard = lock.lock().await;
        for _ in 0..3 {
            let lock = lock.clone();
            tasks.spawn(async move { *lock.lock().await += 1 });
        }
        tasks.spawn(sleep(Duration::from_secs(60)));
        tasks.join_next().await.unwrap().unwrap();
        drop(guard);
        while tasks.join_next().await.is_some() {}
    });
    assert!(found.is_empty(), "{found:?}");
}

/// A task is added after the scan has seen the others. It ends the wait.
#[test]
fn a_task_that_is_added_to_the_set_is_not_overlooked() {
    let found = diagnosed(async {
        let lock = Arc::new(Mutex::new(0));
        let mut tasks = JoinSet::new();
        let guard = lock.lock().await;
        let waits = lock.clone();
        tasks.spawn(async move { *waits.lock().await += 1 });
        let (tx, rx) = oneshot::channel();
        wakeful::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            tx.send(()).unwrap();
        });
        wakeful::select! {
            _ = tasks.join_next() => unreachable!("the lock is held"),
            _ = rx => tasks.spawn(sleep(Duration::from_secs(60))),
        };
        tasks.join_next().await.unwrap().unwrap();
        drop(guard);
        while tasks.join_next().await.is_some() {}
    });
    assert!(found.is_empty(), "{found:?}");
}

/// Jobs in one task that share permits: a common way to limit concurrency.
#[test]
fn futures_unordered_that_share_permits_are_not_reported() {
    let found = diagnosed(async {
        let permits = Semaphore::new(2);
        let job = || async {
            let _permit = permits.acquire().await.unwrap();
            sleep(Duration::from_secs(30)).await;
        };
        let mut all: FuturesUnordered<_> = (0..6).map(|_| job()).collect();
        while all.next().await.is_some() {}
    });
    assert!(found.is_empty(), "{found:?}");
}
