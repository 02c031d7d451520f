//! Models of `Notify`: no notification is lost, and none reaches two.

use crate::sync::Notify;
use crate::sync::futures::OwnedNotified;
use crate::sys::sync::atomic::AtomicUsize as ModelUsize;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken; not part of the model.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future that waits for a notification, and how often it was woken.
struct Sleeper {
    future: Pin<Box<OwnedNotified>>,
    count: Arc<Count>,
}

impl Sleeper {
    fn new(notify: &Arc<Notify>) -> Self {
        let future = Box::pin(notify.clone().notified_owned());
        Self { future, count: Arc::new(Count(AtomicUsize::new(0))) }
    }

    fn queued(notify: &Arc<Notify>) -> Self {
        let mut sleeper = Self::new(notify);
        assert_eq!(sleeper.poll(), Poll::Pending);
        sleeper
    }

    fn poll(&mut self) -> Poll<()> {
        let waker = Waker::from(self.count.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.count.0.load(SeqCst)
    }

    /// Once the other threads are done: notified, and woken if it had to wait.
    fn assert_notified(mut self, first: Poll<()>) {
        assert!(first.is_ready() || self.woken() == 1, "nobody woke it");
        assert_eq!(self.poll(), Poll::Ready(()), "the notification is lost");
    }
}

fn in_thread(
    notify: &Arc<Notify>,
    call: impl FnOnce(&Notify) + Send + 'static,
) -> thread::JoinHandle<()> {
    let notify = notify.clone();
    thread::spawn(move || call(&notify))
}

/// A permit comes while the waiter queues up. Catches a caller that finds nobody
/// while the waiter finds no permit, also when another waiter leaves meanwhile.
#[test]
fn a_permit_as_the_waiter_queues_up() {
    for another in [false, true] {
        model(4, move || {
            let notify = Arc::new(Notify::new());
            let other = another.then(|| Sleeper::queued(&notify));
            let caller = in_thread(&notify, Notify::notify_one);
            start();
            let mut sleeper = Sleeper::new(&notify);
            let first = sleeper.poll();
            drop(other);
            caller.join().unwrap();
            sleeper.assert_notified(first);
        });
    }
}

/// Two are polled for the first time while two notifications come, and are in the
/// list already: each gets one. Catches an answer that a change of waker hides.
#[test]
fn enabled_waiters_get_one_each() {
    model(5, || {
        let notify = Arc::new(Notify::new());
        let mut sleepers = [Sleeper::new(&notify), Sleeper::new(&notify)];
        for sleeper in &mut sleepers {
            assert!(!sleeper.future.as_mut().enable());
        }
        let caller = in_thread(&notify, |notify| {
            notify.notify_one();
            notify.notify_last();
        });
        start();
        let firsts = sleepers.each_mut().map(Sleeper::poll);
        caller.join().unwrap();
        for (sleeper, first) in sleepers.into_iter().zip(firsts) {
            sleeper.assert_notified(first);
        }
    });
}

/// A notification that is merged with the permit of another: whoever takes the
/// permit sees what both callers did. Catches a call that leaves it at a look.
#[test]
fn a_merged_notification_carries_what_was_done() {
    model(5, || {
        let shared = Arc::new((Arc::new(Notify::new()), ModelUsize::new(0)));
        shared.0.notify_one();
        let caller = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.store(1, Relaxed);
                shared.0.notify_one();
            }
        });
        start();
        assert_eq!(Sleeper::new(&shared.0).poll(), Poll::Ready(()));
        let seen = shared.1.load(Relaxed) == 1;
        caller.join().unwrap();
        let merged = Sleeper::new(&shared.0).poll().is_pending();
        assert!(seen || !merged, "notified, and it is not there");
    });
}

