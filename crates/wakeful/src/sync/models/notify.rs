//! Models of `Notify`: no notification is lost, and none reaches two waiters.

use super::counting_waker::WakeCount;
use crate::sync::Notify;
use crate::sync::futures::OwnedNotified;
use crate::sys::sync::atomic::AtomicUsize as ModelUsize;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::{Context, Poll, Waker};

/// A future that waits for a notification, and how often it was woken.
struct WaiterUnderTest {
    future: Pin<Box<OwnedNotified>>,
    count: Arc<WakeCount>,
    waker: Waker,
}

impl WaiterUnderTest {
    fn new(notify: &Arc<Notify>) -> Self {
        let future = Box::pin(notify.clone().notified_owned());
        let (count, waker) = WakeCount::new();
        Self { future, count, waker }
    }

    fn queued(notify: &Arc<Notify>) -> Self {
        let mut waiter = Self::new(notify);
        assert_eq!(waiter.poll(), Poll::Pending);
        waiter
    }

    fn poll(&mut self) -> Poll<()> {
        self.future.as_mut().poll(&mut Context::from_waker(&self.waker))
    }

    /// Asserts that it is notified, and was woken if it had to wait. The other threads are done.
    fn assert_notified(mut self, first: Poll<()>) {
        assert!(first.is_ready() || self.count.wakes() == 1, "it was not woken");
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

/// A permit is stored as a waiter enqueues itself. Catches a notifier that finds no waiter while
/// the waiter finds no permit, even if another waiter is dropped meanwhile.
#[test]
fn notify_one_while_waiter_enqueues() {
    for another in [false, true] {
        model(4, move || {
            let notify = Arc::new(Notify::new());
            let other = another.then(|| WaiterUnderTest::queued(&notify));
            let notifier = in_thread(&notify, Notify::notify_one);
            start();
            let mut waiter = WaiterUnderTest::new(&notify);
            let first = waiter.poll();
            drop(other);
            notifier.join().unwrap();
            waiter.assert_notified(first);
        });
    }
}

/// Two waiters in the list are polled for the first time as two notifications come: each gets one.
/// Catches a grant that a change of the waker hides.
#[test]
fn enabled_waiters_get_one_each() {
    model(5, || {
        let notify = Arc::new(Notify::new());
        let mut waiters = [WaiterUnderTest::new(&notify), WaiterUnderTest::new(&notify)];
        for waiter in &mut waiters {
            assert!(!waiter.future.as_mut().enable());
        }
        let notifier = in_thread(&notify, |notify| {
            notify.notify_one();
            notify.notify_last();
        });
        start();
        let firsts = waiters.each_mut().map(WaiterUnderTest::poll);
        notifier.join().unwrap();
        for (waiter, first) in waiters.into_iter().zip(firsts) {
            waiter.assert_notified(first);
        }
    });
}

/// A notification is merged with a stored permit: the consumer sees what both notifiers did.
/// Catches a notifier that only reads the word.
#[test]
fn merged_notification_synchronizes() {
    model(5, || {
        let shared = Arc::new((Arc::new(Notify::new()), ModelUsize::new(0)));
        shared.0.notify_one();
        let notifier = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.store(1, Relaxed);
                shared.0.notify_one();
            }
        });
        start();
        assert_eq!(WaiterUnderTest::new(&shared.0).poll(), Poll::Ready(()));
        let seen = shared.1.load(Relaxed) == 1;
        notifier.join().unwrap();
        let merged = WaiterUnderTest::new(&shared.0).poll().is_pending();
        assert!(seen || !merged, "notified, but the store is not visible");
    });
}

/// The first of two waiters is dropped as it is notified: the other one gets the notification.
/// Catches one that is lost with the dropped future.
#[test]
fn dropped_waiter_hands_notification_on() {
    for last in [false, true] {
        model(5, move || {
            let notify = Arc::new(Notify::new());
            let (first, second) =
                (WaiterUnderTest::queued(&notify), WaiterUnderTest::queued(&notify));
            let (dropped, stays) = if last { (second, first) } else { (first, second) };
            let call = if last { Notify::notify_last } else { Notify::notify_one };
            let notifier = in_thread(&notify, call);
            start();
            drop(dropped);
            notifier.join().unwrap();
            stays.assert_notified(Poll::Pending);
        });
    }
}

