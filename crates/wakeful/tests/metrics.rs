//! `RuntimeMetrics` of workers: parks and unparks come in pairs, and busy time is at most the time that has passed.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use wakeful::runtime::{Builder, Handle, RuntimeMetrics};
use wakeful::task::{block_in_place, yield_now};

mod support {
    pub mod panic_site;
    pub mod runtimes;
}
use support::panic_site::panic_site;
use support::runtimes::{current_thread, multi_thread, runtimes, serial_runtimes};

/// Returns when the worker sleeps.
fn wait_until_asleep(metrics: &RuntimeMetrics, worker: usize) {
    while metrics.worker_park_unpark_count(worker).is_multiple_of(2) {
        thread::yield_now();
    }
}

/// Keeps its thread busy for this duration.
fn work(duration: Duration) {
    let started = Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn a_sleep_has_a_beginning_and_an_end() {
    for rt in serial_runtimes() {
        let metrics = rt.metrics();
        for _ in 0..10 {
            let before = metrics.worker_park_count(0);
            let (wake, woken) = oneshot::channel();
            let task = rt.spawn(woken);
            let foreign = {
                let metrics = metrics.clone();
                thread::spawn(move || {
                    wait_until_asleep(&metrics, 0);
                    let asleep = metrics.worker_park_count(0);
                    wake.send(()).unwrap();
                    asleep
                })
            };
            rt.block_on(task).unwrap().unwrap();
            assert!(foreign.join().unwrap() >= before, "{}", rt.name);
        }
        let in_task = metrics.clone();
        let awake = rt.spawn(async move { in_task.worker_park_unpark_count(0) });
        assert_eq!(rt.block_on(awake).unwrap() % 2, 0, "a worker that polls is awake, {}", rt.name);
        let name = rt.name;
        drop(rt);
        let (parks, both) = (metrics.worker_park_count(0), metrics.worker_park_unpark_count(0));
        assert!(parks > 0, "{name}");
        assert_eq!(both, 2 * parks, "each park was followed by an unpark, {name}");
    }
}

#[test]
fn a_worker_that_was_never_needed_slept_all_the_time() {
    let rt = multi_thread(3);
    let metrics = rt.metrics();
    wait_until_asleep(&metrics, 0);
    for worker in 1..3 {
        let counts = (metrics.worker_park_count(worker), metrics.worker_park_unpark_count(worker));
        assert_eq!(counts, (1, 1));
        assert_eq!(metrics.worker_total_busy_duration(worker), Duration::ZERO);
    }
    drop(rt);
    assert!((1..3).all(|worker| metrics.worker_park_unpark_count(worker) == 2));
}

#[test]
fn busy_workers_count_busy_time_and_parked_ones_do_not() {
    const WORK: Duration = Duration::from_millis(2);
    let started = Instant::now();
    for rt in serial_runtimes() {
        let metrics = rt.metrics();
        assert_eq!(metrics.worker_total_busy_duration(0), Duration::ZERO, "{}", rt.name);
        rt.block_on(async {}); // no task
        for round in 1..=3 {
            let task = rt.spawn(async {
                yield_now().await;
                work(WORK);
            });
            rt.block_on(task).unwrap();
            // On a multi-thread runtime the round ends when the worker parks.
            if rt.name == "multi_thread" {
                wait_until_asleep(&metrics, 0);
            }
            let busy = metrics.worker_total_busy_duration(0);
            assert!(busy >= WORK * round && busy <= started.elapsed(), "{busy:?}, {}", rt.name);
        }
    }
}

#[test]
fn a_worker_that_blocks_in_place_is_not_busy_meanwhile() {
    let rt = multi_thread(1);
    let metrics = rt.metrics();
    let (hold, held) = mpsc::channel::<()>();
    let (tx, rx) = mpsc::channel();
    let in_task = metrics.clone();
    let blocking = rt.spawn(async move {
        work(Duration::from_millis(1));
        block_in_place(|| {
            tx.send(in_task.worker_total_busy_duration(0)).unwrap();
            held.recv().unwrap();
        });
    });
    assert!(rx.recv().unwrap() >= Duration::from_millis(1), "counted when the worker moved on");
    rt.block_on(rt.spawn(async {})).unwrap();
    hold.send(()).unwrap();
    rt.block_on(blocking).unwrap();
}

#[test]
fn a_turn_is_counted_also_when_it_is_the_last() {
    for rt in runtimes() {
        let metrics = rt.metrics();
        rt.block_on(rt.spawn(async { work(Duration::from_micros(100)) })).unwrap();
        let (name, workers) = (rt.name, metrics.num_workers());
        drop(rt);
        let busy: Duration = (0..workers).map(|n| metrics.worker_total_busy_duration(n)).sum();
        assert!(busy >= Duration::from_micros(100), "{busy:?}, {name}");
    }
}

#[test]
fn a_worker_index_out_of_range_panics() {
    let (one, two) = (current_thread().metrics(), multi_thread(2).metrics());
    for (metrics, worker) in [(one, 1), (two, 2)] {
        let site = panic_site(move || metrics.worker_park_count(worker));
        assert!(site.message.starts_with(&format!("there is no worker {worker}")), "{site:?}");
        assert_eq!(site.file, file!());
    }
}

#[test]
fn tasks_in_the_shared_queue_are_counted_one_by_one() {
    let rt = current_thread();
    let tasks: Vec<_> = (0..5)
        .map(|spawned| {
            assert_eq!(rt.metrics().global_queue_depth(), spawned);
            rt.spawn(async {})
        })
        .collect();
    assert_eq!(rt.metrics().global_queue_depth(), 5);
    rt.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(rt.metrics().global_queue_depth(), 0);
}

#[test]
fn on_one_thread_only_polls_are_counted_not_empty_queues() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    rt.block_on(async {
        for _ in 0..100 {
            // Two polls, and between them the thread finds nothing to run.
            wakeful::spawn(wakeful::time::sleep(Duration::from_millis(1))).await.unwrap();
        }
    });
    assert_eq!(rt.metrics().worker_poll_count(0), 200);
}

