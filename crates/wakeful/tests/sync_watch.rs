//! `sync::watch`: the documented behaviour, wakers that are never left behind, a model, and a stress test.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::executor;
use futures::future::select;
use wakeful::sync::watch::{self, Receiver, Sender};
use wakeful::task::yield_now;

mod support {
    pub mod not_send;
    pub mod rng;
    pub mod runtimes;
}
use support::not_send::CountingWaker;
use support::rng::{TestRng, seed};
use support::runtimes::{current_thread, runtimes};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn a_change_is_waited_for_on_every_runtime() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (sender, mut receiver) = watch::channel(0);
            let watching = wakeful::spawn(async move {
                let mut seen = Vec::new();
                while receiver.changed().await.is_ok() {
                    seen.push(*receiver.borrow_and_update());
                }
                seen
            });
            for value in 1..100 {
                sender.send(value).unwrap();
                yield_now().await;
            }
            drop(sender);
            let seen = watching.await.unwrap();
            assert!(seen.is_sorted() && seen.last() == Some(&99), "{seen:?}");
        });
    }
    let (sender, mut receiver) = watch::channel(0);
    let other = thread::spawn(move || executor::block_on(receiver.changed()).is_ok());
    sender.send(1).unwrap();
    assert!(other.join().unwrap(), "on another executor");
}

#[test]
fn each_receiver_has_its_own_view() {
    let (sender, mut one) = watch::channel("a");
    let mut two = one.clone();
    assert!(!one.has_changed().unwrap(), "the first value counts as seen");
    sender.send("b").unwrap();
    assert!(one.borrow().has_changed() && one.borrow().has_changed(), "a look marks nothing");
    let value = one.borrow_and_update();
    assert!(value.has_changed() && *value == "b");
    drop(value);
    assert!(!one.borrow().has_changed() && !one.has_changed().unwrap());
    assert!(two.has_changed().unwrap() && one.clone().has_changed().is_ok_and(|is| !is));
    assert!(!sender.subscribe().has_changed().unwrap(), "what is there counts as seen");
    assert!(!sender.borrow().has_changed());

    two.mark_unchanged();
    assert!(!two.has_changed().unwrap());
    two.mark_changed();
    two.mark_changed();
    assert!(two.has_changed().unwrap());
    assert!(poll(pin!(two.changed()), Waker::noop()).is_ready());
    assert!(!two.has_changed().unwrap());
    assert!(one.same_channel(&two) && !one.same_channel(&watch::channel("").1));
}

#[test]
fn the_last_value_can_be_seen_after_the_senders() {
    let (sender, mut receiver) = watch::channel(0);
    let second = sender.clone();
    assert_eq!((sender.sender_count(), sender.same_channel(&second)), (2, true));
    sender.send(1).unwrap();
    drop(sender);
    assert!(!receiver.is_closed());
    drop(second);
    assert!(receiver.is_closed() && receiver.has_changed().is_err());
    assert!(receiver.borrow().has_changed());
    assert!(matches!(poll(pin!(receiver.changed()), Waker::noop()), Poll::Ready(Ok(()))));
    assert!(matches!(poll(pin!(receiver.changed()), Waker::noop()), Poll::Ready(Err(_))));
    assert_eq!(*receiver.borrow(), 1);
    let error = executor::block_on(receiver.changed()).unwrap_err();
    assert_eq!(error.to_string(), "channel closed");
}

#[test]
fn sending_without_receivers_fails_and_replacing_does_not() {
    let sender = Sender::new(1);
    let error = sender.send(2).unwrap_err();
    assert_eq!((error.0, error.to_string()), (2, "channel closed".to_owned()));
    assert_eq!(format!("{error:?}"), "SendError { .. }");
    assert_eq!((sender.send_replace(3), *sender.borrow()), (1, 3));
    let receiver = sender.subscribe();
    assert!(!sender.is_closed() && sender.receiver_count() == 1);
    sender.send(4).unwrap();
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(*Sender::<u32>::default().borrow(), 0);
}

