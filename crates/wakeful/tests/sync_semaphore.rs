//! `Semaphore`: permits are counted exactly, go to waiters in FIFO order, and return from dropped futures.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;

use futures::executor;
use wakeful::sync::{Semaphore, SemaphorePermit, TryAcquireError};
use wakeful::task::yield_now;

mod support {
    pub mod fifo_model;
    pub mod manual_poll;
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::fifo_model::{WALKS, Walk};
use support::manual_poll::ManualPoll;
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
use support::runtimes::{current_thread, runtimes};

static STATIC: Semaphore = Semaphore::const_new(2);

#[test]
fn a_static_one_works_without_a_runtime() {
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let _permit = executor::block_on(STATIC.acquire()).unwrap();
                    assert!(inside.fetch_add(1, SeqCst) < 2);
                    inside.fetch_sub(1, SeqCst);
                }
                assert_eq!(STATIC.blocking_acquire_many(2).unwrap().num_permits(), 2);
            });
        }
    });
    assert_eq!(STATIC.available_permits(), 2);
}

#[test]
fn a_large_request_is_not_overtaken() {
    let semaphore = Semaphore::new(2);
    let mut many = ManualPoll::pending(semaphore.acquire_many(4));
    assert_eq!(semaphore.available_permits(), 0, "put aside for the one in front");
    let mut few = ManualPoll::pending(semaphore.acquire());
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    semaphore.add_permits(1);
    assert!(many.poll().is_pending() && few.poll().is_pending());
    semaphore.add_permits(2);
    assert_eq!((many.take_wakes(), few.take_wakes()), (1, 1));
    assert_eq!(few.ready().unwrap().num_permits(), 1);
    assert_eq!(many.ready().unwrap().num_permits(), 4);
    assert_eq!(semaphore.available_permits(), 5);
}