/// The only waiter is dropped as it is notified: a permit is stored. Catches a word that is still
/// WAITING.
#[test]
fn only_waiter_is_dropped() {
    model(5, || {
        let notify = Arc::new(Notify::new());
        let waiter = WaiterUnderTest::queued(&notify);
        let notifier = in_thread(&notify, Notify::notify_one);
        start();
        drop(waiter);
        notifier.join().unwrap();
        assert_eq!(WaiterUnderTest::new(&notify).poll(), Poll::Ready(()));
        assert_eq!(WaiterUnderTest::new(&notify).poll(), Poll::Pending);
    });
}

/// `notify_waiters` is called as an existing future is polled, and another is created. Catches a
/// notification that is missed between the two.
#[test]
fn notify_waiters_reaches_existing_futures() {
    model(4, || {
        let notify = Arc::new(Notify::new());
        let mut waiter = WaiterUnderTest::new(&notify);
        let notifier = in_thread(&notify, Notify::notify_waiters);
        start();
        let first = waiter.poll();
        let mut late = WaiterUnderTest::new(&notify);
        let before = late.poll();
        notifier.join().unwrap();
        waiter.assert_notified(first);
        // Either the future existed in time, or it waits for the next notification.
        if late.poll().is_pending() {
            assert!(before.is_pending() && late.count.wakes() == 0);
            notify.notify_one();
            assert_eq!(late.count.wakes(), 1);
            assert!(late.poll().is_ready());
        }
    });
}

/// `notify_waiters` needs two batches, and meanwhile a waiter is created and notified. Catches a
/// notification that goes to a waiter that has one (NOTIFY-3).
#[test]
fn notify_one_behind_notified_waiters() {
    model(4, || {
        let notify = Arc::new(Notify::new());
        let others: [WaiterUnderTest; 3] =
            std::array::from_fn(|_| WaiterUnderTest::queued(&notify));
        let notifier = in_thread(&notify, Notify::notify_waiters);
        start();
        let mut late = WaiterUnderTest::new(&notify);
        let first = late.poll();
        notify.notify_one();
        notifier.join().unwrap();
        late.assert_notified(first);
        for waiter in others {
            waiter.assert_notified(Poll::Pending);
        }
    });
}

/// One of the waiters that `notify_waiters` has yet to wake is polled, another is dropped.
#[test]
fn notified_waiters_do_not_wait_for_their_batch() {
    model(3, || {
        let notify = Arc::new(Notify::new());
        let [first, second, mut third]: [WaiterUnderTest; 3] =
            std::array::from_fn(|_| WaiterUnderTest::queued(&notify));
        let notifier = in_thread(&notify, Notify::notify_waiters);
        start();
        let polled = third.poll();
        drop(second);
        notifier.join().unwrap();
        third.assert_notified(polled);
        first.assert_notified(Poll::Pending);
        assert_eq!(WaiterUnderTest::new(&notify).poll(), Poll::Pending, "no permit is stored");
    });
}

/// A waiter enqueues itself behind notified waiters, and is dropped. Catches a word that is WAITING
/// because of notified waiters (NOTIFY-1).
#[test]
fn waiter_comes_and_goes_behind_notified_waiters() {
    model(4, || {
        let notify = Arc::new(Notify::new());
        let others: [WaiterUnderTest; 3] =
            std::array::from_fn(|_| WaiterUnderTest::queued(&notify));
        let notifier = in_thread(&notify, Notify::notify_waiters);
        start();
        let mut late = WaiterUnderTest::new(&notify);
        let _ = late.poll();
        drop(late);
        notifier.join().unwrap();
        notify.notify_one();
        assert_eq!(WaiterUnderTest::new(&notify).poll(), Poll::Ready(()));
        for waiter in others {
            waiter.assert_notified(Poll::Pending);
        }
    });
}
