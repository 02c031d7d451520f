//! Rows about locks, permits and notifications.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Row, Target, Unit, Work, on_worker};
use crate::peers::{Peer, WakeAndYield};
use crate::primitives::{Mutex, Notify, RwLock, Semaphore, cells};

/// Tasks that want the same lock.
const CONTENDERS: u64 = 100;
/// Permits they share in semaphore_contended.
const PERMITS: usize = 10;

pub fn rows() -> Vec<Row> {
    let mut rows = mutex_rows();
    rows.extend(permit_rows());
    rows.extend(notify_rows());
    rows
}

fn mutex_rows() -> Vec<Row> {
    vec![
        Row {
            name: "mutex",
            what: "a task locks and unlocks an uncontended mutex",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.45, 0.50),
            counted: Some((5_000, 55_000)),
            cells: cells!(mutex: AsyncLock, Futures),
        },
        Row {
            name: "mutex_contended",
            what: "100 tasks lock and unlock the same mutex; per lock",
            unit: Unit::Nanoseconds,
            ops_per_batch: CONTENDERS,
            target: Target::each(0.50, 0.35),
            counted: Some((50, 300)),
            cells: cells!(mutex_contended: AsyncLock, Futures),
        },
        Row {
            name: "mutex_queued",
            what: "100 tasks that have all waited once lock the same mutex, so each unlock of a fair mutex wakes the next; per lock",
            unit: Unit::Nanoseconds,
            ops_per_batch: CONTENDERS,
            target: Target::both(1.0),
            counted: Some((50, 300)),
            cells: cells!(mutex_queued: AsyncLock, Futures),
        },
        Row {
            name: "mutex_yield",
            what: "as mutex_queued, each holding the lock while it wakes itself and yields once",
            unit: Unit::Nanoseconds,
            ops_per_batch: CONTENDERS,
            target: Target::both(1.0),
            counted: Some((50, 300)),
            cells: cells!(mutex_yield: AsyncLock, Futures),
        },
    ]
}

fn permit_rows() -> Vec<Row> {
    vec![
        Row {
            name: "rwlock_read",
            what: "a task takes and drops an uncontended read lock",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.65, 0.75),
            counted: Some((5_000, 55_000)),
            cells: cells!(rwlock_read: AsyncLock),
        },
        Row {
            name: "semaphore",
            what: "a task takes and gives back one permit of an uncontended semaphore with ten",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.60, 0.70),
            counted: Some((5_000, 55_000)),
            cells: cells!(semaphore: AsyncLock),
        },
        Row {
            name: "semaphore_contended",
            what: "100 tasks share ten permits, each holding one while it wakes itself and yields once; per permit",
            unit: Unit::Nanoseconds,
            ops_per_batch: CONTENDERS,
            target: Target::both(1.0),
            counted: Some((50, 300)),
            cells: cells!(semaphore_contended: AsyncLock),
        },
    ]
}

fn notify_rows() -> Vec<Row> {
    vec![
        Row {
            name: "notify",
            what: "a task notifies itself and awaits it",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::both(1.0),
            counted: Some((5_000, 55_000)),
            cells: cells!(notify:),
        },
        Row {
            name: "notify_pp",
            what: "two tasks notify each other in turn; per round trip",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.70, 0.80),
            counted: Some((2_000, 22_000)),
            cells: cells!(notify_pp:),
        },
    ]
}

fn mutex<P: Peer, C: Mutex>() -> Work {
    on_worker(P::build(), |batches| async move {
        let mutex = C::mutex();
        for _ in 0..batches {
            *C::lock(&mutex).await += 1;
        }
        assert_eq!(*C::lock(&mutex).await, batches);
    })
}

