//! Waits that last and end all the same: late tasks, idle actors, senders and receivers that were moved.

use std::sync::Arc;

use wakeful::join;
use wakeful::sync::{Barrier, Mutex, Notify, Semaphore, mpsc, oneshot};
use wakeful::time::sleep;

use super::super::child::named;
use super::super::program::{Innocent, innocent};
use super::VERY_LONG;

/// The last task of a barrier comes very late.
async fn a_very_late_barrier() {
    let barrier = Arc::new(Barrier::new(2));
    let other = barrier.clone();
    let early = named("early", async move { other.wait().await.is_leader() });
    sleep(VERY_LONG).await;
    barrier.wait().await;
    early.await.unwrap();
}

/// The budget of a service grows while a large request waits.
async fn a_budget_that_grows() {
    let budget = Arc::new(Semaphore::new(4));
    let own = budget.clone();
    let large = named("large", async move { drop(own.acquire_many(8).await.unwrap()) });
    sleep(VERY_LONG).await;
    budget.add_permits(4);
    large.await.unwrap();
}

/// An actor has nothing to do. Its clients came and went, and its owner does something else.
async fn an_idle_actor() {
    let (tx, mut rx) = mpsc::channel::<u32>(4);
    let actor = named("actor", async move { while rx.recv().await.is_some() {} });
    for n in 0..3 {
        let tx = tx.clone();
        named("client", async move { tx.send(n).await.unwrap() }).await.unwrap();
    }
    sleep(VERY_LONG).await;
    drop(tx);
    actor.await.unwrap();
}

/// The sender moves to a server that has nothing to send for long.
async fn a_server_without_events() {
    let (tx, mut rx) = mpsc::channel::<u32>(4);
    named("server", async move {
        sleep(VERY_LONG).await;
        tx.send(1).await.unwrap();
    });
    while rx.recv().await.is_some() {}
}

/// All workers but one have ended, and that one is slow. The first sender was dropped.
async fn a_very_slow_worker() {
    let (tx, mut rx) = mpsc::channel(4);
    for n in 0..3 {
        let tx = tx.clone();
        named("worker", async move {
            sleep(VERY_LONG / 2 * n).await;
            tx.send(n).await.unwrap();
        });
    }
    drop(tx);
    while rx.recv().await.is_some() {}
}

/// The first sender serves the last worker, after clones for the others. It sends once in the middle.
async fn the_first_sender_for_the_last_worker() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    for n in 0..3 {
        let tx = tx.clone();
        named("worker", async move { tx.send(n).unwrap() });
    }
    named("last worker", async move {
        sleep(VERY_LONG / 8).await;
        tx.send(3).unwrap();
        sleep(VERY_LONG).await;
        tx.send(4).unwrap();
    });
    while rx.recv().await.is_some() {}
}

/// The first sender serves the last worker, which sends nothing before the end. A report is literally true.
async fn a_first_sender_that_was_moved() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    let clone = tx.clone();
    named("worker", async move { clone.send(1).unwrap() });
    named("last worker", async move {
        sleep(VERY_LONG).await;
        tx.send(2).unwrap();
    });
    while rx.recv().await.is_some() {}
}

/// Each connection gets a sender from the listener, which has the first one. No client is connected.
async fn a_listener_with_the_first_sender() {
    let (tx, mut rx) = mpsc::channel::<u32>(4);
    named("listener", async move {
        for n in 0..3 {
            let tx = tx.clone();
            named("connection", async move { tx.send(n).await.unwrap() });
        }
        sleep(VERY_LONG).await;
    });
    while rx.recv().await.is_some() {}
}

/// A consumer is slow between two messages.
async fn a_very_slow_consumer() {
    let (tx, mut rx) = mpsc::channel(1);
    let consumer = named("consumer", async move {
        while rx.recv().await.is_some() {
            sleep(VERY_LONG / 2).await;
        }
    });
    let producer = named("producer", async move {
        for n in 0..3 {
            tx.send(n).await.unwrap();
        }
    });
    let _ = join!(consumer, producer);
}

/// Workers share a receiver, and one puts a job back. The others take it when they have time.
async fn a_job_that_is_put_back() {
    let (tx, rx) = mpsc::channel::<u32>(1);
    let rx = Arc::new(Mutex::new(rx));
    let (busy, is_busy) = oneshot::channel();
    let own = rx.clone();
    let other = named("other", async move {
        own.lock().await.recv().await.unwrap();
        busy.send(()).unwrap();
        sleep(VERY_LONG).await;
        while own.lock().await.recv().await.is_some() {}
    });
    tx.send(1).await.unwrap();
    is_busy.await.unwrap();
    let putter = named("putter", async move {
        tx.send(2).await.unwrap();
        rx.lock().await.recv().await.unwrap();
        tx.send(3).await.unwrap();
        tx.send(4).await.unwrap();
    });
    let _ = join!(other, putter);
}

/// A consumer needs long to start.
async fn a_consumer_that_starts_late() {
    let (tx, mut rx) = mpsc::channel(1);
    let consumer = named("consumer", async move {
        sleep(VERY_LONG).await;
        while rx.recv().await.is_some() {}
    });
    let producer = named("producer", async move {
        for n in 0..3 {
            tx.send(n).await.unwrap();
        }
    });
    let _ = join!(consumer, producer);
}

/// A configuration is loaded again after a long time. Tasks that heard of the first time wait for the next.
async fn a_reload_now_and_then() {
    let reload = Arc::new(Notify::new());
    let listeners: Vec<_> = (0..2)
        .map(|_| {
            let (first, own) = (reload.clone().notified_owned(), reload.clone());
            named("listener", async move {
                first.await;
                own.notified().await;
            })
        })
        .collect();
    reload.notify_waiters();
    sleep(VERY_LONG).await;
    reload.notify_waiters();
    for listener in listeners {
        listener.await.unwrap();
    }
}

/// The first reload came before a task listened. The task waits for the next, and a report is literally true.
async fn a_listener_that_starts_late() {
    let reload = Arc::new(Notify::new());
    reload.notify_waiters();
    let own = reload.clone();
    let listener = named("listener", async move { own.notified().await });
    sleep(VERY_LONG).await;
    reload.notify_waiters();
    listener.await.unwrap();
}

pub fn all() -> Vec<Innocent> {
    vec![
        innocent!(a_very_late_barrier).may_be(&["stalled"]),
        innocent!(a_budget_that_grows).may_be(&["stalled"]),
        innocent!(an_idle_actor),
        innocent!(a_server_without_events),
        innocent!(a_very_slow_worker),
        innocent!(the_first_sender_for_the_last_worker),
        innocent!(a_first_sender_that_was_moved).may_be(&["stalled"]),
        innocent!(a_listener_with_the_first_sender),
        innocent!(a_very_slow_consumer),
        innocent!(a_job_that_is_put_back).may_be(&["stalled"]),
        innocent!(a_consumer_that_starts_late).may_be(&["stalled"]),
        innocent!(a_reload_now_and_then),
        innocent!(a_listener_that_starts_late).may_be(&["stalled"]),
    ]
}
