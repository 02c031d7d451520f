//! Loom models of the sleep protocol and of the parker.
//!
//! The workers here take the steps of `worker::Worker::{run_loop, search, park, sleep}`, with the
//! injector as the only queue.

use crate::queue::injector::Injector;
use crate::scheduler::multi_thread::idle::{BeforeParking, Idle};
use crate::sys::park::{Interrupt, Parker};
use crate::sys::spin_lock::SpinLock;
use crate::sys::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use crate::sys::sync::{Mutex, thread};
use crate::task::models::scheduler::{Entries, model, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as StdBool, AtomicUsize};
use std::time::Duration;

/// A scheduler that runs a known number of tasks and then closes.
struct ModelScheduler {
    idle: Idle,
    injector: Injector,
    entries: Arc<Entries>,
    parkers: Vec<Mutex<Option<Arc<Parker>>>>,
    /// Whether workers do not become searchers while the injector is empty.
    check_first: bool,
    /// The number of tasks that have not run yet. Not part of the model.
    left: AtomicUsize,
    closing: StdBool,
}

impl ModelScheduler {
    /// Creates a scheduler with all workers awake and without work.
    fn new(workers: usize, tasks: usize, check_first: bool) -> Arc<ModelScheduler> {
        Self::with_unstarted(workers, 0, tasks, check_first)
    }

    /// Creates a scheduler that also has sleeping workers whose threads cannot be started.
    fn with_unstarted(
        workers: usize,
        unstarted: usize,
        tasks: usize,
        check_first: bool,
    ) -> Arc<ModelScheduler> {
        let idle = Idle::new(workers + unstarted);
        (0..workers).for_each(|worker| assert!(idle.cancel_sleep(worker)));
        Arc::new(ModelScheduler {
            idle,
            injector: Injector::new(),
            entries: Entries::new(tasks),
            parkers: (0..workers).map(|_| Mutex::new(None)).collect(),
            check_first,
            left: AtomicUsize::new(tasks),
            closing: StdBool::new(false),
        })
    }

    fn push(&self, number: usize) {
        self.injector.push(self.entries.make(number)).expect("never closed");
        self.notify();
    }

    fn notify(&self) {
        let Some(mut worker) = self.idle.claim_sleeper() else { return };
        let mut tried = Vec::new();
        // Same steps as `MultiThread::wake_chosen`.
        while self.is_unstarted(worker) {
            worker = match self.idle.choose_other(worker, &mut tried) {
                Some(other) => other,
                None => return,
            };
        }
        self.unpark(worker);
    }

    /// Returns whether the worker gets no thread.
    fn is_unstarted(&self, worker: usize) -> bool {
        worker >= self.parkers.len()
    }

    fn unpark(&self, worker: usize) {
        let parker = self.parkers[worker].lock().clone();
        if let Some(parker) = parker {
            parker.unpark();
        }
    }

    /// Runs one task, if there is one.
    fn run_one(&self, searching: &mut bool) -> bool {
        let Some(task) = self.injector.pop() else { return false };
        if std::mem::take(searching) && self.idle.found_work() && !self.injector.is_empty() {
            self.notify();
        }
        self.entries.end(task);
        if self.left.fetch_sub(1, Relaxed) == 1 {
            self.closing.store(true, Relaxed);
            (0..self.parkers.len()).for_each(|worker| self.unpark(worker));
        }
        true
    }

    fn run_loop(&self, me: usize) {
        let parker = Arc::new(Parker::for_current_thread());
        *self.parkers[me].lock() = Some(parker.clone());
        let mut searching = false;
        while !self.closing.load(Relaxed) {
            if self.run_one(&mut searching) {
                continue;
            }
            let is_empty = self.check_first && self.injector.is_empty();
            if !searching && !is_empty && self.idle.start_searching() {
                searching = true;
                if self.run_one(&mut searching) {
                    continue;
                }
            }
            let before = self.idle.sleep(me, std::mem::take(&mut searching));
            if before == BeforeParking::SearchAgain && !self.injector.is_empty() {
                searching = !self.idle.cancel_sleep(me) || self.idle.start_searching();
                continue;
            }
            while !searching && !self.closing.load(Relaxed) {
                parker.park(None);
                searching = !self.idle.is_asleep(me);
            }
        }
    }
}

