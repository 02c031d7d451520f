//! `sync::oneshot`: the documented behaviour, wakers that are never left behind, a model, and a stress test.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::executor;
use wakeful::sync::oneshot::error::{RecvError, TryRecvError};
use wakeful::sync::oneshot::{self, Receiver, Sender};

mod support {
    pub mod not_send;
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::not_send::CountingWaker;
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
use support::runtimes::{current_thread, runtimes};

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn error() -> RecvError {
    let (sender, receiver) = oneshot::channel::<()>();
    drop(sender);
    executor::block_on(receiver).unwrap_err()
}

#[test]
fn a_value_is_received_before_and_after_waiting() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (sender, receiver) = oneshot::channel();
            sender.send("early").unwrap();
            assert_eq!(receiver.await, Ok("early"));

            let (sender, receiver) = oneshot::channel();
            let waits = wakeful::spawn(receiver);
            wakeful::task::yield_now().await;
            sender.send("late").unwrap();
            assert_eq!(waits.await.unwrap(), Ok("late"));
        });
    }
    let (sender, receiver) = oneshot::channel();
    let other = thread::spawn(move || executor::block_on(receiver));
    sender.send(7).unwrap();
    assert_eq!(other.join().unwrap(), Ok(7), "on another executor");
}

#[test]
fn a_sender_that_goes_lets_the_receiver_fail() {
    let (count, waker) = CountingWaker::new();
    let (sender, mut receiver) = oneshot::channel::<u32>();
    assert!(poll(&mut receiver, &waker).is_pending());
    drop(sender);
    assert_eq!(count.take(), 1);
    assert!(!receiver.is_terminated(), "not before it was polled");
    assert_eq!(poll(&mut receiver, &waker), Poll::Ready(Err(error())));
    assert!(receiver.is_terminated() && receiver.is_empty());
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(count.other_clones(), 0);
}

#[test]
fn a_value_comes_back_from_a_receiver_that_is_gone_or_closed() {
    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(1), Err(1));

    let (sender, mut receiver) = oneshot::channel();
    receiver.close();
    receiver.close();
    assert!(sender.is_closed() && !receiver.is_terminated());
    assert_eq!(sender.send(1), Err(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert!(receiver.is_terminated());

    let (sender, mut receiver) = oneshot::channel();
    sender.send(1).unwrap();
    receiver.close();
    assert!(!receiver.is_empty());
    assert_eq!(receiver.try_recv(), Ok(1), "sent before it was closed");
}

#[test]
fn closed_is_ready_when_the_receiver_is_gone() {
    let (count, waker) = CountingWaker::new();
    for closes in [true, false] {
        let (mut sender, mut receiver) = oneshot::channel::<u32>();
        let mut cx = Context::from_waker(&waker);
        assert!(sender.poll_closed(&mut cx).is_pending());
        assert_eq!(count.other_clones(), 1);
        if closes {
            receiver.close();
        }
        drop(receiver);
        assert_eq!((count.take(), count.other_clones()), (1, 0), "woken once");
        assert!(sender.poll_closed(&mut cx).is_ready());
    }
    current_thread().block_on(async {
        let (mut sender, receiver) = oneshot::channel::<u32>();
        let goes = wakeful::spawn(async move { drop(receiver) });
        sender.closed().await;
        goes.await.unwrap();
    });
}

/// A stored waker that is no longer needed would hide an orphan.
#[test]
fn no_waker_is_left_behind() {
    let ((one, waker_one), (two, waker_two)) = (CountingWaker::new(), CountingWaker::new());
    let (mut sender, mut receiver) = oneshot::channel::<u32>();

    {
        let mut closed = pin!(sender.closed());
        assert!(closed.as_mut().poll(&mut Context::from_waker(&waker_one)).is_pending());
        assert!(closed.as_mut().poll(&mut Context::from_waker(&waker_two)).is_pending());
        assert_eq!((one.other_clones(), two.other_clones()), (0, 1), "it moved");
    }
    assert_eq!(two.other_clones(), 1, "the sender keeps it");
    assert!(sender.poll_closed(&mut Context::from_waker(&waker_one)).is_pending());
    assert_eq!((one.other_clones(), two.other_clones()), (1, 0), "another takes its place");
    let (mut other, _receiver) = oneshot::channel::<u32>();
    assert!(pin!(other.closed()).poll(&mut Context::from_waker(&waker_two)).is_pending());
    drop(other);
    assert_eq!(two.other_clones(), 0, "gone with the sender");

    assert!(poll(&mut receiver, &waker_one).is_pending());
    assert!(poll(&mut receiver, &waker_one).is_pending());
    assert!(poll(&mut receiver, &waker_two).is_pending());
    assert_eq!((one.other_clones(), two.other_clones()), (1, 1), "it moved");
    assert!(sender.poll_closed(&mut Context::from_waker(&waker_one)).is_pending());
    sender.send(1).unwrap();
    assert_eq!((one.take(), two.take()), (0, 1));
    assert_eq!((one.other_clones(), two.other_clones()), (0, 0), "gone with the value");
    assert_eq!(receiver.try_recv(), Ok(1));

    let (_sender, mut receiver) = oneshot::channel::<u32>();
    assert!(poll(&mut receiver, &waker_one).is_pending());
    drop(receiver);
    assert_eq!(one.other_clones(), 0, "gone with the receiver");
}

#[test]
fn values_that_are_not_received_are_dropped() {
    let alive = Arc::new(());
    let (sender, receiver) = oneshot::channel();
    sender.send(alive.clone()).unwrap();
    drop(receiver);
    assert_eq!(Arc::strong_count(&alive), 1);

    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    drop(sender.send(alive.clone()));
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_poll_in_vain_costs_no_budget_and_a_ready_one_does() {
    current_thread().block_on(async {
        let ready = std::future::poll_fn(|cx| {
            let mut got = 0;
            loop {
                let (sender, mut receiver) = oneshot::channel();
                assert!(Pin::new(&mut receiver).poll(cx).is_pending(), "costs nothing");
                sender.send(1).unwrap();
                if Pin::new(&mut receiver).poll(cx).is_pending() {
                    return Poll::Ready(got);
                }
                got += 1;
            }
        });
        assert_eq!(ready.await, 128);
    });
}

#[test]
fn blocking_recv_waits_with_the_thread() {
    let (sender, receiver) = oneshot::channel();
    let other = thread::spawn(move || receiver.blocking_recv());
    sender.send(7).unwrap();
    assert_eq!(other.join().unwrap(), Ok(7));

    let runtime = current_thread();
    let site = panic_site(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let (_sender, receiver) = oneshot::channel::<()>();
            let _ = receiver.blocking_recv();
        })
    }));
    assert_eq!(site.file, file!());
    assert!(site.message.starts_with("Cannot block the current thread"), "{}", site.message);
}