#[test]
fn polls_are_counted_with_the_turn_that_ends_with_its_block_on_or_in_place() {
    let rt = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for round in 1..=10 {
        rt.block_on(async {
            for _ in 0..3 {
                wakeful::spawn(async {});
            }
            wakeful::time::sleep(Duration::from_millis(1)).await;
        });
        assert_eq!(rt.metrics().worker_poll_count(0), 3 * round);
    }

    let rt = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    rt.block_on(async {
        for _ in 0..20 {
            let busy: Vec<_> = (0..5).map(|_| wakeful::spawn(async {})).collect();
            wakeful::spawn(async { block_in_place(|| ()) }).await.unwrap();
            for task in busy {
                task.await.unwrap();
            }
        }
    });
    let metrics = rt.metrics();
    wait_until_asleep(&metrics, 0);
    assert_eq!(metrics.worker_poll_count(0), 20 * 6);
}

#[test]
fn a_long_poll_is_counted_wherever_in_a_turn_it_comes() {
    const SEEN: Duration = Duration::from_millis(20);
    const TIMES: u32 = 3;
    /// Keeps its thread busy until a dump shows a poll of this duration.
    fn work_until_seen() {
        let (handle, own) = (Handle::current(), wakeful::task::id());
        // The limit is for a test that hangs.
        let started = Instant::now();
        while handle.dump().find(own).unwrap().busy() < SEEN {
            assert!(started.elapsed() < Duration::from_secs(60), "no dump shows the poll");
        }
    }
    for rt in serial_runtimes() {
        for _ in 0..TIMES {
            rt.block_on(async {
                // After this, rounds have many polls, and the long poll is not the first of its round.
                for task in Vec::from_iter((0..500).map(|_| wakeful::spawn(async {}))) {
                    task.await.unwrap();
                }
                let before = wakeful::spawn(async {});
                let long = wakeful::spawn(async { work_until_seen() });
                let after = wakeful::spawn(async {});
                for task in [before, long, after] {
                    task.await.unwrap();
                }
            });
        }
        let metrics = rt.metrics();
        if rt.name == "multi_thread" {
            wait_until_asleep(&metrics, 0);
        }
        let counted = metrics.poll_times().sum();
        assert!(counted >= SEEN * TIMES * 9 / 10, "{counted:?}, {}", rt.name);
    }
}

#[test]
fn a_long_poll_of_block_on_is_no_long_poll_of_a_task() {
    let rt = current_thread();
    let task_took = rt.block_on(async {
        let before = Instant::now();
        wakeful::spawn(async {}).await.unwrap();
        let task_took = before.elapsed();
        work(Duration::from_millis(50));
        task_took
    });
    let counted = rt.metrics().poll_times().sum();
    assert!(counted < task_took + Duration::from_millis(25), "{counted:?} of {task_took:?}");
}
