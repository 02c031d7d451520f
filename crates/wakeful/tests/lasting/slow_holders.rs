//! Locks and permits that are not released while tasks wait.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{Clock, HOUR, SECOND, diagnose, hasty, paused, spawn_named};
use crate::settle::settle;
use wakeful::inspect::{Certainty, Report, SlowHolder};
use wakeful::runtime::{Builder, Handle};
use wakeful::sync::{Mutex, RwLock, Semaphore, mpsc, oneshot};
use wakeful::task::{JoinSet, spawn_blocking, yield_now};
use wakeful::time::{advance, sleep};

/// Checks the report of a holder that sleeps, with two waiters. Its text names all three tasks.
fn check_slow(report: &SlowHolder, kind: &str, clock: Clock, acquired_at: u32) {
    let text = report.to_string();
    assert_eq!((report.kind(), report.waiters()), (kind, 2), "{text}");
    let [holder] = report.holders() else { panic!("{text}") };
    assert_eq!(holder.task().name(), Some("holder"));
    let site = holder.acquired_at().expect("it was acquired before the first waiter came");
    assert_eq!((site.file(), site.line()), (file!(), acquired_at), "{text}");
    assert_eq!(holder.waiting_on().unwrap().kind(), "sleep");
    if clock == Clock::Paused {
        assert_eq!(report.held(), 3 * SECOND);
        assert_eq!(report.oldest_waited(), 3 * SECOND);
        assert!(text.contains("has released nothing for 3.0 s; 2 tasks wait"), "{text}");
    }
    assert!(
        text.starts_with("slow holder (suspected): task ") && text.contains("  fix: "),
        "{text}"
    );
    assert!(text.contains("  assumes: "), "{text}");
}

#[test]
fn a_mutex_that_is_held_across_a_slow_wait() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(Mutex::new(()));
        let (held, acquired_at) = (lock.clone(), line!() + 2);
        let holder = spawn_named("holder", async move {
            let _guard = held.lock().await;
            sleep(HOUR).await;
        });
        settle().await;
        let wait = || {
            let lock = lock.clone();
            wakeful::spawn(async move { drop(lock.lock().await) })
        };
        let waiters = [wait(), wait()];
        settle().await;
        clock.pass().await;
        let found = only!(diagnose(), SlowHolder);
        check_slow(&found, "Mutex::lock", clock, acquired_at);
        assert_eq!(Report::SlowHolder(found).certainty(), Certainty::Suspected);
        holder.abort();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert!(diagnose().is_empty(), "the lock is free");
    });
}

#[test]
fn a_permit_that_is_held_across_a_slow_wait() {
    on_both!(async |clock: Clock| {
        let permits = Arc::new(Semaphore::new(1));
        let (held, acquired_at) = (permits.clone(), line!() + 2);
        let holder = spawn_named("holder", async move {
            let _permit = held.acquire().await;
            sleep(HOUR).await;
        });
        settle().await;
        for _ in 0..2 {
            let permits = permits.clone();
            wakeful::spawn(async move { drop(permits.acquire().await) });
        }
        settle().await;
        clock.pass().await;
        check_slow(&only!(diagnose(), SlowHolder), "Semaphore::acquire", clock, acquired_at);
        holder.abort();
        settle().await;
    });
}

#[test]
fn a_writer_that_keeps_readers_waiting() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(RwLock::new(()));
        let (held, acquired_at) = (lock.clone(), line!() + 2);
        let holder = spawn_named("holder", async move {
            let _guard = held.write().await;
            sleep(HOUR).await;
        });
        settle().await;
        for _ in 0..2 {
            let lock = lock.clone();
            wakeful::spawn(async move { drop(lock.read().await) });
        }
        settle().await;
        clock.pass().await;
        check_slow(&only!(diagnose(), SlowHolder), "RwLock::read", clock, acquired_at);
        holder.abort();
        settle().await;
    });
}

/// A lock that one task waits for is reported after three times as long.
#[test]
fn one_waiter_needs_more_time() {
    paused().block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.clone();
        wakeful::spawn(async move {
            let _guard = held.lock().await;
            sleep(HOUR).await;
        });
        wakeful::spawn(async move { drop(lock.lock().await) });
        settle().await;
        for second in 0..9 {
            assert!(diagnose().is_empty(), "{second}");
            advance(SECOND).await;
        }
        let found = only!(diagnose(), SlowHolder);
        assert_eq!((found.waiters(), found.held()), (1, 9 * SECOND));
        assert!(found.to_string().contains("; 1 task waits\n"), "{found}");
    });
}

/// The lock moves on each second. The last task in the queue waits for long, but no task holds it for long.
#[test]
fn a_long_queue_is_no_slow_holder() {
    paused().block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let mut set = JoinSet::new();
        for _ in 0..20 {
            let lock = lock.clone();
            set.spawn(async move {
                let _guard = lock.lock().await;
                sleep(SECOND).await;
            });
        }
        settle().await;
        for second in 0..20 {
            let found = diagnose();
            assert!(found.is_empty(), "{second}: {found:?}");
            advance(SECOND).await;
            settle().await;
        }
        assert_eq!(set.join_all().await.len(), 20);
    });
}

