//! Queues that move slowly, and receivers and senders that are handed on.

use std::sync::Arc;
use std::time::Duration;

use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sync::{Mutex, Notify, mpsc, oneshot, watch};
use wakeful::task::may_wait_forever;
use wakeful::time::sleep;
use wakeful::{join, select};

use super::super::child::named;
use super::super::program::{Innocent, innocent};
use super::{LONG, later};

/// A receiver is handed to a task that its last user did not spawn, while the user sends.
async fn a_receiver_handed_on() {
    let (tx, mut rx) = mpsc::channel(1);
    let (give, given) = oneshot::channel::<mpsc::Receiver<u32>>();
    let drains = named("drains", async move {
        let mut rx = given.await.unwrap();
        sleep(LONG).await;
        while rx.recv().await.is_some() {}
    });
    let sends = named("sends", async move {
        tx.send(0).await.unwrap();
        rx.recv().await.unwrap();
        give.send(rx).unwrap();
        for n in 0..3 {
            tx.send(n).await.unwrap();
        }
    });
    let _ = join!(drains, sends);
}

/// A receiver moves to a thread, which drains it late.
async fn a_receiver_on_a_thread() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.send(0).await.unwrap();
    rx.recv().await.unwrap();
    later(move || while rx.blocking_recv().is_some() {});
    for n in 0..3 {
        tx.send(n).await.unwrap();
    }
}

/// A chain of full queues whose last stage is slow.
async fn a_slow_pipeline() {
    let (a, mut at_b) = mpsc::channel(1);
    let (b, mut at_c) = mpsc::channel(1);
    let first = named("first", async move {
        for n in 0..8 {
            a.send(n).await.unwrap();
        }
    });
    let second = named("second", async move {
        while let Some(n) = at_b.recv().await {
            b.send(n).await.unwrap();
        }
    });
    let third = named("third", async move {
        while at_c.recv().await.is_some() {
            sleep(LONG / 8).await;
        }
    });
    let _ = join!(first, second, third);
}

/// A slot of a queue is reserved by one task, and used late by another.
async fn a_reserved_slot_moves() {
    let (tx, mut rx) = mpsc::channel(1);
    let slot = tx.clone().reserve_owned().await.unwrap();
    named("late", async move {
        sleep(LONG).await;
        slot.send(1);
    });
    let sender = named("sender", async move { tx.send(2).await.unwrap() });
    assert_eq!(rx.recv().await, Some(1));
    assert_eq!(rx.recv().await, Some(2));
    sender.await.unwrap();
}

/// A kept sender is used in the end, by a thread.
async fn a_sender_on_a_thread() {
    let (tx, mut rx) = mpsc::channel(4);
    later(move || tx.blocking_send(1).unwrap());
    while let Some(n) = rx.recv().await {
        assert_eq!(n, 1);
    }
}

/// A reply comes late, from a thread.
async fn a_late_reply() {
    let (tx, rx) = oneshot::channel();
    later(move || tx.send(1).unwrap());
    let waits = named("waits", async move { rx.await.unwrap() });
    assert_eq!(waits.await.unwrap(), 1);
}

/// Two actors call each other, each call from a task of its own.
async fn calls_in_both_directions() {
    type Call = oneshot::Sender<u32>;
    let (to_a, mut at_a) = mpsc::channel::<Call>(1);
    let (to_b, mut at_b) = mpsc::channel::<Call>(1);
    let ask_a = to_a.clone();
    named("a", async move {
        while let Some(reply) = at_a.recv().await {
            let to_b = to_b.clone();
            named("a asks", async move {
                let (tx, rx) = oneshot::channel();
                to_b.send(tx).await.unwrap();
                reply.send(rx.await.unwrap()).unwrap();
            });
        }
    });
    named("b", async move {
        let mut calls = 0;
        while let Some(reply) = at_b.recv().await {
            calls += 1;
            let (ask_a, again) = (ask_a.clone(), calls < 4);
            named("b asks", async move {
                let (tx, rx) = oneshot::channel();
                if again {
                    sleep(LONG / 4).await;
                    ask_a.send(tx).await.unwrap();
                    reply.send(rx.await.unwrap()).unwrap();
                } else {
                    reply.send(1).unwrap();
                }
            });
        }
    });
    let (tx, rx) = oneshot::channel();
    to_a.send(tx).await.unwrap();
    assert_eq!(rx.await.unwrap(), 1);
}