#[test]
fn asking_again_after_the_end_panics() {
    let (sender, mut receiver) = oneshot::channel();
    sender.send(1).unwrap();
    assert_eq!(poll(&mut receiver, Waker::noop()), Poll::Ready(Ok(1)));
    let site = panic_site(AssertUnwindSafe(|| poll(&mut receiver, Waker::noop())));
    assert_eq!(site.message, "called after complete");
}

#[test]
fn errors_have_messages() {
    assert_eq!(error().to_string(), "channel closed");
    assert_eq!(TryRecvError::Empty.to_string(), "channel empty");
    assert_eq!(TryRecvError::Closed.to_string(), "channel closed");
    let (sender, receiver) = oneshot::channel::<u32>();
    assert!(format!("{sender:?} {receiver:?}").starts_with("Sender"));
}

#[test]
fn is_send_if_the_value_is() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<Sender<std::cell::Cell<u32>>>();
    check::<Receiver<std::cell::Cell<u32>>>();
}

/// A naive model of the channel.
#[derive(Default)]
struct Plain {
    /// A value that was sent and not received.
    value: Option<usize>,
    done: bool,
    closed: bool,
    terminated: bool,
    /// The index of the waker that is registered at this end.
    receiver_waits: Option<usize>,
    sender_waits: Option<usize>,
    woken: [usize; 2],
}

impl Plain {
    fn wake(&mut self, waker: Option<usize>) {
        if let Some(waker) = waker {
            self.woken[waker] += 1;
        }
    }

    fn end_sender(&mut self, value: Option<usize>) {
        self.done = true;
        self.value = value;
        self.sender_waits = None;
        let waits = self.receiver_waits.take();
        self.wake(waits);
    }

    fn close(&mut self) {
        if !self.done && !self.terminated {
            self.closed = true;
            let waits = self.sender_waits.take();
            self.wake(waits);
        }
    }

    fn receive(&mut self) -> Result<usize, TryRecvError> {
        if !self.terminated && !self.done && !self.closed {
            return Err(TryRecvError::Empty);
        }
        self.end_receiver();
        self.value.take().ok_or(TryRecvError::Closed)
    }

    fn end_receiver(&mut self) {
        self.close();
        self.terminated = true;
        self.receiver_waits = None;
    }
}

