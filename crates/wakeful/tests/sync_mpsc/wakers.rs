//! Wakers of `sync::mpsc`: none stays behind, none is called in vain, and one that panics harms no other.

use std::sync::Arc;
use std::task::{Context, Waker};

use wakeful::sync::mpsc::{channel, unbounded_channel};

use crate::support::bad_wakers::{panics, panics_when_woken};
use crate::support::manual_poll::ManualPoll;

#[test]
fn no_waker_stays_behind() {
    // The receiver keeps one waker, that of the last future, until it is dropped or woken.
    let (tx, mut rx) = channel(1);
    let recv = ManualPoll::pending(rx.recv());
    let recv_wake_count = recv.wake_count();
    drop(recv);
    assert_eq!(Arc::strong_count(&recv_wake_count), 2, "recv");
    let mut buffer = Vec::new();
    let recv = ManualPoll::pending(rx.recv_many(&mut buffer, 5));
    let wake_count = recv.wake_count();
    drop(recv);
    assert_eq!(
        (Arc::strong_count(&recv_wake_count), Arc::strong_count(&wake_count)),
        (1, 2),
        "recv_many"
    );

    let mut recv = ManualPoll::pending(rx.recv());
    assert_eq!((recv.wakers(), Arc::strong_count(&wake_count)), (1, 1));
    let second = ManualPoll::new(std::future::pending::<()>());
    let waker = Waker::from(second.wake_count());
    assert!(recv.poll_with(&waker).is_pending());
    assert_eq!((recv.wakers(), second.wakers()), (0, 2), "it moved to another task");
    tx.try_send(1).unwrap();
    assert_eq!((recv.take_wakes(), second.take_wakes(), second.wakers()), (0, 1, 1));
    drop(recv);
    assert_eq!(rx.try_recv(), Ok(1), "cancel safe");

    tx.try_send(2).unwrap();
    let waits = [ManualPoll::pending(tx.send(3)), ManualPoll::pending(tx.send(4))];
    let closed = ManualPoll::pending(tx.closed());
    let wake_counts: Vec<_> =
        waits.iter().map(ManualPoll::wake_count).chain([closed.wake_count()]).collect();
    drop((waits, closed));
    assert!(
        wake_counts.iter().all(|wake_count| Arc::strong_count(wake_count) == 1),
        "send, closed"
    );

    assert_eq!(rx.try_recv(), Ok(2));
    let mut cx = Context::from_waker(&waker);
    assert!(rx.poll_recv(&mut cx).is_pending());
    assert_eq!(second.wakers(), 2);
    rx.close();
    assert!(rx.poll_recv(&mut cx).is_ready());
    assert_eq!(second.wakers(), 1, "poll_recv, closed");
    let (_tx, mut rx) = unbounded_channel::<()>();
    assert!(rx.poll_recv(&mut cx).is_pending());
    drop(rx);
    assert_eq!(second.wakers(), 1, "poll_recv, dropped");
}

#[test]
fn a_receiver_that_was_woken_is_not_woken_again() {
    let (tx, mut rx) = unbounded_channel();
    let mut recv = ManualPoll::pending(rx.recv());
    (0..100).for_each(|number| tx.send(number).unwrap());
    assert_eq!((recv.take_wakes(), recv.ready()), (1, Some(0)));
    drop(recv);
    let mut buffer = Vec::new();
    assert_eq!(ManualPoll::new(rx.recv_many(&mut buffer, 60)).ready(), 60);
    assert_eq!(ManualPoll::new(rx.recv_many(&mut buffer, 60)).ready(), 39);
    assert_eq!(buffer, (1..100).collect::<Vec<_>>());
    assert_eq!(ManualPoll::new(rx.recv_many(&mut buffer, 0)).ready(), 0);
    let mut recv = ManualPoll::pending(rx.recv());
    drop((tx.clone(), tx));
    assert_eq!((recv.take_wakes(), recv.ready()), (1, None));
}

/// A waker that panics does not keep other waiters from being woken.
#[test]
fn a_waker_that_panics_harms_no_other_waiter() {
    // The receiver is dropped: pending sends and `closed` futures are woken.
    let (tx, rx) = channel(1);
    tx.try_send(0).unwrap();
    let mut bad = ManualPoll::new(tx.send(1));
    assert!(bad.poll_with(&panics_when_woken()).is_pending());
    let mut senders: Vec<_> = (0..100).map(|_| ManualPoll::pending(tx.send(1))).collect();
    let mut ends: Vec<_> = (0..100).map(|_| ManualPoll::pending(tx.closed())).collect();
    assert!(panics(|| drop(rx)));
    assert!(
        senders.iter().all(|send| send.take_wakes() == 1)
            && ends.iter().all(|end| end.take_wakes() == 1)
    );
    senders.iter_mut().for_each(|send| assert!(send.ready().is_err()));
    ends.iter_mut().for_each(ManualPoll::ready);

    // Dropped permits make room, which wakes the senders.
    let (tx, mut rx) = channel(100);
    let all = tx.try_reserve_many(100).unwrap();
    let mut bad = ManualPoll::new(tx.reserve());
    assert!(bad.poll_with(&panics_when_woken()).is_pending());
    let mut senders: Vec<_> = (0..99).map(|_| ManualPoll::pending(tx.send(1))).collect();
    assert!(panics(|| drop(all)));
    assert!(senders.iter().all(|send| send.take_wakes() == 1));
    senders.iter_mut().for_each(|send| send.ready().unwrap());
    drop((bad, senders));
    assert_eq!((rx.len(), tx.capacity()), (99, 1));
    drop(tx);
    assert_eq!(std::iter::from_fn(|| rx.try_recv().ok()).count(), 99);
}
