//! `JoinSet`: returns every task once, in the order of completion.
//!
//! The unit tests of `runtime/join_set/slots.rs` count that the cost does not depend on the number of tasks.

use std::collections::BTreeSet;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures::channel::oneshot;
use futures::future::FutureExt;
use wakeful::runtime::Builder;
use wakeful::task::{AbortHandle, Id, JoinSet, consume_budget, may_wait_forever, yield_now};

mod support {
    pub mod not_send;
    pub mod runtimes;
    pub mod waker_store;
}
use support::not_send::CountingWaker;
use support::runtimes::{current_thread, runtimes, watch};
use support::waker_store::WakerStore;

/// Counts its drops.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Runs every ready task of a current-thread runtime. The caller has a fresh budget afterwards.
async fn settle() {
    let last = wakeful::spawn(async {});
    while !last.is_finished() {
        yield_now().await;
    }
}

/// Holds a value until the sender sends.
async fn hold<T>(until: oneshot::Receiver<T>, _held: impl Send) -> T {
    until.await.expect("the sender is kept until it sends")
}

#[test]
fn outputs_come_in_the_order_in_which_tasks_end() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let mut senders: Vec<Option<oneshot::Sender<usize>>> = (0..5)
                .map(|_| {
                    let (tx, rx) = oneshot::channel();
                    set.spawn(async move { rx.await.unwrap() });
                    Some(tx)
                })
                .collect();
            for ends in [3, 0, 4, 1, 2] {
                senders[ends].take().unwrap().send(ends).unwrap();
                assert_eq!(set.join_next().await.unwrap().unwrap(), ends, "{}", runtime.name);
            }
            assert!(set.join_next().await.is_none());
        });
    }
    // The outputs are taken later, in the order in which the tasks ended.
    let runtime = current_thread();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for turns in [3, 1, 2] {
            set.spawn(async move {
                for _ in 0..turns {
                    yield_now().await;
                }
                turns
            });
        }
        for _ in 0..10 {
            yield_now().await;
        }
        assert_eq!(set.join_all().await, [1, 2, 3]);
    });
}

#[test]
fn a_task_is_counted_until_it_is_given_out() {
    let runtime = current_thread();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        assert!(set.is_empty());
        assert!(set.join_next().await.is_none());
        assert!(set.try_join_next().is_none());
        for n in 1..=10 {
            set.spawn(async move { n });
            assert_eq!(set.len(), n);
        }
        assert!(set.try_join_next().is_none(), "none of them has run");
        yield_now().await;
        assert_eq!(set.len(), 10);
        for left in (0..10).rev() {
            assert_eq!(set.try_join_next().unwrap().unwrap(), 10 - left);
            assert_eq!(set.len(), left);
        }
        assert!(set.try_join_next().is_none());
        assert_eq!(format!("{set:?}"), "JoinSet { len: 0 }");
    });
}

#[test]
fn ids_tell_the_tasks_apart() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let mut spawned: BTreeSet<Id> = BTreeSet::new();
            for n in 0..20 {
                let handle = match n % 2 {
                    0 => set.spawn(async { wakeful::task::id() }),
                    _ => set.spawn_blocking(wakeful::task::id),
                };
                assert!(spawned.insert(handle.id()));
            }
            for n in 0..20 {
                let (id, own) = match n % 2 {
                    0 => set.join_next_with_id().await.unwrap().unwrap(),
                    _ => loop {
                        match set.try_join_next_with_id() {
                            Some(output) => break output.unwrap(),
                            None => yield_now().await,
                        }
                    },
                };
                assert_eq!(id, own);
                assert!(spawned.remove(&id));
            }
            let aborted = set.spawn(may_wait_forever(pending()));
            aborted.abort();
            let error = set.join_next_with_id().await.unwrap().unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(error.id(), aborted.id());
        });
    }
}

/// Fills a set, and ends its tasks one by one, the last one first. That is the worst case of a search from the front.
async fn end_one_by_one(set: &mut JoinSet<usize>, tasks: usize) {
    let mut senders = Vec::new();
    for n in 0..tasks {
        let (tx, rx) = oneshot::channel::<()>();
        senders.push(tx);
        set.spawn(async move {
            rx.await.unwrap();
            n
        });
    }
    assert!(set.join_next().now_or_never().is_none());
    for (left, tx) in senders.into_iter().enumerate().rev() {
        tx.send(()).unwrap();
        assert_eq!(set.join_next().await.unwrap().unwrap(), left);
        assert_eq!(set.len(), left);
    }
}

#[test]
fn many_tasks_are_given_out_once_each() {
    const TASKS: usize = if cfg!(miri) { 300 } else { 10_000 };
    let runtime = current_thread();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        end_one_by_one(&mut set, TASKS).await;
        // Fills the set again, in the memory of the ended tasks.
        for n in 0..TASKS {
            set.spawn(async move { n });
        }
        let mut all: Vec<usize> = set.join_all().await;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..TASKS));
    });
}

