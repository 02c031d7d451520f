//! `sync::broadcast` against a naive model, and on threads.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread;

use futures::executor;
use wakeful::sync::broadcast::error::{RecvError, TryRecvError};
use wakeful::sync::broadcast::{self, Receiver};

use super::poll;
use crate::support::not_send::CountingWaker;
use crate::support::rng::{TestRng, seed};

/// A receive that was polled and is pending.
type Waiting = Pin<Box<dyn Future<Output = Result<usize, RecvError>>>>;

/// The model of one receiver: its queue, and the number of values that it has missed.
struct Listener {
    receiver: Rc<RefCell<Receiver<usize>>>,
    /// Borrows the receiver.
    waits: Option<Waiting>,
    queue: VecDeque<usize>,
    missed: u64,
    /// The waker that is registered.
    waker: Option<usize>,
}

impl Listener {
    fn new(receiver: Receiver<usize>) -> Self {
        let receiver = Rc::new(RefCell::new(receiver));
        Self { receiver, waits: None, queue: VecDeque::new(), missed: 0, waker: None }
    }

    #[allow(
        clippy::await_holding_refcell_ref,
        reason = "no other code borrows it while this waits"
    )]
    fn start(&mut self) {
        let receiver = self.receiver.clone();
        self.waits = Some(Box::pin(async move { receiver.borrow_mut().recv().await }));
    }

    fn stop(&mut self) {
        self.waits = None;
        self.waker = None;
    }

    fn next(&mut self, is_open: bool) -> Result<usize, TryRecvError> {
        match std::mem::take(&mut self.missed) {
            0 => {
                let end = if is_open { TryRecvError::Empty } else { TryRecvError::Closed };
                self.queue.pop_front().ok_or(end)
            }
            missed => Err(TryRecvError::Lagged(missed)),
        }
    }
}

/// Compares random steps of several receivers with a queue for each: results, lengths, wakes and kept wakers.
#[test]
fn agrees_with_a_naive_model() {
    let mut rng = TestRng::new(seed());
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    for round in 0..if cfg!(miri) { 10 } else { 300 } {
        let capacity = 1 << rng.below(4);
        let (sender, receiver) = broadcast::channel(capacity);
        let mut sender = Some(sender);
        let mut listeners = vec![Listener::new(receiver)];
        for step in 0..100 {
            let which = rng.below(2);
            let mut woken = [0; 2];
            match (rng.below(10), &sender) {
                (0..3, Some(open)) => {
                    let sent = open.send(step);
                    assert_eq!(sent.ok(), Some(listeners.len()).filter(|&len| len > 0));
                    for one in &mut listeners {
                        one.queue.push_back(step);
                        if one.queue.len() > capacity {
                            one.queue.pop_front();
                            one.missed += 1;
                        }
                        if let Some(waker) = one.waker.take() {
                            woken[waker] += 1;
                        }
                    }
                }
                (3, Some(open)) => {
                    if rng.one_in(20) {
                        sender = None;
                        for waker in listeners.iter_mut().filter_map(|one| one.waker.take()) {
                            woken[waker] += 1;
                        }
                    } else if listeners.len() < 5 {
                        listeners.push(Listener::new(open.subscribe()));
                    }
                }
                (4, _) if !listeners.is_empty() && rng.one_in(3) => {
                    let mut gone = listeners.swap_remove(rng.below(listeners.len()));
                    gone.stop();
                }
                (5 | 6, open) if !listeners.is_empty() => {
                    let number = rng.below(listeners.len());
                    let one = &mut listeners[number];
                    one.stop();
                    let expected = one.queue.len() as u64 + one.missed;
                    assert_eq!(one.receiver.borrow().len() as u64, expected);
                    let received = one.receiver.borrow_mut().try_recv();
                    assert_eq!(received, one.next(open.is_some()));
                }
                (_, open) if !listeners.is_empty() => {
                    let number = rng.below(listeners.len());
                    let one = &mut listeners[number];
                    if one.waits.is_none() {
                        one.start();
                    }
                    let polled = poll(one.waits.as_mut().unwrap().as_mut(), &wakers[which].1);
                    match one.next(open.is_some()) {
                        Err(TryRecvError::Empty) => {
                            assert_eq!(polled, Poll::Pending);
                            one.waker = Some(which);
                        }
                        next => {
                            let next = next.map_err(|error| match error {
                                TryRecvError::Lagged(missed) => RecvError::Lagged(missed),
                                _ => RecvError::Closed,
                            });
                            assert_eq!(polled, Poll::Ready(next));
                            one.stop();
                        }
                    }
                }
                _ => {}
            }
            for (waker, (count, _)) in wakers.iter().enumerate() {
                assert_eq!(count.take(), woken[waker], "wakes in step {step} of round {round}");
                let kept = listeners.iter().filter(|one| one.waker == Some(waker)).count();
                assert_eq!(count.other_clones(), kept, "kept");
            }
            if let Some(sender) = &sender {
                let unseen = listeners.iter().map(|one| one.queue.len()).max();
                assert_eq!(sender.len(), unseen.unwrap_or(0));
                assert_eq!(sender.receiver_count(), listeners.len());
            }
        }
        for listener in &mut listeners {
            listener.stop();
        }
    }
}

/// Several threads send and several receive, through a ring so small that values are overwritten while they are
/// cloned. Every receiver sees or misses each value once, in order, and all values are dropped.
#[test]
fn each_value_is_seen_or_missed_once() {
    const SENDS: u64 = if cfg!(miri) { 50 } else { 10_000 };
    let alive = Arc::new(());
    for capacity in [1, 4, 64] {
        let (sender, receiver) = broadcast::channel(capacity);
        let receivers = [receiver.resubscribe(), receiver.resubscribe(), receiver];
        thread::scope(|scope| {
            let listening = receivers.map(|mut receiver| {
                scope.spawn(move || {
                    let (mut counted, mut last) = (0, [0; 2]);
                    loop {
                        match executor::block_on(receiver.recv()) {
                            Ok((sender, number, _alive)) => {
                                assert!(number > std::mem::replace(&mut last[sender], number));
                                counted += 1;
                            }
                            Err(RecvError::Lagged(missed)) => counted += missed,
                            Err(RecvError::Closed) => return counted,
                        }
                    }
                })
            });
            for (number, sender) in [sender.clone(), sender].into_iter().enumerate() {
                let alive = &alive;
                scope.spawn(move || {
                    for value in 1..=SENDS {
                        assert_eq!(sender.send((number, value, alive.clone())).unwrap(), 3);
                    }
                });
            }
            for counted in listening {
                assert_eq!(counted.join().unwrap(), 2 * SENDS);
            }
        });
        assert_eq!(Arc::strong_count(&alive), 1, "a value was lost");
    }
}