/// Compares random steps of both ends with the model: results, wakes and kept wakers.
#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    for step in 0..if cfg!(miri) { 100 } else { 4_000 } {
        let (sender, receiver) = oneshot::channel::<usize>();
        let (mut sender, mut receiver) = (Some(sender), Some(receiver));
        let mut plain = Plain::default();
        for _ in 0..rng.below(12) {
            let which = rng.below(2);
            let mut cx = Context::from_waker(&wakers[which].1);
            match (rng.below(9), &mut sender, &mut receiver) {
                (0, Some(_), _) => {
                    let sent = sender.take().unwrap().send(step);
                    assert_eq!(sent, if plain.closed { Err(step) } else { Ok(()) });
                    plain.end_sender(sent.is_ok().then_some(step));
                }
                (1, Some(_), _) => {
                    sender = None;
                    plain.end_sender(None);
                }
                (2, Some(sender), _) => {
                    assert_eq!(sender.poll_closed(&mut cx).is_ready(), plain.closed);
                    plain.sender_waits = (!plain.closed).then_some(which);
                }
                (3, Some(sender), _) => {
                    let closed = pin!(sender.closed()).poll(&mut cx);
                    assert_eq!(closed.is_ready(), plain.closed);
                    assert_eq!(sender.is_closed(), plain.closed);
                    plain.sender_waits = (!plain.closed).then_some(which);
                }
                (4, _, Some(_)) => {
                    receiver = None;
                    plain.end_receiver();
                    plain.value = None;
                }
                (5, _, Some(receiver)) => {
                    receiver.close();
                    plain.close();
                }
                (6, _, Some(receiver)) => {
                    assert_eq!(receiver.try_recv(), plain.receive());
                }
                (_, _, Some(receiver)) if !plain.terminated => {
                    assert_eq!(receiver.is_empty(), plain.value.is_none());
                    let polled = Pin::new(&mut *receiver).poll(&mut cx);
                    match plain.receive() {
                        Err(TryRecvError::Empty) => {
                            assert!(polled.is_pending());
                            plain.receiver_waits = Some(which);
                        }
                        received => {
                            let received = received.map_err(|_| error());
                            assert_eq!(polled, Poll::Ready(received));
                        }
                    }
                    assert_eq!(receiver.is_terminated(), plain.terminated);
                }
                _ => {}
            }
            for (waker, (count, _)) in wakers.iter().enumerate() {
                assert_eq!(count.take(), std::mem::take(&mut plain.woken[waker]), "wakes");
                let kept = [plain.receiver_waits, plain.sender_waits];
                let kept = kept.iter().filter(|&&kept| kept == Some(waker)).count();
                assert_eq!(count.other_clones(), kept, "kept");
            }
        }
        drop((sender, receiver));
        for (count, _) in &wakers {
            assert_eq!(count.other_clones(), 0, "the channel keeps no waker");
            count.take();
        }
    }
}

/// Both ends act at once, on two threads: every value is received or comes back, once.
#[test]
fn every_value_arrives_or_comes_back() {
    let mut rng = TestRng::new(seed());
    let (arrived, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let alive = Arc::new(());
    const ROUNDS: usize = if cfg!(miri) { 100 } else { 20_000 };
    let (senders, ends) = std::sync::mpsc::sync_channel::<Sender<Arc<()>>>(64);
    thread::scope(|scope| {
        let mut their_dice = rng.branch();
        let (alive, back) = (&alive, &back);
        scope.spawn(move || {
            for sender in ends {
                if their_dice.one_in(8) {
                    continue;
                }
                if let Err(value) = sender.send(alive.clone()) {
                    drop(value);
                    back.fetch_add(1, SeqCst);
                }
            }
        });
        let mut dropped = 0;
        for _ in 0..ROUNDS {
            let (sender, mut receiver) = oneshot::channel();
            senders.send(sender).unwrap();
            let received = match rng.below(4) {
                0 => executor::block_on(receiver).ok(),
                1 => match poll(&mut receiver, Waker::noop()) {
                    Poll::Ready(received) => received.ok(),
                    Poll::Pending => None,
                },
                2 => {
                    receiver.close();
                    receiver.try_recv().ok()
                }
                _ => None,
            };
            match received {
                Some(_) => arrived.fetch_add(1, SeqCst),
                None => {
                    dropped += 1;
                    0
                }
            };
        }
        drop(senders);
        assert_eq!(arrived.load(SeqCst) + dropped, ROUNDS);
    });
    assert_eq!(Arc::strong_count(&alive), 1, "a value was lost");
    assert!(back.load(SeqCst) <= ROUNDS);
}
