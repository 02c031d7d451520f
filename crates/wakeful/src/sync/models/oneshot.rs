//! Models of the two ends of a oneshot channel.

use super::counting_waker::WakeCount;
use crate::sync::oneshot::error::TryRecvError;
use crate::sync::oneshot::{Receiver, Sender, channel};
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

/// A message that counts how many of its kind exist.
struct Token(Arc<AtomicUsize>);

impl Token {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Token(alive.clone())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

fn poll<T>(receiver: &mut Receiver<T>, waker: &Waker) -> Poll<Option<T>> {
    Pin::new(receiver).poll(&mut Context::from_waker(waker)).map(Result::ok)
}

/// A message is sent, or the sender is dropped, as the receiver starts to wait and changes its
/// task. Catches a receiver that is not woken, a waker that is not dropped, and memory that is
/// freed too early.
#[test]
fn receiver_waits_while_sender_ends() {
    for sends in [true, false] {
        model(4, move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let (sender, mut receiver) = channel();
            let ((old, old_waker), (new, new_waker)) = (WakeCount::new(), WakeCount::new());
            let other = thread::spawn({
                let alive = alive.clone();
                move || {
                    if sends {
                        assert!(sender.send(Token::new(&alive)).is_ok());
                    }
                }
            });
            start();
            let mut polled = poll(&mut receiver, &old_waker);
            if polled.is_pending() {
                polled = poll(&mut receiver, &new_waker);
            }
            let waits = polled.is_pending();
            other.join().unwrap();
            if waits {
                assert_eq!(new.wakes(), 1, "it was not woken");
                polled = poll(&mut receiver, &new_waker);
            }
            let Poll::Ready(value) = polled else { panic!("woken, but not ready") };
            assert_eq!(value.is_some(), sends);
            drop((value, old_waker, new_waker, receiver));
            old.assert_waker_dropped();
            new.assert_waker_dropped();
            assert_eq!(alive.load(SeqCst), 0);
        });
    }
}

/// A message is sent as a waiting receiver is dropped or closed. Catches a message that both ends
/// have or neither drops, and memory that is freed twice.
#[test]
fn receiver_ends_while_message_is_sent() {
    for (waits, closes) in [(false, false), (true, false), (false, true), (true, true)] {
        model(4, move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let (sender, mut receiver) = channel();
            let (count, waker) = WakeCount::new();
            if waits {
                assert!(poll(&mut receiver, &waker).is_pending());
            }
            drop(waker);
            let other = thread::spawn({
                let alive = alive.clone();
                move || sender.send(Token::new(&alive)).is_ok()
            });
            start();
            let mut received = false;
            if closes {
                receiver.close();
                received = receiver.try_recv().is_ok();
            }
            drop(receiver);
            let sent = other.join().unwrap();
            assert!(!closes || sent == received, "sent means received");
            assert_eq!(alive.load(SeqCst), 0, "a message was lost or duplicated");
            count.assert_waker_dropped();
        });
    }
}

/// The receiver is dropped or closed as the sender starts to wait, and changes its task or drops
/// the future. Catches a wake-up that is lost with the future: the sender keeps its waker.
#[test]
fn sender_waits_while_receiver_ends() {
    for (closes, drops_future) in [(false, false), (true, false), (false, true)] {
        model(4, move || {
            let (mut sender, mut receiver): (Sender<u32>, Receiver<u32>) = channel();
            let ((old, old_waker), (new, new_waker)) = (WakeCount::new(), WakeCount::new());
            let other = thread::spawn(move || {
                if closes {
                    receiver.close();
                    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
                }
            });
            start();
            let mut cx = Context::from_waker(&old_waker);
            let mut closed = if drops_future {
                std::pin::pin!(sender.closed()).as_mut().poll(&mut cx).is_ready()
            } else {
                sender.poll_closed(&mut cx).is_ready()
            };
            if !closed && !drops_future {
                closed = sender.poll_closed(&mut Context::from_waker(&new_waker)).is_ready();
            }
            other.join().unwrap();
            let registered = if drops_future { &old } else { &new };
            assert!(closed || registered.wakes() == 1, "it was not woken");
            assert!(sender.is_closed());
            assert_eq!(sender.send(1), Err(1));
            drop((old_waker, new_waker));
            old.assert_waker_dropped();
            new.assert_waker_dropped();
        });
    }
}

/// Both ends wait, and both are dropped: the first drop wakes the other end, and both wakers are
/// dropped.
#[test]
fn both_ends_wait_and_are_dropped() {
    model(4, || {
        let (mut sender, mut receiver): (Sender<u32>, Receiver<u32>) = channel();
        let (senders, sender_waker) = WakeCount::new();
        let (receivers, receiver_waker) = WakeCount::new();
        assert!(sender.poll_closed(&mut Context::from_waker(&sender_waker)).is_pending());
        assert!(poll(&mut receiver, &receiver_waker).is_pending());
        drop((sender_waker, receiver_waker));
        let other = thread::spawn(move || drop(sender));
        start();
        drop(receiver);
        other.join().unwrap();
        assert_eq!(senders.wakes() + receivers.wakes(), 1, "the first drop wakes the other end");
        senders.assert_waker_dropped();
        receivers.assert_waker_dropped();
    });
}
