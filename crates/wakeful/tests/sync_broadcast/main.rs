//! `sync::broadcast`: the documented behaviour, wakers that are never left behind, a model, and a stress test.

mod model;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::executor;
use futures::future::select;
use wakeful::sync::broadcast::error::{RecvError, SendError, TryRecvError};
use wakeful::sync::broadcast::{self, Receiver, Sender, WeakSender};
use wakeful::task::yield_now;

#[path = "../support"]
mod support {
    pub mod not_send;
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::not_send::CountingWaker;
use support::panic_site::panic_site;
use support::runtimes::{current_thread, runtimes};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn every_receiver_gets_every_value_on_every_runtime() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (sender, receiver) = broadcast::channel(128);
            let receivers = [sender.subscribe(), sender.subscribe(), receiver];
            let listening = receivers.map(|mut receiver| {
                wakeful::spawn(async move {
                    let mut got = Vec::new();
                    while let Ok(value) = receiver.recv().await {
                        got.push(value);
                    }
                    got
                })
            });
            for value in 0..100 {
                assert_eq!(sender.send(value).unwrap(), 3);
                if value % 10 == 0 {
                    yield_now().await;
                }
            }
            drop(sender);
            for listening in listening {
                assert!(listening.await.unwrap().into_iter().eq(0..100));
            }
        });
    }
    let (sender, mut receiver) = broadcast::channel(1);
    let other = thread::spawn(move || executor::block_on(receiver.recv()));
    sender.send(7).unwrap();
    assert_eq!(other.join().unwrap(), Ok(7), "on another executor");
}

#[test]
fn a_receiver_gets_what_was_sent_since_it_came() {
    let (sender, mut one) = broadcast::channel(4);
    sender.send(1).unwrap();
    let mut two = sender.subscribe();
    sender.send(2).unwrap();
    let mut three = two.resubscribe();
    assert_eq!((one.len(), two.len(), three.len()), (2, 1, 0));
    assert_eq!((one.try_recv(), one.try_recv()), (Ok(1), Ok(2)));
    assert_eq!((two.try_recv(), three.try_recv()), (Ok(2), Err(TryRecvError::Empty)));
    assert!(one.is_empty() && sender.is_empty());
    assert!(one.same_channel(&two) && !one.same_channel(&broadcast::channel(1).1));
}

#[test]
fn a_slow_receiver_learns_what_it_missed() {
    let (sender, mut slow) = broadcast::channel(3);
    let mut fast = sender.subscribe();
    for value in 1..=6 {
        sender.send(value).unwrap();
        assert_eq!(fast.try_recv(), Ok(value));
    }
    assert_eq!((slow.len(), sender.len()), (6, 4), "three are four");
    assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(2)));
    assert_eq!(slow.len(), 4);
    sender.send(7).unwrap();
    assert_eq!(executor::block_on(slow.recv()), Err(RecvError::Lagged(1)));
    drop(sender);
    assert!(slow.is_closed());
    for value in 4..=7 {
        assert_eq!(executor::block_on(slow.recv()), Ok(value), "still there");
    }
    assert_eq!(slow.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(executor::block_on(slow.recv()), Err(RecvError::Closed));
}

