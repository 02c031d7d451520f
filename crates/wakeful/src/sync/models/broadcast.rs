//! Models of `broadcast` channels: every receiver gets every message or counts it as missed.

use super::counting_waker::WakeCount;
use crate::sync::broadcast::error::TryRecvError;
use crate::sync::broadcast::{Receiver, Sender, channel};
use crate::sys::sync::{UnsafeCell, thread};
use crate::task::models::scheduler::{model, start};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

/// A message that may be cloned by one thread at a time: loom reports concurrent clones, and clones
/// without synchronization. Counts the messages that exist.
struct Token {
    number: usize,
    touched: UnsafeCell<usize>,
    alive: Arc<AtomicUsize>,
}

// SAFETY: the models move it from thread to thread, as any `Send` value may be.
#[allow(unsafe_code)]
unsafe impl Send for Token {}

impl Token {
    fn new(number: usize, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Token { number, touched: UnsafeCell::new(0), alive: alive.clone() }
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        // SAFETY: loom checks that no other thread accesses it.
        #[allow(unsafe_code)]
        self.touched.with_mut(|touched| unsafe { *touched += 1 });
        Token::new(self.number, &self.alive)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.touched.with_mut(|_| ());
        self.alive.fetch_sub(1, SeqCst);
    }
}

/// Receives until the channel is empty. Returns the numbers, and how many messages were missed.
fn drain(receiver: &mut Receiver<Token>) -> (Vec<usize>, u64) {
    let (mut numbers, mut missed) = (Vec::new(), 0);
    loop {
        match receiver.try_recv() {
            Ok(token) => numbers.push(token.number),
            Err(TryRecvError::Lagged(more)) => missed += more,
            Err(_) => return (numbers, missed),
        }
    }
}

/// A message is sent, or the last sender is dropped, as a receiver starts to wait. Catches a
/// receiver that finds no message and is not woken.
#[test]
fn message_is_never_missed() {
    for sends in [true, false] {
        model(4, move || {
            let (sender, mut receiver) = channel(2);
            let other = thread::spawn(move || {
                // A sender that sends is not dropped, which would wake a second time.
                sends.then(|| {
                    sender.send(7).unwrap();
                    sender
                })
            });
            start();
            let (count, waker) = WakeCount::new();
            let mut cx = Context::from_waker(&waker);
            let mut recv = pin!(receiver.recv());
            let mut polled = recv.as_mut().poll(&mut cx);
            let sender = other.join().unwrap();
            if polled.is_pending() {
                assert_eq!(count.wakes(), 1, "it was not woken");
                polled = recv.as_mut().poll(&mut cx);
            }
            let Poll::Ready(received) = polled else { panic!("woken, but not ready") };
            assert_eq!(received.ok(), sends.then_some(7));
            drop(sender);
        });
    }
}

/// Two receivers clone one message as the next two are sent, the second of which overwrites it.
/// Catches concurrent clones, and a message that is overwritten while it is cloned. Catches a
/// message that is dropped twice or never, and a wrong count of missed messages.
#[test]
fn messages_are_overwritten_while_they_are_received() {
    for capacity in [1, 2] {
        model(3, move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let (sender, mut one) = channel(capacity);
            let mut two = sender.subscribe();
            sender.send(Token::new(0, &alive)).unwrap_or_else(|_| panic!("two receive"));
            let other = thread::spawn(move || {
                let seen = drain(&mut two);
                (seen, two)
            });
            start();
            sender.send(Token::new(1, &alive)).unwrap_or_else(|_| panic!("two receive"));
            let mut first = drain(&mut one);
            let (mut second, mut two) = other.join().unwrap();
            for (seen, receiver) in [(&mut first, &mut one), (&mut second, &mut two)] {
                let (rest, missed) = drain(receiver);
                seen.0.extend(rest);
                seen.1 += missed;
                assert!(seen.0.is_sorted() && seen.0.last() == Some(&1), "{seen:?}");
                assert_eq!(seen.0.len() as u64 + seen.1, 2, "each message is received or missed");
            }
            assert_eq!((alive.load(SeqCst), sender.len()), (0, 0), "all have received all");
        });
    }
}

/// The only receiver reads a message as the next one is stored in the same slot. Catches a message
/// that is stored before the previous one was moved out.
#[test]
fn next_message_is_stored_while_last_is_received() {
    model(4, || {
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, mut receiver) = channel(1);
        sender.send(Token::new(0, &alive)).unwrap_or_else(|_| panic!("one receives"));
        let other = thread::spawn(move || {
            let seen = drain(&mut receiver);
            (seen, receiver)
        });
        start();
        sender.send(Token::new(1, &alive)).unwrap_or_else(|_| panic!("one receives"));
        let ((mut seen, mut missed), mut receiver) = other.join().unwrap();
        let (rest, more) = drain(&mut receiver);
        seen.extend(rest);
        missed += more;
        assert!(matches!((&seen[..], missed), ([0, 1], 0) | ([1], 1)), "{seen:?}, {missed}");
        assert_eq!(alive.load(SeqCst), 0);
    });
}

/// A receiver is dropped, and another subscribes, as messages are sent. The last receiver of a
/// message drops it.
#[test]
fn receivers_come_and_go_while_messages_are_sent() {
    model(3, || {
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, receiver): (Sender<Token>, _) = channel(2);
        sender.send(Token::new(0, &alive)).unwrap_or_else(|_| panic!("one receives"));
        let other = thread::spawn(move || drop(receiver));
        start();
        let mut late = sender.subscribe();
        sender.send(Token::new(1, &alive)).unwrap_or_else(|_| panic!("one receives"));
        assert_eq!(drain(&mut late), (vec![1], 0), "it gets later messages only");
        other.join().unwrap();
        assert_eq!((alive.load(SeqCst), sender.receiver_count()), (0, 1));
    });
}

/// Two threads send concurrently: each message has its own slot, and the receiver gets both.
#[test]
fn two_senders() {
    model(3, || {
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, mut receiver) = channel(2);
        let other = thread::spawn({
            let (sender, alive) = (sender.clone(), alive.clone());
            move || sender.send(Token::new(1, &alive)).is_ok()
        });
        start();
        assert!(sender.send(Token::new(0, &alive)).is_ok());
        let (mut seen, missed) = drain(&mut receiver);
        assert!(other.join().unwrap());
        seen.extend(drain(&mut receiver).0);
        seen.sort();
        assert_eq!((seen, missed), (vec![0, 1], 0));
        assert_eq!(alive.load(SeqCst), 0);
    });
}
