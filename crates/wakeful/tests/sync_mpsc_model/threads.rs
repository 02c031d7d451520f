//! Senders and receivers on threads, with every message counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::executor;
use wakeful::sync::mpsc::{Receiver, Sender, channel, unbounded_channel};

use crate::support::rng::{TestRng, seed};
use crate::support::runtimes::multi_thread;

/// A message that counts how many messages are alive.
struct Counted {
    sender: usize,
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(sender: usize, number: usize, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Self { sender, number, alive: alive.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, SeqCst);
    }
}

const SENDERS: usize = 4;
const MESSAGES: usize = if cfg!(miri) { 40 } else { 3_000 };

/// Sends in every possible way, and drops a wait now and then.
async fn send_all(tx: Sender<Counted>, sender: usize, alive: Arc<AtomicUsize>, mut rng: TestRng) {
    let mut number = 0;
    while number < MESSAGES {
        match rng.below(6) {
            0 => {
                if tx.try_send(Counted::new(sender, number, &alive)).is_err() {
                    wakeful::task::yield_now().await;
                    continue;
                }
            }
            1 => {
                // Polls the send once and drops it. The message was sent only if the send was ready.
                let mut send = Box::pin(tx.send(Counted::new(sender, number, &alive)));
                let polled = send.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                if polled.is_pending() {
                    drop(send);
                    wakeful::task::yield_now().await;
                    continue;
                }
            }
            2 => {
                let permits = tx.reserve_many(3).await.unwrap();
                for permit in permits.take(MESSAGES - number - 1) {
                    permit.send(Counted::new(sender, number, &alive));
                    number += 1;
                }
                continue_with(&tx, sender, number, &alive).await;
            }
            3 => {
                let permit = tx.clone().reserve_owned().await.unwrap();
                drop(permit.send(Counted::new(sender, number, &alive)));
            }
            _ => continue_with(&tx, sender, number, &alive).await,
        }
        number += 1;
    }
}

async fn continue_with(
    tx: &Sender<Counted>,
    sender: usize,
    number: usize,
    alive: &Arc<AtomicUsize>,
) {
    let sent = tx.send(Counted::new(sender, number, alive)).await;
    assert!(sent.is_ok(), "the receiver stays");
}

async fn receive_all(mut rx: Receiver<Counted>, mut rng: TestRng) {
    let mut expected = [0; SENDERS];
    let mut buffer = Vec::new();
    loop {
        match rng.below(4) {
            0 => drop(rx.recv_many(&mut buffer, 7).await),
            1 => buffer.extend(rx.try_recv().ok()),
            2 => {
                // Polls the receive once and drops it. It took a message only if it was ready.
                let mut recv = Box::pin(rx.recv());
                if let Poll::Ready(Some(value)) =
                    recv.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                {
                    buffer.push(value);
                }
            }
            _ => match rx.recv().await {
                Some(value) => buffer.push(value),
                None => break,
            },
        }
        for value in buffer.drain(..) {
            assert_eq!(value.number, expected[value.sender], "of sender {}", value.sender);
            expected[value.sender] += 1;
        }
    }
    assert_eq!(expected, [MESSAGES; SENDERS]);
}

#[test]
fn nothing_is_lost_between_threads() {
    let mut rng = TestRng::new(seed());
    for limit in [3, 64] {
        let runtime = multi_thread(2);
        let alive = Arc::new(AtomicUsize::new(0));
        let (tx, rx) = channel(limit);
        let mut threads = Vec::new();
        let mut tasks = Vec::new();
        for sender in 0..SENDERS {
            let sending = send_all(tx.clone(), sender, alive.clone(), rng.branch());
            if sender == 0 {
                threads.push(thread::spawn(move || executor::block_on(sending)));
            } else {
                tasks.push(runtime.spawn(sending));
            }
        }
        let weak = tx.downgrade();
        drop(tx);
        tasks.push(runtime.spawn(receive_all(rx, rng.branch())));
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(alive.load(SeqCst), 0, "values that are still alive");
        assert!(weak.upgrade().is_none());
    }
}

#[test]
fn the_receiver_may_go_at_any_time() {
    let mut rng = TestRng::new(seed());
    let alive = Arc::new(AtomicUsize::new(0));
    for _ in 0..if cfg!(miri) { 4 } else { 60 } {
        let (tx, mut rx) = unbounded_channel();
        let senders: Vec<_> = (0..2)
            .map(|sender| {
                let (tx, alive) = (tx.clone(), alive.clone());
                thread::spawn(move || {
                    let send =
                        |number: &usize| tx.send(Counted::new(sender, *number, &alive)).is_ok();
                    (0..if cfg!(miri) { 60 } else { 2_000 }).take_while(send).count()
                })
            })
            .collect();
        drop(tx);
        let some = rng.below(200);
        let received = (0..some).filter_map(|_| rx.blocking_recv()).count();
        drop(rx);
        let sent: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        assert!(sent >= received);
        assert_eq!(alive.load(SeqCst), 0, "values that are still alive");
    }
}
