//! `sync::mpsc`: the documented behaviour of both kinds of channels, cancel safety, and wakers that never stay behind.

mod wakers;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::runtime::Builder;
use wakeful::sync::Semaphore;
use wakeful::sync::mpsc::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};
use wakeful::sync::mpsc::{channel, unbounded_channel};

#[path = "../support"]
mod support {
    pub mod bad_wakers;
    pub mod manual_poll;
    pub mod panic_site;
    pub mod runtimes;
}
use support::manual_poll::ManualPoll;
use support::panic_site::panic_site;
use support::runtimes::{current_thread, runtimes, watch};

#[test]
fn messages_arrive_in_order_and_then_the_end() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (tx, mut rx) = channel(3);
            let (utx, mut urx) = unbounded_channel();
            let sender = wakeful::spawn(async move {
                for number in 0..200 {
                    tx.send(number).await.unwrap();
                    utx.send(number).unwrap();
                }
            });
            for number in 0..200 {
                assert_eq!((rx.recv().await, urx.recv().await), (Some(number), Some(number)));
            }
            assert_eq!((rx.recv().await, urx.recv().await), (None, None));
            sender.await.unwrap();
        });
    }
}

#[test]
fn threads_and_other_executors_take_part() {
    let (tx, mut rx) = channel(1);
    let blocking = thread::spawn({
        let tx = tx.clone();
        move || (0..50).for_each(|_| tx.blocking_send(1).unwrap())
    });
    let polling = thread::spawn(move || {
        executor::block_on(async {
            for _ in 0..50 {
                tx.send(1).await.unwrap();
            }
        });
    });
    let mut buffer = Vec::new();
    while rx.blocking_recv_many(&mut buffer, 7) > 0 {}
    assert_eq!(buffer.len(), 100);
    assert_eq!(rx.blocking_recv(), None);
    blocking.join().unwrap();
    polling.join().unwrap();
}

#[test]
fn misuse_panics_where_the_caller_is() {
    let site = |action: &dyn Fn()| panic_site(AssertUnwindSafe(action));
    let runtime = current_thread();
    let in_task = |action: &dyn Fn()| site(&|| runtime.block_on(async { action() }));
    let blocks = "Cannot block the current thread from within a runtime.";
    let sites = [
        ("mpsc bounded channel requires buffer > 0", site(&|| drop(channel::<()>(0)))),
        (
            "a semaphore may not have more than MAX_PERMITS permits (2305843009213693951)",
            site(&|| drop(channel::<()>(Semaphore::MAX_PERMITS + 1))),
        ),
        (blocks, in_task(&|| channel(1).0.blocking_send(()).unwrap())),
        (blocks, in_task(&|| channel(1).1.blocking_recv().unwrap())),
        (blocks, in_task(&|| assert_eq!(channel::<()>(1).1.blocking_recv_many(&mut vec![], 1), 0))),
        (blocks, in_task(&|| unbounded_channel().1.blocking_recv().unwrap())),
    ];
    for (message, site) in sites {
        assert!(site.message.starts_with(message), "{site:?}");
        assert!(site.file.ends_with("sync_mpsc/main.rs"), "{site:?}");
    }
}

#[test]
fn errors_say_what_is_wrong_and_give_the_value_back() {
    let (tx, mut rx) = channel(1);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    tx.try_send(1).unwrap();
    let full = tx.try_send(2).unwrap_err();
    assert_eq!((full, full.into_inner()), (TrySendError::Full(2), 2));
    assert_eq!(
        (full.to_string(), format!("{full:?}")),
        texts("no available capacity", "\"Full(..)\"")
    );
    rx.close();
    let closed = tx.try_send(3).unwrap_err();
    assert_eq!(closed, TrySendError::from(SendError(3)));
    assert_eq!(
        (closed.to_string(), format!("{closed:?}")),
        texts("channel closed", "\"Closed(..)\"")
    );
    let error = executor::block_on(tx.send(4)).unwrap_err();
    assert_eq!(error, SendError(4));
    assert_eq!(
        (error.to_string(), format!("{error:?}")),
        texts("channel closed", "SendError { .. }")
    );
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(TryRecvError::Empty.to_string(), "receiving on an empty channel");
    assert_eq!(TryRecvError::Disconnected.to_string(), "receiving on a closed channel");
    let late = SendTimeoutError::Timeout(5);
    assert_eq!(late.into_inner(), 5);
    assert_eq!(late.to_string(), "timed out waiting on send operation");
    assert_eq!(SendTimeoutError::Closed(5).to_string(), "channel closed");
}