#[test]
fn a_change_is_announced_only_if_there_was_one() {
    let (sender, receiver) = watch::channel(1);
    let make_even = |value: &mut i32| {
        let is_odd = *value % 2 == 1;
        *value += i32::from(is_odd);
        is_odd
    };
    assert!(sender.send_if_modified(make_even));
    assert!(receiver.has_changed().unwrap());
    let receiver = sender.subscribe();
    assert!(!sender.send_if_modified(make_even));
    assert!(!receiver.has_changed().unwrap());
    sender.send_if_modified(|value| {
        *value = 7;
        false
    });
    assert_eq!((*receiver.borrow(), receiver.has_changed().unwrap()), (7, false), "silently");
}

#[test]
fn a_panic_inside_does_no_harm() {
    let (sender, mut receiver) = watch::channel(1);
    let (count, waker) = CountingWaker::new();
    {
        let mut changed = pin!(receiver.changed());
        assert!(poll(changed.as_mut(), &waker).is_pending());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            sender.send_modify(|value| {
                *value = 2;
                std::panic::resume_unwind(Box::new("on purpose"));
            })
        }));
        assert!(panicked.is_err() && count.take() == 0);
        assert!(poll(changed.as_mut(), &waker).is_pending());
        assert_eq!(*sender.borrow(), 2, "it stays changed");
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let waits = pin!(receiver.wait_for(|_| std::panic::resume_unwind(Box::new("on purpose"))));
        let _ = poll(waits, &waker);
    }));
    assert!(panicked.is_err());
    sender.send(3).unwrap();
    assert_eq!(*receiver.borrow_and_update(), 3);
}

#[test]
fn waiting_for_a_value_that_fits() {
    current_thread().block_on(async {
        let (sender, mut receiver) = watch::channel(1);
        assert_eq!(
            *receiver.wait_for(|value| *value == 1).await.unwrap(),
            1,
            "also if it was seen"
        );
        let mut asked = Vec::new();
        let waits = async {
            let value = receiver.wait_for(|value| {
                asked.push(*value);
                *value > 2
            });
            let value = value.await.unwrap();
            (*value, value.has_changed())
        };
        let sends = async {
            for value in 1..=4 {
                sender.send(value).unwrap();
                yield_now().await;
            }
        };
        let (found, ()) = futures::join!(waits, sends);
        assert_eq!(found, (3, true));
        assert_eq!(asked, [1, 1, 2, 3]);
        sender.send(9).unwrap();
        drop(sender);
        assert!(
            receiver.wait_for(|value| *value == 9).await.is_ok(),
            "the last one is asked about"
        );
        assert!(receiver.wait_for(|value| *value == 8).await.is_err());
    });
}

#[test]
fn a_dropped_wait_has_seen_nothing_and_leaves_no_waker() {
    let ((one, waker_one), (two, waker_two)) = (CountingWaker::new(), CountingWaker::new());
    let (sender, mut receiver) = watch::channel(0);
    {
        let mut changed = pin!(receiver.changed());
        assert!(poll(changed.as_mut(), &waker_one).is_pending());
        assert!(poll(changed.as_mut(), &waker_two).is_pending());
        assert_eq!((one.other_clones(), two.other_clones()), (0, 1), "it moved");
        sender.send(1).unwrap();
        assert_eq!((one.take(), two.take()), (0, 1));
    }
    assert_eq!(two.other_clones(), 0);
    assert!(receiver.has_changed().unwrap(), "not polled again, so not seen");
    {
        receiver.mark_unchanged();
        let mut waits = pin!(receiver.wait_for(|_| false));
        assert!(poll(waits.as_mut(), &waker_one).is_pending());
        let mut closed = pin!(sender.closed());
        assert!(poll(closed.as_mut(), &waker_two).is_pending());
        assert_eq!((one.other_clones(), two.other_clones()), (1, 1));
    }
    assert_eq!((one.other_clones(), two.other_clones()), (0, 0));
    sender.send(2).unwrap();
    drop((sender, receiver));
    assert_eq!((one.take(), two.take()), (0, 0), "no task waits");
}

