//! Programs that look stalled and are not: nothing is reported.

use super::*;

/// Permits that are added while a request waits count too. The request then waits for their holder.
#[test]
fn permits_that_are_added_during_the_wait_count() {
    on_both!(async |clock: Clock| {
        let budget = Arc::new(Semaphore::new(3));
        let held = budget.acquire_many(3).await.unwrap();
        let own = budget.clone();
        let large = named("large", async move { drop(own.acquire_many(5).await.unwrap()) });
        settle().await;
        budget.add_permits(1);
        assert_eq!(clock.only().await.amounts(), Some((5, 4)));
        budget.add_permits(1);
        clock.none().await;
        drop(held);
        large.await.unwrap();
    });
}

/// A semaphore without permits is a gate, or counts items.
#[test]
fn a_semaphore_that_never_had_permits_is_not_reported() {
    on_both!(async |clock: Clock| {
        let items = Arc::new(Semaphore::new(0));
        named("worker", async move { items.acquire().await.unwrap().forget() });
        clock.none().await;
    });
}

/// Another future of the task has the sender. The set polls that future with a waker of its own.
#[test]
fn a_sender_in_another_future_of_a_set_is_not_reported() {
    use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
    on_both!(async |clock: Clock| {
        named("set", async {
            let (tx, mut rx) = mpsc::channel(8);
            let worker = tx.clone();
            let set: FuturesUnordered<_> = [
                async move { while rx.recv().await.is_some() {} }.boxed(),
                async move { worker.send(1).await.unwrap() }.boxed(),
                async move {
                    sleep(HOUR).await;
                    tx.send(2).await.unwrap();
                }
                .boxed(),
            ]
            .into_iter()
            .collect();
            set.collect::<Vec<()>>().await;
        });
        clock.none().await;
    });
}

/// A thread cloned the sender before the task did, so any task or thread may have the first sender.
#[test]
fn a_first_sender_that_a_thread_clones_is_not_reported() {
    let (tx, mut rx) = mpsc::channel::<u32>(8);
    let clone = tx.clone();
    let tasks = async move |clock: Clock| {
        named("collect", async move {
            let worker = tx.clone();
            drop((clone, worker));
            rx.recv().await;
            drop(tx);
        });
        clock.none().await;
    };
    paused().block_on(async { tasks(Clock::Paused).await });
}

/// The first sender serves the last worker, as the report itself advises.
#[test]
fn a_first_sender_in_the_last_worker_is_not_reported() {
    on_both!(async |clock: Clock| {
        named("main", async {
            let (tx, mut rx) = mpsc::channel(8);
            let quick = tx.clone();
            named("quick", async move { quick.send(1).await.unwrap() });
            named("slow", async move {
                sleep(HOUR).await;
                tx.send(2).await.unwrap();
            });
            while rx.recv().await.is_some() {}
        });
        clock.none().await;
    });
}

/// The manager waits for any task of its set. One task receives, and another has the sender.
#[test]
fn a_join_set_with_a_sender_in_a_member_is_not_reported() {
    on_both!(async |clock: Clock| {
        named("manager", async {
            let (tx, mut rx) = mpsc::channel(8);
            let mut set = task::JoinSet::new();
            set.spawn(async move { while rx.recv().await.is_some() {} });
            let worker = tx.clone();
            set.spawn(async move { worker.send(1).await.unwrap() });
            set.spawn(async move {
                sleep(HOUR).await;
                tx.send(2).await.unwrap();
            });
            while set.join_next().await.is_some() {}
        });
        clock.none().await;
    });
}

/// Polls a future once, and drops it.
async fn poll_once(future: impl Future) {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
}

/// The task dropped its waits for resources, and waits for a future of another crate.
#[test]
fn waits_that_were_dropped_are_not_reported() {
    on_both!(async |clock: Clock| {
        let (notify, barrier) = (Notify::new(), Arc::new(Barrier::new(4)));
        notify.notify_waiters();
        let (full, _receiver) = mpsc::channel(1);
        full.send(1).await.unwrap();
        let (waits, barrier) = (barrier.clone(), &barrier);
        let (end, ended) = futures::channel::oneshot::channel::<()>();
        let task = named("foreign", async move {
            poll_once(notify.notified()).await;
            poll_once(full.send(2)).await;
            poll_once(waits.wait()).await;
            let _ = ended.await;
        });
        settle().await;
        let _other = arrive(barrier, "other");
        clock.none().await;
        drop(end);
        task.await.unwrap();
    });
}

/// The first notification reaches one of two waiters, so more may come.
#[test]
fn a_notification_that_reaches_another_task_is_one() {
    on_both!(async |clock: Clock| {
        let ready = Arc::new(Notify::new());
        ready.notify_waiters();
        let [first, _second] = ["first", "second"].map(|name| {
            let own = ready.clone();
            named(name, async move { own.notified().await })
        });
        settle().await;
        ready.notify_one();
        first.await.unwrap();
        clock.none().await;
    });
}

/// A `Notify` with a lost notification is shown as such in dumps, also for waiters of later calls.
#[test]
fn waits_for_a_notify_keep_their_names_in_dumps() {
    on_both!(async |_| {
        let ready = Arc::new(Notify::new());
        ready.notify_waiters();
        let own = ready.clone();
        let first = named("first", async move { own.notified().await });
        settle().await;
        ready.notify_waiters();
        first.await.unwrap();
        let own = ready.clone();
        named("second", async move {
            let mut notified = std::pin::pin!(own.notified());
            notified.as_mut().enable();
            notified.await;
        });
        settle().await;
        let dump = Handle::current().dump();
        let second = dump.tasks().iter().find(|task| task.info().name() == Some("second")).unwrap();
        let kinds: Vec<_> = second.waits().iter().map(|wait| wait.kind()).collect();
        assert_eq!(kinds, ["Notify::notified"], "{dump}");
    });
}