#[test]
fn values_are_dropped_when_all_have_seen_them() {
    let alive = Arc::new(());
    let (sender, mut one) = broadcast::channel(2);
    let mut two = sender.subscribe();
    sender.send(alive.clone()).unwrap();
    drop(one.try_recv().unwrap());
    assert_eq!((Arc::strong_count(&alive), sender.len()), (2, 1));
    drop(two.try_recv().unwrap());
    assert_eq!((Arc::strong_count(&alive), sender.len()), (1, 0), "the last one has seen it");

    for _ in 0..3 {
        sender.send(alive.clone()).unwrap();
    }
    assert_eq!((Arc::strong_count(&alive), sender.len()), (3, 2), "one was overwritten");
    drop(one);
    assert_eq!(sender.len(), 2, "the other has not seen them");
    drop(two);
    assert_eq!(
        (Arc::strong_count(&alive), sender.len()),
        (1, 0),
        "no receiver is left to see them"
    );
    let SendError(value) = sender.send(alive.clone()).unwrap_err();
    drop((value, sender));
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn weak_senders_do_not_keep_it_open() {
    let (sender, receiver) = broadcast::channel::<u32>(1);
    let weak = sender.downgrade();
    let second = weak.clone().upgrade().unwrap();
    assert!(sender.same_channel(&second));
    assert_eq!((weak.strong_count(), weak.weak_count()), (2, 1));
    assert_eq!((sender.strong_count(), sender.weak_count()), (2, 1));
    assert_eq!((receiver.sender_strong_count(), receiver.sender_weak_count()), (2, 1));
    drop(sender);
    assert!(!receiver.is_closed());
    drop(second);
    assert!(receiver.is_closed() && weak.upgrade().is_none());
    assert_eq!(receiver.resubscribe().try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn a_dropped_wait_loses_nothing_and_leaves_no_waker() {
    let ((one, waker_one), (two, waker_two)) = (CountingWaker::new(), CountingWaker::new());
    let (sender, mut receiver) = broadcast::channel(2);
    {
        let mut recv = pin!(receiver.recv());
        assert!(poll(recv.as_mut(), &waker_one).is_pending());
        assert!(poll(recv.as_mut(), &waker_two).is_pending());
        assert_eq!((one.other_clones(), two.other_clones()), (0, 1), "it moved");
        sender.send(1).unwrap();
        assert_eq!((one.take(), two.take(), two.other_clones()), (0, 1, 0));
    }
    assert_eq!(receiver.try_recv(), Ok(1), "not polled again, so still there");
    {
        let mut recv = pin!(receiver.recv());
        assert!(poll(recv.as_mut(), &waker_one).is_pending());
        let mut closed = pin!(sender.closed());
        assert!(poll(closed.as_mut(), &waker_two).is_pending());
    }
    assert_eq!((one.other_clones(), two.other_clones()), (0, 0));
    sender.send(2).unwrap();
    drop((receiver, sender));
    assert_eq!((one.take(), two.take()), (0, 0), "no task waits");
}

#[test]
fn closed_means_that_there_is_no_receiver() {
    let (count, waker) = CountingWaker::new();
    let sender = Sender::<u32>::new(1);
    assert!(poll(pin!(sender.closed()), &waker).is_ready());
    let (one, two) = (sender.subscribe(), sender.subscribe());
    assert_eq!(sender.receiver_count(), 2);
    let mut closed = pin!(sender.closed());
    assert!(poll(closed.as_mut(), &waker).is_pending());
    drop(one);
    assert_eq!(count.take(), 0);
    drop(two);
    assert_eq!(count.take(), 1);
    let three = sender.subscribe();
    assert!(poll(closed.as_mut(), &waker).is_pending(), "a receiver subscribed before the poll");
    drop(three);
    assert_eq!(count.take(), 1);
    assert!(poll(closed.as_mut(), &waker).is_ready());
}

#[test]
fn all_waiting_receivers_are_woken() {
    let (sender, receiver) = broadcast::channel(1);
    let mut receivers: Vec<_> = (0..100).map(|_| receiver.resubscribe()).collect();
    drop(receiver);
    let (count, waker) = CountingWaker::new();
    let mut waits: Vec<_> = receivers.iter_mut().map(|one| Box::pin(one.recv())).collect();
    for wait in &mut waits {
        assert!(poll(wait.as_mut(), &waker).is_pending());
    }
    sender.send(1).unwrap();
    assert_eq!((count.take(), count.other_clones()), (100, 0));
    assert!(waits.iter_mut().all(|wait| poll(wait.as_mut(), &waker) == Poll::Ready(Ok(1))));
    assert!(sender.is_empty());
}

#[test]
fn ready_operations_spend_budget() {
    current_thread().block_on(async {
        let (sender, mut receiver) = broadcast::channel(1);
        let always = pin!(async {
            loop {
                sender.send(1).unwrap();
                receiver.recv().await.unwrap();
            }
        });
        select(always, pin!(yield_now())).await;
    });
}

#[test]
fn a_clone_that_panics_counts_as_received() {
    #[derive(Debug, PartialEq)]
    struct Fragile(bool, Arc<()>);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            if self.0 {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            Fragile(false, self.1.clone())
        }
    }
    let alive = Arc::new(());
    let (sender, mut receiver) = broadcast::channel(2);
    sender.send(Fragile(true, alive.clone())).unwrap();
    sender.send(Fragile(false, alive.clone())).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| receiver.try_recv())).is_err());
    assert_eq!(Arc::strong_count(&alive), 2, "the first is gone");
    assert!(receiver.try_recv().is_ok());
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Wakers and values are foreign code: they may use the channel.
#[test]
fn wakers_and_drops_may_use_the_channel() {
    struct SendsWhenDropped(Sender<u32>);
    impl Drop for SendsWhenDropped {
        fn drop(&mut self) {
            let _ = self.0.send(1);
        }
    }
    impl Wake for SendsWhenDropped {
        fn wake(self: Arc<Self>) {}
    }
    let (sender, mut receiver) = broadcast::channel(2);
    {
        let mut recv = pin!(receiver.recv());
        let waker = Waker::from(Arc::new(SendsWhenDropped(sender.clone())));
        assert!(poll(recv.as_mut(), &waker).is_pending());
        drop(waker);
        let _ = poll(recv.as_mut(), Waker::noop());
    }
    assert_eq!(receiver.try_recv(), Ok(1));

    #[derive(Clone)]
    struct SendsOnDrop(Option<WeakSender<SendsOnDrop>>);
    impl Drop for SendsOnDrop {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take().and_then(|weak| weak.upgrade()) {
                assert!(sender.len() <= 1);
                let _ = sender.send(SendsOnDrop(None));
            }
        }
    }
    let (sender, mut receiver) = broadcast::channel(1);
    let looks = || SendsOnDrop(Some(sender.downgrade()));
    sender.send(looks()).unwrap_or_else(|_| panic!("one receives"));
    sender.send(looks()).unwrap_or_else(|_| panic!("one receives"));
    while receiver.try_recv() != Err(TryRecvError::Empty) {}
    impl PartialEq for SendsOnDrop {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
}

