//! Timers on many threads and a real clock: no timer is lost or early, and no thread delays the timers of another.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Context;
use std::thread;

use futures::executor;
use wakeful::task::{block_in_place, yield_now};
use wakeful::time::{Instant, sleep, timeout};

mod support {
    pub mod clocks;
    pub mod not_send;
    pub mod rng;
    pub mod runtimes;
}
use support::clocks::{ms, real_current_thread, real_multi_thread, secs, us};
use support::not_send::CountingWaker;
use support::rng::{TestRng, seed};

#[test]
fn of_200_000_timers_none_is_lost_and_none_is_early() {
    const TIMERS: usize = 200_000;
    let rt = real_multi_thread(2);
    let mut rng = TestRng::new(seed());
    let late_ones = rt.block_on(async {
        // Tasks spawn the sleepers, so that they are spread over the workers.
        let groups: Vec<_> = (0..100)
            .map(|_| {
                let mut rng = rng.branch();
                wakeful::spawn(async move {
                    let tasks: Vec<_> = (0..TIMERS / 100)
                        .map(|_| {
                            let length = ms(1 + rng.below(1_000) as u64);
                            wakeful::spawn(async move {
                                let before = std::time::Instant::now();
                                sleep(length).await;
                                before.elapsed().checked_sub(length)
                            })
                        })
                        .collect();
                    let mut late = Vec::new();
                    for task in tasks {
                        late.push(task.await.unwrap());
                    }
                    late
                })
            })
            .collect();
        let mut late = Vec::new();
        for group in groups {
            late.extend(group.await.unwrap());
        }
        late
    });
    assert_eq!(late_ones.len(), TIMERS);
    let early = late_ones.iter().filter(|late| late.is_none()).count();
    assert_eq!(early, 0, "the number of timers that fired early");
    assert_eq!(rt.metrics().num_timers(), 0);
}

