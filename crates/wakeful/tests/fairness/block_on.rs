//! The turn of the future in `block_on` among the tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use wakeful::sync::Notify;
use wakeful::task::{JoinHandle, yield_now};

use crate::support::runtimes::current_thread;

#[test]
fn a_yield_lets_the_block_on_future_run() {
    const TURNS: usize = 100;
    let rt = current_thread();
    let others = Arc::new(AtomicUsize::new(0));
    let count = others.clone();
    rt.block_on(async move {
        let spinner = wakeful::spawn(async move {
            loop {
                count.fetch_add(1, SeqCst);
                yield_now().await;
            }
        });
        for _ in 0..TURNS {
            yield_now().await;
        }
        spinner.abort();
    });
    let turns = others.load(SeqCst);
    assert!((TURNS - 1..=TURNS + 1).contains(&turns), "{turns} turns of the other for {TURNS}");
}

/// Keeps its thread at work.
fn work(duration: Duration) {
    let started = Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Two tasks that wake each other, so that one is always ready, and none yields. Each poll takes `duration`, and wakes
/// the `block_on` future that waits for `called`.
struct Pair {
    polls: Arc<AtomicUsize>,
    called: Arc<Notify>,
    tasks: [JoinHandle<()>; 2],
}

impl Pair {
    fn start(duration: Duration) -> Self {
        let (polls, called) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let bells = Arc::new([Notify::new(), Notify::new()]);
        bells[0].notify_one();
        let tasks = [0, 1].map(|own| {
            let (polls, called, bells) = (polls.clone(), called.clone(), bells.clone());
            wakeful::spawn(async move {
                loop {
                    bells[own].notified().await;
                    polls.fetch_add(1, SeqCst);
                    called.notify_one();
                    work(duration);
                    bells[1 - own].notify_one();
                }
            })
        });
        Self { polls, called, tasks }
    }

    fn stop(self) -> usize {
        self.tasks.iter().for_each(|task| task.abort());
        self.polls.load(SeqCst)
    }
}

#[test]
fn long_polls_keep_the_future_of_block_on_waiting_for_a_few_not_for_sixty() {
    const TURNS: usize = 20;
    let longest = current_thread().block_on(async {
        let pair = Pair::start(Duration::from_millis(1));
        let mut waits = Vec::new();
        for _ in 0..TURNS {
            let before = pair.polls.load(SeqCst);
            pair.called.notified().await;
            waits.push(pair.polls.load(SeqCst) - before);
        }
        pair.stop();
        // The estimate of a poll's duration needs the first rounds.
        waits.into_iter().skip(3).max().unwrap()
    });
    assert!(longest <= 10, "{longest} polls of others");
}

#[test]
fn a_yield_in_block_on_lets_all_tasks_run_first() {
    const OTHERS: usize = 10;
    let (rt, done) = (current_thread(), Arc::new(AtomicUsize::new(0)));
    rt.block_on(async {
        for _ in 0..3 {
            for _ in 0..OTHERS {
                let done = done.clone();
                wakeful::spawn(async move {
                    work(Duration::from_millis(1));
                    done.fetch_add(1, SeqCst);
                });
            }
            yield_now().await;
            assert_eq!(done.swap(0, SeqCst), OTHERS);
        }
    });
}

#[test]
fn a_future_of_block_on_that_takes_long_lets_as_many_others_run() {
    const ROUNDS: usize = 50;
    let polls = current_thread().block_on(async {
        let pair = Pair::start(Duration::ZERO);
        for _ in 0..ROUNDS {
            pair.called.notified().await;
            work(Duration::from_millis(1));
        }
        pair.stop()
    });
    assert!(polls >= 10 * ROUNDS, "{polls} polls of others for {ROUNDS} of its own");
}