fn texts(display: &str, debug: &str) -> (String, String) {
    (display.into(), debug.trim_matches('"').into())
}

#[test]
fn a_sender_waits_for_room_and_others_queue_behind_it() {
    let (tx, mut rx) = channel(2);
    tx.try_send(0).unwrap();
    tx.try_send(1).unwrap();
    let mut first = ManualPoll::pending(tx.send(2));
    let mut second = ManualPoll::pending(tx.reserve());
    assert_eq!(rx.try_recv(), Ok(0));
    assert_eq!((first.take_wakes(), second.take_wakes()), (1, 0));
    assert!(matches!(tx.try_send(9), Err(TrySendError::Full(9))), "it would overtake");
    assert!(second.poll().is_pending());
    assert_eq!(first.ready(), Ok(()));
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(second.take_wakes(), 1);
    second.ready().unwrap().send(3);
    assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(2), Ok(3)));
    assert_eq!(tx.capacity(), 2);
}

#[test]
fn a_dropped_wait_gives_up_its_place_and_what_it_was_promised() {
    let (tx, mut rx) = channel(1);
    tx.try_send(0).unwrap();
    let [first, second, mut third] = [0, 1, 2].map(|number| ManualPoll::pending(tx.send(number)));
    drop(second);
    assert_eq!(rx.try_recv(), Ok(0));
    assert_eq!(first.take_wakes(), 1);
    drop(first); // It was granted the slot, and not polled since.
    assert_eq!(third.take_wakes(), 1);
    assert_eq!((third.ready(), rx.try_recv()), (Ok(()), Ok(2)));
    let owned = ManualPoll::new(tx.clone().reserve_owned());
    assert_eq!(tx.strong_count(), 2);
    drop(owned);
    assert_eq!((tx.capacity(), tx.strong_count()), (1, 1));
}

#[test]
fn several_slots_are_collected_for_the_first_in_the_queue() {
    let (tx, mut rx) = channel(4);
    let mut held: Vec<_> = tx.try_reserve_many(3).unwrap().collect();
    let many = ManualPoll::pending(tx.reserve_many(3));
    let one = ManualPoll::pending(tx.reserve());
    assert_eq!(tx.capacity(), 0, "the free one is kept for it");
    held.pop().unwrap().send(7);
    assert_eq!(rx.try_recv(), Ok(7));
    assert_eq!((many.take_wakes(), one.take_wakes()), (0, 0));
    drop(many); // It has two of its three slots.
    assert_eq!(one.take_wakes(), 1);
    let mut many = ManualPoll::pending(tx.reserve_many(4));
    drop(one);
    drop(held);
    assert_eq!(many.take_wakes(), 1);
    let mut permits = many.ready().unwrap();
    assert_eq!((permits.len(), tx.capacity()), (4, 0));
    drop(permits.next());
    assert_eq!((permits.len(), tx.capacity()), (3, 1));
    drop(permits);
    assert_eq!(tx.capacity(), 4);
    assert!(ManualPoll::new(tx.reserve_many(5)).ready().is_err());
    assert!(matches!(tx.try_reserve_many(5), Err(TrySendError::Full(()))));
}