#[test]
fn a_dropped_wait_passes_its_permits_on() {
    let semaphore = Semaphore::new(3);
    let many = ManualPoll::pending(semaphore.acquire_many(5));
    let mut behind: Vec<_> =
        (1..=2).map(|n| ManualPoll::pending(semaphore.acquire_many(n))).collect();
    let last = ManualPoll::pending(semaphore.acquire());
    let wake_count = many.wake_count();
    drop(many);
    assert_eq!(Arc::strong_count(&wake_count), 1, "no waker is left behind");
    assert_eq!((last.take_wakes(), semaphore.available_permits()), (0, 0));
    // A granted permit of a dropped future goes to the next waiter, and the last one returns to the semaphore.
    drop(behind.remove(0));
    assert_eq!(last.take_wakes(), 1);
    drop((behind, last));
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn zero_permits_are_always_available() {
    let semaphore = Semaphore::new(0);
    let _waits = ManualPoll::pending(semaphore.acquire());
    assert_eq!(ManualPoll::new(semaphore.acquire_many(0)).ready().unwrap().num_permits(), 0);
    drop(semaphore.try_acquire_many(0).unwrap());
    semaphore.add_permits(0);
    semaphore.close();
    assert_eq!(semaphore.try_acquire_many(0).unwrap_err(), TryAcquireError::Closed);
}

#[test]
fn closing_wakes_all_waiters() {
    let semaphore = Semaphore::new(2);
    let permit = semaphore.try_acquire().unwrap();
    let mut waits: Vec<_> =
        (0..100).map(|_| ManualPoll::pending(semaphore.acquire_many(2))).collect();
    // A waiter that was granted permits, and is polled only after the close, gets an error too.
    let mut given = waits.remove(0);
    semaphore.add_permits(1);
    assert_eq!(given.take_wakes(), 1);
    assert!(!semaphore.is_closed());
    semaphore.close();
    semaphore.close();
    assert!(semaphore.is_closed());
    assert!(given.ready().is_err());
    for wait in &mut waits {
        assert_eq!((wait.take_wakes(), wait.wakers()), (1, 0));
        assert_eq!(wait.ready().unwrap_err().to_string(), "semaphore closed");
    }
    assert!(ManualPoll::new(semaphore.acquire()).ready().is_err());
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
    assert!(semaphore.blocking_acquire().is_err());
    drop(permit);
    assert_eq!(semaphore.available_permits(), 3, "what is held still comes back");
}

#[test]
fn more_than_a_batch_is_woken_in_order() {
    struct Note(usize, Arc<Mutex<Vec<usize>>>);
    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let (semaphore, order) = (Semaphore::new(0), Arc::default());
    let mut waits: Vec<_> = (0..100).map(|_| ManualPoll::new(semaphore.acquire())).collect();
    for (number, wait) in waits.iter_mut().enumerate() {
        let waker = Waker::from(Arc::new(Note(number, Arc::clone(&order))));
        assert!(wait.poll_with(&waker).is_pending());
    }
    semaphore.add_permits(101);
    assert!(order.lock().unwrap().iter().copied().eq(0..100));
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn wakers_may_call_back() {
    struct Adds(Arc<Semaphore>);
    impl Wake for Adds {
        fn wake(self: Arc<Self>) {
            self.0.add_permits(1);
        }
    }
    impl Drop for Adds {
        fn drop(&mut self) {
            self.0.add_permits(1);
        }
    }
    let semaphore = Arc::new(Semaphore::new(0));
    let adds = || Waker::from(Arc::new(Adds(semaphore.clone())));
    let mut wait = ManualPoll::new(semaphore.acquire());
    assert!(wait.poll_with(&adds()).is_pending());
    assert!(wait.poll().is_pending());
    assert_eq!(wait.take_wakes(), 1, "the waker that was replaced gave it a permit");
    drop(wait);
    let before = semaphore.available_permits();
    let mut wait = ManualPoll::new(semaphore.acquire_many(before as u32 + 1));
    assert!(wait.poll_with(&adds()).is_pending());
    drop(wait);
    assert_eq!(semaphore.available_permits(), before + 1, "dropped with its future");
    let mut wait = ManualPoll::new(semaphore.acquire_many(before as u32 + 2));
    assert!(wait.poll_with(&adds()).is_pending());
    semaphore.close();
    assert_eq!(semaphore.available_permits(), before + 3, "woken and dropped");
}

#[test]
fn a_waker_that_panics_harms_no_other_waiter() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let semaphore = Semaphore::new(0);
    let mut bad = ManualPoll::new(semaphore.acquire());
    assert!(bad.poll_with(&Waker::from(Arc::new(Panics))).is_pending());
    let mut waits: Vec<_> = (0..50).map(|_| ManualPoll::pending(semaphore.acquire())).collect();
    let site = panic_site(AssertUnwindSafe(|| semaphore.add_permits(52)));
    assert_eq!(site.message, "on purpose");
    assert!(waits.iter_mut().all(|wait| wait.take_wakes() == 1 && wait.ready().is_ok()));
    drop(bad);
    assert_eq!(semaphore.available_permits(), 52);
}

#[test]
fn permits_are_merged_split_and_forgotten() {
    let semaphore = Arc::new(Semaphore::new(10));
    let mut permit = semaphore.try_acquire_many(3).unwrap();
    permit.merge(semaphore.try_acquire_many(4).unwrap());
    assert_eq!((permit.num_permits(), semaphore.available_permits()), (7, 3));
    assert!(std::ptr::eq(permit.semaphore(), &*semaphore));
    let part = permit.split(2).unwrap();
    assert!(permit.split(6).is_none());
    assert_eq!((permit.num_permits(), part.num_permits()), (5, 2));
    drop(permit);
    part.forget();
    assert_eq!(semaphore.available_permits(), 8);

    let mut owned = semaphore.clone().try_acquire_many_owned(3).unwrap();
    owned.merge(executor::block_on(semaphore.clone().acquire_owned()).unwrap());
    owned.merge(semaphore.clone().blocking_acquire_many_owned(2).unwrap());
    let part = owned.split(1).unwrap();
    assert!(Arc::ptr_eq(owned.semaphore(), &semaphore));
    assert_eq!((owned.num_permits(), part.num_permits()), (5, 1));
    assert_eq!(owned.split(6).map(|part| part.num_permits()), None);
    owned.forget();
    drop(part);
    assert_eq!(semaphore.available_permits(), 3);
    assert_eq!((semaphore.forget_permits(2), semaphore.forget_permits(5)), (2, 1));
    assert_eq!(semaphore.try_acquire_owned().unwrap_err(), TryAcquireError::NoPermits);
}

/// A permit that cannot be returned leaves no owner behind. A later waiter is granted a permit as usual.
#[test]
fn a_permit_that_overflows_leaves_no_owner() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    let permit = semaphore.try_acquire().unwrap();
    semaphore.add_permits(1);
    panic_site(AssertUnwindSafe(|| drop(permit)));
    assert_eq!(semaphore.forget_permits(usize::MAX), Semaphore::MAX_PERMITS);
    let mut waiting = ManualPoll::pending(semaphore.acquire());
    semaphore.add_permits(1);
    assert!(waiting.poll().is_ready());
}

