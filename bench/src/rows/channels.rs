//! Rows about channels, all of `u64` messages.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;

use super::{Row, Target, Unit, Work, on_worker};
use crate::peers::{Peer, WakeAndYield};
use crate::primitives::{Bounded, Broadcast, Oneshot, Unbounded, Watch, cells};

/// Messages a bounded channel holds.
const CAPACITY: usize = 1_000;
/// Messages through a channel in one batch, from all producers together.
const MESSAGES: u64 = 1_000;
/// Messages either side of ping_pong_pair's channels hold.
const PAIR_CAPACITY: usize = 16;
/// Receivers of broadcast.
const LISTENERS: usize = 2;

pub fn rows() -> Vec<Row> {
    let mut rows = mpsc_rows();
    rows.extend(unbounded_rows());
    rows.extend(other_rows());
    rows
}

fn mpsc_rows() -> Vec<Row> {
    vec![
        Row {
            name: "mpsc_1",
            what: "one task sends to another over a channel bounded to 1,000; per message",
            unit: Unit::Nanoseconds,
            ops_per_batch: MESSAGES,
            target: Target::both(0.35),
            counted: Some((10, 60)),
            cells: cells!(mpsc_1: AsyncChannel, Flume, Kanal, Crossfire),
        },
        Row {
            name: "mpsc_4",
            what: "four tasks send to one over a channel bounded to 1,000; per message",
            unit: Unit::Nanoseconds,
            ops_per_batch: MESSAGES,
            target: Target::both(0.35),
            counted: Some((10, 60)),
            cells: cells!(mpsc_4: AsyncChannel, Flume, Kanal, Crossfire),
        },
        Row {
            name: "ping_pong_pair",
            what: "two tasks, a round trip over two channels bounded to 16",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.70, 0.80),
            counted: Some((2_000, 22_000)),
            cells: cells!(ping_pong_pair: AsyncChannel, Flume, Kanal, Crossfire),
        },
    ]
}

fn unbounded_rows() -> Vec<Row> {
    vec![
        Row {
            name: "mpsc_unbounded_1",
            what: "one task sends to another over an unbounded channel and yields after each 1,000; per message",
            unit: Unit::Nanoseconds,
            ops_per_batch: MESSAGES,
            target: Target::each(0.45, 0.50),
            counted: Some((10, 60)),
            cells: cells!(mpsc_unbounded_1: AsyncChannel, Flume, Kanal, Crossfire),
        },
        Row {
            name: "mpsc_unbounded_4",
            what: "four tasks send to one over an unbounded channel, each yields after 250; per message",
            unit: Unit::Nanoseconds,
            ops_per_batch: MESSAGES,
            target: Target::each(0.30, 0.50),
            counted: Some((10, 60)),
            cells: cells!(mpsc_unbounded_4: AsyncChannel, Flume, Kanal, Crossfire),
        },
    ]
}

fn other_rows() -> Vec<Row> {
    vec![
        Row {
            name: "oneshot",
            what: "a task makes a oneshot, sends and receives",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.60, 0.70),
            counted: Some((5_000, 55_000)),
            cells: cells!(oneshot: Oneshots, Futures),
        },
        Row {
            name: "watch",
            what: "one task sends a value, wakes itself and yields, another waits for each change; per value",
            unit: Unit::Nanoseconds,
            ops_per_batch: 1,
            target: Target::each(0.80, 0.90),
            counted: Some((2_000, 22_000)),
            cells: cells!(watch:),
        },
        Row {
            name: "broadcast",
            what: "one task sends to two others, at most 2,000 ahead; per message received",
            unit: Unit::Nanoseconds,
            ops_per_batch: MESSAGES * LISTENERS as u64,
            target: Target::each(0.80, 0.90),
            counted: Some((10, 60)),
            cells: cells!(broadcast:),
        },
    ]
}

fn mpsc_1<P: Peer, C: Bounded>() -> Work {
    on_worker(P::build(), bounded::<P, C, 1>)
}

fn mpsc_4<P: Peer, C: Bounded>() -> Work {
    on_worker(P::build(), bounded::<P, C, 4>)
}

async fn bounded<P: Peer, C: Bounded, const PRODUCERS: u64>(batches: u64) {
    let (sender, mut receiver) = C::bounded(CAPACITY);
    for _ in 0..PRODUCERS {
        let sender = sender.clone();
        P::detach(P::spawn(async move {
            for message in 0..batches * MESSAGES / PRODUCERS {
                C::send(&sender, message).await;
            }
        }));
    }
    drop(sender);
    let mut received = 0;
    while C::recv(&mut receiver).await.is_some() {
        received += 1;
    }
    assert_eq!(received, batches * MESSAGES, "every message arrives once");
}

