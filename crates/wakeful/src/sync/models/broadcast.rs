//! Models of the ring of values and of those who wait for them.

use crate::sync::broadcast::error::TryRecvError;
use crate::sync::broadcast::{Receiver, Sender, channel};
use crate::sys::sync::{UnsafeCell, thread};
use crate::task::models::scheduler::{model, start};
use std::pin::pin;
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

/// A value that may be cloned by one thread at a time: loom reports two at once,
/// or one without synchronisation. Counts how many of its kind are there.
struct Token {
    number: usize,
    touched: UnsafeCell<usize>,
    alive: Arc<AtomicUsize>,
}

// SAFETY: the models move it from thread to thread, as any value may be.
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
        // SAFETY: whether anybody else is at it is what loom checks.
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

/// Receives until there is nothing: the numbers, and how many were missed.
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

/// A value is sent, or the last sender goes, while a receiver starts to wait.
/// Catches a receiver that finds nothing and is not woken.
#[test]
fn a_value_is_never_missed() {
    for sends in [true, false] {
        model(4, move || {
            let (sender, mut receiver) = channel(2);
            let other = thread::spawn(move || {
                // One that sends does not go, which would wake a second time.
                sends.then(|| {
                    sender.send(7).unwrap();
                    sender
                })
            });
            start();
            let count = Arc::new(Count(AtomicUsize::new(0)));
            let waker = Waker::from(count.clone());
            let mut cx = Context::from_waker(&waker);
            let mut recv = pin!(receiver.recv());
            let mut polled = recv.as_mut().poll(&mut cx);
            let sender = other.join().unwrap();
            if polled.is_pending() {
                assert_eq!(count.0.load(SeqCst), 1, "nobody woke it");
                polled = recv.as_mut().poll(&mut cx);
            }
            let Poll::Ready(received) = polled else { panic!("woken in vain") };
            assert_eq!(received.ok(), sends.then_some(7));
            drop(sender);
        });
    }
}

/// Two receivers clone one value while the next two are sent, the second of
/// which overwrites it. Catches clones at the same time, a value that is
/// overwritten under somebody's eyes, one that is dropped twice or never, and
/// a receiver that miscounts what it has missed.
#[test]
fn values_are_overwritten_as_they_are_seen() {
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
                assert_eq!(seen.0.len() as u64 + seen.1, 2, "each is seen or missed");
            }
            assert_eq!((alive.load(SeqCst), sender.len()), (0, 0), "all have seen all");
        });
    }
}

/// The only receiver sees a value while the next one is put into the same slot.
/// Catches one that is put there before the other was moved out.
#[test]
fn the_next_value_comes_as_the_last_is_seen() {
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

/// A receiver goes, and another comes, while values are sent: whoever is the last
/// to see a value, or to go, drops it.
#[test]
fn receivers_come_and_go_as_values_are_sent() {
    model(3, || {
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, receiver): (Sender<Token>, _) = channel(2);
        sender.send(Token::new(0, &alive)).unwrap_or_else(|_| panic!("one receives"));
        let other = thread::spawn(move || drop(receiver));
        start();
        let mut late = sender.subscribe();
        sender.send(Token::new(1, &alive)).unwrap_or_else(|_| panic!("one receives"));
        assert_eq!(drain(&mut late), (vec![1], 0), "what was sent before is not for it");
        other.join().unwrap();
        assert_eq!((alive.load(SeqCst), sender.receiver_count()), (0, 1));
    });
}

/// Two send at once: each value has a place of its own, and the receiver gets
/// both.
#[test]
fn two_send() {
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