fn workers(scheduler: &Arc<ModelScheduler>) -> Vec<thread::JoinHandle<()>> {
    let work = |worker| {
        let scheduler = scheduler.clone();
        thread::spawn(move || scheduler.run_loop(worker))
    };
    (0..scheduler.parkers.len()).map(work).collect()
}

/// One worker falls asleep while two tasks are pushed. If the worker misses the first task in its
/// last check and the pusher misses the sleeper, both wait, which loom reports as a deadlock.
#[test]
fn one_worker_misses_no_task() {
    for check_first in [false, true] {
        model(6, move || {
            let scheduler = ModelScheduler::new(1, 2, check_first);
            let workers = workers(&scheduler);
            start();
            scheduler.push(0);
            scheduler.push(1);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// Two workers, of which only one may search, fall asleep while a task is pushed. Catches a pusher
/// that relies on a searcher which has already checked the queue. Also catches a worker that may
/// not search and parks without a check.
#[test]
fn two_workers_miss_no_task() {
    for check_first in [false, true] {
        model(4, move || {
            let scheduler = ModelScheduler::new(2, 1, check_first);
            let workers = workers(&scheduler);
            start();
            scheduler.push(0);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// Two pushers and two workers. Catches a second task that is lost because its pusher relied on a
/// searcher which found the first task.
#[test]
fn two_pushers_are_both_served() {
    for check_first in [false, true] {
        model(2, move || {
            let scheduler = ModelScheduler::new(2, 2, check_first);
            let workers = workers(&scheduler);
            let pusher = thread::spawn({
                let scheduler = scheduler.clone();
                move || scheduler.push(1)
            });
            start();
            scheduler.push(0);
            pusher.join().unwrap();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// A pusher chooses a worker whose thread cannot be started. Meanwhile the worker with a thread
/// falls asleep, relying on the chosen worker, and another pusher relies on it too. Catches a
/// worker without a thread that stays a searcher.
#[test]
fn workers_without_a_thread_do_not_stay_searchers() {
    for unstarted in [1, 2] {
        model(3, move || {
            let scheduler = ModelScheduler::with_unstarted(1, unstarted, 2, false);
            let workers = workers(&scheduler);
            let pusher = thread::spawn({
                let scheduler = scheduler.clone();
                move || scheduler.push(1)
            });
            start();
            scheduler.push(0);
            pusher.join().unwrap();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// A worker removes itself from the list of sleepers while a pusher wakes it. Catches a worker that
/// neither or both of them count as a searcher: with such counts, no worker is ever woken again.
#[test]
fn a_sleep_is_cancelled_while_the_worker_is_woken() {
    model(6, || {
        let idle = Arc::new(Idle::new(2));
        assert!(idle.cancel_sleep(1));
        let pusher = thread::spawn({
            let idle = idle.clone();
            move || idle.claim_sleeper()
        });
        start();
        let cancelled = idle.cancel_sleep(0);
        let woken = pusher.join().unwrap();
        assert_eq!(woken, (!cancelled).then_some(0));
        assert!(!cancelled || idle.start_searching());
        assert!(!idle.start_searching(), "one of two searches already");
        assert!(idle.found_work(), "it was the only searcher");
        assert_eq!(idle.sleep(1, false), BeforeParking::SearchAgain);
        assert_eq!(idle.claim_sleeper(), Some(1));
    });
}

/// The watchdog goes to sleep while the only worker wakes up or cancels its sleep. Catches a worker
/// that runs unwatched. The steps are taken from the watchdog's `try_sleep` and from a worker after
/// its sleep.
#[test]
fn the_watchdog_sleeps_only_while_all_workers_do() {
    for cancelled in [false, true] {
        model(6, move || {
            let idle = Arc::new(Idle::new(1));
            let asleep = Arc::new(AtomicBool::new(false));
            let watchdog = thread::spawn({
                let (idle, asleep) = (idle.clone(), asleep.clone());
                move || {
                    asleep.store(true, SeqCst);
                    if !idle.all_asleep() {
                        asleep.store(false, SeqCst);
                    }
                }
            });
            start();
            let awake =
                if cancelled { idle.cancel_sleep(0) } else { idle.claim_sleeper().is_some() };
            assert!(awake);
            if asleep.load(SeqCst) {
                asleep.swap(false, SeqCst);
            }
            watchdog.join().unwrap();
            assert!(!asleep.load(SeqCst));
        });
    }
}

/// Two other threads leave a token before, during or after a thread's park. Catches a lost token,
/// and a flag that is set before the token and not seen after it.
#[test]
fn a_token_is_never_lost() {
    model(5, || {
        let parker = Arc::new(Parker::for_current_thread());
        let flags = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let others = [0, 1].map(|own| {
            let (parker, flags) = (parker.clone(), flags.clone());
            thread::spawn(move || {
                flags[own].store(1, Relaxed);
                parker.unpark();
            })
        });
        start();
        while flags.iter().any(|flag| flag.load(Relaxed) == 0) {
            parker.park(None);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A model of a poller: another parker in which a thread waits.
struct ModelPoller(Parker);

impl Interrupt for ModelPoller {
    fn interrupt(&self) {
        self.0.unpark();
    }
}

/// Two other threads leave a token for a thread that waits in a poller. Catches a thread that waits
/// in the poller although it has a token: it missed the token and was not interrupted.
#[test]
fn a_token_ends_a_wait_in_the_poller() {
    model(5, || {
        let parker = Arc::new(Parker::for_current_thread());
        let poller = Arc::new(ModelPoller(Parker::for_current_thread()));
        parker.set_interrupt(Some(poller.clone()));
        let flags = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let others = [0, 1].map(|own| {
            let (parker, flags) = (parker.clone(), flags.clone());
            thread::spawn(move || {
                flags[own].store(1, Relaxed);
                parker.unpark();
            })
        });
        start();
        while flags.iter().any(|flag| flag.load(Relaxed) == 0) {
            parker.park_in(|| poller.0.park(None));
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Another thread waits in a thread's poller, one at a time, as the watchdog does for a stuck
/// worker. The other thread may consume an interrupt that was meant for the poller's owner. Catches
/// an owner that waits without checking for a token once more.
#[test]
fn an_interrupt_that_another_thread_consumed_is_not_missed() {
    model(4, || {
        let parker = Arc::new(Parker::for_current_thread());
        let poller = Arc::new(ModelPoller(Parker::for_current_thread()));
        parker.set_interrupt(Some(poller.clone()));
        let (exclusive, flag) = (Arc::new(SpinLock::new(())), Arc::new(AtomicU32::new(0)));
        let (other_exclusive, other_poller) = (exclusive.clone(), poller.clone());
        let watchdog = thread::spawn(move || {
            // Consumes an interrupt, if any, without waiting.
            other_exclusive.try_with(|()| other_poller.0.park_in(|| ()));
        });
        let (other_parker, other_flag) = (parker.clone(), flag.clone());
        let waker = thread::spawn(move || {
            other_flag.store(1, Relaxed);
            other_parker.unpark();
        });
        start();
        while flag.load(Relaxed) == 0 {
            parker.park_in(|| {
                let waited = exclusive.try_with(|()| {
                    if !parker.has_token() {
                        poller.0.park(None);
                    }
                });
                if waited.is_none() {
                    thread::yield_now();
                }
            });
        }
        watchdog.join().unwrap();
        waker.join().unwrap();
    });
}

/// A park times out while another thread leaves a token. The park either takes the token, and then
/// sees the flag, or leaves the token for the next park.
#[test]
fn a_token_survives_a_time_out() {
    model(6, || {
        let parker = Arc::new(Parker::for_current_thread());
        let flag = Arc::new(AtomicU32::new(0));
        let other = thread::spawn({
            let (parker, flag) = (parker.clone(), flag.clone());
            move || {
                flag.store(1, Relaxed);
                parker.unpark();
            }
        });
        start();
        parker.park(Some(Duration::from_millis(1)));
        if flag.load(Relaxed) == 0 {
            parker.park(None);
        }
        assert_eq!(flag.load(Relaxed), 1);
        other.join().unwrap();
    });
}
