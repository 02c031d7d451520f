//! Tasks that run much, or are many, and do work.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::StreamExt;
use wakeful::sync::{Notify, Semaphore, mpsc};
use wakeful::task::{JoinSet, yield_now};
use wakeful::time::{interval, sleep};

use super::super::child::named;
use super::super::program::{Innocent, innocent};
use super::{BUSY, LONG};

/// How long a polling loop goes on, which waits most of the time.
const WAITING: Duration = Duration::from_millis(1500);

/// A task yields by hand after each item of its work, at full speed.
async fn yields_by_hand() {
    let until = Instant::now() + BUSY;
    let done = Arc::new(AtomicU64::new(0));
    let count = done.clone();
    let worker = named("worker", async move {
        let mut polls = 0u64;
        poll_fn(|cx| {
            polls += 1;
            count.fetch_add(1, Relaxed); // an item of work
            if polls.is_multiple_of(64) && Instant::now() >= until {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    });
    worker.await.unwrap();
    assert!(done.load(Relaxed) > 0);
}

/// A task yields with `yield_now` after each item of its work.
async fn yields_in_a_loop() {
    let until = Instant::now() + BUSY;
    let worker = named("worker", async move {
        while Instant::now() < until {
            yield_now().await;
        }
    });
    worker.await.unwrap();
}

/// A task handles messages of a channel of another crate, and the tasks that it may have spawned for them.
async fn an_empty_set_beside_a_channel_of_another_crate() {
    let until = Instant::now() + BUSY;
    let worker = named("worker", async move {
        let mut set = JoinSet::<()>::new();
        let (tx, mut rx) = futures::channel::mpsc::unbounded();
        let mut sum = 0u64;
        while Instant::now() < until {
            for number in 0..100 {
                tx.unbounded_send(number).unwrap();
                wakeful::select! {
                    Some(_) = set.join_next() => unreachable!("it is empty"),
                    Some(number) = rx.next() => sum += number,
                }
            }
            yield_now().await;
        }
        assert!(sum > 0);
    });
    worker.await.unwrap();
}

/// Two tasks play ping-pong over channels, at full speed.
async fn ping_pong() {
    let (to_pong, mut pong) = mpsc::channel::<u64>(1);
    let (to_ping, mut ping) = mpsc::channel::<u64>(1);
    named("pong", async move {
        while let Some(n) = pong.recv().await {
            if to_ping.send(n + 1).await.is_err() {
                break;
            }
        }
    });
    let until = Instant::now() + BUSY;
    let mut n = 0;
    while Instant::now() < until {
        to_pong.send(n).await.unwrap();
        n = ping.recv().await.unwrap();
    }
}

/// A task drains a queue that never becomes empty.
async fn a_queue_that_is_always_full() {
    let (tx, mut rx) = mpsc::channel::<u64>(64);
    let until = Instant::now() + BUSY;
    let source = named("source", async move {
        while Instant::now() < until {
            tx.send(1).await.unwrap();
        }
    });
    let sink = named("sink", async move {
        let mut sum = 0;
        while let Some(n) = rx.recv().await {
            sum += n;
        }
        sum
    });
    source.await.unwrap();
    assert!(sink.await.unwrap() > 0);
}

/// A burst of tasks waits for one event, and all of them end.
async fn a_burst_of_tasks() {
    let go = Arc::new(Semaphore::new(0));
    let tasks: Vec<_> = (0..2000)
        .map(|_| {
            let go = go.clone();
            named("request", async move { drop(go.acquire().await.unwrap()) })
        })
        .collect();
    sleep(LONG / 2).await;
    go.add_permits(4);
    for task in tasks {
        task.await.unwrap();
    }
}

/// The number of connections grows and falls.
async fn a_tide_of_tasks() {
    for _ in 0..2 {
        let closed = Arc::new(Notify::new());
        let mut tasks = Vec::new();
        for _ in 0..300 {
            // From here on it hears of the notification, polled or not.
            tasks.push(named("connection", closed.clone().notified_owned()));
            sleep(Duration::from_millis(1)).await;
        }
        closed.notify_waiters();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// A panic whose handle is awaited late.
async fn a_panic_that_is_awaited() {
    std::panic::set_hook(Box::new(|_| ()));
    let worker = named("worker", async { panic!("it is handled") });
    sleep(LONG).await;
    assert!(worker.await.unwrap_err().is_panic());
}

/// Many timers, and a task that polls them all.
async fn many_timers() {
    let mut ticks = 0;
    let mut every = interval(Duration::from_millis(1));
    let tasks: Vec<_> = (0..500).map(|n| named("timer", sleep(Duration::from_millis(n)))).collect();
    while ticks < 500 {
        every.tick().await;
        ticks += 1;
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// A state is looked at every millisecond, because a library has no events.
async fn a_polling_loop() {
    let until = Instant::now() + WAITING;
    let poller = named("poller", async move {
        while Instant::now() < until {
            sleep(Duration::from_millis(1)).await;
        }
    });
    poller.await.unwrap();
}

pub fn all() -> Vec<Innocent> {
    vec![
        innocent!(yields_by_hand).may_be(&["spinning"]).busy(),
        innocent!(yields_in_a_loop).busy(),
        innocent!(ping_pong).busy(),
        innocent!(a_queue_that_is_always_full).busy(),
        innocent!(an_empty_set_beside_a_channel_of_another_crate).busy(),
        innocent!(a_burst_of_tasks),
        innocent!(a_tide_of_tasks),
        innocent!(a_panic_that_is_awaited).may_be(&["unobserved_panic"]),
        innocent!(many_timers),
        innocent!(a_polling_loop),
    ]
}
