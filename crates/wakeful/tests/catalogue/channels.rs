//! Channels on which nothing can arrive: kept senders, full queues, lost notifications.

use std::sync::Arc;

use wakeful::inspect::Certainty::Suspected;
use wakeful::sync::{Barrier, Mutex, Notify, broadcast, mpsc, oneshot, watch};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A loop receives to the end of a channel whose sender it has itself.
async fn a_kept_sender(twin: Twin) {
    let collector = named("collector", async move {
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
    });
    collector.await.unwrap();
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

/// A crawler starts a worker for each page, and waits for the next page when no worker is left.
async fn a_crawler_that_never_ends(twin: Twin) {
    let crawler = named("crawler", async move {
        let (tx, mut rx) = mpsc::unbounded_channel(); //@ made
        tx.send(3).unwrap();
        let mut pages = 0;
        while let Some(links) = rx.recv().await {
            //@ waits
            pages += 1;
            let found = tx.clone();
            named("page", async move {
                for _ in 1..links {
                    found.send(links - 1).unwrap();
                }
            });
            if !is_buggy(twin) && pages == 5 {
                break;
            }
        }
        drop(tx);
    });
    crawler.await.unwrap();
}

/// The results go to a task that ends with the channel, and the task that awaits it has a sender.
async fn a_sink_that_is_joined(twin: Twin) {
    let manager = named("manager", async move {
        let (tx, mut rx) = mpsc::channel::<u32>(4); //@ made
        let sink = named("sink", async move {
            let mut sum = 0;
            while let Some(n) = rx.recv().await {
                //@ waits
                sum += n;
            }
            sum
        });
        for n in 0..3 {
            let tx = tx.clone();
            named("source", async move { tx.send(n).await.unwrap() });
        }
        let tx = is_buggy(twin).then_some(tx);
        assert_eq!(sink.await.unwrap(), 3);
        drop(tx);
    });
    manager.await.unwrap();
}

/// Two stages have received from each other, and both wait for capacity, with `reserve`.
async fn a_ring_that_was_open(twin: Twin) {
    let (to_b, at_b) = mpsc::channel(1);
    let (to_a, at_a) = mpsc::channel(1);
    let both = Arc::new(Barrier::new(2));
    let stage = |name: &'static str, tx: mpsc::Sender<u32>, mut rx: mpsc::Receiver<u32>| {
        let both = both.clone();
        named(name, async move {
            tx.reserve().await.unwrap().send(0);
            rx.recv().await.unwrap();
            both.wait().await;
            let rounds = if is_buggy(twin) { 2 } else { 1 };
            for n in 0..rounds {
                tx.reserve().await.unwrap().send(n); //@ sends
            }
            drop(tx);
            while rx.recv().await.is_some() {}
        })
    };
    let (a, b) = (stage("a", to_b, at_a), stage("b", to_a, at_b));
    let _ = wakeful::join!(a, b);
}

/// A producer is started, and the receiver is kept in a struct that no task reads.
async fn a_receiver_that_no_task_reads(twin: Twin) {
    let (tx, rx) = mpsc::channel(2); //@ made
    let producer = named("producer", async move {
        for n in 0..4 {
            if tx.send(n).await.is_err() {
                //@ sends
                return;
            }
        }
    });
    let kept = is_buggy(twin).then_some(rx);
    producer.await.unwrap();
    drop(kept);
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
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"collector\" waits for a message, and seems to keep the only sender alive itself")
            .says("mpsc::Receiver::recv at @waits")
            .says("created     at @made"),
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
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"looper\" waits for capacity in a channel of 8, from which no task has received")
            .says("mpsc::Sender::send at @sends"),
        bug!(a_reducer_that_feeds_itself)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"reducer\"")
            .says("@sends")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"reducer\" waits for capacity in a channel of 2, on which it was the last to call recv")
            .says("mpsc::Sender::send at @sends"),
        bug!(reserve_in_a_ring)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"a\"")
            .says("\"b\"")
            .says("@a_sends")
            .says("@b_sends")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("waits for capacity in a channel of 1, from which no task has received")
            .says("mpsc::Sender::send"),
        bug!(a_lost_notification)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"waiter\"")
            .says("@waits")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"waiter\" waits for a notification, and notify_waiters was called once, before that")
            .says("@waits"),
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
        bug!(a_crawler_that_never_ends)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"crawler\"")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"crawler\" waits for a message, and seems to keep the only sender alive itself")
            .says("mpsc::Receiver::recv at @waits")
            .says("created     at @made"),
        bug!(a_sink_that_is_joined)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"sink\"")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"sink\" waits for a message")
            .says("\"manager\", which seems to keep the only sender alive")
            .says("mpsc::Receiver::recv at @waits")
            .says("created     at @made"),
        bug!(a_ring_that_was_open)
            .reports("deadlock", Suspected)
            .says("\"a\"")
            .says("\"b\"")
            .says("mpsc::Sender::send at @sends"),
        bug!(a_receiver_that_no_task_reads)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"producer\"")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"producer\" waits for capacity in a channel of 2, from which no task has received")
            .says("mpsc::Sender::send at @sends")
            .says("created     at @made"),
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
