//! Rows about tasks: spawning, joining, yielding, talking to each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use futures::channel::oneshot;

use super::{Row, Target, Unit, Work, on_worker};
use crate::peers::{Peer, Remote, Sets, WakeAndYield, cells};

/// Tasks alive together in the rows that work on many.
pub(super) const CROWD: u64 = 1_000;
/// How often each task yields before new tasks are spawned.
const YIELDS: u64 = 1_000;
/// Tasks that a foreign thread spawns before it waits for all of them.
const REMOTE: u64 = 200_000;

pub fn rows() -> Vec<Row> {
    let mut rows = spawn_rows();
    rows.extend(yield_rows());
    rows.extend(talk_rows());
    rows
}

fn spawn_rows() -> Vec<Row> {
    vec![
        Row {
            name: "spawn_join",
            what: "1,000 empty tasks spawned from a task, then all joined; per task",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::each(0.40, 0.45),
            counted: Some((5, 35)),
            cells: cells!(spawn_join: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "spawn_await",
            what: "spawn one empty task and await it",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.55, 0.45),
            counted: Some((2_000, 22_000)),
            cells: cells!(spawn_await: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
        Row {
            name: "join_set",
            what: "1,000 empty tasks spawned into a JoinSet, then all joined; per task",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::both(0.80),
            counted: Some((5, 35)),
            cells: cells!(join_set:),
        },
        Row {
            name: "spawn_remote",
            what: "200,000 tasks spawned from a thread that is not a worker, until all have run; per task",
            unit: Unit::Nanoseconds,
            ops_per_batch: REMOTE,
            target: Target::both(0.55),
            counted: Some((1, 2)),
            cells: cells!(spawn_remote: SmolMulti, SmolStatic, FuturesPool),
        },
        Row {
            name: "chained_spawn",
            what: "each task spawns the next, 1,000 in a row; per task",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::each(0.50, 0.55),
            counted: Some((5, 35)),
            cells: cells!(chained_spawn: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn yield_rows() -> Vec<Row> {
    vec![
        Row {
            name: "yield",
            what: "1,000 tasks, each yields 1,000 times with the runtime's own yield_now; per yield",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::each(0.80, 0.70),
            counted: Some((20, 120)),
            cells: cells!(yield_own: SmolMulti, SmolStatic, SmolLocal, Glommio),
        },
        Row {
            name: "yield_wake",
            what: "1,000 tasks, each wakes itself by reference and yields, 1,000 times; per yield",
            unit: Unit::Nanoseconds,
            ops_per_batch: CROWD,
            target: Target::each(0.80, 0.70),
            counted: Some((20, 120)),
            cells: cells!(yield_wake: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Compio, Glommio),
        },
        Row {
            name: "yield_one",
            what: "one task alone yields again and again",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::both(0.25),
            counted: Some((5_000, 55_000)),
            cells: cells!(yield_one: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
        },
    ]
}

fn talk_rows() -> Vec<Row> {
    vec![Row {
        name: "ping_pong_1000",
        what: "1,000 pairs of tasks, each exchanging over two oneshots of the futures crate; per pair",
        unit: Unit::Nanoseconds,
        ops_per_batch: CROWD,
        target: Target::each(0.60, 0.65),
        counted: Some((5, 25)),
        cells: cells!(ping_pong: SmolMulti, SmolStatic, SmolLocal, FuturesPool, FuturesLocal, Monoio, Compio, Glommio),
    }]
}

fn spawn_join<P: Peer>() -> Work {
    on_worker(P::build(), |batches| async move {
        let mut joins = Vec::with_capacity(CROWD as usize);
        for _ in 0..batches {
            joins.extend((0..CROWD).map(|_| P::spawn(async {})));
            for join in joins.drain(..) {
                join.await;
            }
        }
    })
}

fn spawn_await<P: Peer>() -> Work {
    on_worker(P::build(), |batches| async move {
        for _ in 0..batches {
            P::spawn(async {}).await;
        }
    })
}

fn join_set<P: Sets>() -> Work {
    on_worker(P::build(), |batches| async move {
        for _ in 0..batches {
            P::spawn_and_join_set(CROWD).await;
        }
    })
}

/// A thread outside the runtime spawns, while the thread that built the runtime waits in `block_on` for
/// the last task of the batch.
fn spawn_remote<P: Remote>() -> Work {
    let peer = P::build();
    Work::timed(move |batches| {
        let start = Instant::now();
        for _ in 0..batches {
            let spawner = peer.spawner();
            let (done, all_ran) = oneshot::channel();
            let foreign = thread::spawn(move || spawn_counted::<P>(&spawner, done));
            peer.block_on(all_ran).expect("the last task says so");
            foreign.join().expect("the spawning thread panicked");
        }
        start.elapsed()
    })
}

fn spawn_counted<P: Remote>(spawner: &P::Spawner, done: oneshot::Sender<()>) {
    let finish = Arc::new(Finish { left: AtomicU64::new(REMOTE), done: Mutex::new(Some(done)) });
    for _ in 0..REMOTE {
        let finish = finish.clone();
        P::spawn_from(spawner, async move { finish.one_less() });
    }
}

/// Counts completed tasks, and reports the last one.
struct Finish {
    left: AtomicU64,
    done: Mutex<Option<oneshot::Sender<()>>>,
}

impl Finish {
    fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let done = self.done.lock().expect("taken once").take();
            // The receiver waits for this and for nothing else.
            let _ = done.expect("taken once").send(());
        }
    }
}

fn chained_spawn<P: Peer>() -> Work {
    on_worker(P::build(), |batches| async move {
        for _ in 0..batches {
            let (done, last_ran) = oneshot::channel();
            spawn_chain::<P>(CROWD, done);
            last_ran.await.expect("the last task says so");
        }
    })
}

/// Spawns a task that spawns the next, `left` in all.
fn spawn_chain<P: Peer>(left: u64, done: oneshot::Sender<()>) {
    P::detach(P::spawn(async move {
        if left > 1 {
            spawn_chain::<P>(left - 1, done);
        } else {
            // The driver waits for this and for nothing else.
            let _ = done.send(());
        }
    }));
}

fn yield_own<P: Peer>() -> Work {
    on_worker(P::build(), |batches| {
        crowds::<P, _, _>(batches, |yields| async move {
            for _ in 0..yields {
                P::yield_now().await;
            }
        })
    })
}

fn yield_wake<P: Peer>() -> Work {
    on_worker(P::build(), |batches| {
        crowds::<P, _, _>(batches, |yields| async move {
            for _ in 0..yields {
                WakeAndYield::default().await;
            }
        })
    })
}

/// Runs `task` `batches` times in each of many tasks. New tasks replace them after each [`YIELDS`].
pub(super) async fn crowds<P, T, F>(batches: u64, task: T)
where
    P: Peer,
    T: Fn(u64) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut joins = Vec::with_capacity(CROWD as usize);
    let mut left = batches;
    while left > 0 {
        let yields = left.min(YIELDS);
        joins.extend((0..CROWD).map(|_| P::spawn(task(yields))));
        for join in joins.drain(..) {
            join.await;
        }
        left -= yields;
    }
}

/// The driver itself is the task that yields.
fn yield_one<P: Peer>() -> Work {
    on_worker(P::build(), |batches| async move {
        for _ in 0..batches {
            P::yield_now().await;
        }
    })
}

fn ping_pong<P: Peer>() -> Work {
    on_worker(P::build(), |batches| async move {
        let mut joins = Vec::with_capacity(CROWD as usize);
        for _ in 0..batches {
            joins.extend((0..CROWD).map(|_| P::spawn(exchange::<P>())));
            for join in joins.drain(..) {
                join.await;
            }
        }
    })
}

/// Runs one pair: spawns the partner, sends a ping, waits for the pong.
async fn exchange<P: Peer>() {
    let (ping, pinged) = oneshot::channel();
    let (pong, ponged) = oneshot::channel();
    P::detach(P::spawn(async move {
        pinged.await.expect("the partner says ping");
        pong.send(()).expect("the partner waits");
    }));
    ping.send(()).expect("the partner waits");
    ponged.await.expect("the partner says pong");
}
