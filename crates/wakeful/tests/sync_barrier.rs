//! `Barrier`: rounds, one leader for each, and tasks that leave.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake};

use futures::executor;
use wakeful::sync::{Barrier, BarrierWaitResult};

mod support {
    pub mod manual_poll;
    pub mod rng;
    pub mod runtimes;
}
use support::manual_poll::ManualPoll;
use support::rng::{TestRng, seed};
use support::runtimes::runtimes;

#[test]
fn a_barrier_of_zero_or_one_lets_every_task_pass() {
    for n in [0, 1] {
        let barrier = Barrier::new(n);
        for _ in 0..3 {
            assert!(executor::block_on(barrier.wait()).is_leader());
        }
        assert_eq!(format!("{barrier:?}"), "Barrier { n: 1, arrived: 0 }");
    }
}

#[test]
fn a_dropped_wait_counts_as_arrived() {
    let barrier = Barrier::new(3);
    drop(barrier.wait());
    let leaves = ManualPoll::pending(barrier.wait());
    let mut stays = ManualPoll::pending(barrier.wait());
    let wake_count = leaves.wake_count();
    drop(leaves);
    assert_eq!(Arc::strong_count(&wake_count), 1, "its waker stays behind");
    assert!(ManualPoll::new(barrier.wait()).ready().is_leader());
    assert_eq!(stays.take_wakes(), 1);
    assert!(!stays.ready().is_leader());
    assert!(ManualPoll::new(barrier.wait()).poll().is_pending(), "the next round is a new one");
}

/// Arrives for the next round when it is woken.
struct Again(Arc<Barrier>, Mutex<Option<Next>>);

type Next = ManualPoll<Pin<Box<dyn Future<Output = BarrierWaitResult> + Send>>>;

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        let barrier = self.0.clone();
        let next: Next = ManualPoll::pending(Box::pin(async move { barrier.wait().await }));
        *self.1.lock().unwrap() = Some(next);
    }
}

/// A waiter of the first wake batch waits again before the last batch is woken: it joins the next round.
#[test]
fn an_early_second_wait_joins_the_next_round() {
    let barrier = Arc::new(Barrier::new(102));
    let again = Arc::new(Again(barrier.clone(), Mutex::new(None)));
    let mut first = ManualPoll::new(barrier.wait());
    assert!(first.poll_with(&again.clone().into()).is_pending());
    let mut others: Vec<_> = (0..100).map(|_| ManualPoll::pending(barrier.wait())).collect();
    assert!(ManualPoll::new(barrier.wait()).ready().is_leader());
    for wait in others.iter_mut().chain([&mut first]) {
        assert!(!wait.ready().is_leader());
    }
    let mut next = again.1.lock().unwrap().take().expect("the first one was woken");
    assert_eq!(next.take_wakes(), 0);
    assert!(next.poll().is_pending());
    assert_eq!(format!("{barrier:?}"), "Barrier { n: 102, arrived: 1 }");
}

/// Panics when it is woken.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        panic!("a foreign waker");
    }
}

#[test]
fn a_waker_that_panics_holds_no_other_waiter_back() {
    let barrier = Barrier::new(102);
    let mut bad = ManualPoll::new(barrier.wait());
    assert!(bad.poll_with(&Arc::new(Bad).into()).is_pending());
    let mut others: Vec<_> = (0..100).map(|_| ManualPoll::pending(barrier.wait())).collect();
    let mut leader = ManualPoll::new(barrier.wait());
    assert!(catch_unwind(AssertUnwindSafe(|| leader.poll())).is_err());
    for wait in others.iter_mut().chain([&mut bad]) {
        assert!(!wait.ready().is_leader());
    }
}

/// Compares random calls of one barrier with a count of arrivals.
#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    for _ in 0..100 {
        let n = 1 + rng.below(80);
        let barrier = Barrier::new(n);
        let mut arrived = 0;
        // The pending waits, each with the round in which it arrived.
        let (mut waits, mut round) = (Vec::new(), 0);
        for _ in 0..500 {
            match rng.below(4) {
                0 | 1 => {
                    let mut wait = ManualPoll::new(barrier.wait());
                    arrived += 1;
                    match wait.poll() {
                        Poll::Ready(result) => {
                            assert!(arrived == n && result.is_leader());
                            (arrived, round) = (0, round + 1);
                        }
                        Poll::Pending => {
                            assert!(arrived < n);
                            waits.push((wait, round));
                        }
                    }
                }
                _ if waits.is_empty() => {}
                2 => drop(waits.swap_remove(rng.below(waits.len()))),
                _ => {
                    let index = rng.below(waits.len());
                    let (wait, from) = &mut waits[index];
                    let over = *from < round;
                    assert_eq!(wait.take_wakes(), usize::from(over));
                    assert_eq!(wait.wakers(), usize::from(!over));
                    match wait.poll() {
                        Poll::Ready(result) => {
                            assert!(over && !result.is_leader());
                            waits.swap_remove(index);
                        }
                        Poll::Pending => assert!(!over),
                    }
                }
            }
        }
    }
}

#[test]
fn tasks_go_from_round_to_round_together() {
    const TASKS: usize = 5;
    const ROUNDS: usize = 200;
    for runtime in runtimes() {
        let shared = Arc::new((Barrier::new(TASKS), AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let shared = shared.clone();
                runtime.spawn(async move {
                    let mut led = 0;
                    for round in 0..ROUNDS {
                        let arrived = shared.1.fetch_add(1, SeqCst);
                        assert!((round * TASKS..(round + 1) * TASKS).contains(&arrived));
                        led += usize::from(shared.0.wait().await.is_leader());
                        assert!(shared.1.load(SeqCst) >= (round + 1) * TASKS);
                    }
                    led
                })
            })
            .collect();
        let led: usize = runtime.block_on(async {
            let mut led = 0;
            for task in tasks {
                led += task.await.unwrap();
            }
            led
        });
        assert_eq!(led, ROUNDS);
    }
}
