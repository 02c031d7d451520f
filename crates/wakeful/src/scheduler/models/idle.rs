//! Models of the sleep protocol, and of the parking spot that it ends in. The
//! workers here take the steps of `worker::Worker::{work, search, park, sleep}`
//! with the injector as the only queue.

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
    seats: Vec<Mutex<Option<Arc<Parker>>>>,
    /// Workers don't search where there is plainly nothing to be found.
    look_first: bool,
    /// Not part of the model.
    left: AtomicUsize,
    closing: StdBool,
}

impl ModelScheduler {
    /// With all workers awake and without work.
    fn new(workers: usize, tasks: usize, look_first: bool) -> Arc<ModelScheduler> {
        Self::with_unborn(workers, 0, tasks, look_first)
    }

    /// As `new`, with more workers asleep that cannot be woken.
    fn with_unborn(
        workers: usize,
        unborn: usize,
        tasks: usize,
        look_first: bool,
    ) -> Arc<ModelScheduler> {
        let idle = Idle::new(workers + unborn);
        (0..workers).for_each(|worker| assert!(idle.cancel_sleep(worker)));
        Arc::new(ModelScheduler {
            idle,
            injector: Injector::new(),
            entries: Entries::new(tasks),
            seats: (0..workers).map(|_| Mutex::new(None)).collect(),
            look_first,
            left: AtomicUsize::new(tasks),
            closing: StdBool::new(false),
        })
    }

    fn push(&self, number: usize) {
        self.injector.push(self.entries.make(number)).expect("never closed");
        self.notify();
    }

    fn notify(&self) {
        let Some(mut worker) = self.idle.worker_to_wake() else { return };
        let mut tried = Vec::new();
        // As `MultiThread::wake_or_pass_on`.
        while self.is_unborn(worker) {
            worker = match self.idle.pass_on(worker, &mut tried) {
                Some(other) => other,
                None => return,
            };
        }
        self.unpark(worker);
    }

    /// Beyond the workers with a seat there are those that get no thread.
    fn is_unborn(&self, worker: usize) -> bool {
        worker >= self.seats.len()
    }

