//! Channels on which nothing can arrive: kept senders, full queues, lost notifications.

use std::sync::Arc;

use wakeful::sync::{Mutex, Notify, broadcast, mpsc, oneshot, watch};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A loop receives to the end of a channel whose sender it has itself.
async fn a_kept_sender(twin: Twin) {
    let (tx, mut rx) = mpsc::channel(8); //@ made
    for n in 0..3 {
        let tx = tx.clone();
        named("source", async move { tx.send(n).await.unwrap() });
    }
    if !is_buggy(twin) {
        drop(tx);
    } else {
        std::mem::forget(tx);
    }
    let mut sum = 0;
    while let Some(n) = rx.recv().await {
        //@ waits
        sum += n;
    }
    assert_eq!(sum, 3);
}

/// A worker ends when the channel closes; the test awaits the worker and still has the sender.
async fn a_sender_kept_over_join(twin: Twin) {
    let (tx, mut rx) = mpsc::unbounded_channel::<u32>(); //@ made
    let worker = named("worker", async move {
        while let Some(n) = rx.recv().await {
            //@ waits
            assert_eq!(n, 1);
        }
    });
    tx.send(1).unwrap();
    let tx = is_buggy(twin).then_some(tx);
    worker.await.unwrap();
    drop(tx);
}

/// A pool of workers whose last sender is in the struct that joins them.
async fn a_pool_that_joins(twin: Twin) {
    struct Pool {
        jobs: Option<mpsc::Sender<u32>>,
        workers: Vec<wakeful::task::JoinHandle<()>>,
    }
    let (jobs, rx) = mpsc::channel::<u32>(4); //@ made
    let rx = Arc::new(Mutex::new(rx));
    let worker = |_| {
        let rx = rx.clone();
        named("worker", async move {
            loop {
                let job = rx.lock().await.recv().await; //@ waits
                if job.is_none() {
                    break;
                }
            }
        })
    };
    let mut pool = Pool { jobs: Some(jobs), workers: (0..2).map(worker).collect() };
    pool.jobs.as_ref().unwrap().send(1).await.unwrap();
    if !is_buggy(twin) {
        pool.jobs.take();
    }
    for worker in pool.workers.drain(..) {
        worker.await.unwrap();
    }
    drop(pool);
}

/// A task sends nine commands to its own queue of eight.
async fn full_by_itself(twin: Twin) {
    let looper = named("looper", async move {
        let (tx, mut rx) = mpsc::channel(8);
        let count = if is_buggy(twin) { 9 } else { 8 };
        for n in 0..count {
            tx.send(n).await.unwrap(); //@ sends
        }
        drop(tx);
        while rx.recv().await.is_some() {}
    });
    looper.await.unwrap();
}

/// A reducer that receives actions and sends new ones into its own queue.
async fn a_reducer_that_feeds_itself(twin: Twin) {
    let (tx, mut rx) = mpsc::channel(2);
    let first = tx.clone();
    let reducer = named("reducer", async move {
        while let Some(action) = rx.recv().await {
            //@ receives
            if action > 2 {
                break;
            }
            let children = if is_buggy(twin) { 3 } else { 1 };
            for _ in 0..children {
                tx.send(action + 1).await.unwrap(); //@ sends
            }
        }
    });
    first.send(0).await.unwrap();
    drop(first);
    reducer.await.unwrap();
}

/// Two stages send to each other over full channels, with `reserve`.
async fn reserve_in_a_ring(twin: Twin) {
    let (to_b, mut at_b) = mpsc::channel(1);
    let (to_a, mut at_a) = mpsc::channel(1);
    let rounds = if is_buggy(twin) { 4 } else { 1 };
    let a = named("a", async move {
        for n in 0..rounds {
            to_b.reserve().await.unwrap().send(n); //@ a_sends
        }
        drop(to_b);
        while at_a.recv().await.is_some() {}
    });
    let b = named("b", async move {
        for n in 0..rounds {
            to_a.reserve().await.unwrap().send(n); //@ b_sends
        }
        drop(to_a);
        while at_b.recv().await.is_some() {}
    });
    let _ = wakeful::join!(a, b);
}

