//! Locks that are waited for beside other events: in `select!`, under a time limit, beside a shutdown.

use std::sync::Arc;
use std::time::Duration;

use wakeful::inspect::Certainty::Suspected;
use wakeful::sync::{Barrier, Mutex, RwLock, mpsc, watch};
use wakeful::time::{sleep, timeout};
use wakeful::{join, select};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

const FAR: Duration = Duration::from_secs(600);

/// A session flushes its own cache while it still holds the cache.
async fn lock_twice_in_select(twin: Twin) {
    let cache = Arc::new(Mutex::new(vec![1, 2, 3]));
    let (stop, mut stopping) = watch::channel(false);
    let session = named("session", async move {
        let entries = cache.lock().await; //@ has
        let count = entries.len();
        if !is_buggy(twin) {
            drop(entries);
        }
        select! {
            mut entries = cache.lock() => entries.truncate(count / 2), //@ wants
            _ = stopping.changed() => {}
        }
    });
    session.await.unwrap();
    drop(stop);
}

/// Two transfers lock two accounts in opposite orders, each lock with a time limit.
async fn abba_with_timeout(twin: Twin) {
    let [a, b] = [Arc::new(Mutex::new(100)), Arc::new(Mutex::new(100))];
    let both = Arc::new(Barrier::new(2));
    let (a1, b1, both1) = (a.clone(), b.clone(), both.clone());
    let there = named("there", async move {
        let mut from = timeout(FAR, a1.lock()).await.unwrap(); //@ has_a
        if is_buggy(twin) {
            both1.wait().await;
        }
        let mut to = timeout(FAR, b1.lock()).await.unwrap(); //@ wants_b
        (*from, *to) = (*from - 1, *to + 1);
    });
    let back = named("back", async move {
        let (first, second) = if is_buggy(twin) { (b, a) } else { (a, b) };
        let mut from = timeout(FAR, first.lock()).await.unwrap(); //@ has_b
        if is_buggy(twin) {
            both.wait().await;
        }
        let mut to = timeout(FAR, second.lock()).await.unwrap(); //@ wants_a
        (*from, *to) = (*from - 1, *to + 1);
    });
    let (there, back) = join!(there, back);
    (there.unwrap(), back.unwrap()).0
}

/// Two services lock each other's state, and listen to a shutdown while they wait.
async fn abba_beside_shutdown(twin: Twin) {
    let [users, orders] = [Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2))];
    let (stop, stopping) = watch::channel(false);
    let both = Arc::new(Barrier::new(2));
    let service = |name: &'static str, first: Arc<Mutex<i32>>, second: Arc<Mutex<i32>>| {
        let (mut stopping, both) = (stopping.clone(), both.clone());
        named(name, async move {
            let own = first.lock().await; //@ has
            if is_buggy(twin) {
                both.wait().await;
            }
            select! {
                _ = stopping.changed() => {}
                other = second.lock() => drop((own, other)), //@ wants
            }
        })
    };
    let first = service("users", users.clone(), orders.clone());
    let second = match is_buggy(twin) {
        true => service("orders", orders, users),
        false => service("orders", users, orders),
    };
    let _ = join!(first, second);
    drop(stop);
}

/// One branch of `join!` has what the other wants, and the other way round.
async fn join_branches(twin: Twin) {
    let [left, right] = [Mutex::new(1), Mutex::new(2)];
    let both = Barrier::new(2);
    let merge = async {
        let _l = left.lock().await; //@ has_left
        if is_buggy(twin) {
            both.wait().await;
        }
        let _r = right.lock().await; //@ wants_right
    };
    let sweep = async {
        let (first, second) = if is_buggy(twin) { (&right, &left) } else { (&left, &right) };
        let _r = first.lock().await; //@ has_right
        if is_buggy(twin) {
            both.wait().await;
        }
        let _l = second.lock().await; //@ wants_left
    };
    join!(merge, sweep);
}

/// A guard that owns its share of the lock is held while a task that needs the lock is awaited.
async fn owned_guard_over_join(twin: Twin) {
    let state = Arc::new(Mutex::new(0));
    let batch = named("batch", async move {
        let guard = state.clone().lock_owned().await; //@ has
        let item = named("item", async move { *state.lock_owned().await += 1 }); //@ wants
        if !is_buggy(twin) {
            drop(guard);
        }
        item.await.unwrap();
    });
    batch.await.unwrap();
}

/// Two transfers with owned guards, in opposite orders.
async fn owned_abba(twin: Twin) {
    let [a, b] = [Arc::new(Mutex::new(100)), Arc::new(Mutex::new(100))];
    let both = Arc::new(Barrier::new(2));
    let transfer = |name: &'static str, from: Arc<Mutex<i32>>, to: Arc<Mutex<i32>>| {
        let both = both.clone();
        named(name, async move {
            let mut from = from.lock_owned().await; //@ has
            if is_buggy(twin) {
                both.wait().await;
            }
            let mut to = to.lock_owned().await; //@ wants
            (*from, *to) = (*from - 1, *to + 1);
        })
    };
    let there = transfer("there", a.clone(), b.clone());
    let back = if is_buggy(twin) { transfer("back", b, a) } else { transfer("back", a, b) };
    let _ = join!(there, back);
}

