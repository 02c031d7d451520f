//! Deadlocks over owned guards and permits are suspected: such a guard can be moved to any task or thread.

use std::sync::Arc;
use std::time::Duration;

use wakeful::inspect::{Certainty, Report};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, RwLock, Semaphore, mpsc, oneshot};
use wakeful::task::{JoinHandle, yield_now};
use wakeful::time;

/// One with a paused clock, which the tests advance, and one with a real clock.
fn runtimes() -> [Runtime; 2] {
    let mut two = Builder::new_multi_thread();
    [Builder::new_current_thread().start_paused(true), two.worker_threads(2)]
        .map(|builder| builder.enable_all().on_report(|_| {}).build().unwrap())
}

/// Diagnoses until there is a deadlock. A wait for something that can be moved counts after some seconds only.
async fn deadlock() -> Report {
    loop {
        time::sleep(Duration::from_millis(10)).await;
        let found = Handle::current().diagnose();
        if let Some(found) = found.into_iter().find(|it| matches!(it, Report::Deadlock(_))) {
            return found;
        }
    }
}

#[track_caller]
fn check(report: &Report, kind: &str, tasks: usize) {
    assert_eq!(report.certainty(), Certainty::Suspected, "{report}");
    let Report::Deadlock(deadlock) = report else { panic!("{report}") };
    assert_eq!(deadlock.edges().len(), tasks, "{report}");
    assert!(deadlock.edges().iter().all(|edge| edge.kind() == kind && edge.may_have_moved()));
    assert!(report.to_string().contains("which may have been moved"), "{report}");
}

async fn end<T>(tasks: Vec<JoinHandle<T>>) {
    tasks.iter().for_each(JoinHandle::abort);
    for task in tasks {
        // The second may have got what the first had.
        drop(task.await);
    }
}

#[test]
fn a_task_locks_its_own_mutex_again() {
    for rt in runtimes() {
        rt.block_on(async {
            let lock = Arc::new(Mutex::new(()));
            let twice = wakeful::spawn(async move {
                let _first = lock.clone().lock_owned().await;
                drop(lock.lock_owned().await);
            });
            check(&deadlock().await, "Mutex::lock", 1);
            end(vec![twice]).await;
        });
    }
}

#[test]
fn two_tasks_lock_in_opposite_orders() {
    for rt in runtimes() {
        rt.block_on(async {
            let locks = [Arc::new(RwLock::new(())), Arc::new(RwLock::new(()))];
            let tasks = [0, 1].map(|nth| {
                let (own, other) = (locks[nth].clone(), locks[1 - nth].clone());
                wakeful::spawn(async move {
                    let _own = own.write_owned().await;
                    while other.try_write().is_ok() {
                        yield_now().await;
                    }
                    drop(other.write_owned().await);
                })
            });
            check(&deadlock().await, "RwLock::write", 2);
            end(tasks.into()).await;
        });
    }
}

/// Not before some seconds have passed.
#[test]
fn a_task_acquires_the_last_permit_again() {
    let rt = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_report(|_| {})
        .build()
        .unwrap();
    rt.block_on(async {
        let slots = Arc::new(Semaphore::new(1));
        let twice = wakeful::spawn(async move {
            let _first = slots.clone().acquire_owned().await.unwrap();
            drop(slots.acquire_owned().await);
        });
        yield_now().await;
        assert!(Handle::current().diagnose().is_empty(), "it may be released soon");
        time::advance(Duration::from_secs(3)).await;
        check(&deadlock().await, "Semaphore::acquire", 1);
        end(vec![twice]).await;
    });
}

/// A guard that was moved into a child which still runs: nothing is reported.
#[test]
fn a_guard_that_a_child_has_is_not_reported() {
    for rt in runtimes() {
        rt.block_on(async {
            let lock = Arc::new(Mutex::new(0));
            let (let_go, goes) = oneshot::channel::<()>();
            let parent = wakeful::spawn(async move {
                let mut guard = lock.clone().lock_owned().await;
                wakeful::spawn(async move {
                    goes.await.unwrap();
                    *guard += 1;
                });
                assert_eq!(*lock.lock().await, 1);
            });
            for _ in 0..100 {
                yield_now().await;
                let found = Handle::current().diagnose();
                assert!(found.is_empty(), "{found:?}");
            }
            let_go.send(()).unwrap();
            parent.await.unwrap();
        });
    }
}

/// Permits that go along with jobs: a saturated pool is not reported while its jobs pass.
#[test]
fn permits_of_a_busy_pool_are_not_reported() {
    for rt in runtimes() {
        rt.block_on(async {
            let slots = Arc::new(Semaphore::new(2));
            let (jobs, mut queue) = mpsc::channel(8);
            let works = wakeful::spawn(async move {
                while let Some(permit) = queue.recv().await {
                    for _ in 0..10 {
                        yield_now().await;
                    }
                    drop(permit);
                }
            });
            let sends = wakeful::spawn(async move {
                for _ in 0..100 {
                    let permit = slots.clone().acquire_owned().await.unwrap();
                    jobs.send(permit).await.unwrap();
                }
            });
            while !sends.is_finished() {
                yield_now().await;
                let found = Handle::current().diagnose();
                assert!(found.is_empty(), "{found:?}");
            }
            works.await.unwrap();
        });
    }
}

/// A receiver that finds its message without a wait leaves no site, and the report does without.
#[test]
fn a_receiver_that_never_waited_is_named_without_a_site() {
    for rt in runtimes() {
        rt.block_on(async {
            let (first, mut at_first) = mpsc::channel(1);
            let (second, mut at_second) = mpsc::channel(1);
            first.send(0).await.unwrap();
            let ahead = wakeful::spawn(async move {
                while let Some(number) = at_first.recv().await {
                    for _ in 0..4 {
                        second.send(number).await.unwrap();
                    }
                }
            });
            let behind = wakeful::spawn(async move {
                while let Some(number) = at_second.recv().await {
                    for _ in 0..4 {
                        first.send(number).await.unwrap();
                    }
                }
            });
            let text = deadlock().await.to_string();
            let end_of_line = format!("last used by task {}\n", ahead.id());
            assert!(text.contains(&end_of_line), "{text}");
            end(vec![ahead, behind]).await;
        });
    }
}
