//! Locks that are waited for beside other events: in `select!`, under a time limit, beside a shutdown.

use std::sync::Arc;

use wakeful::inspect::Certainty::Suspected;
use wakeful::join;
use wakeful::sync::{Barrier, Mutex, RwLock, mpsc};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A reader reads again, behind a writer that waits for it: the lock is fair.
async fn reading_behind_a_writer(twin: Twin) {
    let table = Arc::new(RwLock::new(vec![1]));
    let (tell, mut told) = mpsc::channel(1);
    let other = table.clone();
    let reader = named("reader", async move {
        let rows = other.read().await; //@ has
        tell.send(()).await.unwrap();
        while is_buggy(twin) && other.try_read().is_ok() {
            wakeful::task::yield_now().await;
        }
        if !is_buggy(twin) {
            drop(rows);
        }
        assert!(!other.read().await.is_empty()); //@ wants
    });
    told.recv().await.unwrap();
    let writer = named("writer", async move { table.write().await.push(2) }); //@ behind
    let _ = join!(reader, writer);
}

/// Two readers both want to write, each with the other's read guard in the way.
async fn two_upgrades(twin: Twin) {
    let table = Arc::new(RwLock::new(0));
    let both = Arc::new(Barrier::new(2));
    let upgrade = |name: &'static str| {
        let (table, both) = (table.clone(), both.clone());
        named(name, async move {
            let seen = table.read().await; //@ reads
            both.wait().await;
            if !is_buggy(twin) {
                drop(seen);
            }
            *table.write().await += 1; //@ writes
        })
    };
    let (one, two) = (upgrade("one"), upgrade("two"));
    let _ = join!(one, two);
}

/// A lock is held while a send waits for capacity, and the receiver needs the lock for each message.
async fn lock_over_send(twin: Twin) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (tx, mut rx) = mpsc::channel(1);
    let lines = log.clone();
    let producer = named("producer", async move {
        for n in 0..8 {
            let guard = lines.lock().await; //@ has
            if !is_buggy(twin) {
                drop(guard);
                tx.send(n).await.unwrap();
                continue;
            }
            tx.send(n).await.unwrap(); //@ sends
            tx.send(n).await.unwrap(); //@ sends_more
        }
    });
    let consumer = named("consumer", async move {
        while let Some(n) = rx.recv().await {
            log.lock().await.push(n); //@ wants
        }
    });
    let _ = join!(producer, consumer);
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(reading_behind_a_writer)
            .reports("deadlock", Suspected)
            .edge(("reader", "RwLock::read", "wants"), ("writer", "behind"))
            .edge(("writer", "RwLock::write", "behind"), ("reader", "has")),
        bug!(two_upgrades)
            .reports("deadlock", Suspected)
            .says("\"one\"")
            .says("RwLock::write at")
            .says("@writes")
            .says("@reads"),
        bug!(lock_over_send)
            .reports("deadlock", Suspected)
            .says("\"producer\"")
            .says("\"consumer\"")
            .says("@wants")
            .says("@has"),
    ]
}