    fn unpark(&self, worker: usize) {
        let parker = self.seats[worker].lock().clone();
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
            (0..self.seats.len()).for_each(|worker| self.unpark(worker));
        }
        true
    }

    fn work(&self, me: usize) {
        let parker = Arc::new(Parker::for_current_thread());
        *self.seats[me].lock() = Some(parker.clone());
        let mut searching = false;
        while !self.closing.load(Relaxed) {
            if self.run_one(&mut searching) {
                continue;
            }
            let is_plain = self.look_first && self.injector.is_empty();
            if !searching && !is_plain && self.idle.start_searching() {
                searching = true;
                if self.run_one(&mut searching) {
                    continue;
                }
            }
            let before = self.idle.sleep(me, std::mem::take(&mut searching));
            if before == BeforeParking::LookAgain && !self.injector.is_empty() {
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

fn workers(house: &Arc<ModelScheduler>) -> Vec<thread::JoinHandle<()>> {
    let work = |worker| {
        let house = house.clone();
        thread::spawn(move || house.work(worker))
    };
    (0..house.seats.len()).map(work).collect()
}

/// One worker falls asleep while two tasks are pushed. If the worker misses the
/// first in its last look and the pusher misses the sleeper, everybody waits,
/// which loom reports as a deadlock.
#[test]
fn one_worker_misses_no_task() {
    for look_first in [false, true] {
        model(6, move || {
            let house = ModelScheduler::new(1, 2, look_first);
            let workers = workers(&house);
            start();
            house.push(0);
            house.push(1);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// Two workers, of which only one may search, fall asleep while a task is
/// pushed. Catches a pusher that trusts a searcher who has looked already, and
/// a worker that was refused as a searcher and parks without having looked.
#[test]
fn two_workers_miss_no_task() {
    for look_first in [false, true] {
        model(4, move || {
            let house = ModelScheduler::new(2, 1, look_first);
            let workers = workers(&house);
            start();
            house.push(0);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// Two pushers and two workers. Catches a second task that is left behind by
/// the searcher its pusher trusted, because that one found the first.
#[test]
fn two_pushers_are_both_served() {
    for look_first in [false, true] {
        model(2, move || {
            let house = ModelScheduler::new(2, 2, look_first);
            let workers = workers(&house);
            let pusher = thread::spawn({
                let house = house.clone();
                move || house.push(1)
            });
            start();
            house.push(0);
            pusher.join().unwrap();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// A pusher picks a worker that gets no thread, while the one that has a thread
/// falls asleep trusting it, and while another pusher trusts it too. Catches a
/// mark that stays with a worker that never comes.
#[test]
fn workers_without_a_thread_are_not_trusted() {
    for unborn in [1, 2] {
        model(3, move || {
            let house = ModelScheduler::with_unborn(1, unborn, 2, false);
            let workers = workers(&house);
            let pusher = thread::spawn({
                let house = house.clone();
                move || house.push(1)
            });
            start();
            house.push(0);
            pusher.join().unwrap();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// A worker takes itself off the list of sleepers while a pusher wakes it.
/// Catches a worker that is counted as a searcher by nobody or by both: the
/// counts would then keep everybody from being woken, for good.
#[test]
fn a_sleep_is_called_off_while_it_is_ended() {
    model(6, || {
        let idle = Arc::new(Idle::new(2));
        assert!(idle.cancel_sleep(1));
        let pusher = thread::spawn({
            let idle = idle.clone();
            move || idle.worker_to_wake()
        });
        start();
        let called_off = idle.cancel_sleep(0);
        let woken = pusher.join().unwrap();
        assert_eq!(woken, (!called_off).then_some(0));
        assert!(!called_off || idle.start_searching());
        assert!(!idle.start_searching(), "one of two searches already");
        assert!(idle.found_work(), "it was the only searcher");
        assert_eq!(idle.sleep(1, false), BeforeParking::LookAgain);
        assert_eq!(idle.worker_to_wake(), Some(1));
    });
}

/// The monitor goes to sleep while the only worker wakes up, or calls its sleep
/// off. Catches a worker that runs with nobody to watch it. The steps are those
/// of `monitor::Monitor::sleep` and of a worker after its sleep.
#[test]
fn the_monitor_sleeps_only_while_all_workers_do() {
    for called_off in [false, true] {
        model(6, move || {
            let idle = Arc::new(Idle::new(1));
            let asleep = Arc::new(AtomicBool::new(false));
            let monitor = thread::spawn({
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
                if called_off { idle.cancel_sleep(0) } else { idle.worker_to_wake().is_some() };
            assert!(awake);
            if asleep.load(SeqCst) {
                asleep.swap(false, SeqCst);
            }
            monitor.join().unwrap();
            assert!(!asleep.load(SeqCst));
        });
    }
}

/// A token is left before, while or after the thread parks, by two others.
/// Catches a token that is lost, and a flag set before the token that is not
/// seen after it.
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

/// What a thread waits inside of, in a model: another parking spot.
struct Bell(Parker);

impl Interrupt for Bell {
    fn interrupt(&self) {
        self.0.unpark();
    }
}

/// The same for a thread that waits inside of something. Catches one that goes to wait
/// there with a token, as it did not see it and was not seen, which nothing ends.
#[test]
fn a_token_ends_the_wait_inside() {
    model(5, || {
        let parker = Arc::new(Parker::for_current_thread());
        let bell = Arc::new(Bell(Parker::for_current_thread()));
        parker.set_interrupt(Some(bell.clone()));
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
            parker.park_in(|| bell.0.park(None));
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Another waits for a moment where a thread is to wait, one at a time, as the monitor does in
/// the poller of a worker that is stuck; it gets the kick that was meant for the thread.
/// Catches one that goes to wait there without a second look for a token.
#[test]
fn a_kick_that_another_got_is_not_missed() {
    model(4, || {
        let parker = Arc::new(Parker::for_current_thread());
        let bell = Arc::new(Bell(Parker::for_current_thread()));
        parker.set_interrupt(Some(bell.clone()));
        let (turn, flag) = (Arc::new(SpinLock::new(())), Arc::new(AtomicU32::new(0)));
        let (others, rings) = (turn.clone(), bell.clone());
        let stands_by = thread::spawn(move || {
            // Takes a kick if there is one, and does not wait.
            others.try_with(|()| rings.0.park_in(|| ()));
        });
        let (unparks, sets) = (parker.clone(), flag.clone());
        let waker = thread::spawn(move || {
            sets.store(1, Relaxed);
            unparks.unpark();
        });
        start();
        while flag.load(Relaxed) == 0 {
            parker.park_in(|| {
                let waited = turn.try_with(|()| {
                    if !parker.has_token() {
                        bell.0.park(None);
                    }
                });
                if waited.is_none() {
                    thread::yield_now();
                }
            });
        }
        stands_by.join().unwrap();
        waker.join().unwrap();
    });
}

/// A park with a time-out ends by itself while the token is left: it either
/// takes the token, and then sees the flag, or leaves it for the next park.
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
