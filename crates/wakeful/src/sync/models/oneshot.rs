//! Models of the two ends of a oneshot channel.

use crate::sync::oneshot::error::TryRecvError;
use crate::sync::oneshot::{Receiver, Sender, channel};
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken; not part of the model.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    fn woken(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Nobody but the test has the waker.
    fn assert_let_go(self: &Arc<Self>) {
        assert_eq!(Arc::strong_count(self), 1, "a waker was left behind");
    }
}

/// A value that tells how many of its kind are there.
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

/// A value is sent, or the sender dropped, while the receiver starts to wait and
/// is moved to another task. Catches a receiver that finds nothing and is not
/// woken, a waker that is left behind, and memory that is freed under the other.
#[test]
fn the_receiver_waits_as_the_sender_ends() {
    for sends in [true, false] {
        model(4, move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let (sender, mut receiver) = channel();
            let ((old, old_waker), (new, new_waker)) = (Count::new(), Count::new());
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
                assert_eq!(new.woken(), 1, "nobody woke it");
                polled = poll(&mut receiver, &new_waker);
            }
            let Poll::Ready(value) = polled else { panic!("woken in vain") };
            assert_eq!(value.is_some(), sends);
            drop((value, old_waker, new_waker, receiver));
            old.assert_let_go();
            new.assert_let_go();
            assert_eq!(alive.load(SeqCst), 0);
        });
    }
}

/// A value is sent while a waiting receiver goes away or is closed. Catches a
/// value that both have or nobody drops, and memory that is freed twice.
#[test]
fn the_receiver_goes_as_a_value_is_sent() {
    for (waits, closes) in [(false, false), (true, false), (false, true), (true, true)] {
        model(4, move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let (sender, mut receiver) = channel();
            let (count, waker) = Count::new();
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
            assert_eq!(alive.load(SeqCst), 0, "a value was lost or doubled");
            count.assert_let_go();
        });
    }
}

/// The receiver goes away, or is closed, while the sender starts to wait for
/// that and is moved to another task, or drops the future. Catches a wake that is lost
/// with the future: the sender keeps its waker.
#[test]
fn the_sender_waits_as_the_receiver_ends() {
    for (closes, drops_future) in [(false, false), (true, false), (false, true)] {
        model(4, move || {
            let (mut sender, mut receiver): (Sender<u32>, Receiver<u32>) = channel();
            let ((old, old_waker), (new, new_waker)) = (Count::new(), Count::new());
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
            assert!(closed || registered.woken() == 1, "nobody woke it");
            assert!(sender.is_closed());
            assert_eq!(sender.send(1), Err(1));
            drop((old_waker, new_waker));
            old.assert_let_go();
            new.assert_let_go();
        });
    }
}

/// Both wait, and both go: each wakes the other at most once, and both wakers
/// are let go.
#[test]
fn both_wait_and_go() {
    model(4, || {
        let (mut sender, mut receiver): (Sender<u32>, Receiver<u32>) = channel();
        let ((senders, sender_waker), (receivers, receiver_waker)) = (Count::new(), Count::new());
        assert!(sender.poll_closed(&mut Context::from_waker(&sender_waker)).is_pending());
        assert!(poll(&mut receiver, &receiver_waker).is_pending());
        drop((sender_waker, receiver_waker));
        let other = thread::spawn(move || drop(sender));
        start();
        drop(receiver);
        other.join().unwrap();
        assert_eq!(senders.woken() + receivers.woken(), 1, "the first to go wakes the other");
        senders.assert_let_go();
        receivers.assert_let_go();
    });
}