#[test]
fn only_the_handles_of_ended_tasks_are_looked_at() {
    let (woken, waker) = CountingWaker::new();
    let runtime = current_thread();
    let mut set = JoinSet::new();
    let store = WakerStore::default();
    for _ in 0..100 {
        set.spawn_on(store.wait(), runtime.handle());
    }
    let mut poll = || set.poll_join_next(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    runtime.block_on(yield_now());
    assert_eq!(woken.take(), 0, "nothing has ended");
    let mut wakers = store.take();
    wakers.pop().unwrap().wake();
    runtime.block_on(yield_now());
    assert_eq!(woken.take(), 0, "polled for nothing");
    assert!(poll().is_pending());
    // Both tasks end; the task that awaits the set is woken once.
    store.open();
    wakers.into_iter().for_each(Waker::wake);
    runtime.block_on(async {
        for _ in 0..3 {
            yield_now().await;
        }
    });
    assert_eq!(woken.take(), 1);
    for _ in 0..99 {
        assert!(matches!(poll(), Poll::Ready(Some(Ok(())))));
    }
    assert_eq!(woken.take(), 0);
}

#[test]
fn join_next_is_cancel_safe() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let (tx, rx) = oneshot::channel();
            let task = set.spawn(hold(rx, ()));
            for _ in 0..5 {
                assert!(set.join_next().now_or_never().is_none(), "polled and dropped");
                yield_now().await;
            }
            tx.send("still there").unwrap();
            while !task.is_finished() {
                yield_now().await;
            }
            drop(set.join_next());
            drop(set.join_next_with_id());
            assert_eq!(set.len(), 1);
            assert_eq!(set.join_next().await.unwrap().unwrap(), "still there");
        });
    }
}

#[test]
fn a_task_without_budget_loses_no_output() {
    const TASKS: usize = 300;
    let runtime = current_thread();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for n in 0..TASKS {
            set.spawn(async move { n });
        }
        settle().await;
        let (mut joined, mut refused) = (Vec::new(), 0);
        while !set.is_empty() {
            match set.join_next().now_or_never() {
                Some(output) => joined.push(output.unwrap().unwrap()),
                None => {
                    refused += 1;
                    yield_now().await;
                }
            }
        }
        assert!(joined.into_iter().eq(0..TASKS));
        assert_eq!(refused, 2, "128 in each poll of this future");

        // `spawn` and `try_join_next` spend no budget, even if a task has ended.
        for n in 0..TASKS {
            consume_budget().now_or_never();
            set.spawn(async move { n });
        }
        settle().await;
        while consume_budget().now_or_never().is_some() {}
        let looked = std::iter::from_fn(|| set.try_join_next()).map(Result::unwrap);
        assert!(looked.eq(0..TASKS));

        // A task that awaits them all yields in between.
        for n in 0..TASKS {
            set.spawn(async move { n });
        }
        settle().await;
        assert!(set.join_all().await.into_iter().eq(0..TASKS));
    });
}

#[test]
fn a_future_that_gives_up_leaves_its_waker_with_the_set() {
    let (woken, waker) = CountingWaker::new();
    let runtime = current_thread();
    let mut set = JoinSet::new();
    let (tx, rx) = oneshot::channel();
    set.spawn_on(hold(rx, ()), runtime.handle());
    {
        let mut next = pin!(set.join_next());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.other_clones(), 1);
    }
    assert_eq!(woken.other_clones(), 1);
    tx.send(1).unwrap();
    runtime.block_on(yield_now());
    assert_eq!((woken.take(), woken.other_clones()), (1, 0));
    assert_eq!(set.try_join_next().unwrap().unwrap(), 1);
}