#[test]
fn misuse_panics_at_the_caller() {
    let site = panic_site(|| broadcast::channel::<u32>(0));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert_eq!(site.message, "broadcast channel capacity cannot be zero");
    let site = panic_site(|| Sender::<u32>::new(usize::MAX / 2 + 1));
    assert_eq!((site.file.as_str(), site.line), (file!(), line!() - 1));
    assert_eq!(site.message, "broadcast channel capacity exceeded `usize::MAX / 2`");
    let runtime = current_thread();
    let site = panic_site(AssertUnwindSafe(|| {
        runtime.block_on(async { broadcast::channel::<u32>(1).1.blocking_recv() })
    }));
    assert_eq!(site.file, file!());
    assert!(site.message.starts_with("Cannot block the current thread"), "{}", site.message);
}

#[test]
fn errors_have_messages() {
    assert_eq!(SendError(1).to_string(), "channel closed");
    assert_eq!(RecvError::Closed.to_string(), "channel closed");
    assert_eq!(RecvError::Lagged(3).to_string(), "channel lagged by 3");
    assert_eq!(TryRecvError::Empty.to_string(), "channel empty");
    assert_eq!(TryRecvError::Closed.to_string(), "channel closed");
    assert_eq!(TryRecvError::Lagged(3).to_string(), "channel lagged by 3");
    let (sender, receiver) = broadcast::channel::<u32>(1);
    let text = format!("{sender:?} {receiver:?} {:?}", sender.downgrade());
    assert_eq!(text, "broadcast::Sender broadcast::Receiver broadcast::WeakSender");
}

#[test]
fn is_send_if_the_value_is() {
    fn check<T: Send + Sync + Unpin>() {}
    fn check_future<T: Send + Sync>(_: T) {}
    check::<Sender<Cell<u32>>>();
    check::<Receiver<Cell<u32>>>();
    check::<WeakSender<Cell<u32>>>();
    let (sender, mut receiver) = broadcast::channel::<Cell<u32>>(1);
    check_future(sender.closed());
    check_future(receiver.recv());
}

#[test]
fn blocking_recv_waits_with_the_thread() {
    let (sender, mut receiver) = broadcast::channel(1);
    let other = thread::spawn(move || receiver.blocking_recv());
    sender.send(7).unwrap();
    assert_eq!(other.join().unwrap(), Ok(7));
}
