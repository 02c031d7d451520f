//! Models of `mpsc` channels: every message is received once, no task misses a wake-up, and no slot
//! is lost.
//!
//! In models, blocks have two slots, the word counts one reserved slot, and the receiver returns to
//! cheap fences after two messages.

use super::counting_waker::WakeCount;
use crate::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel, unbounded_channel};
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The result of a first poll. `finish` polls again when all other threads are done, and asserts
/// that a pending future was woken.
struct Polled<R> {
    first: Poll<R>,
    count: Arc<WakeCount>,
}

impl<R> Polled<R> {
    fn start(poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> Self {
        let (count, waker) = WakeCount::new();
        Self { first: poll(&mut Context::from_waker(&waker)), count }
    }

    #[track_caller]
    fn finish(self, poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> R {
        if let Poll::Ready(result) = self.first {
            return result;
        }
        assert!(self.count.wakes() > 0, "a pending future was not woken");
        match poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("woken, but not ready"),
        }
    }
}

/// Receives all messages. No sender is active any more.
fn drain(rx: &mut UnboundedReceiver<usize>) -> Vec<usize> {
    std::iter::from_fn(|| rx.try_recv().ok()).collect()
}

fn poll<F: Future>(future: Pin<&mut F>) -> (Poll<F::Output>, Arc<WakeCount>) {
    let (count, waker) = WakeCount::new();
    (future.poll(&mut Context::from_waker(&waker)), count)
}

/// A message is sent as the receiver parks. Catches a sender that sees no parked receiver while the
/// receiver sees no message, and concurrent access to the waker cell.
#[test]
fn send_while_receiver_parks() {
    model(5, || {
        let (tx, mut rx) = unbounded_channel();
        let sender = thread::spawn(move || {
            tx.send(7).unwrap();
            tx
        });
        start();
        let polled = Polled::start(|cx| rx.poll_recv(cx));
        let _tx = sender.join().unwrap();
        assert_eq!(polled.finish(|cx| rx.poll_recv(cx)), Some(7));
    });
}

/// The receiver parks several times, also for a different task, while messages are sent. Catches a
/// waker that is taken while the next one is stored.
#[test]
fn send_while_receiver_parks_again() {
    model(4, || {
        let (tx, mut rx) = unbounded_channel();
        let sender = thread::spawn(move || {
            tx.send(0).unwrap();
            tx.send(1).unwrap();
            tx
        });
        start();
        let mut got = Vec::new();
        for _ in 0..2 {
            let (_, waker) = WakeCount::new();
            if let Poll::Ready(value) = rx.poll_recv(&mut Context::from_waker(&waker)) {
                got.push(value.unwrap());
            }
        }
        let polled = Polled::start(|cx| rx.poll_recv(cx).map(Option::unwrap));
        let _tx = sender.join().unwrap();
        if got.len() < 2 {
            got.push(polled.finish(|cx| rx.poll_recv(cx).map(Option::unwrap)));
        }
        got.extend(drain(&mut rx));
        assert_eq!(got, [0, 1]);
    });
}

/// Polls for up to `tries` messages.
fn receive(rx: &mut UnboundedReceiver<usize>, tries: usize) -> Vec<usize> {
    let mut cx = Context::from_waker(Waker::noop());
    let ready = |poll| if let Poll::Ready(value) = poll { value } else { None };
    (0..tries).filter_map(|_| ready(rx.poll_recv(&mut cx))).collect()
}

/// A sender fills, appends and reuses blocks while the receiver empties them. Catches a block that
/// is reused too early, and messages that are lost or reordered.
#[test]
fn send_across_blocks() {
    model(4, || {
        let (tx, mut rx) = unbounded_channel();
        tx.send(0).unwrap();
        tx.send(1).unwrap();
        let sender = thread::spawn(move || {
            (2..5).for_each(|number| tx.send(number).unwrap());
            tx
        });
        start();
        let mut got = receive(&mut rx, 4);
        let _tx = sender.join().unwrap();
        got.extend(drain(&mut rx));
        assert_eq!(got, [0, 1, 2, 3, 4]);
    });
}

/// One of two senders claims the last slot of a block, the other the first slot of the next.
/// Catches a slot that is filled twice, and a block that is used before it is appended.
#[test]
fn two_senders_at_end_of_block() {
    model(3, || {
        let (tx, mut rx) = unbounded_channel();
        tx.send(0).unwrap();
        let senders = [1, 2].map(|number| {
            let tx = tx.clone();
            thread::spawn(move || tx.send(number).unwrap())
        });
        start();
        let mut got = receive(&mut rx, 1);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        got.extend(drain(&mut rx));
        assert!(got == [0, 1, 2] || got == [0, 2, 1], "{got:?}");
    });
}

/// A sender sees a position far ahead of the last block it saw. Catches a stale pointer of the
/// right parity.
#[test]
fn sender_falls_two_blocks_behind() {
    model(3, || {
        let (tx, mut rx) = unbounded_channel();
        let other = thread::spawn({
            let tx = tx.clone();
            move || (0..4).for_each(|number| tx.send(number).unwrap())
        });
        start();
        tx.send(10).unwrap();
        other.join().unwrap();
        let mut got = drain(&mut rx);
        got.retain(|&number| number < 10);
        assert_eq!(got, [0, 1, 2, 3]);
    });
}

/// The last sender is dropped as the receiver parks, after a last message.
#[test]
fn last_sender_drops_while_receiver_parks() {
    model(3, || {
        let (tx, mut rx) = unbounded_channel();
        let other = tx.clone();
        let weak = tx.downgrade();
        let threads = [
            thread::spawn(move || {
                other.send(7).unwrap();
            }),
            thread::spawn(move || drop(tx)),
        ];
        start();
        let polled = Polled::start(|cx| rx.poll_recv(cx));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(polled.finish(|cx| rx.poll_recv(cx)), Some(7));
        assert!(
            rx.try_recv()
                .is_err_and(|error| error == crate::sync::mpsc::error::TryRecvError::Disconnected)
        );
        assert!(weak.upgrade().is_none());
    });
}

/// A `recv` future is dropped as a sender sends a message, or is dropped. Catches a lost wake-up:
/// the waker belongs to the channel, not to the future.
#[test]
fn send_while_recv_future_is_dropped() {
    for sends in [true, false] {
        model(5, move || {
            let (tx, mut rx) = unbounded_channel();
            let (count, waker) = WakeCount::new();
            let sender = thread::spawn(move || {
                if sends {
                    tx.send(7).unwrap();
                }
            });
            start();
            let polled = pin!(rx.recv()).poll(&mut Context::from_waker(&waker));
            sender.join().unwrap();
            drop(waker);
            assert_eq!(count.wakes() > 0, polled.is_pending(), "a wake-up is lost");
            count.assert_waker_dropped();
            let value = match polled {
                Poll::Ready(value) => value,
                Poll::Pending => rx.try_recv().ok(),
            };
            assert_eq!(value, sends.then_some(7));
        });
    }
}

/// A `recv` future is dropped, another task receives instead, and the receiver is dropped, all as a
/// message is sent. Catches a waker that stays in a channel without receiver, and a wake-up of the
/// task that no longer waits.
#[test]
fn receiver_changes_task_while_message_is_sent() {
    model(5, || {
        let (tx, mut rx) = unbounded_channel();
        let ((first, first_waker), (second, second_waker)) = (WakeCount::new(), WakeCount::new());
        assert!(pin!(rx.recv()).poll(&mut Context::from_waker(&first_waker)).is_pending());
        let sender = thread::spawn(move || _ = tx.send(7));
        start();
        let polled = pin!(rx.recv()).poll(&mut Context::from_waker(&second_waker));
        // If the sender has claimed its slot, which took the first waker, and has not filled it,
        // the second task yields, which wakes it.
        let may_give_way = polled.is_pending() && rx.len() > 0;
        drop(rx);
        sender.join().unwrap();
        drop((first_waker, second_waker));
        let woken = (first.wakes(), second.wakes());
        assert!(polled.is_pending() || woken.1 == 0, "{woken:?}: the second task did not wait");
        let wakes = 1 + usize::from(may_give_way);
        assert!(woken.0 <= 1 && woken.1 <= 1, "{woken:?}: a waker is woken once");
        assert!(woken.0 + woken.1 <= wakes, "{woken:?}: one waker at a time is registered");
        for count in [first, second] {
            count.assert_waker_dropped();
        }
    });
}

/// The receiver is closed as a message is sent. Either the receiver gets it, or the sender gets it
/// back.
#[test]
fn close_while_message_is_sent() {
    model(5, || {
        let (tx, mut rx) = unbounded_channel();
        let sender = thread::spawn(move || (tx.send(7).is_ok(), tx));
        start();
        rx.close();
        let polled = Polled::start(|cx| rx.poll_recv(cx));
        let (sent, _tx) = sender.join().unwrap();
        assert_eq!(polled.finish(|cx| rx.poll_recv(cx)), sent.then_some(7));
    });
}

/// The receiver is dropped as a message is sent, with a permit or without. Catches a value that is
/// dropped twice or never.
#[test]
fn drop_receiver_while_message_is_sent() {
    for with_permit in [false, true] {
        model(4, move || {
            let (tx, rx) = channel(2);
            let value = Arc::new(());
            tx.try_send(value.clone()).unwrap();
            let permit = with_permit.then(|| tx.clone().try_reserve_owned().unwrap());
            let sender = thread::spawn({
                let value = value.clone();
                move || match permit {
                    Some(permit) => drop(permit.send(value)),
                    None => drop(tx.try_send(value)),
                }
            });
            start();
            drop(rx);
            sender.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }
}

/// Creates a full channel of one slot. With `full_fence`, the receiver is in full-fence mode,
/// because a sender waited and was cancelled.
fn full(full_fence: bool) -> (Sender<usize>, Receiver<usize>) {
    let (tx, rx) = channel(1);
    tx.try_send(0).unwrap();
    if full_fence {
        let mut reserve = Box::pin(tx.reserve());
        assert!(poll(reserve.as_mut()).0.is_pending());
        drop(reserve);
    }
    (tx, rx)
}

/// The receiver takes a message as a sender finds the channel full and enqueues itself. Catches a
/// free slot that is granted to no sender, in both fence modes and while the mode changes.
#[test]
fn slot_is_freed_while_sender_enqueues() {
    for full_fence in [false, true] {
        model(4, move || {
            let (tx, mut rx) = full(full_fence);
            let receiver = thread::spawn(move || {
                assert_eq!(rx.try_recv(), Ok(0));
                rx
            });
            start();
            let mut send = Box::pin(tx.send(1));
            let (first, count) = poll(send.as_mut());
            let mut rx = receiver.join().unwrap();
            let polled = Polled { first, count };
            polled.finish(|cx| send.as_mut().poll(cx)).unwrap();
            drop(send);
            assert_eq!(rx.try_recv(), Ok(1));
            assert_eq!(tx.capacity(), 1);
        });
    }
}

/// The receiver empties the channel, and returns to cheap fences, as a sender requests all slots.
/// Catches a receiver that forgets the waiting sender.
#[test]
fn slots_are_freed_one_by_one_while_sender_requests_all() {
    model(3, || {
        let (tx, mut rx) = channel(3);
        (0..3).for_each(|number| tx.try_send(number).unwrap());
        let mut cancelled = Box::pin(tx.reserve());
        assert!(poll(cancelled.as_mut()).0.is_pending());
        drop(cancelled);
        let receiver = thread::spawn(move || {
            (0..3).for_each(|number| assert_eq!(rx.try_recv(), Ok(number)));
            rx
        });
        start();
        let mut reserve = Box::pin(tx.reserve_many(3));
        let (first, count) = poll(reserve.as_mut());
        let _rx = receiver.join().unwrap();
        let permits = Polled { first, count }.finish(|cx| reserve.as_mut().poll(cx)).unwrap();
        assert_eq!(permits.len(), 3);
    });
}

/// Two senders enqueue themselves at the same time as the receiver takes two messages.
#[test]
fn two_senders_enqueue_while_slots_are_freed() {
    model(3, || {
        let (tx, mut rx) = full(false);
        let other = thread::spawn({
            let tx = tx.clone();
            move || {
                let mut send = Box::pin(async move { tx.send(1).await });
                let polled = poll(send.as_mut());
                (polled, send)
            }
        });
        start();
        let mut send = Box::pin(tx.send(2));
        let mine = poll(send.as_mut());
        assert_eq!(rx.try_recv(), Ok(0));
        let (others, mut others_send) = other.join().unwrap();
        // One of them has the slot, and was woken; the other follows.
        let mut pending = 0;
        for _ in 0..2 {
            for ((first, count), send) in [
                (&mine, send.as_mut() as Pin<&mut dyn Future<Output = _>>),
                (&others, others_send.as_mut()),
            ] {
                if first.is_pending() && count.take_wakes() > 0 {
                    let done = send.poll(&mut Context::from_waker(Waker::noop()));
                    assert!(done.is_ready(), "woken, but not ready");
                    pending += 1;
                }
            }
            assert!(rx.try_recv().is_ok(), "a slot is free, and no sender was woken");
        }
        let ready = usize::from(mine.0.is_ready()) + usize::from(others.0.is_ready());
        assert_eq!(pending + ready, 2);
    });
}

/// A waiting sender is cancelled as a slot is freed. Catches a slot that is granted to the
/// cancelled sender and lost.
#[test]
fn waiting_sender_is_cancelled_while_slot_is_freed() {
    model(4, || {
        let (tx, mut rx) = full(false);
        let mut first = Box::pin(tx.send(1));
        assert!(poll(first.as_mut()).0.is_pending());
        let mut second = Box::pin(tx.send(2));
        let (polled, count) = poll(second.as_mut());
        let receiver = thread::spawn(move || {
            assert_eq!(rx.try_recv(), Ok(0));
            rx
        });
        start();
        drop(first);
        let mut rx = receiver.join().unwrap();
        Polled { first: polled, count }.finish(|cx| second.as_mut().poll(cx)).unwrap();
        drop(second);
        assert_eq!((rx.try_recv(), tx.capacity()), (Ok(2), 1));
    });
}

/// Permits are dropped as a sender enqueues itself, even for more slots than the word counts.
#[test]
fn permits_are_dropped_while_sender_enqueues() {
    for slots in [1, 2] {
        model(3, move || {
            let (tx, mut rx) = channel(2);
            let permits = tx.clone();
            // More than the word counts in a model.
            let permits = thread::spawn(move || {
                let permits = permits.try_reserve_many(2);
                drop(permits);
            });
            start();
            let mut reserve = Box::pin(tx.reserve_many(slots));
            let (first, count) = poll(reserve.as_mut());
            permits.join().unwrap();
            let permits = Polled { first, count }.finish(|cx| reserve.as_mut().poll(cx)).unwrap();
            permits.for_each(|permit| permit.send(7));
            drop(reserve);
            assert_eq!((rx.len(), tx.capacity()), (slots, 2 - slots));
            while rx.try_recv().is_ok() {}
            assert_eq!(tx.capacity(), 2);
        });
    }
}

/// The channel is closed and the receiver parks as the last slot is released: by a permit, or by a
/// sender that waited for it. Catches a receiver that is not notified that the channel ended.
#[test]
fn closed_channel_ends_while_last_slot_is_released() {
    for waited in [false, true] {
        model(4, move || {
            let (tx, mut rx) = channel::<usize>(1);
            let permit = tx.clone().try_reserve_owned().unwrap();
            let waiting = waited.then(|| {
                let tx = tx.clone();
                let mut reserve = Box::pin(async move { tx.reserve().await.is_ok() });
                assert!(poll(reserve.as_mut()).0.is_pending());
                reserve
            });
            let permit = (!waited).then_some(permit);
            let other = thread::spawn(move || drop((permit, waiting)));
            start();
            rx.close();
            let polled = Polled::start(|cx| rx.poll_recv(cx));
            other.join().unwrap();
            assert_eq!(polled.finish(|cx| rx.poll_recv(cx)), None);
            drop(tx);
        });
    }
}

/// The receiver is dropped as a sender waits for that.
#[test]
fn receiver_drops_while_sender_waits_for_closed() {
    model(5, || {
        let (tx, rx) = channel::<usize>(1);
        let receiver = thread::spawn(move || drop(rx));
        start();
        let mut closed = Box::pin(tx.closed());
        let (first, count) = poll(closed.as_mut());
        receiver.join().unwrap();
        Polled { first, count }.finish(|cx| closed.as_mut().poll(cx));
    });
}