#[test]
fn closed_means_that_no_receiver_is_left() {
    let (count, waker) = CountingWaker::new();
    let (sender, receiver) = watch::channel(0);
    let second = receiver.clone();
    let mut closed = pin!(sender.closed());
    assert!(poll(closed.as_mut(), &waker).is_pending());
    drop(receiver);
    assert_eq!(count.take(), 0);
    drop(second);
    assert_eq!(count.take(), 1);
    let third = sender.subscribe();
    assert!(poll(closed.as_mut(), &waker).is_pending(), "a receiver subscribed before the poll");
    drop(third);
    assert_eq!(count.take(), 1);
    assert!(poll(closed.as_mut(), &waker).is_ready());
}

/// More receivers than one wake batch are woken, in the order in which they began to wait.
#[test]
fn all_waiting_receivers_are_woken() {
    let (sender, receiver) = watch::channel(0);
    let mut receivers = vec![receiver; 100];
    let (count, waker) = CountingWaker::new();
    let mut waits: Vec<_> = receivers.iter_mut().map(|one| Box::pin(one.changed())).collect();
    for wait in &mut waits {
        assert!(poll(wait.as_mut(), &waker).is_pending());
    }
    sender.send(1).unwrap();
    assert_eq!((count.take(), count.other_clones()), (100, 0));
    assert!(waits.iter_mut().all(|wait| poll(wait.as_mut(), &waker).is_ready()));
}

/// Returns only if `always`, which is always ready, yields to other tasks.
async fn let_others_run(always: impl Future) {
    select(pin!(always), pin!(yield_now())).await;
}

#[test]
fn ready_operations_spend_budget() {
    current_thread().block_on(async {
        let (sender, mut receiver) = watch::channel(0);
        let_others_run(async {
            loop {
                sender.send(1).unwrap();
                receiver.changed().await.unwrap();
            }
        })
        .await;
        drop(sender);
        let_others_run(async { while receiver.changed().await.is_err() {} }).await;
        let_others_run(async { while receiver.wait_for(|value| *value == 2).await.is_err() {} })
            .await;
        let sender = Sender::new(0);
        let_others_run(async {
            loop {
                sender.closed().await;
            }
        })
        .await;
    });
}

#[test]
fn is_send_if_the_value_is_send_and_sync() {
    fn check<T: Send + Sync + Unpin>(_: &T) {}
    fn check_future<T: Send + Sync>(_: T) {}
    let (sender, mut receiver) = watch::channel(1);
    check(&sender);
    check(&receiver);
    check_future(sender.closed());
    check_future(receiver.changed());
    check_future(receiver.wait_for(|_| true));
    let text = format!("{sender:?} {receiver:?} {:?}", receiver.borrow());
    assert!(text.starts_with("Sender"), "{text}");
}

/// A receiver with at most one pending wait, and its state in the model.
struct Watcher {
    receiver: Rc<RefCell<Receiver<usize>>>,
    /// Borrows the receiver.
    waits: Option<Pin<Box<dyn Future<Output = bool>>>>,
    seen: usize,
    /// The waker that is registered.
    waker: Option<usize>,
}

impl Watcher {
    #[allow(
        clippy::await_holding_refcell_ref,
        reason = "no other code borrows it while this waits"
    )]
    fn start(&mut self) {
        let receiver = self.receiver.clone();
        self.waits = Some(Box::pin(async move { receiver.borrow_mut().changed().await.is_ok() }));
    }
}

