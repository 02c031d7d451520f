//! Rows about wakes that come from a thread which is not a worker.

use std::future::poll_fn;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::{Row, Target, Unit, Work};
use crate::peers::{Peer, cells};

/// Long enough for an idle runtime to park.
const PAUSE: Duration = Duration::from_micros(30);

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "wake_cross_hot",
            what: "a foreign thread wakes a task and spins until it answered",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::both(0.75),
            counted: None,
            cells: cells!(wake_cross_hot: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "wake_cross_parked",
            what: "a foreign thread pauses for 30 us, so that the runtime sleeps, then wakes a task; with the pause",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::both(1.0),
            counted: None,
            cells: cells!(wake_cross_parked: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn wake_cross_hot<P: Peer>() -> Work {
    wake_cross::<P>(Duration::ZERO)
}

fn wake_cross_parked<P: Peer>() -> Work {
    wake_cross::<P>(PAUSE)
}

/// The two sides of the exchange.
#[derive(Default)]
struct Bell {
    /// The task's waker, stored at its first poll. It stays, so every ring is a wake-up.
    waker: OnceLock<Waker>,
    /// The number of the latest ring; written by the foreign thread.
    rung: AtomicU64,
    /// The latest ring the task has seen; written by the task.
    answered: AtomicU64,
}

fn wake_cross<P: Peer>(pause: Duration) -> Work {
    let peer = P::build();
    Work::timed(move |batches| {
        let bell = Arc::new(Bell::default());
        let foreign = {
            let bell = bell.clone();
            thread::spawn(move || ring(&bell, batches, pause))
        };
        peer.block_on(async move { P::spawn(answer(bell, batches)).await });
        foreign.join().expect("the ringing thread panicked")
    })
}

/// Runs on the foreign thread. The first ring is not timed, because the task may not wait yet.
fn ring(bell: &Bell, rings: u64, pause: Duration) -> Duration {
    let waker = bell.waker.wait();
    ring_once(bell, waker, 1);
    let start = Instant::now();
    for number in 2..=rings + 1 {
        wait_spinning(pause);
        ring_once(bell, waker, number);
    }
    start.elapsed()
}

fn ring_once(bell: &Bell, waker: &Waker, number: u64) {
    bell.rung.store(number, Ordering::Release);
    waker.wake_by_ref();
    while bell.answered.load(Ordering::Acquire) != number {
        spin_loop();
    }
}

fn wait_spinning(pause: Duration) {
    if pause.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < pause {
        spin_loop();
    }
}

/// Runs as the task, and answers once per wake-up. If a poll answers a ring that comes during the
/// poll, the wake-up of that ring is spurious.
async fn answer(bell: Arc<Bell>, rings: u64) {
    poll_fn(|cx| {
        bell.waker.get_or_init(|| cx.waker().clone());
        let rung = bell.rung.load(Ordering::Acquire);
        bell.answered.store(rung, Ordering::Release);
        if rung > rings { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