#[test]
fn more_permits_than_the_word_counts() {
    let max = Semaphore::MAX_PERMITS;
    let (tx, mut rx) = channel(max);
    assert_eq!((tx.capacity(), rx.max_capacity()), (max, max));
    let mut all = tx.try_reserve_many(max).unwrap();
    assert_eq!(tx.capacity(), 0);
    assert!(matches!(tx.try_send(0), Err(TrySendError::Full(0))));
    let mut waits = ManualPoll::pending(tx.reserve_many(2));
    for number in 0..3 {
        all.next().unwrap().send(number);
    }
    assert_eq!((rx.len(), tx.capacity()), (3, 0));
    drop(all.next());
    assert_eq!(rx.try_recv(), Ok(0));
    assert_eq!(waits.take_wakes(), 1);
    let two = waits.ready().unwrap();
    drop(all);
    assert_eq!(tx.capacity(), max - 4, "two permits and two messages");
    drop(two);
    tx.try_send(3).unwrap();
    let mut rest = Vec::new();
    assert_eq!(ManualPoll::new(rx.recv_many(&mut rest, 10)).ready(), 3);
    assert_eq!((rest, tx.capacity()), (vec![1, 2, 3], max));

    // Many single permits, some of them beyond the count in the word.
    let half = tx.try_reserve_many(1 << 20).unwrap();
    let permits: Vec<_> = (0..1000).map(|_| tx.try_reserve().unwrap()).collect();
    drop(half);
    assert_eq!(tx.capacity(), max - 1000);
    permits.into_iter().for_each(|permit| permit.send(1));
    assert_eq!((rx.len(), tx.capacity()), (1000, max - 1000));
    rx.close();
    assert_eq!(std::iter::from_fn(|| rx.try_recv().ok()).count(), 1000);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn a_closed_channel_gives_what_is_left_and_waits_for_permits() {
    let (tx, mut rx) = channel(3);
    tx.try_send(1).unwrap();
    let (used, dropped) = (tx.try_reserve().unwrap(), tx.clone().try_reserve_owned().unwrap());
    let mut waits = ManualPoll::pending(tx.send(9));
    let mut gone = ManualPoll::pending(tx.closed());
    rx.close();
    rx.close();
    assert!(rx.is_closed() && tx.is_closed());
    assert_eq!((waits.take_wakes(), gone.take_wakes()), (1, 1));
    assert_eq!(waits.ready(), Err(SendError(9)));
    gone.ready();
    assert!(tx.try_reserve().is_err() && tx.clone().try_reserve_owned().is_err());
    assert_eq!(ManualPoll::new(rx.recv()).ready(), Some(1));
    let mut recv = ManualPoll::pending(rx.recv());
    used.send(2);
    assert_eq!((recv.take_wakes(), recv.ready()), (1, Some(2)));
    drop(recv);
    let mut recv = ManualPoll::pending(rx.recv());
    assert!(dropped.same_channel_as_sender(&tx) && dropped.same_channel(&dropped));
    drop(dropped.release());
    assert_eq!((recv.take_wakes(), recv.ready()), (1, None));
}

#[test]
fn queued_values_are_dropped_with_the_receiver() {
    struct Bomb(Arc<AtomicUsize>, bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            assert!(!self.1, "on purpose");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (tx, rx) = channel(100);
    let permit = tx.try_reserve().unwrap();
    for number in 0..70 {
        tx.try_send(Bomb(dropped.clone(), number == 40)).unwrap_or_else(|_| panic!("full"));
    }
    assert_eq!(panic_site(AssertUnwindSafe(|| drop(rx))).message, "on purpose");
    assert_eq!(dropped.load(SeqCst), 70, "the others as well");
    permit.send(Bomb(dropped.clone(), false));
    assert!(matches!(tx.try_send(Bomb(dropped.clone(), false)), Err(TrySendError::Closed(_))));
    drop(tx);
    assert_eq!(dropped.load(SeqCst), 72, "what a permit sends is dropped with the channel");
}

#[test]
fn weak_senders_do_not_keep_the_channel_open() {
    let (tx, mut rx) = channel::<u8>(1);
    let (utx, urx) = unbounded_channel::<u8>();
    let (weak, uweak) = (tx.downgrade(), utx.downgrade());
    let (more, _umore) = (weak.clone(), uweak.clone());
    assert_eq!((tx.strong_count(), tx.weak_count(), weak.strong_count()), (1, 2, 1));
    assert_eq!((utx.weak_count(), urx.sender_weak_count(), uweak.weak_count()), (2, 2, 2));
    let again = weak.upgrade().unwrap();
    assert!(again.same_channel(&tx) && !again.same_channel(&channel(1).0));
    let permit = again.try_reserve_owned().unwrap();
    drop((tx, utx, more));
    assert!(!rx.is_closed(), "an owned permit is a sender too");
    assert_eq!((rx.sender_strong_count(), rx.sender_weak_count()), (1, 1));
    assert!(uweak.upgrade().is_none() && urx.is_closed());
    drop(permit.send(3));
    assert!(weak.upgrade().is_none() && rx.is_closed());
    assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(3), Err(TryRecvError::Disconnected)));
}