/// The tasks of a set that was dropped keep its slots alive until they have ended. The waker does not live as long.
#[test]
fn the_waker_goes_with_the_set_and_is_not_woken() {
    let (woken, waker) = CountingWaker::new();
    let runtime = current_thread();
    let mut set = JoinSet::new();
    let (_tx, rx) = oneshot::channel::<()>();
    let task = set.spawn_on(hold(rx, ()), runtime.handle());
    assert!(pin!(set.join_next()).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(set);
    assert_eq!(woken.other_clones(), 0);
    runtime.settle();
    assert!(task.is_finished());
    assert_eq!(woken.take(), 0);
}

#[test]
fn the_last_waker_is_woken() {
    let runtime = current_thread();
    let (first, first_waker) = CountingWaker::new();
    let (second, second_waker) = CountingWaker::new();
    let mut set = JoinSet::new();
    let (tx, rx) = oneshot::channel();
    set.spawn_on(hold(rx, ()), runtime.handle());
    for waker in [&first_waker, &second_waker, &second_waker] {
        assert!(set.poll_join_next_with_id(&mut Context::from_waker(waker)).is_pending());
    }
    assert_eq!((first.other_clones(), second.other_clones()), (0, 1));
    tx.send(()).unwrap();
    runtime.block_on(yield_now());
    assert_eq!((first.take(), second.take()), (0, 1));
}

/// A waker that is replaced may do anything in its drop, even wait for a task of the set to end.
#[test]
fn a_waker_is_dropped_outside_of_the_lock() {
    struct Waits {
        end_it: std_mpsc::Sender<()>,
        next_runs: Mutex<std_mpsc::Receiver<()>>,
    }
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Waits {
        fn drop(&mut self) {
            self.end_it.send(()).unwrap();
            self.next_runs.get_mut().unwrap().recv().unwrap();
        }
    }
    // On one thread, the second closure starts after the completion of the first was handled.
    let runtime = watch("one", Builder::new_current_thread().max_blocking_threads(1));
    let (end_it, ends) = std_mpsc::channel();
    let (runs, next_runs) = std_mpsc::channel();
    let mut set = JoinSet::new();
    set.spawn_blocking_on(move || ends.recv().unwrap(), runtime.handle());
    set.spawn_blocking_on(move || runs.send(()).unwrap(), runtime.handle());
    let waits = Waker::from(Arc::new(Waits { end_it, next_runs: Mutex::new(next_runs) }));
    assert!(set.poll_join_next(&mut Context::from_waker(&waits)).is_pending());
    drop(waits);
    let (_, other) = CountingWaker::new();
    assert!(set.poll_join_next(&mut Context::from_waker(&other)).is_pending());
    assert_eq!(runtime.block_on(set.join_all()).len(), 2);
}

#[test]
fn dropping_the_set_aborts_its_tasks() {
    for runtime in runtimes() {
        let drops = Drops::default();
        let mut senders = Vec::new();
        let mut handles = Vec::new();
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for _ in 0..10 {
                let (tx, rx) = oneshot::channel::<()>();
                senders.push(tx);
                handles.push(set.spawn(hold(rx, drops.clone())));
            }
            yield_now().await;
            assert_eq!(drops.0.load(SeqCst), 0);
            drop(set);
            while !handles.iter().all(AbortHandle::is_finished) {
                yield_now().await;
            }
        });
        assert_eq!(drops.0.load(SeqCst), 10, "{}", runtime.name);
        assert!(senders.iter().all(oneshot::Sender::is_canceled));
    }
}

#[test]
fn outputs_that_are_not_taken_are_dropped_with_the_set() {
    let runtime = current_thread();
    let drops = Drops::default();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for _ in 0..5 {
            let output = drops.clone();
            set.spawn(async move { output });
        }
        yield_now().await;
        drop(set.join_next().await);
        assert_eq!(drops.0.load(SeqCst), 1);
        drop(set);
        assert_eq!(drops.0.load(SeqCst), 5);
    });
}

#[test]
fn detached_tasks_go_on_alone() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let (tx, rx) = std_mpsc::channel();
            let (go, gates): (Vec<_>, Vec<_>) =
                (0..10).map(|_| oneshot::channel::<usize>()).unzip();
            for gate in gates {
                let tx = tx.clone();
                set.spawn(async move { tx.send(gate.await.unwrap()).unwrap() });
            }
            drop(tx);
            yield_now().await;
            set.detach_all();
            assert!(set.is_empty());
            assert!(set.join_next().await.is_none());
            // Other tasks have their slots when they end.
            for n in 0..20 {
                set.spawn(async move { assert!(n < 20) });
            }
            for (n, go) in go.into_iter().enumerate() {
                go.send(n).unwrap();
            }
            let mut joined = 0;
            while let Some(output) = set.join_next().await {
                output.unwrap();
                joined += 1;
            }
            assert_eq!(joined, 20);
            let ended = wakeful::task::spawn_blocking(move || rx.iter().collect::<BTreeSet<_>>());
            assert!(ended.await.unwrap().into_iter().eq(0..10));
        });
    }
}

#[test]
fn shutdown_waits_until_all_futures_are_gone() {
    for runtime in runtimes() {
        let drops = Drops::default();
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for n in 0..10 {
                let held = drops.clone();
                set.spawn(may_wait_forever(async move {
                    let _held = held;
                    if n % 2 == 0 {
                        pending::<()>().await;
                    }
                }));
            }
            yield_now().await;
            set.shutdown().await;
            assert_eq!(drops.0.load(SeqCst), 10, "{}", runtime.name);
            assert!(set.is_empty());
            // The set can be used again.
            set.spawn(async {});
            set.join_next().await.unwrap().unwrap();
        });
    }
}

#[test]
fn a_set_is_filled_from_an_iterator() {
    let runtime = current_thread();
    runtime.block_on(async {
        let mut set: JoinSet<usize> = (0..5).map(|n| async move { n }).collect();
        set.extend((5..8).map(|n| async move { n }));
        assert_eq!(set.len(), 8);
        assert!(set.join_all().await.into_iter().eq(0..8));
        assert!(JoinSet::<()>::default().is_empty());
    });
}