/// The holder of the second lock waits for the first. Only the holder of the first is reported.
#[test]
fn only_the_last_holder_of_a_chain_is_named() {
    on_both!(async |clock: Clock| {
        let (first, second) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (held, wanted) = (first.clone(), second.clone());
        let root = spawn_named("holder", async move {
            let _guard = held.lock().await;
            sleep(HOUR).await;
        });
        settle().await;
        for _ in 0..3 {
            let (first, second) = (first.clone(), second.clone());
            wakeful::spawn(async move {
                let _second = second.lock().await;
                drop(first.lock().await);
            });
        }
        wakeful::spawn(async move { drop(first.lock().await) });
        settle().await;
        clock.pass().await;
        let found = only!(diagnose(), SlowHolder);
        assert_eq!(found.holders()[0].task().name(), Some("holder"));
        root.abort();
        drop(wanted.lock().await);
        settle().await;
    });
}

/// Tasks in a deadlock are reported as a deadlock only.
#[test]
fn a_deadlock_is_no_slow_holder() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.clone();
        let (go, gone) = oneshot::channel::<()>();
        let holder = wakeful::spawn(async move {
            let _guard = held.lock().await;
            gone.await.unwrap();
            let inner = held.clone();
            let joined = wakeful::spawn(async move { drop(inner.lock().await) });
            joined.await.unwrap();
        });
        settle().await;
        let waiter = wakeful::spawn(async move { drop(lock.lock().await) });
        go.send(()).unwrap();
        settle().await;
        clock.pass().await;
        let found = diagnose();
        assert!(matches!(&*found, [Report::Deadlock(_)]), "{found:?}");
        holder.abort();
        waiter.await.unwrap();
        settle().await;
    });
}

/// A closure that waits for the lock of its caller, in a `block_on`, is part of a deadlock.
#[test]
fn a_deadlock_through_a_nested_block_on_is_no_slow_holder() {
    let (rt, _told) = hasty();
    rt.block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let holder = wakeful::spawn(async move {
            let _guard = lock.lock().await;
            let inner = lock.clone();
            let closure = move || Handle::current().block_on(async { drop(inner.lock().await) });
            spawn_blocking(closure).await.unwrap();
        });
        let found = loop {
            let found = diagnose();
            if found.iter().any(|report| matches!(report, Report::Deadlock(_))) {
                break found;
            }
            yield_now().await;
        };
        assert!(matches!(&*found, [Report::Deadlock(_)]), "{found:?}");
        holder.abort();
    });
}

/// The guard is dropped before the slow wait.
#[test]
fn a_released_lock_is_not_reported() {
    on_both!(async |clock: Clock| {
        let lock = Arc::new(Mutex::new(()));
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let lock = lock.clone();
            set.spawn(async move {
                drop(lock.lock().await);
                sleep(HOUR).await;
            });
        }
        settle().await;
        clock.pass().await;
        assert_eq!(format!("{:?}", diagnose()), "[]");
        set.abort_all();
        while set.join_next().await.is_some() {}
    });
}

/// Tasks share a receiver. Each holds the lock while it waits for a message.
#[test]
fn a_pool_that_shares_a_receiver_is_no_slow_holder() {
    on_both!(async |clock: Clock| {
        let (sender, receiver) = mpsc::channel::<()>(1);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut set = JoinSet::new();
        for _ in 0..4 {
            let receiver = receiver.clone();
            set.spawn(async move { while receiver.lock().await.recv().await.is_some() {} });
        }
        settle().await;
        clock.pass().await;
        assert_eq!(format!("{:?}", diagnose()), "[]");
        drop(sender);
        assert_eq!(set.join_all().await.len(), 4);
    });
}

/// Every lock is held for too long. One observation reports eight of them.
#[test]
fn many_slow_holders_are_not_reported_all_at_once() {
    paused().block_on(async {
        for _ in 0..10 {
            let lock = Arc::new(Mutex::new(()));
            for _ in 0..3 {
                let lock = lock.clone();
                wakeful::spawn(async move {
                    let _guard = lock.lock().await;
                    sleep(HOUR).await;
                });
            }
        }
        settle().await;
        Clock::Paused.pass().await;
        let found = diagnose();
        assert!(found.iter().all(|report| matches!(report, Report::SlowHolder(_))), "{found:?}");
        assert_eq!(found.len(), 8);
    });
}

/// The watchdog reports a slow holder once.
#[test]
fn the_watchdog_reports_a_slow_holder() {
    let (tx, rx) = channel();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let tx = tx.clone();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        builder.enable_all().report_lasting_after(Some(Duration::from_millis(50))).on_report(hook);
        let rt = builder.build().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let driver = thread::spawn({
            let handle = rt.handle().clone();
            move || {
                rt.block_on(async {
                    let lock = Arc::new(Mutex::new(()));
                    for _ in 0..3 {
                        let lock = lock.clone();
                        wakeful::spawn(async move {
                            let _guard = lock.lock().await;
                            sleep(HOUR).await;
                        });
                    }
                    ended.await.unwrap();
                });
                drop(handle);
            }
        });
        let Report::SlowHolder(found) = rx.recv().unwrap() else { panic!() };
        assert_eq!(found.waiters(), 2, "{found}");
        end.send(()).unwrap();
        driver.join().unwrap();
        // On a busy machine the shutdown may last long enough for a `SlowShutdown` report.
        let left = rx.try_iter().filter(|report| !matches!(report, Report::SlowShutdown(_)));
        assert_eq!(left.map(|report| report.kind()).collect::<Vec<_>>(), [""; 0]);
    }
}