#[test]
fn sending_and_receiving_spend_budget() {
    // On one thread, a long poll delays the other task.
    current_thread().block_on(async {
        let (tx, mut rx) = channel(1000);
        for _ in 0..300 {
            tx.try_send(0).unwrap();
        }
        // A task that shares its thread gets its turn every 128 messages.
        let other = Arc::new(AtomicUsize::new(0));
        let turns = other.clone();
        let counting = wakeful::spawn(async move {
            loop {
                turns.fetch_add(1, SeqCst);
                wakeful::task::yield_now().await;
            }
        });
        let (receiving, sending) = wakeful::spawn(async move {
            let before = other.load(SeqCst);
            for _ in 0..300 {
                rx.recv().await.unwrap();
            }
            let between = other.load(SeqCst);
            for _ in 0..300 {
                tx.send(0).await.unwrap();
            }
            (between - before, other.load(SeqCst) - between)
        })
        .await
        .unwrap();
        counting.abort();
        assert!((1..=4).contains(&receiving) && (1..=4).contains(&sending));
    });
}

#[test]
fn sending_gives_up_in_time() {
    let mut builder = Builder::new_current_thread();
    let runtime = watch("paused", builder.enable_time().start_paused(true));
    // The future is made outside of the runtime. Its time counts from the first poll.
    let (tx, mut rx) = channel(1);
    runtime.block_on(tx.send_timeout(1, Duration::from_secs(1))).unwrap();
    runtime.block_on(async {
        let late = tx.send_timeout(2, Duration::from_secs(1)).await;
        assert_eq!(late, Err(SendTimeoutError::Timeout(2)));
        assert_eq!(rx.recv().await, Some(1));
        tx.send_timeout(3, Duration::ZERO).await.unwrap();
        rx.close();
        let closed = tx.send_timeout(4, Duration::from_secs(1)).await;
        assert_eq!(closed, Err(SendTimeoutError::Closed(4)));
    });
    assert_eq!(tx.capacity(), 0);
}

#[test]
fn large_messages_and_no_bytes_at_all() {
    let (tx, mut rx) = unbounded_channel();
    for number in 0..100u8 {
        tx.send([number; 20_000]).unwrap();
    }
    let sums: usize =
        std::iter::from_fn(|| rx.try_recv().ok()).map(|value| usize::from(value[9])).sum();
    assert_eq!(sums, 4950);
    let (tx, mut rx) = channel(1_000);
    (0..1_000).for_each(|_| tx.try_send(()).unwrap());
    assert!(tx.try_send(()).is_err());
    assert_eq!((rx.len(), rx.is_empty()), (1_000, false));
    let mut buffer = Vec::new();
    assert_eq!(ManualPoll::new(rx.recv_many(&mut buffer, 2_000)).ready(), 1_000);
    assert_eq!((rx.len(), rx.is_empty()), (0, true));
}

#[test]
fn everything_can_be_printed_and_sent() {
    #[derive(Clone, Copy)]
    struct Plain;
    fn shown<T: std::fmt::Debug + Send + Sync + Unpin>(value: T) -> String {
        format!("{value:?}")
    }
    let (tx, rx) = channel::<Plain>(2);
    let (utx, urx) = unbounded_channel::<Plain>();
    assert_eq!(
        shown(&tx),
        "Sender { capacity: 2, max_capacity: 2, is_closed: false, .. }".to_owned()
    );
    shown((&rx, &utx, &urx, tx.downgrade(), utx.downgrade()));
    shown((tx.try_reserve(), tx.try_reserve_many(1), tx.clone().try_reserve_owned()));
    fn is_send<F: Future + Send>(_: F) {}
    let (tx, mut rx) = channel::<std::cell::Cell<u8>>(1);
    is_send(tx.send(std::cell::Cell::new(1)));
    is_send(tx.closed());
    is_send(tx.reserve_many(1));
    is_send(tx.clone().reserve_owned());
    is_send(rx.recv());
}

#[test]
fn a_permit_that_was_leaked_keeps_no_channel_open() {
    let (tx, mut rx) = channel::<u32>(2);
    std::mem::forget(tx.try_reserve().unwrap());
    let mut waits = ManualPoll::pending(rx.recv());
    drop(tx);
    assert_eq!((waits.take_wakes(), waits.ready()), (1, None));
}