fn mutex_contended<P: Peer, C: Mutex>() -> Work {
    on_worker(P::build(), |batches| async move {
        let mutex = Arc::new(C::mutex());
        let joins: Vec<_> =
            (0..CONTENDERS).map(|_| P::spawn(lock_often::<C>(mutex.clone(), batches))).collect();
        for join in joins {
            join.await;
        }
        assert_eq!(*C::lock(&mutex).await, batches * CONTENDERS, "one at a time");
    })
}

fn mutex_queued<P: Peer, C: Mutex>() -> Work {
    on_worker(P::build(), |batches| {
        crowd_at_mutex::<P, C, _>(batches, move |mutex| lock_often::<C>(mutex, batches))
    })
}

async fn lock_often<C: Mutex>(mutex: Arc<C::Mutex>, times: u64) {
    for _ in 0..times {
        *C::lock(&mutex).await += 1;
    }
}

fn mutex_yield<P: Peer, C: Mutex>() -> Work {
    on_worker(P::build(), |batches| {
        crowd_at_mutex::<P, C, _>(batches, move |mutex| async move {
            for _ in 0..batches {
                let mut guard = C::lock(&mutex).await;
                WakeAndYield::default().await;
                *guard += 1;
            }
        })
    })
}

/// Holds the lock until all tasks wait for it. Otherwise each task would find it free on a single
/// thread.
async fn crowd_at_mutex<P, C, F>(batches: u64, task: impl Fn(Arc<C::Mutex>) -> F)
where
    P: Peer,
    C: Mutex,
    F: Future<Output = ()> + Send + 'static,
{
    let mutex = Arc::new(C::mutex());
    let held = C::lock(&mutex).await;
    let there = Arc::new(AtomicU64::new(0));
    let mut joins = Vec::new();
    for _ in 0..CONTENDERS {
        let (task, there) = (task(mutex.clone()), there.clone());
        joins.push(P::spawn(async move {
            there.fetch_add(1, Ordering::Relaxed);
            task.await;
        }));
    }
    while there.load(Ordering::Relaxed) < CONTENDERS {
        P::yield_now().await;
    }
    drop(held);
    for join in joins {
        join.await;
    }
    assert_eq!(*C::lock(&mutex).await, batches * CONTENDERS, "one at a time");
}

fn rwlock_read<P: Peer, C: RwLock>() -> Work {
    on_worker(P::build(), |batches| async move {
        let rwlock = C::rwlock();
        for _ in 0..batches {
            black_box(*C::read(&rwlock).await);
        }
    })
}

fn semaphore<P: Peer, C: Semaphore>() -> Work {
    on_worker(P::build(), |batches| async move {
        let semaphore = C::semaphore(PERMITS);
        for _ in 0..batches {
            drop(C::acquire(&semaphore).await);
        }
    })
}

fn semaphore_contended<P: Peer, C: Semaphore>() -> Work {
    on_worker(P::build(), |batches| async move {
        let semaphore = Arc::new(C::semaphore(PERMITS));
        let mut joins = Vec::new();
        for _ in 0..CONTENDERS {
            let semaphore = semaphore.clone();
            joins.push(P::spawn(async move {
                for _ in 0..batches {
                    let _permit = C::acquire(&semaphore).await;
                    WakeAndYield::default().await;
                }
            }));
        }
        for join in joins {
            join.await;
        }
    })
}

fn notify<P: Peer, C: Notify>() -> Work {
    on_worker(P::build(), |batches| async move {
        let notify = C::notify();
        for _ in 0..batches {
            C::notify_one(&notify);
            C::notified(&notify).await;
        }
    })
}

fn notify_pp<P: Peer, C: Notify>() -> Work {
    on_worker(P::build(), |batches| async move {
        let both = Arc::new([C::notify(), C::notify()]);
        let partner = {
            let both = both.clone();
            P::spawn(async move {
                for _ in 0..batches {
                    C::notified(&both[0]).await;
                    C::notify_one(&both[1]);
                }
            })
        };
        for _ in 0..batches {
            C::notify_one(&both[0]);
            C::notified(&both[1]).await;
        }
        partner.await;
    })
}
