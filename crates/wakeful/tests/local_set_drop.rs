//! `LocalSet`: futures are dropped exactly once and on the set's thread, while other threads use wakers and handles.

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Barrier, mpsc as std_mpsc};
use std::task::Waker;
use std::thread;

use futures::channel::oneshot;
use futures::executor;
use wakeful::task::{JoinHandle, LocalSet, may_wait_forever, spawn_local, yield_now};

mod support {
    pub mod not_send;
    pub mod runtimes;
    pub mod waker_store;
}
use support::not_send::DropLog;
use support::runtimes::{bound_this_binary, current_thread, multi_thread, runtimes};
use support::waker_store::WakerStore;

/// Rounds of each test. Miri is slow.
const ROUNDS: usize = if cfg!(miri) { 5 } else { 500 };

#[test]
fn dropping_the_set_drops_tasks_in_every_state_on_its_thread() {
    for runtime in runtimes() {
        let (log, store) = (DropLog::new(), WakerStore::default());
        let set = LocalSet::new();
        let mut joins = Vec::new();
        let mut spawn = |future: Pin<Box<dyn Future<Output = ()>>>| {
            let not_send = log.not_send();
            joins.push(set.spawn_local(async move {
                let _not_send = not_send;
                future.await;
            }));
        };
        spawn(Box::pin(store.wait()));
        spawn(Box::pin(store.wait()));
        spawn(Box::pin(async {
            loop {
                yield_now().await;
            }
        }));
        spawn(Box::pin(may_wait_forever(pending())));
        set.block_on(&runtime, yield_now());
        let not_send = log.not_send();
        joins.push(set.spawn_local(async move {
            let _not_send = not_send;
            unreachable!("never polled");
        }));
        assert_eq!(store.len(), 2);
        let mut wakers = store.take();
        // Another thread wakes one of the waiting tasks, so it is in the injector.
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
    /// Wakes all wakers of a store and spawns a task when it is dropped.
    struct Busy {
        store: Rc<WakerStore>,
        log: DropLog,
        spawned: Rc<RefCell<Vec<JoinHandle<()>>>>,
    }
    impl Drop for Busy {
        fn drop(&mut self) {
            self.store.open();
            let not_send = self.log.not_send();
            let late = spawn_local(async move {
                drop(not_send);
                unreachable!("the set is gone");
            });
            self.spawned.borrow_mut().push(late);
        }
    }
    let runtime = current_thread();
    let (log, store) = (DropLog::new(), Rc::new(WakerStore::default()));
    let spawned = Rc::new(RefCell::new(Vec::new()));
    let set = LocalSet::new();
    for _ in 0..3 {
        let busy = Busy { store: store.clone(), log: log.clone(), spawned: spawned.clone() };
        let (wait, not_send) = (store.wait(), log.not_send());
        set.spawn_local(async move {
            let _held = (busy, not_send);
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
    let store = WakerStore::default();
    let set = LocalSet::new();
    let waiting = set.spawn_local(store.wait());
    let aborts = waiting.abort_handle();
    let done = set.spawn_local(async { Rc::new(7) });
    set.block_on(&runtime, yield_now());
    let [waker] = <[Waker; 1]>::try_from(store.take()).unwrap();
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
    let store = WakerStore::default();
    let set = LocalSet::new();
    let join = set.spawn_local(store.wait());
    set.block_on(&runtime, yield_now());
    let wakers = store.take();
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
            // The set is polled until all threads have ended.
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

/// Threads wake, abort and drop tasks while the set is dropped.
#[test]
fn wakes_and_aborts_may_race_with_the_end_of_the_set() {
    const THREADS: usize = 3;
    let runtime = current_thread();
    for round in 0..ROUNDS {
        let (log, store) = (DropLog::new(), WakerStore::default());
        let set = LocalSet::new();
        let joins: Vec<_> = (0..THREADS * 2)
            .map(|_| {
                let (not_send, wait) = (log.not_send(), store.wait());
                set.spawn_local(async move {
                    wait.await;
                    drop(not_send);
                })
            })
            .collect();
        set.block_on(&runtime, yield_now());
        let mut wakers = store.take().into_iter();
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
            store.open();
            set.block_on(&runtime, yield_now());
        }
        drop(set);
        log.assert_dropped_here(THREADS * 2);
        for thread in threads {
            // The task was aborted, or had completed just before.
            if let Err(error) = runtime.block_on(thread.join().unwrap()) {
                assert!(error.is_cancelled());
            }
        }
    }
}

#[test]
fn abort_from_another_thread_drops_the_future_on_the_set_thread() {
    for runtime in runtimes() {
        let (log, store) = (DropLog::new(), WakerStore::default());
        let set = LocalSet::new();
        let (not_send, wait) = (log.not_send(), store.wait());
        let join = set.spawn_local(async move {
            wait.await;
            drop(not_send);
        });
        set.block_on(&runtime, yield_now());
        // Another thread aborts and awaits the task. This thread drops its future.
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
fn a_set_in_thread_local_memory_goes_with_its_thread() {
    bound_this_binary();
    thread_local! {
        static SET: LocalSet = LocalSet::new();
    }
    let (dropped, drops) = std_mpsc::channel();
    struct SendThreadOnDrop(std_mpsc::Sender<thread::ThreadId>);
    impl Drop for SendThreadOnDrop {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    let worker = thread::spawn(move || {
        SET.with(|set| {
            let guard = SendThreadOnDrop(dropped);
            set.spawn_local(may_wait_forever(async move {
                let _guard = guard;
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
            drop(self.0.not_send());
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

/// Panics without a message from the hook.
fn panic_quietly(why: &'static str) {
    std::panic::resume_unwind(Box::new(why));
}

#[test]
fn large_futures_and_outputs_stay_here_too() {
    let log = DropLog::new();
    let set = LocalSet::new();
    let (not_send, kept) = (log.not_send(), log.not_send());
    let join = set.spawn_local(async move {
        let mut large = [1u8; 10_000];
        yield_now().await;
        large[17] = 2;
        drop(not_send);
        (large, kept)
    });
    let (large, kept) = executor::block_on(set.run_until(join)).unwrap();
    assert_eq!(large.iter().map(|&n| usize::from(n)).sum::<usize>(), 10_001);
    drop(set);
    log.assert_dropped_here(1);
    drop(kept);
    log.assert_dropped_here(2);
}
