//! Finds the thread-locals of wakeful and of the standard library, which any run may change on its thread.
//!
//! A process learns them once, from two runs that use many parts of both. A thread-local that these runs
//! miss counts as one of the program. That only costs the search new threads.

use super::Plan;
use super::explorer::run_once;
use crate::sim::Sim;
use crate::sim::api::{Supervision, ThreadResult, run_supervised};
use crate::sim::strategy::swarm::{OrderKind, swarm};
use crate::sync::{Mutex, Notify, mpsc};
use crate::sys::thread_image::{KnownWords, ThreadImage};
use crate::task::{JoinSet, LocalSet, spawn_local, yield_now};
use std::collections::hash_map::RandomState;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Returns the words that runs may change. `None` if the thread-locals of this process cannot be found.
pub(super) fn known_thread_locals() -> Option<&'static KnownWords> {
    static KNOWN: OnceLock<Option<KnownWords>> = OnceLock::new();
    let learn = || match run_supervised(Duration::MAX, learn) {
        ThreadResult::Returned(known) => known,
        ThreadResult::Blocked(_) => None,
    };
    KNOWN.get_or_init(learn).as_ref()
}

fn learn(supervision: &Supervision) -> Option<KnownWords> {
    let image = ThreadImage::take()?;
    for seed in 0..2 {
        let strategy = Box::new(swarm(seed, Some(OrderKind::Random), &Arc::default()));
        let plan = Plan {
            seed,
            strategy,
            window: None,
            is_guarded: true,
            preemptions: None,
            timeline: None,
        };
        let _ = run_once(plan, |it| it, Arc::new(warm_up_program), supervision);
    }
    Some(image.changed())
}

/// Uses the parts of wakeful and of the standard library that programs use.
async fn warm_up_program(sim: Sim) {
    let _ = (RandomState::new(), catch_unwind(|| resume_unwind(Box::new(()))));
    let lock = Arc::new(Mutex::new(std::thread::current().id()));
    let (notify, (sender, mut receiver)) = (Arc::new(Notify::new()), mpsc::channel(1));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (lock, notify, sender) = (lock.clone(), notify.clone(), sender.clone());
        tasks.spawn(async move {
            let _guard = lock.lock().await;
            yield_now().await;
            let _ = sender.send(()).await;
            nap().await;
            notify.notified().await;
        });
    }
    drop((sender, spawn_local(nap()).await));
    for _ in 0..3 {
        receiver.recv().await;
        notify.notify_one();
        nap().await;
    }
    notify.notify_waiters();
    while tasks.join_next().await.is_some() {}
    let closure = crate::task::spawn_blocking(|| crate::sim::choose(2));
    let _ = (closure.await, spawn_local(std::future::pending::<()>()).abort());
    LocalSet::new().run_until(nap()).await;
    sim.always("it holds", || true);
    let host = sim.host("other", nap);
    sim.client("client", nap()).await;
    host.kill();
    nap().await;
}

/// Sleeps until the run has looked for deadlocks.
async fn nap() {
    #[cfg(feature = "time")]
    {
        const SECOND: Duration = Duration::from_secs(1);
        let _ = crate::time::timeout(2 * SECOND, crate::time::sleep(SECOND)).await;
    }
    #[cfg(not(feature = "time"))]
    yield_now().await;
}
