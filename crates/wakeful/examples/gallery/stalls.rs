//! Bugs of tasks that block their thread.

use std::future::poll_fn;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::task::{spawn_blocking, yield_now};
use wakeful::time::{MissedTickBehavior, interval, sleep};

use super::{Twin, named};

/// Blocks the threads of all workers in a sleep, while a ticker and an echo server keep
/// running. Returns how often the ticker ticked and the server answered in that time.
pub async fn sleeping_with_the_thread(
    twin: Twin,
    workers: usize,
    duration: Duration,
) -> (u64, u64) {
    let (ticks, echoes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = named("echo server", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            if stream.write_all(&byte).await.is_err() {
                return; // the client is gone
            }
        }
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    let count = echoes.clone();
    let client = named("client", async move {
        let mut byte = [7];
        // Runs until the server is gone.
        while stream.write_all(&byte).await.is_ok() && stream.read_exact(&mut byte).await.is_ok() {
            count.fetch_add(1, Relaxed);
        }
    });
    let count = ticks.clone();
    let ticker = named("ticker", async move {
        let mut every = interval(Duration::from_millis(10));
        // Missed ticks are skipped.
        every.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            every.tick().await;
            count.fetch_add(1, Relaxed);
        }
    });
    while ticks.load(Relaxed) < 2 || echoes.load(Relaxed) < 2 {
        yield_now().await;
    }
    let before = (ticks.load(Relaxed), echoes.load(Relaxed));
    let sleepers: Vec<_> = (0..workers)
        .map(|_| {
            named("sleeper", async move {
                // The bug: the thread sleeps, and runs no other task.
                match twin {
                    Twin::Buggy => thread::sleep(duration),
                    Twin::Fixed => sleep(duration).await,
                }
            })
        })
        .collect();
    for sleeper in sleepers {
        sleeper.await.unwrap();
    }
    let after = (ticks.load(Relaxed), echoes.load(Relaxed));
    for task in [ticker, client, server] {
        task.abort();
    }
    (after.0 - before.0, after.1 - before.1)
}

/// A CPU-bound loop without an await.
#[inline(never)]
pub fn spin_until(until: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !until.load(Relaxed) {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
    sum
}

/// A loop without an await, until `stop` is set.
pub async fn a_loop_without_an_await(twin: Twin, stop: Arc<AtomicBool>) {
    let task = named("number cruncher", async move {
        match twin {
            Twin::Buggy => spin_until(&stop),
            Twin::Fixed => spawn_blocking(move || spin_until(&stop)).await.unwrap(),
        }
    });
    task.await.unwrap();
}

/// A future that wakes itself instead of waiting, until `until` is set.
pub async fn a_self_waking_spinner(twin: Twin, until: Arc<AtomicBool>) {
    let task = named("spinner", async move {
        match twin {
            Twin::Buggy => {
                poll_fn(|cx| {
                    if until.load(Relaxed) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
            Twin::Fixed => {
                // The task sleeps between two checks.
                while !until.load(Relaxed) {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        }
    });
    task.await.unwrap();
}

/// A loop that ignores the end of its channel, until `until` is set.
pub async fn a_loop_over_a_closed_channel(twin: Twin, until: Arc<AtomicBool>) {
    let (sender, mut receiver) = wakeful::sync::mpsc::channel(1);
    let task = named("consumer", async move {
        let mut sum = 0;
        while !until.load(Relaxed) {
            match (receiver.recv().await, twin) {
                (Some(number), _) => sum += number,
                (None, Twin::Buggy) => {}
                (None, Twin::Fixed) => break,
            }
        }
        sum
    });
    sender.send(7).await.unwrap();
    drop(sender);
    assert_eq!(task.await.unwrap(), 7);
}
