//! Models of `watch` channels, and of the counter on which their tasks wait.

use super::counting_waker::WakeCount;
use crate::sync::watch::{Receiver, Sender, channel};
use crate::sys::sync::{Arc as LoomArc, UnsafeCell, thread};
use crate::task::models::scheduler::{model, start};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls `changed` once. If it is pending, runs `meanwhile` and polls again, which must be ready.
/// Returns whether there was a new value.
fn changes(receiver: &mut Receiver<usize>, meanwhile: impl FnOnce()) -> bool {
    let (count, waker) = WakeCount::new();
    let mut cx = Context::from_waker(&waker);
    let mut changed = pin!(receiver.changed());
    let mut polled = changed.as_mut().poll(&mut cx);
    meanwhile();
    if polled.is_pending() {
        assert_eq!(count.wakes(), 1, "it was not woken");
        polled = changed.as_mut().poll(&mut cx);
    }
    let Poll::Ready(changed) = polled else { panic!("woken, but not ready") };
    changed.is_ok()
}

/// A value is sent, or the last sender is dropped, as a receiver starts to wait. Catches a receiver
/// that sees no change and is not woken.
#[test]
fn change_is_never_missed() {
    for sends in [true, false] {
        model(4, move || {
            let (sender, mut receiver) = channel(0);
            let other = thread::spawn(move || {
                // A sender that sends is not dropped, which would wake a second time.
                sends.then(|| {
                    sender.send(1).unwrap();
                    sender
                })
            });
            start();
            let mut sender = None;
            let changed = changes(&mut receiver, || sender = other.join().unwrap());
            assert_eq!(changed, sends);
            assert_eq!(*receiver.borrow(), usize::from(sends));
        });
    }
}

/// A receiver that has seen a change sees what the sender did before, even without reading the
/// value. Catches an ordering that is too weak.
#[test]
fn change_synchronizes() {
    struct Note(UnsafeCell<usize>);
    // SAFETY: loom checks that it is not accessed concurrently.
    #[allow(unsafe_code)]
    unsafe impl Sync for Note {}
    // SAFETY: loom checks that it is not accessed concurrently.
    #[allow(unsafe_code)]
    unsafe impl Send for Note {}

    model(4, || {
        let note = LoomArc::new(Note(UnsafeCell::new(0)));
        let (sender, mut receiver) = channel(0);
        let other = thread::spawn({
            let note = note.clone();
            move || {
                // SAFETY: see `Note`.
                #[allow(unsafe_code)]
                note.0.with_mut(|note| unsafe { *note = 1 });
                sender.send(1).unwrap();
                sender
            }
        });
        start();
        let mut changed = pin!(receiver.changed());
        if changed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            // SAFETY: see `Note`.
            #[allow(unsafe_code)]
            note.0.with(|note| assert_eq!(unsafe { *note }, 1));
        }
        drop(other.join().unwrap());
    });
}

/// A waiter is cancelled, so the word still indicates a waiting task; another waiter arrives as two
/// values are sent. Catches a flag that is cleared although a waiter is in the list.
#[test]
fn waiter_is_cancelled_while_another_comes() {
    model(3, || {
        let (sender, mut receiver) = channel(0);
        let sender = LoomArc::new(sender);
        {
            let mut changed = pin!(receiver.changed());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(changed.as_mut().poll(&mut cx).is_pending());
        }
        let other = thread::spawn({
            let sender = sender.clone();
            move || {
                sender.send(1).unwrap();
                sender.send(2).unwrap();
            }
        });
        start();
        let mut seen = 0;
        let mut other = Some(other);
        while seen < 2 {
            let (count, waker) = WakeCount::new();
            let mut cx = Context::from_waker(&waker);
            {
                let mut changed = pin!(receiver.changed());
                if changed.as_mut().poll(&mut cx).is_pending() {
                    if let Some(other) = other.take() {
                        other.join().unwrap();
                    }
                    assert_eq!(count.wakes(), 1, "it was not woken");
                    assert!(changed.as_mut().poll(&mut cx).is_ready());
                }
            }
            let now = *receiver.borrow_and_update();
            assert!(now > seen, "an old value");
            seen = now;
        }
        if let Some(other) = other {
            other.join().unwrap();
        }
    });
}

/// A receiver reads the value and its version together. Catches a version that is ahead of its
/// value.
#[test]
fn value_and_version_are_consistent() {
    model(3, || {
        let (sender, mut receiver) = channel(0);
        let other = thread::spawn(move || {
            sender.send(1).unwrap();
            sender
        });
        start();
        let first = *receiver.borrow_and_update();
        let sender = other.join().unwrap();
        assert_eq!(receiver.has_changed().unwrap(), first == 0);
        drop(sender);
    });
}

/// The last receivers are dropped as a sender starts to wait for that, or is cancelled.
#[test]
fn end_of_receivers_is_never_missed() {
    for cancelled in [false, true] {
        model(3, move || {
            let (sender, receiver): (Sender<usize>, Receiver<usize>) = channel(0);
            let others =
                [receiver.clone(), receiver].map(|receiver| thread::spawn(move || drop(receiver)));
            start();
            let (count, waker) = WakeCount::new();
            let mut cx = Context::from_waker(&waker);
            {
                let mut closed = pin!(sender.closed());
                let waits = closed.as_mut().poll(&mut cx).is_pending();
                if !cancelled {
                    others.into_iter().for_each(|other| other.join().unwrap());
                    assert!(!waits || count.wakes() == 1, "it was not woken");
                    assert!(!waits || closed.as_mut().poll(&mut cx).is_ready());
                }
            }
            drop(waker);
        });
    }
}