/// The notification comes before the task listens, and is lost.
async fn a_lost_notification(twin: Twin) {
    let ready = Arc::new(Notify::new());
    if is_buggy(twin) {
        ready.notify_waiters();
    } else {
        ready.notify_one();
    }
    let waiter = named("waiter", async move { ready.notified().await }); //@ waits
    waiter.await.unwrap();
}

/// A task keeps the sender of a broadcast whose messages it waits for.
async fn a_broadcast_to_itself(twin: Twin) {
    let (tx, mut rx) = broadcast::channel::<u32>(8); //@ made
    let listener = named("listener", async move {
        let tx = is_buggy(twin).then_some(tx);
        assert!(rx.recv().await.is_err()); //@ waits
        drop(tx);
    });
    listener.await.unwrap();
}

/// The owner of a watch waits until its own value changes.
async fn a_watch_of_itself(twin: Twin) {
    let (tx, mut rx) = watch::channel(0); //@ made
    let owner = named("owner", async move {
        if !is_buggy(twin) {
            tx.send_replace(1);
        }
        rx.wait_for(|value| *value == 1).await.unwrap(); //@ waits
        drop(tx);
    });
    owner.await.unwrap();
}

/// A ready flag is told through a oneshot whose sender is in the struct of the waiting task.
async fn a_oneshot_to_itself(twin: Twin) {
    struct Server {
        ready: Option<oneshot::Sender<()>>,
    }
    let server = named("server", async move {
        let (tx, rx) = oneshot::channel(); //@ made
        let mut server = Server { ready: Some(tx) };
        if !is_buggy(twin) {
            server.ready.take().unwrap().send(()).unwrap();
        }
        rx.await.unwrap(); //@ waits
        assert!(server.ready.is_none());
    });
    server.await.unwrap();
}

/// A worker has the lock of the shared queue while it waits for a job, and the producer needs the lock to add one.
async fn a_lock_over_recv(twin: Twin) {
    struct Shared {
        tx: mpsc::Sender<u32>,
        rx: Option<mpsc::Receiver<u32>>,
    }
    let (tx, rx) = mpsc::channel(4);
    let sender = tx.clone();
    let shared = Arc::new(Mutex::new(Shared { tx, rx: Some(rx) }));
    let (has, had) = oneshot::channel();
    let queue = shared.clone();
    let worker = named("worker", async move {
        let mut guard = queue.lock().await; //@ has
        let mut rx = guard.rx.take().unwrap();
        has.send(()).unwrap();
        if !is_buggy(twin) {
            drop(guard);
        }
        rx.recv().await.unwrap() //@ waits
    });
    had.await.unwrap();
    drop(sender);
    let producer = named("producer", async move {
        let tx = shared.lock().await.tx.clone(); //@ wants
        tx.send(1).await.unwrap();
    });
    let _ = wakeful::join!(worker, producer);
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(a_kept_sender)
            .reports("stuck_block_on", super::PROVEN)
            .says("mpsc::Receiver::recv")
            .says("@waits")
            .says("@made")
            .only_alone(),
        bug!(a_sender_kept_over_join)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"worker\"")
            .says("@waits")
            .says("@made")
            .only_alone(),
        bug!(a_pool_that_joins)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"worker\"")
            .says("@waits")
            .says("@made")
            .only_alone(),
        bug!(full_by_itself)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"looper\"")
            .says("@sends")
            .only_alone(),
        bug!(a_reducer_that_feeds_itself)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"reducer\"")
            .says("@sends")
            .only_alone(),
        bug!(reserve_in_a_ring)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"a\"")
            .says("\"b\"")
            .says("@a_sends")
            .says("@b_sends")
            .only_alone(),
        bug!(a_lost_notification)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"waiter\"")
            .says("@waits")
            .only_alone(),
        bug!(a_broadcast_to_itself)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"listener\"")
            .says("@waits")
            .only_alone(),
        bug!(a_watch_of_itself)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"owner\"")
            .says("@waits")
            .only_alone(),
        bug!(a_oneshot_to_itself)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"server\"")
            .only_alone(),
        bug!(a_lock_over_recv)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"worker\"")
            .says("\"producer\"")
            .says("@waits")
            .says("@wants")
            .says("@has")
            .only_alone(),
    ]
}
