//! Senders that are kept, so that `recv` may never end.

use super::{Clock, HOUR, SECOND, hasty, is_at, named, names, paused};
use crate::settle::settle;
use wakeful::runtime::Handle;
use wakeful::sync::{mpsc, oneshot};
use wakeful::time::{advance, interval, sleep};

/// Receives all that the workers send, and keeps the first sender if `keeps`.
async fn collect(keeps: bool) -> u32 {
    let (tx, mut rx) = mpsc::channel(8); // made
    for n in 0..3 {
        let tx = tx.clone();
        named("worker", async move { tx.send(n).await.unwrap() });
    }
    let tx = keeps.then_some(tx);
    let mut sum = 0;
    while let Some(n) = rx.recv().await {
        sum += n;
    }
    drop(tx);
    sum
}

#[test]
fn a_sender_that_is_kept_by_its_receiver() {
    on_both!(async |clock: Clock| {
        let task = named("collect", collect(true));
        let found = clock.only().await;
        assert_eq!(
            (found.kind(), names(std::slice::from_ref(&found))),
            ("mpsc::Receiver::recv", vec!["collect"])
        );
        let made = include_str!("senders.rs").lines().position(|line| line.ends_with("// made"));
        assert!(is_at(found.created_at(), made.unwrap() as u32 + 1), "{found}");
        assert!(found.kept_by().is_none() && found.others() == 0, "{found}");
        task.abort();
        assert_eq!(collect(false).await, 3, "the twin ends");
    });
}

/// Dropping a clone of the sender does not wake the receiver for a report.
#[test]
fn a_drop_of_a_clone_wakes_no_receiver() {
    paused().block_on(async {
        let (tx, mut rx) = mpsc::channel::<u32>(1);
        let task = named("receiver", async move { rx.recv().await });
        settle().await;
        let polls = || {
            let dump = Handle::current().dump();
            dump.find(task.id()).unwrap().polls()
        };
        assert_eq!(polls(), 1);
        for _ in 0..3 {
            drop(tx.clone());
            settle().await;
        }
        assert_eq!(polls(), 1);
    });
}

/// The task that keeps the sender is reported once, after it was the only sender for long enough.
#[test]
fn a_slow_worker_is_waited_for() {
    paused().block_on(async {
        let (tx, mut rx) = mpsc::unbounded_channel();
        named("collect", async move {
            let worker = tx.clone();
            named("worker", async move {
                sleep(20 * SECOND).await;
                worker.send(1).unwrap();
            });
            while rx.recv().await.is_some() {}
            drop(tx);
        });
        Clock::Paused.none().await;
        advance(20 * SECOND).await;
        assert_eq!(names(&[Clock::Paused.only().await]), ["collect"]);
    });
}

#[test]
fn a_sender_that_is_kept_by_the_task_that_joins_the_receiver() {
    on_both!(async |clock: Clock| {
        let manager = named("manager", async {
            let (tx, mut rx) = mpsc::channel(8);
            let sink = named("sink", async move { while rx.recv().await.is_some() {} });
            let source = tx.clone();
            named("source", async move { source.send(1).await.unwrap() }).await.unwrap();
            sink.await.unwrap();
            drop(tx);
        });
        let found = clock.only().await;
        assert_eq!(found.task().name(), Some("sink"), "{found}");
        assert_eq!(found.kept_by().unwrap().name(), Some("manager"), "{found}");
        manager.abort();
    });
}

/// The task that made the channel waits for something else. The actor is idle.
#[test]
fn an_idle_actor_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (stop, stopped) = oneshot::channel::<()>();
        let owner = named("owner", async move {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            let actor = named("actor", async move { while rx.recv().await.is_some() {} });
            let client = tx.clone();
            named("client", async move { client.send(1).await.unwrap() }).await.unwrap();
            let _ = stopped.await;
            drop(tx);
            actor.await.unwrap();
        });
        clock.none().await;
        stop.send(()).unwrap();
        owner.await.unwrap();
    });
}

/// A sender is moved to another task, and never cloned.
#[test]
fn a_moved_sender_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (tx, mut rx) = mpsc::channel::<u32>(8);
        named("server", async move {
            sleep(HOUR).await;
            tx.send(1).await.unwrap();
        });
        named("main", async move { rx.recv().await });
        clock.none().await;
    });
}

/// The first sender serves the last worker, which is slow. All other senders were dropped.
#[test]
fn a_first_sender_that_another_task_clones_is_not_reported() {
    on_both!(async |clock: Clock| {
        named("main", async {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            drop(tx.clone());
            named("listener", async move {
                drop(tx.clone());
                sleep(HOUR).await;
                drop(tx);
            });
            rx.recv().await
        });
        clock.none().await;
    });
}

/// The first sender was moved, and sends from time to time.
#[test]
fn a_first_sender_that_sends_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (go, gone) = oneshot::channel::<()>();
        let (got, was_got) = oneshot::channel::<()>();
        named("main", async move {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            drop(tx.clone());
            named("ticker", async move {
                gone.await.unwrap();
                tx.send(1).await.unwrap();
                sleep(HOUR).await;
                drop(tx);
            });
            assert_eq!(rx.recv().await, Some(1));
            got.send(()).unwrap();
            rx.recv().await
        });
        go.send(()).unwrap();
        was_got.await.unwrap();
        clock.none().await;
    });
}

/// A cache holds a weak sender, which becomes a sender when it is needed.
#[test]
fn a_weak_sender_is_not_reported() {
    on_both!(async |clock: Clock| {
        let (give, given) = oneshot::channel();
        named("main", async move {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            drop(tx.clone());
            assert!(give.send(tx.downgrade()).is_ok());
            rx.recv().await;
            drop(tx);
        });
        let weak = given.await.unwrap();
        clock.none().await;
        weak.upgrade().unwrap().send(1).await.unwrap();
    });
}

/// A manager starts a worker for each tick, and has the sender for that. No worker runs at the moment.
#[test]
fn a_manager_that_makes_more_senders_is_not_reported() {
    paused().block_on(async {
        named("manager", async {
            let (tx, mut rx) = mpsc::channel::<u32>(8);
            let mut ticks = interval(HOUR);
            loop {
                wakeful::select! {
                    _ = ticks.tick() => {
                        let tx = tx.clone();
                        named("worker", async move { tx.send(1).await.unwrap() });
                    }
                    _ = rx.recv() => {}
                }
            }
        });
        Clock::Paused.none().await;
    });
}
