//! Other threads take dumps, diagnoses, traces and metrics while tasks churn and while the runtime ends.
//! Oracle: a task that only waits is in every dump, counters never fall, and all churn is accounted for in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use wakeful::runtime::Handle;
use wakeful::sync::{Mutex, Notify, RwLock, Semaphore, mpsc};
use wakeful::task::{Builder, yield_now};
use wakeful::time::{sleep, timeout};

use super::rng::TestRng;
use super::round::{Drops, Round};

const OBSERVERS: usize = 2;
const CHURNERS: usize = 6;

/// The primitives that the churning tasks contend for.
#[derive(Default)]
struct Contended {
    mutex: Mutex<u64>,
    rwlock: RwLock<u64>,
    notify: Notify,
}

/// Spawns, locks, sends, sleeps and aborts for a number of iterations.
async fn churn(
    contended: Arc<Contended>,
    semaphore: Arc<Semaphore>,
    drops: Drops,
    mut rng: TestRng,
) {
    for _ in 0..60 {
        let (contended, guard) = (contended.clone(), drops.guard());
        match rng.below(9) {
            0 => *contended.mutex.lock().await += 1,
            1 => *contended.rwlock.write().await += 1,
            2 => _ = *contended.rwlock.read().await,
            3 => drop(semaphore.acquire().await),
            4 => _ = timeout(Duration::from_micros(50), contended.notify.notified()).await,
            5 => sleep(Duration::from_micros(20)).await,
            6 => {
                let task = wakeful::spawn(async move {
                    let _held = contended.mutex.lock().await;
                    yield_now().await;
                    drop(guard);
                });
                if rng.one_in(3) {
                    task.abort();
                }
                _ = task.await;
            }
            7 => {
                let (tx, mut rx) = mpsc::channel(1);
                let sender = wakeful::spawn(async move {
                    for n in 0..3 {
                        tx.send(n).await.unwrap();
                    }
                });
                while rx.recv().await.is_some() {}
                sender.await.unwrap();
            }
            _ => contended.notify.notify_waiters(),
        }
    }
}

/// Inspects the runtime until `stop` is set. Returns the number of inspections.
fn inspect(handle: &Handle, mut rng: TestRng, stop: &AtomicBool, is_running: &AtomicBool) -> usize {
    let (mut inspections, mut spawned) = (0, 0);
    while !stop.load(SeqCst) {
        let was_running = is_running.load(SeqCst);
        match rng.below(8) {
            0..4 => {
                let dump = handle.dump();
                let is_there = dump.find_named("anchor").is_some();
                assert!(
                    is_there || !(was_running && is_running.load(SeqCst)),
                    "a waiting task is not in a dump"
                );
                if rng.one_in(4) {
                    assert!(!dump.to_string().is_empty());
                }
            }
            4 => drop(handle.diagnose()),
            5 => {
                let metrics = handle.metrics();
                let now = metrics.spawned_tasks();
                assert!(now >= spawned, "{now} tasks were spawned, and {spawned} before");
                spawned = now;
                assert!(metrics.prometheus().contains("wakeful"));
            }
            6 => handle.record(rng.one_in(2)),
            _ => drop(handle.trace()),
        }
        inspections += 1;
    }
    inspections
}

pub fn round(round: &mut Round) {
    let runtime = round.runtime();
    let (stop, is_running) = (AtomicBool::new(false), AtomicBool::new(false));
    let inspections = AtomicUsize::new(0);
    let release = Arc::new(Notify::new());
    let waits = release.clone();
    let _entered = runtime.enter();
    let anchor =
        Builder::new().name("anchor").spawn(async move { waits.notified().await }).unwrap();
    drop(_entered);
    is_running.store(true, SeqCst);
    let handle = runtime.handle().clone();
    thread::scope(|scope| {
        for _ in 0..OBSERVERS {
            let (handle, rng) = (&handle, round.rng.branch());
            let (stop, is_running, inspections) = (&stop, &is_running, &inspections);
            scope.spawn(move || {
                inspections.fetch_add(inspect(handle, rng, stop, is_running), SeqCst)
            });
        }
        let contended = Arc::<Contended>::default();
        let semaphore = Arc::new(Semaphore::new(2));
        let tasks: Vec<_> = (0..CHURNERS)
            .map(|_| {
                let (contended, semaphore) = (contended.clone(), semaphore.clone());
                runtime.spawn(churn(contended, semaphore, round.drops.clone(), round.rng.branch()))
            })
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.expect("churn neither panics nor is cancelled");
            }
            assert!(!anchor.is_finished(), "no task has notified it");
            is_running.store(false, SeqCst);
            // A permit, in case the task has not been polled yet.
            release.notify_one();
            anchor.await.unwrap();
        });
        let metrics = runtime.metrics();
        assert_eq!(metrics.num_alive_tasks(), 0, "all tasks have ended");
        // The observers keep running while the runtime ends.
        round.end(runtime);
        stop.store(true, SeqCst);
    });
    round.count("inspections", inspections.load(SeqCst));
}