/// The first of two is dropped while it is notified: the other gets it. Catches a
/// notification that goes with the dropped future.
#[test]
fn a_dropped_waiter_passes_it_on() {
    for last in [false, true] {
        model(5, move || {
            let notify = Arc::new(Notify::new());
            let (first, second) = (Sleeper::queued(&notify), Sleeper::queued(&notify));
            let (leaves, stays) = if last { (second, first) } else { (first, second) };
            let call = if last { Notify::notify_last } else { Notify::notify_one };
            let caller = in_thread(&notify, call);
            start();
            drop(leaves);
            caller.join().unwrap();
            stays.assert_notified(Poll::Pending);
        });
    }
}

/// The only waiter is dropped while it is notified: a permit is stored. Catches a
/// word that still says that somebody waits.
#[test]
fn the_only_waiter_leaves() {
    model(5, || {
        let notify = Arc::new(Notify::new());
        let sleeper = Sleeper::queued(&notify);
        let caller = in_thread(&notify, Notify::notify_one);
        start();
        drop(sleeper);
        caller.join().unwrap();
        assert_eq!(Sleeper::new(&notify).poll(), Poll::Ready(()));
        assert_eq!(Sleeper::new(&notify).poll(), Poll::Pending);
    });
}

/// `notify_waiters` comes while a future that exists already is polled, and while
/// another is made. Catches a call that is missed between the two.
#[test]
fn all_are_notified_who_exist() {
    model(4, || {
        let notify = Arc::new(Notify::new());
        let mut sleeper = Sleeper::new(&notify);
        let caller = in_thread(&notify, Notify::notify_waiters);
        start();
        let first = sleeper.poll();
        let mut late = Sleeper::new(&notify);
        let before = late.poll();
        caller.join().unwrap();
        sleeper.assert_notified(first);
        // Either it was there in time, or it waits for the next.
        if late.poll().is_pending() {
            assert!(before.is_pending() && late.woken() == 0);
            notify.notify_one();
            assert_eq!(late.woken(), 1);
            assert!(late.poll().is_ready());
        }
    });
}

/// `notify_waiters` needs two batches, and meanwhile one comes for whom another
/// call is meant. Catches a notification that goes to somebody who has one (N3).
#[test]
fn one_behind_those_that_are_all_notified() {
    model(4, || {
        let notify = Arc::new(Notify::new());
        let crowd: [Sleeper; 3] = std::array::from_fn(|_| Sleeper::queued(&notify));
        let caller = in_thread(&notify, Notify::notify_waiters);
        start();
        let mut late = Sleeper::new(&notify);
        let first = late.poll();
        notify.notify_one();
        caller.join().unwrap();
        late.assert_notified(first);
        for sleeper in crowd {
            sleeper.assert_notified(Poll::Pending);
        }
    });
}

/// One of those that `notify_waiters` has yet to wake is polled, another dropped.
#[test]
fn the_notified_do_not_wait_for_their_batch() {
    model(3, || {
        let notify = Arc::new(Notify::new());
        let [first, second, mut third]: [Sleeper; 3] =
            std::array::from_fn(|_| Sleeper::queued(&notify));
        let caller = in_thread(&notify, Notify::notify_waiters);
        start();
        let polled = third.poll();
        drop(second);
        caller.join().unwrap();
        third.assert_notified(polled);
        first.assert_notified(Poll::Pending);
        assert_eq!(Sleeper::new(&notify).poll(), Poll::Pending, "no permit is stored");
    });
}

/// One queues up behind them and leaves again. Catches a word that says that
/// somebody waits for those who do no longer (N1).
#[test]
fn one_comes_and_goes_behind_the_notified() {
    model(4, || {
        let notify = Arc::new(Notify::new());
        let crowd: [Sleeper; 3] = std::array::from_fn(|_| Sleeper::queued(&notify));
        let caller = in_thread(&notify, Notify::notify_waiters);
        start();
        let mut late = Sleeper::new(&notify);
        let _ = late.poll();
        drop(late);
        caller.join().unwrap();
        notify.notify_one();
        assert_eq!(Sleeper::new(&notify).poll(), Poll::Ready(()));
        for sleeper in crowd {
            sleeper.assert_notified(Poll::Pending);
        }
    });
}