#[test]
fn misuse_panics_at_the_caller() {
    let first = line!();
    let max = Semaphore::MAX_PERMITS;
    let (one, other) = (Arc::new(Semaphore::new(max)), Arc::new(Semaphore::new(1)));
    let site = |action: &dyn Fn()| panic_site(AssertUnwindSafe(action));
    let sites = [
        (
            "a semaphore may not have more than MAX_PERMITS permits (2305843009213693951)",
            site(&|| {
                drop(Semaphore::new(max + 1));
            }),
        ),
        (
            "a semaphore may not have more than MAX_PERMITS permits",
            site(&|| {
                drop(Semaphore::const_new(max + 1));
            }),
        ),
        (
            "number of added permits (1) would overflow MAX_PERMITS (2305843009213693951)",
            site(&|| {
                one.add_permits(1);
            }),
        ),
        (
            "merging permits from different semaphore instances",
            site(&|| {
                one.try_acquire().unwrap().merge(other.try_acquire().unwrap());
            }),
        ),
        (
            "merging permits from different semaphore instances",
            site(&|| {
                let permit = other.clone().try_acquire_owned().unwrap();
                one.clone().try_acquire_owned().unwrap().merge(permit);
            }),
        ),
        (
            "Cannot block the current thread from within a runtime.",
            site(&|| {
                current_thread().block_on(async { drop(other.blocking_acquire()) });
            }),
        ),
        (
            "Cannot block the current thread from within a runtime.",
            site(&|| {
                current_thread().block_on(async { drop(other.clone().blocking_acquire_owned()) });
            }),
        ),
    ];
    for (message, site) in sites {
        assert!(site.message.starts_with(message), "{}", site.message);
        assert!(site.file == file!() && site.line > first, "{site:?}");
    }
    assert_eq!((one.available_permits(), other.available_permits()), (max, 1), "as before");
    let waits = ManualPoll::pending(other.acquire_many(2));
    assert!(site(&|| other.add_permits(max + 1)).message.contains("would overflow"));
    drop(waits);
    assert_eq!(other.available_permits(), 1);
}

#[test]
fn debug_output_shows_the_permits() {
    let semaphore = Semaphore::new(3);
    assert_eq!(format!("{semaphore:?}"), "Semaphore { permits: 3, closed: false }");
    assert_eq!(TryAcquireError::NoPermits.to_string(), "no permits available");
    assert_eq!(TryAcquireError::Closed.to_string(), "semaphore closed");
}

fn step<'a>(walk: &mut Walk<'a, SemaphorePermit<'a>>, rng: &mut TestRng, semaphore: &'a Semaphore) {
    match rng.below(40) {
        0 => {
            let more = rng.below(5);
            semaphore.add_permits(more);
            walk.model.give(more);
        }
        1 => {
            let fewer = rng.below(3);
            let forgotten = fewer.min(walk.model.available);
            walk.model.available -= forgotten;
            assert_eq!(semaphore.forget_permits(fewer), forgotten);
        }
        2 if rng.one_in(5) => {
            semaphore.close();
            walk.model.close();
        }
        _ => walk.step(
            rng,
            &[0, 1, 1, 1, 2, 3, 5],
            |n| Box::pin(async move { semaphore.acquire_many(n as u32).await.ok() }),
            |n| semaphore.try_acquire_many(n as u32).ok(),
        ),
    }
    walk.check();
    assert_eq!(semaphore.available_permits(), walk.model.available);
    assert_eq!(semaphore.is_closed(), walk.model.closed);
}

#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..WALKS {
        let permits = rng.below(6);
        let semaphore = Semaphore::new(permits);
        let mut walk = Walk::new(permits);
        for _ in 0..200 {
            step(&mut walk, &mut rng, &semaphore);
        }
        walk.end(&mut rng);
    }
}

#[test]
fn nothing_is_lost_between_threads() {
    const PERMITS: usize = 5;
    let mut rng = TestRng::new(seed());
    for runtime in runtimes() {
        let shared = Arc::new((Semaphore::new(PERMITS), AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (shared, mut rng) = (shared.clone(), rng.branch());
                runtime.spawn(async move {
                    let (semaphore, inside) = &*shared;
                    for _ in 0..400 {
                        let wanted = 1 + rng.below(PERMITS);
                        let _permit = wakeful::select! {
                            biased;
                            permit = semaphore.acquire_many(wanted as u32) => permit.unwrap(),
                            () = yield_now(), if rng.one_in(3) => continue,
                        };
                        assert!(inside.fetch_add(wanted, SeqCst) + wanted <= PERMITS);
                        if rng.one_in(4) {
                            yield_now().await;
                        }
                        inside.fetch_sub(wanted, SeqCst);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).expect("no panic"));
        assert_eq!(shared.0.available_permits(), PERMITS);
    }
}
