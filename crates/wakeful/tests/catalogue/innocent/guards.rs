//! Guards and permits that are not where they were acquired, or that are given back late.

use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex as StdMutex};
use std::task::Poll;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::UnixStream;
use wakeful::sync::{Barrier, Mutex, OnceCell, OwnedMutexGuard, RwLock, Semaphore, mpsc, oneshot};
use wakeful::task::{JoinSet, yield_now};
use wakeful::time::{interval, sleep, timeout};
use wakeful::{join, select};

use super::super::child::named;
use super::super::program::{Innocent, innocent};
use super::{BUSY, LONG, later};

/// The guard of a static lock moves to a thread.
async fn a_guard_on_a_thread() {
    static STATE: LazyLock<Mutex<u32>> = LazyLock::new(Mutex::default);
    let guard = STATE.lock().await;
    later(move || drop(guard));
    *STATE.lock().await += 1;
}

/// An owned guard is sent to another task, which drops it later.
async fn a_guard_in_a_message() {
    let state = Arc::new(Mutex::new(0));
    let (give, given) = oneshot::channel::<OwnedMutexGuard<i32>>();
    let keeper = named("keeper", async move {
        let guard = given.await.unwrap();
        sleep(LONG).await;
        drop(guard);
    });
    let giver = named("giver", async move {
        let guard = state.clone().lock_owned().await;
        give.send(guard).unwrap();
        *state.lock().await += 1;
    });
    let _ = join!(keeper, giver);
}

/// A guard is stored in a static, and a timer takes it out.
async fn a_guard_in_a_static() {
    static KEPT: StdMutex<Option<OwnedMutexGuard<u32>>> = StdMutex::new(None);
    let state = Arc::new(Mutex::new(0));
    *KEPT.lock().unwrap() = Some(state.clone().lock_owned().await);
    named("timer", async {
        sleep(LONG).await;
        drop(KEPT.lock().unwrap().take());
    });
    *state.lock().await += 1;
}

/// A future that waits for a lock is polled by one task and awaited by another.
async fn a_future_that_moves() {
    let state = Arc::new(Mutex::new(0));
    let guard = state.clone().lock_owned().await;
    let mut wait: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin({
        let state = state.clone();
        async move { *state.lock().await += 1 }
    });
    let (give, given) = oneshot::channel();
    named("first", async move {
        let polled = std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_pending()));
        assert!(polled.await);
        assert!(give.send(wait).is_ok());
    });
    let second = named("second", given.await.unwrap());
    named("timer", async move {
        sleep(LONG).await;
        drop(guard);
    });
    second.await.unwrap();
}

/// A guard moves with the future that has it, to a task that finishes it.
async fn a_future_with_a_guard_moves() {
    static STATE: LazyLock<Mutex<u32>> = LazyLock::new(Mutex::default);
    let (go, wait) = oneshot::channel::<()>();
    let mut critical: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
        let mut state = STATE.lock().await;
        let _ = wait.await;
        *state += 1;
    });
    let starts = named("starts", async move {
        std::future::poll_fn(|cx| Poll::Ready(critical.as_mut().poll(cx).is_pending())).await;
        named("finishes", critical);
        *STATE.lock().await += 1;
    });
    later(move || go.send(()).unwrap());
    starts.await.unwrap();
}

/// Permits travel with the jobs that they are for.
async fn permits_in_jobs() {
    let slots = Arc::new(Semaphore::new(2));
    let (tx, mut rx) = mpsc::channel(8);
    let worker = named("worker", async move {
        while let Some(permit) = rx.recv().await {
            sleep(LONG / 4).await;
            drop(permit);
        }
    });
    let source = named("source", async move {
        for _ in 0..6 {
            let permit = slots.clone().acquire_owned().await.unwrap();
            tx.send(permit).await.unwrap();
        }
    });
    let _ = join!(worker, source);
}

/// A rate limiter: permits are forgotten, and a timer adds new ones.
async fn permits_from_a_timer() {
    let tokens = Arc::new(Semaphore::new(1));
    let fill = tokens.clone();
    let filler = named("filler", async move {
        let mut every = interval(LONG / 3);
        for _ in 0..4 {
            every.tick().await;
            fill.add_permits(1);
        }
    });
    for _ in 0..3 {
        tokens.acquire().await.unwrap().forget();
    }
    filler.await.unwrap();
}

/// Permits for a large job are added late, by a thread.
async fn permits_from_a_thread() {
    let memory = Arc::new(Semaphore::new(4));
    let more = memory.clone();
    later(move || more.add_permits(12));
    drop(memory.acquire_many(16).await.unwrap());
}

/// A task that timed out goes on in the background, with the lock.
async fn work_after_a_timeout() {
    let state = Arc::new(Mutex::new(0));
    let other = state.clone();
    let (has, had) = oneshot::channel();
    let background = named("background", async move {
        let mut state = other.lock().await;
        has.send(()).unwrap();
        sleep(LONG).await;
        *state += 1;
    });
    had.await.unwrap();
    assert!(timeout(Duration::from_millis(20), background).await.is_err());
    *state.lock().await += 1;
}