#[test]
fn most_timers_are_cancelled_and_the_others_fire() {
    let rt = real_multi_thread(2);
    let mut rng = TestRng::new(seed());
    rt.block_on(async {
        let tasks: Vec<_> = (0..2_000)
            .map(|_| {
                let mut rng = rng.branch();
                wakeful::spawn(async move {
                    for _ in 0..10 {
                        // The task moves between workers while its timer is registered.
                        let yields = rng.below(4);
                        let quick = timeout(secs(3_600), async {
                            for _ in 0..yields {
                                yield_now().await;
                            }
                        });
                        quick.await.unwrap();
                        if rng.one_in(8) {
                            let nap = us(rng.below(3_000) as u64);
                            let before = std::time::Instant::now();
                            timeout(nap, std::future::pending::<()>()).await.unwrap_err();
                            assert!(before.elapsed() >= nap);
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(rt.metrics().num_timers(), 0);
}

#[test]
fn timers_of_threads_that_are_no_workers_fire() {
    for rt in [real_multi_thread(1), real_multi_thread(2)] {
        // The thread in `block_on` sleeps while the workers are parked.
        for length in [us(100), ms(3)] {
            let before = std::time::Instant::now();
            rt.block_on(async { sleep(length).await });
            assert!(before.elapsed() >= length);
        }
        // Threads with a handle sleep. One has registered a far timer before.
        thread::scope(|scope| {
            let _entered = rt.enter();
            let mut far = Box::pin(sleep(secs(3_600)));
            let (_, waker) = CountingWaker::new();
            assert!(far.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            for thread in 0..3 {
                let handle = rt.handle();
                scope.spawn(move || {
                    let _entered = handle.enter();
                    for round in 0..20 {
                        let length = us(50 * (round + thread));
                        let before = std::time::Instant::now();
                        executor::block_on(sleep(length));
                        assert!(before.elapsed() >= length);
                    }
                });
            }
        });
        assert_eq!(rt.metrics().num_timers(), 0);
    }
}

#[test]
fn a_runtime_that_only_waits_for_a_foreign_thread_serves_its_timers() {
    let rt = real_current_thread();
    let (done, is_done) = futures::channel::oneshot::channel();
    let foreign = thread::spawn({
        let handle = rt.handle().clone();
        move || {
            let _entered = handle.enter();
            for round in 0..50 {
                executor::block_on(sleep(us(20 * round)));
            }
            done.send(()).unwrap();
        }
    });
    rt.block_on(is_done).unwrap();
    foreign.join().unwrap();
}

#[test]
fn a_worker_stuck_in_a_poll_does_not_stop_its_timers() {
    for workers in [1, 2] {
        let rt = real_multi_thread(workers);
        let (fired, firing) = mpsc::channel();
        rt.block_on(async {
            wakeful::spawn(async move {
                // These are all set on the worker that is stuck below.
                let mut sleeps: Vec<_> =
                    (1..=5).map(|length| Box::pin(sleep(ms(length)))).collect();
                let wakers: Vec<_> = sleeps
                    .iter_mut()
                    .map(|sleep| {
                        let (fired, number) = (fired.clone(), sleep.deadline());
                        let waker = futures::task::waker(Arc::new(SendOnWake { fired, number }));
                        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                        waker
                    })
                    .collect();
                for sleep in &sleeps {
                    // Blocks this worker until another thread has fired its timer.
                    assert_eq!(firing.recv().unwrap(), sleep.deadline());
                    assert!(Instant::now() >= sleep.deadline());
                    assert!(sleep.is_elapsed());
                }
                drop(wakers);
            })
            .await
            .unwrap();
        });
    }
}

/// A waker that sends its number.
struct SendOnWake {
    fired: mpsc::Sender<Instant>,
    number: Instant,
}

impl futures::task::ArcWake for SendOnWake {
    fn wake_by_ref(this: &Arc<Self>) {
        this.fired.send(this.number).unwrap();
    }
}

#[test]
fn a_worker_that_blocks_in_place_leaves_its_timers_in_good_hands() {
    let rt = real_multi_thread(1);
    let fired = Arc::new(AtomicUsize::new(0));
    rt.block_on(async {
        let sleepers: Vec<_> = (0..10)
            .map(|round| {
                let fired = fired.clone();
                wakeful::spawn(async move {
                    sleep(ms(1 + round)).await;
                    fired.fetch_add(1, SeqCst);
                })
            })
            .collect();
        let blocker = wakeful::spawn(async move {
            yield_now().await;
            let (all_fired, wait) = mpsc::channel();
            wakeful::spawn(async move {
                for sleeper in sleepers {
                    sleeper.await.unwrap();
                }
                all_fired.send(()).unwrap();
            });
            block_in_place(move || wait.recv().unwrap());
            // The task is now on a thread without a core, so another worker has its timers.
            sleep(ms(1)).await;
        });
        blocker.await.unwrap();
    });
    assert_eq!(fired.load(SeqCst), 10);
}

#[test]
fn sleeps_set_on_one_worker_are_dropped_and_moved_on_others() {
    let rt = real_multi_thread(2);
    rt.block_on(async {
        let (give, take) = mpsc::channel();
        let taker = thread::spawn({
            let handle = rt.handle().clone();
            move || {
                let _entered = handle.enter();
                let mut taken = [0; 3];
                for (number, mut sleep) in take {
                    let _: &std::pin::Pin<Box<wakeful::time::Sleep>> = &sleep;
                    match number % 3 {
                        0 => drop(sleep),
                        1 => sleep.as_mut().reset(Instant::now() + secs(60)),
                        _ => {
                            sleep.as_mut().reset(Instant::now() + us(10));
                            executor::block_on(sleep);
                        }
                    }
                    taken[number % 3] += 1;
                }
                taken
            }
        });
        let tasks: Vec<_> = (0..3_000usize)
            .map(|number| {
                let give = give.clone();
                wakeful::spawn(async move {
                    // Most of these timers fire while the sleep moves between tasks.
                    let far = number % 10 == 0;
                    let length = if far { secs(60) } else { us(number as u64 * 7 % 2_000) };
                    let mut sleep = Box::pin(sleep(length));
                    let waits = support::clocks::poll_once(sleep.as_mut()).await.is_pending();
                    assert!(waits || !far, "{length:?} are over at once");
                    if waits {
                        give.send((number, sleep)).unwrap();
                    }
                    waits
                })
            })
            .collect();
        drop(give);
        let mut given = [0; 3];
        for (number, task) in tasks.into_iter().enumerate() {
            given[number % 3] += usize::from(task.await.unwrap());
        }
        assert_eq!(taker.join().unwrap(), given, "dropped, moved later, moved and awaited");
        assert!(given.iter().all(|&count| count >= 100), "{given:?}");
    });
    assert_eq!(rt.metrics().num_timers(), 0);
}
