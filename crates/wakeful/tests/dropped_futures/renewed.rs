//! Futures that are made anew for each poll of their task.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::task::{Context, Waker};
use std::thread;

use wakeful::sync::{mpsc, oneshot};
use wakeful::task::{JoinSet, LocalSet, may_wait_forever};

use crate::support::manual_poll::ManualPoll;
use crate::support::runtimes::{current_thread, runtimes, serial_runtimes};

/// Hand-written streams create a future of the resource for each poll. Any report fails the test, and a lost waker
/// ends `block_on` with a panic.
#[test]
fn a_stream_may_make_a_new_recv_for_each_poll() {
    for rt in runtimes() {
        let (tx, mut rx) = mpsc::channel(1);
        let (polled, was_polled) = std_mpsc::channel();
        let sender = thread::spawn(move || {
            for number in 0..100 {
                // The receiver found the channel empty, or received a message.
                let _ = was_polled.recv();
                tx.blocking_send(number).unwrap();
            }
        });
        let received = rt.block_on(async move {
            let mut received = Vec::new();
            loop {
                let next = poll_fn(|cx| {
                    let next = pin!(rx.recv()).poll(cx);
                    let _ = polled.send(());
                    next
                });
                match next.await {
                    Some(number) => received.push(number),
                    None => return received,
                }
            }
        });
        sender.join().unwrap();
        assert_eq!(received, (0..100).collect::<Vec<_>>(), "{}", rt.name);
    }
}

#[test]
fn a_stream_in_a_task_may_make_a_new_recv_for_each_poll() {
    for rt in serial_runtimes() {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let mut many = Vec::new();
        let task = rt.spawn(async move {
            let first = poll_fn(|cx| pin!(rx.recv()).poll(cx)).await;
            let others = poll_fn(|cx| pin!(rx.recv_many(&mut many, 8)).poll(cx)).await;
            (first, others)
        });
        rt.settle();
        tx.send(1).unwrap();
        rt.settle();
        tx.send(2).unwrap();
        assert_eq!(rt.block_on(task).unwrap(), (Some(1), 1), "{}", rt.name);
    }
}

/// tonic's server with TLS: `select!` over a stream and the handshakes that are under way, made anew in each poll.
#[test]
fn a_select_over_join_next_may_be_made_anew_for_each_poll() {
    #[derive(Debug, PartialEq)]
    enum Event {
        Connection(u32),
        Ready(u32),
    }
    for rt in serial_runtimes() {
        let (connect, mut incoming) = mpsc::channel::<u32>(4);
        let (report, mut events) = mpsc::unbounded_channel();
        let (open, mut gates): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
        let server = rt.spawn(async move {
            let mut handshakes = JoinSet::new();
            loop {
                let event = poll_fn(|cx| {
                    let select = async {
                        wakeful::select! {
                            Some(number) = incoming.recv() => Some(Event::Connection(number)),
                            Some(done) = handshakes.join_next() => Some(Event::Ready(done.unwrap())),
                            else => None,
                        }
                    };
                    pin!(select).poll(cx)
                });
                match event.await {
                    Some(event) => {
                        if let Event::Connection(number) = event {
                            let gate = gates.remove(0);
                            handshakes.spawn(async move {
                                gate.await.unwrap();
                                number
                            });
                        }
                        report.send(event).unwrap();
                    }
                    None => return,
                }
            }
        });
        rt.settle();
        let mut expect = |event| {
            rt.settle();
            assert_eq!(events.try_recv().ok(), Some(event), "{}", rt.name);
        };
        connect.try_send(1).unwrap();
        expect(Event::Connection(1));
        connect.try_send(2).unwrap();
        expect(Event::Connection(2));
        for (number, open) in [2, 1].into_iter().zip(open.into_iter().rev()) {
            open.send(()).unwrap();
            expect(Event::Ready(number));
        }
        drop(connect);
        rt.block_on(server).unwrap();
    }
}

#[test]
fn a_sender_may_ask_anew_in_each_poll_whether_it_is_wanted() {
    for rt in serial_runtimes() {
        let (mut tx, rx) = oneshot::channel::<u32>();
        let task = rt.spawn(async move { poll_fn(|cx| pin!(tx.closed()).poll(cx)).await });
        rt.settle();
        drop(rx);
        rt.block_on(task).unwrap();
    }
}

#[test]
fn a_set_of_local_tasks_may_be_run_by_a_new_future_in_each_poll() {
    let rt = current_thread();
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel();
    let task = set.spawn_local(rx);
    let (polled, was_polled) = std_mpsc::channel();
    let sender = thread::spawn(move || {
        was_polled.recv().unwrap();
        tx.send(1).unwrap();
    });
    let mut task = pin!(task);
    let received = rt.block_on(poll_fn(|cx| {
        let _ = pin!(set.run_until(may_wait_forever(pending::<()>()))).poll(cx);
        let _ = polled.send(());
        // Polled with a no-op waker, so that only the set wakes the task.
        task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }));
    sender.join().unwrap();
    assert_eq!(received.unwrap(), Ok(1));
}

#[test]
fn a_set_of_local_tasks_keeps_one_waker_of_futures_that_are_gone() {
    let set = LocalSet::new();
    let hands: Vec<_> =
        (0..3).map(|_| ManualPoll::pending(set.run_until(pending::<()>()))).collect();
    let wake_counts: Vec<_> = hands.iter().map(ManualPoll::wake_count).collect();
    drop(hands);
    let kept = || {
        wake_counts.iter().map(|wake_count| Arc::strong_count(wake_count) - 1).collect::<Vec<_>>()
    };
    assert_eq!(kept(), [0, 0, 1]);
    let next = ManualPoll::pending(set.run_until(pending::<()>()));
    assert_eq!((kept(), next.wakers()), (vec![0, 0, 0], 1), "a new one takes its place");
    drop(next);
    drop(set);
}