/// Compares random steps of several watchers with a counted version: results, wakes and kept wakers.
#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    for _ in 0..if cfg!(miri) { 10 } else { 300 } {
        let (sender, receiver) = watch::channel(0);
        let mut sender = Some(sender);
        let watcher = |receiver, seen| Watcher {
            receiver: Rc::new(RefCell::new(receiver)),
            waits: None,
            seen,
            waker: None,
        };
        let mut watchers = vec![watcher(receiver, 0)];
        let mut version = 0;
        for _ in 0..60 {
            let which = rng.below(2);
            let mut woken = [0; 2];
            match (rng.below(8), &sender) {
                (0 | 1, Some(open)) => {
                    let sent = open.send(version + 1);
                    assert_eq!(sent.is_ok(), !watchers.is_empty());
                    if sent.is_ok() {
                        version += 1;
                        for waker in watchers.iter_mut().filter_map(|one| one.waker.take()) {
                            woken[waker] += 1;
                        }
                    }
                }
                (2, Some(open)) => {
                    if rng.one_in(10) {
                        sender = None;
                        for waker in watchers.iter_mut().filter_map(|one| one.waker.take()) {
                            woken[waker] += 1;
                        }
                    } else if watchers.len() < 6 {
                        watchers.push(watcher(open.subscribe(), version));
                    }
                }
                (3, _) if !watchers.is_empty() => {
                    let mut gone = watchers.swap_remove(rng.below(watchers.len()));
                    gone.waits = None;
                }
                (4, _) if !watchers.is_empty() => {
                    // Drops the wait, if there is one, and reads the value.
                    let number = rng.below(watchers.len());
                    let one = &mut watchers[number];
                    one.waits = None;
                    one.waker = None;
                    let has_changed = one.receiver.borrow_mut().borrow_and_update().has_changed();
                    assert_eq!(has_changed, one.seen != version);
                    one.seen = version;
                }
                (_, open) if !watchers.is_empty() => {
                    let number = rng.below(watchers.len());
                    let one = &mut watchers[number];
                    if one.waits.is_none() {
                        one.start();
                    }
                    let polled = poll(one.waits.as_mut().unwrap().as_mut(), &wakers[which].1);
                    match (one.seen != version, open.is_some()) {
                        (true, _) => assert_eq!(polled, Poll::Ready(true)),
                        (false, false) => assert_eq!(polled, Poll::Ready(false)),
                        (false, true) => assert_eq!(polled, Poll::Pending),
                    }
                    one.waker = polled.is_pending().then_some(which);
                    if polled.is_ready() {
                        one.waits = None;
                        one.seen = version;
                    }
                }
                _ => {}
            }
            for (waker, (count, _)) in wakers.iter().enumerate() {
                assert_eq!(count.take(), woken[waker], "wakes");
                let kept = watchers.iter().filter(|one| one.waker == Some(waker)).count();
                assert_eq!(count.other_clones(), kept, "kept");
            }
        }
        for watcher in &mut watchers {
            watcher.waits = None;
        }
    }
}

/// Several threads send and several watch. Every receiver ends with the last value, and none sees an older value after
/// a newer one.
#[test]
fn every_receiver_sees_the_last_value() {
    const SENDS: usize = if cfg!(miri) { 100 } else { 20_000 };
    let (sender, receiver) = watch::channel(0);
    let receivers = [receiver.clone(), receiver.clone(), receiver];
    thread::scope(|scope| {
        let watching = receivers.map(|mut receiver| {
            scope.spawn(move || {
                let mut last = 0;
                while executor::block_on(receiver.changed()).is_ok() {
                    let now = *receiver.borrow_and_update();
                    assert!(now > last, "{now} after {last}");
                    last = now;
                }
                last
            })
        });
        for sender in [sender.clone(), sender] {
            scope.spawn(move || {
                for _ in 0..SENDS {
                    sender.send_modify(|value| *value += 1);
                }
            });
        }
        for last in watching {
            assert_eq!(last.join().unwrap(), 2 * SENDS);
        }
    });
}