/// A reader reads again, behind a writer that waits for it: the lock is fair.
async fn reading_behind_a_writer(twin: Twin) {
    let table = Arc::new(RwLock::new(vec![1]));
    let (tx, mut rx) = mpsc::channel(1);
    let other = table.clone();
    let reader = named("reader", async move {
        let rows = other.read().await; //@ has
        tx.send(()).await.unwrap();
        while is_buggy(twin) && other.try_read().is_ok() {
            wakeful::task::yield_now().await;
        }
        if !is_buggy(twin) {
            drop(rows);
        }
        assert!(!other.read().await.is_empty()); //@ wants
    });
    rx.recv().await.unwrap();
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

/// An owned read guard is kept in a cursor, and the same task writes.
async fn owned_read_and_write(twin: Twin) {
    let table = Arc::new(RwLock::new(vec![1, 2, 3]));
    let cursor = named("cursor", async move {
        let rows = Some(table.clone().read_owned().await); //@ reads
        let rows = rows.filter(|_| is_buggy(twin));
        table.clone().write_owned().await.push(4); //@ writes
        drop(rows);
    });
    cursor.await.unwrap();
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

/// A method that locks calls another one that locks, under a request's time limit.
async fn a_method_that_locks(twin: Twin) {
    struct Store {
        rows: Mutex<Vec<u32>>,
        twin: Twin,
    }
    impl Store {
        async fn len(&self) -> usize {
            self.rows.lock().await.len() //@ wants
        }

        async fn add(&self, row: u32) -> usize {
            let mut rows = self.rows.lock().await; //@ has
            rows.push(row);
            match self.twin {
                Twin::Buggy => self.len().await,
                Twin::Fixed => rows.len(),
            }
        }
    }
    let store = Arc::new(Store { rows: Mutex::default(), twin });
    let request = named("request", async move { timeout(FAR, store.add(7)).await.unwrap() });
    assert_eq!(request.await.unwrap(), 1);
}

/// A mapped guard is returned to the caller, which locks again to write the total.
async fn a_mapped_guard(twin: Twin) {
    let totals = Arc::new(Mutex::new((1, 2)));
    let report = named("report", async move {
        let guard = totals.lock().await; //@ has
        let first = wakeful::sync::MutexGuard::map(guard, |totals| &mut totals.0);
        let value = *first;
        if !is_buggy(twin) {
            drop(first);
        }
        select! {
            mut totals = totals.lock() => totals.1 = value, //@ wants
            () = sleep(FAR) => {}
        }
    });
    report.await.unwrap();
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(lock_twice_in_select)
            .reports("deadlock", Suspected)
            .edge(("session", "Mutex::lock", "wants"), ("session", "has")),
        bug!(abba_with_timeout)
            .reports("deadlock", Suspected)
            .edge(("there", "Mutex::lock", "wants_b"), ("back", "has_b"))
            .edge(("back", "Mutex::lock", "wants_a"), ("there", "has_a"))
            .passes(),
        bug!(abba_beside_shutdown)
            .reports("deadlock", Suspected)
            .edge(("users", "Mutex::lock", "wants"), ("orders", "has"))
            .edge(("orders", "Mutex::lock", "wants"), ("users", "has")),
        bug!(join_branches).reports("deadlock", Suspected).says("\"main\"").says("Mutex::lock at"),
        bug!(owned_guard_over_join)
            .reports("deadlock", Suspected)
            .edge(("batch", "JoinHandle", "wants"), ("item", ""))
            .edge(("item", "Mutex::lock", "wants"), ("batch", "has")),
        bug!(owned_abba)
            .reports("deadlock", Suspected)
            .edge(("there", "Mutex::lock", "wants"), ("back", "has"))
            .edge(("back", "Mutex::lock", "wants"), ("there", "has")),
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
        bug!(owned_read_and_write)
            .reports("deadlock", Suspected)
            .edge(("cursor", "RwLock::write", "writes"), ("cursor", "reads")),
        bug!(lock_over_send)
            .reports("deadlock", Suspected)
            .says("\"producer\"")
            .says("\"consumer\"")
            .says("@wants")
            .says("@has"),
        bug!(a_method_that_locks)
            .reports("deadlock", Suspected)
            .edge(("request", "Mutex::lock", "wants"), ("request", "has"))
            .passes(),
        bug!(a_mapped_guard)
            .reports("deadlock", Suspected)
            .edge(("report", "Mutex::lock", "wants"), ("report", "has"))
            .passes(),
    ]
}
