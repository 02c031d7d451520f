//! Runtimes end in seven ways while they have tasks of every kind. Wakers, handles, join handles and destructors that
//! panic, spawn and wake outlive them. Oracle: every future is dropped once, and every join handle resolves.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::runtime::{Handle, Runtime};
use wakeful::sync::{Mutex, mpsc, oneshot};
use wakeful::task::{AbortHandle, JoinHandle, JoinSet, may_wait_forever, yield_now};
use wakeful::time::{interval, sleep};

use super::rng::TestRng;
use super::round::{Drops, Round, RunsOnDrop, WakerStore, quiet_panic, use_handle};

/// The state that tasks and other threads share in a round.
#[derive(Clone)]
struct Shared {
    handle: Handle,
    wakers: WakerStore,
    drops: Drops,
    mutex: Arc<Mutex<()>>,
}

/// Spawns a task that waits, works or panics, and whose destructor may do anything that safe code can do.
fn spawn(shared: &Shared, rng: &mut TestRng) -> JoinHandle<()> {
    let guard = destructor(shared, rng);
    let (choice, micros) = (rng.below(10), rng.below(400) as u64);
    let inner = shared.clone();
    shared.handle.spawn(async move {
        let _guard = guard;
        match choice {
            0 => inner.wakers.wait().await,
            1 => sleep(Duration::from_micros(micros)).await,
            2 => sleep(Duration::from_secs(3_600)).await,
            3 => may_wait_forever(std::future::pending()).await,
            4 => (0..micros).map(|_| ()).for_each(drop),
            5 => {
                let mut ticks = interval(Duration::from_micros(50));
                loop {
                    ticks.tick().await;
                }
            }
            6 => {
                let _held = inner.mutex.lock().await;
                inner.wakers.wait().await;
            }
            7 => {
                let mut set = JoinSet::new();
                set.spawn(yield_now());
                set.spawn(async move { inner.wakers.wait().await });
                while set.join_next().await.is_some() {}
            }
            8 => quiet_panic(),
            _ => loop {
                yield_now().await;
            },
        }
    })
}

/// Returns a guard whose drop uses the runtime, which may be ending or gone.
fn destructor(shared: &Shared, rng: &mut TestRng) -> RunsOnDrop<impl FnMut() + use<>> {
    let (shared, mut rng) = (shared.clone(), rng.branch());
    let choice = rng.below(8);
    RunsOnDrop::new(shared.drops.guard(), move || match choice {
        0 => quiet_panic(),
        1 => shared.wakers.wake_all(),
        2 => use_handle(&shared.handle, &mut rng, &shared.drops),
        3 => drop(shared.wakers.take()),
        _ => {}
    })
}

/// Uses the runtime from another thread, before and after its end.
fn disturb(shared: &Shared, aborts: &[AbortHandle], rng: &mut TestRng) {
    for _ in 0..rng.below(20) {
        match rng.below(4) {
            0 => shared.wakers.wake_all(),
            1 if !aborts.is_empty() => aborts[rng.below(aborts.len())].abort(),
            2 => drop(spawn(shared, rng)),
            _ => use_handle(&shared.handle, rng, &shared.drops),
        }
    }
}

/// Lets the runtime work for some time.
fn work(runtime: &Runtime, rng: &mut TestRng) {
    for _ in 0..rng.below(4) {
        let (tx, rx) = oneshot::channel();
        let (send, mut receive) = mpsc::channel(1);
        runtime.spawn(async move {
            send.send(1).await.unwrap();
            yield_now().await;
            tx.send(2).unwrap();
        });
        let sum = runtime.block_on(async { receive.recv().await.unwrap() + rx.await.unwrap() });
        assert_eq!(sum, 3, "values that were sent arrive");
    }
}

pub fn round(round: &mut Round) {
    let runtime = round.runtime();
    let mut rng = round.rng.branch();
    let shared = Shared {
        handle: runtime.handle().clone(),
        wakers: WakerStore::default(),
        drops: round.drops.clone(),
        mutex: Arc::default(),
    };
    let mut joins: Vec<JoinHandle<()>> = Vec::new();
    for _ in 0..rng.below(24) {
        joins.push(spawn(&shared, &mut rng));
    }
    for _ in 0..rng.below(4) {
        let guard = destructor(&shared, &mut rng);
        joins.push(runtime.spawn_blocking(move || drop(guard)));
    }
    round.count("tasks", joins.len());
    let aborts: Vec<AbortHandle> = joins.iter().map(JoinHandle::abort_handle).collect();
    work(&runtime, &mut rng);
    let disturber = rng.one_in(2).then(|| {
        let (shared, aborts, mut rng) = (shared.clone(), aborts.clone(), rng.branch());
        thread::spawn(move || disturb(&shared, &aborts, &mut rng))
    });
    if rng.one_in(2) {
        joins.truncate(rng.below(joins.len() + 1));
    }
    round.end(runtime);
    disturb(&shared, &aborts, &mut rng);
    if let Some(disturber) = disturber {
        disturber.join().expect("another thread may use what outlives the runtime");
    }
    for join in joins {
        // A task that waits when its runtime ends is cancelled, so every join handle resolves.
        if let Err(error) = executor::block_on(join) {
            assert!(error.is_cancelled() || error.is_panic());
        }
    }
    shared.wakers.wake_all();
}
