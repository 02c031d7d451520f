//! Models of the channels: every message arrives once, nobody sleeps while there
//! is something for it, and no slot is lost. Blocks have two slots here, the word
//! counts one permit, and an alert receiver calms down after two messages.

use crate::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel, unbounded_channel};
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken; not part of the model.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), Waker::from(count))
}

/// Polls once. When all others are done, `finish` polls again, and demands that
/// somebody woke it if it had to wait.
struct Polled<R> {
    first: Poll<R>,
    count: Arc<Count>,
}

impl<R> Polled<R> {
    fn start(poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> Self {
        let (count, waker) = counter();
        Self { first: poll(&mut Context::from_waker(&waker)), count }
    }

    #[track_caller]
    fn finish(self, poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> R {
        if let Poll::Ready(result) = self.first {
            return result;
        }
        assert!(self.count.0.load(SeqCst) > 0, "it waits, and nobody woke it");
        match poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it was woken for nothing"),
        }
    }
}

/// What is there, and nobody sends any more.
fn drain(rx: &mut UnboundedReceiver<usize>) -> Vec<usize> {
    std::iter::from_fn(|| rx.try_recv().ok()).collect()
}

fn poll<F: Future>(future: Pin<&mut F>) -> (Poll<F::Output>, Arc<Count>) {
    let (count, waker) = counter();
    (future.poll(&mut Context::from_waker(&waker)), count)
}

/// A message is sent as the receiver parks. Catches a sender that sees nobody
/// parked while the receiver sees nothing sent, and a waker's place that both are
/// at.
#[test]
fn a_message_as_the_receiver_parks() {
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

/// The receiver parks again and again, also for another task, while messages
/// come. Catches a waker that is taken out while the next one is put in.
#[test]
fn messages_as_the_receiver_parks_again() {
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
            let (_, waker) = counter();
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

/// A sender fills blocks, appends others and uses old ones again, while the
/// receiver empties them. Catches a block that is used again too early, and
/// messages that are lost or out of order.
#[test]
fn a_sender_across_blocks() {
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

/// One of two senders claims the last slot of a block, the other the first of the
/// next. Catches a slot that two fill, and a block that is used before it is
/// there.
#[test]
fn two_senders_at_the_end_of_a_block() {
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

/// A sender sees a position far ahead of what it last saw of the blocks. Catches
/// an old pointer of the right parity.
#[test]
fn a_sender_that_was_away_for_two_blocks() {
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

/// The last sender goes away as the receiver parks, after a last message.
#[test]
fn the_last_sender_goes_as_the_receiver_parks() {
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

/// A future that waits for a message is dropped as a sender sends one, or goes away.
/// Catches a wake that is lost: the waker lies with the channel, not with the future.
#[test]
fn a_message_as_a_recv_future_is_dropped() {
    for sends in [true, false] {
        model(5, move || {
            let (tx, mut rx) = unbounded_channel();
            let (count, waker) = counter();
            let sender = thread::spawn(move || {
                if sends {
                    tx.send(7).unwrap();
                }
            });
            start();
            let polled = pin!(rx.recv()).poll(&mut Context::from_waker(&waker));
            sender.join().unwrap();
            drop(waker);
            assert_eq!(count.0.load(SeqCst) > 0, polled.is_pending(), "a wake is lost");
            assert_eq!(Arc::strong_count(&count), 1, "a waker stayed behind");
            let value = match polled {
                Poll::Ready(value) => value,
                Poll::Pending => rx.try_recv().ok(),
            };
            assert_eq!(value, sends.then_some(7));
        });
    }
}

/// A future that waits for a message is dropped, another task receives in its place, and
/// the receiver goes away, all as a message comes. Catches a waker that stays with a
/// channel whose receiver has gone, and a wake of the task that no longer waits.
#[test]
fn the_receiver_moves_on_as_a_message_comes() {
    model(5, || {
        let (tx, mut rx) = unbounded_channel();
        let ((first, first_waker), (second, second_waker)) = (counter(), counter());
        assert!(pin!(rx.recv()).poll(&mut Context::from_waker(&first_waker)).is_pending());
        let sender = thread::spawn(move || _ = tx.send(7));
        start();
        let polled = pin!(rx.recv()).poll(&mut Context::from_waker(&second_waker));
        // The sender had claimed its slot, which took the first waker, and had not filled it: the
        // second task gives way, which wakes it.
        let may_give_way = polled.is_pending() && rx.len() > 0;
        drop(rx);
        sender.join().unwrap();
        drop((first_waker, second_waker));
        let woken = (first.0.load(SeqCst), second.0.load(SeqCst));
        assert!(polled.is_pending() || woken.1 == 0, "{woken:?}: the second did not wait");
        let wakes = 1 + usize::from(may_give_way);
        assert!(woken.0 <= 1 && woken.1 <= 1, "{woken:?}: a waker is woken once");
        assert!(woken.0 + woken.1 <= wakes, "{woken:?}: one waker at a time is registered");
        for count in [first, second] {
            assert_eq!(Arc::strong_count(&count), 1, "a waker stayed behind");
        }
    });
}

/// The receiver closes as a message is sent: either it gets it, or the sender
/// gets it back.
#[test]
fn the_receiver_closes_as_a_message_is_sent() {
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

/// The receiver is dropped as a message is sent, with a permit or without. Catches
/// a value that is dropped twice or never.
#[test]
fn the_receiver_is_dropped_as_a_message_is_sent() {
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

/// A full channel of one slot. The receiver is alert if `alert`: somebody waited
/// and gave up.
fn full(alert: bool) -> (Sender<usize>, Receiver<usize>) {
    let (tx, rx) = channel(1);
    tx.try_send(0).unwrap();
    if alert {
        let mut reserve = Box::pin(tx.reserve());
        assert!(poll(reserve.as_mut()).0.is_pending());
        drop(reserve);
    }
    (tx, rx)
}

/// The receiver takes a message as a sender finds the channel full and queues.
/// Catches a slot that is freed and goes to nobody while the sender waits, with a
/// receiver that is calm, alert, or calms down at that moment.
#[test]
fn a_slot_is_freed_as_a_sender_queues() {
    for alert in [false, true] {
        model(4, move || {
            let (tx, mut rx) = full(alert);
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

/// The same for all slots of a channel: the receiver empties it, and calms down in
/// between. Catches a receiver that forgets who waits.
#[test]
fn slots_are_freed_one_by_one_as_a_sender_queues_for_all() {
    model(3, || {
        let (tx, mut rx) = channel(3);
        (0..3).for_each(|number| tx.try_send(number).unwrap());
        let mut gives_up = Box::pin(tx.reserve());
        assert!(poll(gives_up.as_mut()).0.is_pending());
        drop(gives_up);
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

/// The same with two senders that queue at the same time; the receiver takes two.
#[test]
fn two_senders_queue_as_slots_are_freed() {
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
        // One of them has the slot, and knows; the other follows.
        let mut pending = 0;
        for _ in 0..2 {
            for ((first, count), send) in [
                (&mine, send.as_mut() as Pin<&mut dyn Future<Output = _>>),
                (&others, others_send.as_mut()),
            ] {
                if first.is_pending() && count.0.swap(0, SeqCst) > 0 {
                    let done = send.poll(&mut Context::from_waker(Waker::noop()));
                    assert!(done.is_ready(), "woken for nothing");
                    pending += 1;
                }
            }
            assert!(rx.try_recv().is_ok(), "a slot was freed, and nobody was woken for it");
        }
        let ready = usize::from(mine.0.is_ready()) + usize::from(others.0.is_ready());
        assert_eq!(pending + ready, 2);
    });
}

/// A sender that waits gives up as a slot is freed. Catches a slot that went to
/// the one that has gone.
#[test]
fn a_waiting_sender_gives_up_as_a_slot_is_freed() {
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

/// A permit is dropped as a sender queues, and as it asks for more slots than the
/// word counts.
#[test]
fn a_permit_is_dropped_as_a_sender_queues() {
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

/// The channel is closed, and the receiver parks, as the last slot is let go: by a
/// permit, or by a sender that waited for it and has it now. Catches a receiver
/// that nobody tells about the end.
#[test]
fn a_closed_channel_ends_as_the_last_slot_is_let_go() {
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

/// The receiver goes away as a sender waits for that.
#[test]
fn the_receiver_goes_as_a_sender_waits_for_it() {
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