/// Opposite orders with time-outs that give up and try again.
async fn abba_that_gives_up() {
    let [a, b] = [Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2))];
    let (a2, b2) = (b.clone(), a.clone());
    let transfer = |name: &'static str, first: Arc<Mutex<i32>>, second: Arc<Mutex<i32>>, pause| {
        named(name, async move {
            loop {
                let _first = first.lock().await;
                sleep(Duration::from_millis(20)).await;
                if timeout(pause, second.lock()).await.is_ok() {
                    return;
                }
            }
        })
    };
    let there = transfer("there", a, b, Duration::from_millis(300));
    let back = transfer("back", a2, b2, Duration::from_millis(700));
    let _ = join!(there, back);
}

/// A deadlock that a supervisor ends: it aborts the tasks.
async fn a_set_that_is_aborted() {
    let [a, b] = [Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2))];
    let both = Arc::new(Barrier::new(2));
    let mut set = JoinSet::new();
    for (first, second) in [(a.clone(), b.clone()), (b, a)] {
        let both = both.clone();
        set.spawn(async move {
            let _first = first.lock().await;
            both.wait().await;
            let _second = second.lock().await;
        });
    }
    sleep(LONG).await;
    set.shutdown().await;
}

/// A lock is wanted in a `select!` that takes its other branch again and again.
async fn a_lock_that_is_retried() {
    let state = Arc::new(Mutex::new(0));
    let guard = state.clone().lock_owned().await;
    named("holder", async move {
        sleep(LONG).await;
        drop(guard);
    });
    let retry = named("retry", async move {
        loop {
            select! {
                mut state = state.lock() => break *state += 1,
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
    });
    retry.await.unwrap();
}

/// A writer waits behind readers that come and go.
async fn a_writer_behind_readers() {
    let table = Arc::new(RwLock::new(0));
    let readers: Vec<_> = (0..8)
        .map(|n| {
            let table = table.clone();
            named("reader", async move {
                let _rows = table.read().await;
                sleep(LONG / (n + 1)).await;
            })
        })
        .collect();
    yield_now().await;
    *table.write().await += 1;
    for reader in readers {
        reader.await.unwrap();
    }
}

/// The last task of a barrier comes late.
async fn a_late_barrier() {
    let barrier = Arc::new(Barrier::new(4));
    let workers: Vec<_> = (0..4)
        .map(|n| {
            let barrier = barrier.clone();
            named("worker", async move {
                if n == 3 {
                    sleep(LONG).await;
                }
                barrier.wait().await;
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A cell is computed slowly while many wait for it.
async fn a_slow_cell() {
    let cell = Arc::new(OnceCell::new());
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let cell = cell.clone();
            named("reader", async move {
                let load = || async {
                    sleep(LONG).await;
                    7
                };
                *cell.get_or_init(load).await
            })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 7);
    }
}

/// Futures of one task share one permit, each for a while.
async fn one_permit_for_all() {
    let slot = Semaphore::new(1);
    let mut jobs: FuturesUnordered<_> = (0..5)
        .map(|_| async {
            let _permit = slot.acquire().await.unwrap();
            sleep(LONG / 5).await;
        })
        .collect();
    while jobs.next().await.is_some() {}
}

/// A lock is handed from task to task, under load, without a pause.
async fn a_contended_lock() {
    let state = Arc::new(Mutex::new(0u64));
    let until = std::time::Instant::now() + BUSY;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let state = state.clone();
            named("adder", async move {
                while std::time::Instant::now() < until {
                    let mut state = state.lock().await;
                    *state += 1;
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Two branches share a connection, whose other side answers late.
async fn requests_that_share_a_connection() {
    let (near, mut far) = UnixStream::pair().unwrap();
    named("server", async move {
        for _ in 0..2 {
            far.read_u8().await.unwrap();
            sleep(LONG).await;
            far.write_u8(1).await.unwrap();
        }
    });
    let connection = Mutex::new(near);
    let request = async || {
        let mut connection = connection.lock().await;
        connection.write_u8(1).await.unwrap();
        connection.read_u8().await.unwrap()
    };
    assert_eq!(join!(request(), request()), (1, 1));
}

/// Six long jobs at a time: more holders of permits than are named.
async fn a_limit_for_long_jobs() {
    let slots = Arc::new(Semaphore::new(6));
    let mut jobs = JoinSet::new();
    for _ in 0..12 {
        let slots = slots.clone();
        jobs.spawn(async move {
            let _slot = slots.acquire().await.unwrap();
            sleep(Duration::from_secs(4)).await;
        });
    }
    jobs.join_all().await;
}

pub fn all() -> Vec<Innocent> {
    vec![
        innocent!(a_guard_on_a_thread).may_be(&["deadlock"]),
        innocent!(a_guard_in_a_message).may_be(&["deadlock"]),
        innocent!(a_guard_in_a_static).may_be(&["deadlock"]),
        innocent!(a_future_that_moves),
        innocent!(a_future_with_a_guard_moves).may_be(&["deadlock"]),
        innocent!(permits_in_jobs).may_be(&["deadlock"]),
        innocent!(permits_from_a_timer),
        innocent!(permits_from_a_thread),
        innocent!(work_after_a_timeout),
        innocent!(abba_that_gives_up),
        innocent!(a_set_that_is_aborted).may_be(&["deadlock"]),
        innocent!(a_lock_that_is_retried),
        innocent!(a_writer_behind_readers),
        innocent!(a_late_barrier),
        innocent!(a_slow_cell),
        innocent!(one_permit_for_all),
        innocent!(requests_that_share_a_connection).may_be(&["slow_holder"]),
        innocent!(a_limit_for_long_jobs),
        innocent!(a_contended_lock).busy(),
    ]
}