/// A subscriber waits for a change that a connection brings late.
async fn a_late_change() {
    let (tx, mut rx) = watch::channel(0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    named("server", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tx.send_replace(stream.read_u8().await.unwrap());
    });
    let subscriber = named("subscriber", async move { rx.changed().await.unwrap() });
    let mut client = TcpStream::connect(address).await.unwrap();
    sleep(LONG).await;
    client.write_u8(1).await.unwrap();
    subscriber.await.unwrap();
}

/// A notification comes late, from a timer.
async fn a_late_notification() {
    let ready = Arc::new(Notify::new());
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            // From here on it hears of the notification, polled or not.
            let notified = ready.clone().notified_owned();
            named("waiter", notified)
        })
        .collect();
    sleep(LONG).await;
    ready.notify_waiters();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

/// Workers share one receiver behind a lock; jobs come slowly.
async fn a_shared_receiver() {
    let (tx, rx) = mpsc::channel::<u32>(1);
    let rx = Arc::new(Mutex::new(rx));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let rx = rx.clone();
            named("worker", async move { while rx.lock().await.recv().await.is_some() {} })
        })
        .collect();
    for n in 0..4 {
        sleep(LONG / 4).await;
        tx.send(n).await.unwrap();
    }
    drop(tx);
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A loop over a closed channel that sleeps between two looks.
async fn a_closed_channel_with_pauses() {
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    drop(tx);
    let mut looks = 0;
    while looks < 100 {
        assert_eq!(rx.recv().await, None);
        sleep(LONG / 100).await;
        looks += 1;
    }
}

/// Clients come and go: every read ends with 0 bytes, of another connection each.
async fn many_ends_of_file() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = named("server", async move {
        for _ in 0..500 {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        }
    });
    for _ in 0..500 {
        drop(TcpStream::connect(address).await.unwrap());
    }
    server.await.unwrap();
}

/// A task that is meant to wait until the runtime ends says so.
async fn a_task_for_ever() {
    named("forever", may_wait_forever(std::future::pending::<()>()));
    sleep(LONG).await;
}

/// A heartbeat beside a shutdown that comes late.
async fn a_late_shutdown() {
    let (stop, mut stopping) = watch::channel(false);
    let (_keep, mut commands) = mpsc::channel::<u32>(1);
    let service = named("service", async move {
        loop {
            select! {
                _ = stopping.changed() => break,
                Some(_) = commands.recv() => {}
                () = sleep(Duration::from_secs(600)) => {}
            }
        }
    });
    sleep(LONG).await;
    stop.send_replace(true);
    service.await.unwrap();
}

pub fn all() -> Vec<Innocent> {
    vec![
        innocent!(a_receiver_handed_on).may_be(&["deadlock"]),
        innocent!(a_receiver_on_a_thread).may_be(&["deadlock"]),
        innocent!(a_slow_pipeline),
        innocent!(a_reserved_slot_moves),
        innocent!(a_sender_on_a_thread),
        innocent!(a_late_reply),
        innocent!(calls_in_both_directions),
        innocent!(a_late_change),
        innocent!(a_late_notification),
        innocent!(a_shared_receiver),
        innocent!(a_closed_channel_with_pauses),
        innocent!(many_ends_of_file),
        innocent!(a_task_for_ever),
        innocent!(a_late_shutdown),
    ]
}
