//! Rows about memory: the bytes of an idle task.
//!
//! A million tasks are spawned, polled once and left waiting. Each has cloned
//! its waker and forgotten the clone: it is a task that could be woken, with
//! nothing else allocated for it. What the process grew by, divided by a
//! million, is the task with its share of the allocator's overhead.

use std::fs;
use std::hint::black_box;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::{Row, Target, Unit, Work};
use crate::peers::{Peer, cells};

const TASKS: u64 = 1_000_000;
/// Spawned before the driver lets them run, so that queues stay short.
const WAVE: u64 = 100;

/// Idle tasks that have been polled. A static, so that a task needs no
/// pointer to it.
static IDLE: AtomicU64 = AtomicU64::new(0);

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "mem0",
            what: "resident bytes per idle task, the future capturing nothing",
            unit: Unit::Bytes,
            ops_per_batch: 1,
            target: Target::both(0.30).at_most(128.0),
            counted: None,
            cells: cells!(mem0: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "mem100",
            what: "resident bytes per idle task, the future capturing 100 bytes",
            unit: Unit::Bytes,
            ops_per_batch: 1,
            target: Target::both(0.52),
            counted: None,
            cells: cells!(mem100: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn mem0<P: Peer>() -> Work {
    bytes_per_idle_task::<P, 0>()
}

fn mem100<P: Peer>() -> Work {
    bytes_per_idle_task::<P, 100>()
}

/// A future that is never ready and leaks a clone of its waker.
struct Idle;

impl Future for Idle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        mem::forget(cx.waker().clone());
        IDLE.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }
}

/// Measures how much the process grows for each idle task.
fn bytes_per_idle_task<P: Peer, const CAPTURED: usize>() -> Work {
    let peer = P::build();
    Work::once(move || {
        let grown = peer.run(async {
            // The runtime's one-time allocations happen before the first measurement.
            spawn_idle::<P, CAPTURED>(10 * WAVE).await;
            let before = resident_bytes();
            spawn_idle::<P, CAPTURED>(TASKS).await;
            resident_bytes() - before
        });
        // Dropping a million tasks is not part of this row.
        mem::forget(peer);
        grown as f64 / TASKS as f64
    })
}

/// Spawns `tasks` idle tasks and returns once all have been polled.
async fn spawn_idle<P: Peer, const CAPTURED: usize>(tasks: u64) {
    let goal = IDLE.load(Ordering::Relaxed) + tasks;
    for _ in 0..tasks / WAVE {
        for _ in 0..WAVE {
            let captured = [0u8; CAPTURED];
            P::detach(P::spawn(async move {
                Idle.await;
                black_box(&captured);
            }));
        }
        let_others_run::<P>().await;
    }
    while IDLE.load(Ordering::Relaxed) < goal {
        let_others_run::<P>().await;
    }
}

/// Waits for a task that is queued behind the rest. The yield of some peers
/// does not let other tasks run first.
async fn let_others_run<P: Peer>() {
    P::spawn(async {}).await;
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .expect("VmRSS stands in /proc/self/status in kB");
    kib * 1024
}