fn mpsc_unbounded_1<P: Peer, C: Unbounded>() -> Work {
    on_worker(P::build(), unbounded::<P, C, 1>)
}

fn mpsc_unbounded_4<P: Peer, C: Unbounded>() -> Work {
    on_worker(P::build(), unbounded::<P, C, 4>)
}

/// Nothing makes these producers wait; they yield, or a single thread would
/// see all messages sent before the first is received.
async fn unbounded<P: Peer, C: Unbounded, const PRODUCERS: u64>(batches: u64) {
    let (sender, mut receiver) = C::unbounded();
    for _ in 0..PRODUCERS {
        let sender = sender.clone();
        P::detach(P::spawn(async move {
            for _ in 0..batches {
                for message in 0..MESSAGES / PRODUCERS {
                    C::send(&sender, message);
                }
                P::yield_now().await;
            }
        }));
    }
    drop(sender);
    let mut received = 0;
    while C::recv(&mut receiver).await.is_some() {
        received += 1;
    }
    assert_eq!(received, batches * MESSAGES, "every message arrives once");
}

fn ping_pong_pair<P: Peer, C: Bounded>() -> Work {
    on_worker(P::build(), |batches| async move {
        let (ping, mut pinged) = C::bounded(PAIR_CAPACITY);
        let (pong, mut ponged) = C::bounded(PAIR_CAPACITY);
        let partner = P::spawn(async move {
            while let Some(message) = C::recv(&mut pinged).await {
                C::send(&pong, message).await;
            }
        });
        for message in 0..batches {
            C::send(&ping, message).await;
            assert_eq!(C::recv(&mut ponged).await, Some(message));
        }
        drop(ping);
        partner.await;
    })
}

fn oneshot<P: Peer, C: Oneshot>() -> Work {
    on_worker(P::build(), |batches| async move {
        for message in 0..batches {
            let (sender, receiver) = C::oneshot();
            C::send(sender, message);
            assert_eq!(C::recv(receiver).await, message);
        }
    })
}

/// On several threads the watching task may miss values: that is what a watch
/// is for. It sees the last one.
fn watch<P: Peer, C: Watch>() -> Work {
    on_worker(P::build(), |batches| async move {
        let (sender, mut receiver) = C::watch(0);
        let watching = P::spawn(async move { while C::changed(&mut receiver).await < batches {} });
        for value in 1..=batches {
            C::send(&sender, value);
            WakeAndYield::default().await;
        }
        watching.await;
    })
}

/// The sender waits until both listeners have received the batch before, or they would miss messages. It
/// sleeps while it waits: a sender that yields in a loop would count its polls, which depend on the
/// schedule.
fn broadcast<P: Peer, C: Broadcast>() -> Work {
    on_worker(P::build(), |batches| async move {
        let sender = C::broadcast(2 * MESSAGES as usize);
        let received: Arc<Received> = Arc::default();
        let listeners: Vec<_> = (0..LISTENERS)
            .map(|number| {
                let (receiver, received) = (C::subscribe(&sender), received.clone());
                P::spawn(async move { listen::<C>(receiver, batches, &received, number).await })
            })
            .collect();
        for batch in 0..batches {
            for message in 0..MESSAGES {
                C::send(&sender, message);
            }
            received.wait_for(batch).await;
        }
        for listener in listeners {
            listener.await;
        }
    })
}

async fn listen<C: Broadcast>(
    mut receiver: C::Receiver,
    batches: u64,
    received: &Received,
    number: usize,
) {
    for _ in 0..batches {
        for message in 0..MESSAGES {
            assert_eq!(C::recv(&mut receiver).await, message);
        }
        received.add_batch(number);
    }
}

/// The batches that each listener of `broadcast` has received.
#[derive(Default)]
struct Received {
    batches: [AtomicU64; LISTENERS],
    sender: AtomicWaker,
}

impl Received {
    fn add_batch(&self, listener: usize) {
        // Release: `AtomicWaker::wake` comes after it, and `register` before the load in `have`.
        self.batches[listener].fetch_add(1, Ordering::Release);
        self.sender.wake();
    }

    fn have(&self, batches: u64) -> bool {
        self.batches.iter().all(|count| count.load(Ordering::Acquire) >= batches)
    }

    /// Waits until every listener has received this many batches.
    async fn wait_for(&self, batches: u64) {
        poll_fn(|cx| {
            self.sender.register(cx.waker());
            if self.have(batches) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }
}
