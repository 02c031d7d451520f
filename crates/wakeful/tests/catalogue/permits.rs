//! Permits, barriers and cells: amounts that never come together.

use std::sync::Arc;
use std::time::Duration;

use wakeful::inspect::Certainty::Suspected;
use wakeful::join;
use wakeful::sync::{Barrier, OnceCell, OwnedSemaphorePermit, Semaphore};
use wakeful::time::timeout;

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A request asks for more memory than the budget has.
async fn more_than_there_is(twin: Twin) {
    let budget = Arc::new(Semaphore::new(10));
    let amount = if is_buggy(twin) { 16 } else { 8 };
    let upload = named("upload", async move {
        let _memory = budget.acquire_many(amount).await.unwrap(); //@ wants
    });
    upload.await.unwrap();
}

/// A request holds the only connection, and a helper that it calls wants one too.
async fn a_nested_connection(twin: Twin) {
    let pool = Arc::new(Semaphore::new(1));
    let request = named("request", async move {
        let outer = pool.clone().acquire_owned().await.unwrap(); //@ has
        if !is_buggy(twin) {
            drop(outer);
        }
        let _inner = pool.acquire_owned().await.unwrap(); //@ wants
    });
    request.await.unwrap();
}

/// Two requests have one connection each of a pool of two, and both want a second one.
async fn a_pool_of_two(twin: Twin) {
    let pool = Arc::new(Semaphore::new(2));
    let both = Arc::new(Barrier::new(2));
    let request = |name: &'static str| {
        let (pool, both) = (pool.clone(), both.clone());
        named(name, async move {
            if !is_buggy(twin) {
                let _both = pool.acquire_many_owned(2).await.unwrap();
                return;
            }
            let _read = pool.clone().acquire_owned().await.unwrap(); //@ has
            both.wait().await;
            let _write = pool.acquire_owned().await.unwrap(); //@ wants
        })
    };
    let (one, two) = (request("one"), request("two"));
    let _ = join!(one, two);
}

/// Four requests have one connection each of a pool of four, and each wants a second one.
async fn a_pool_of_four(twin: Twin) {
    let pool = Arc::new(Semaphore::new(4));
    let all = Arc::new(Barrier::new(4));
    let request = |name: &'static str| {
        let (pool, all) = (pool.clone(), all.clone());
        named(name, async move {
            let first = pool.clone().acquire_owned().await.unwrap(); //@ has
            all.wait().await;
            if !is_buggy(twin) {
                drop(first);
            }
            let _audit = pool.acquire_owned().await.unwrap(); //@ wants
        })
    };
    let (a, b, c, d) = (request("one"), request("two"), request("three"), request("four"));
    let _ = join!(a, b, c, d);
}

/// Ten requests have one connection each of a pool of ten, and each wants a second one with a time-out.
async fn a_pool_of_ten(twin: Twin) {
    let pool = Arc::new(Semaphore::new(10));
    let all = Arc::new(Barrier::new(10));
    let requests: Vec<_> = (0..10)
        .map(|_| {
            let (pool, all) = (pool.clone(), all.clone());
            named("request", async move {
                let first = pool.acquire().await.unwrap(); //@ has
                all.wait().await;
                if !is_buggy(twin) {
                    drop(first);
                }
                let second = timeout(Duration::from_secs(600), pool.acquire()); //@ wants
                drop(second.await.unwrap().unwrap());
            })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
}

/// Workers forget their permits, until none is left.
async fn forgotten_permits(twin: Twin) {
    let slots = Arc::new(Semaphore::new(2));
    for _ in 0..3 {
        let permit = slots.acquire().await.unwrap(); //@ wants
        if is_buggy(twin) {
            permit.forget();
        }
    }
}

/// Permits are collected in a list that is never cleared.
async fn hoarded_permits(twin: Twin) {
    let slots = Arc::new(Semaphore::new(4));
    let mut jobs: Vec<OwnedSemaphorePermit> = Vec::new();
    for _ in 0..8 {
        if !is_buggy(twin) {
            jobs.clear();
        }
        jobs.push(slots.clone().acquire_owned().await.unwrap()); //@ wants
    }
}

/// One of four workers ended early, and the others meet at a barrier for four.
async fn a_barrier_with_too_few(twin: Twin) {
    let barrier = Arc::new(Barrier::new(4)); //@ made
    let workers: Vec<_> = (0..4)
        .map(|n| {
            let barrier = barrier.clone();
            named("worker", async move {
                if is_buggy(twin) && n == 3 {
                    return; // it had nothing to do
                }
                barrier.wait().await; //@ waits
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// A job for which there is no space waits with a limit of an hour, and the jobs behind it too.
async fn too_much_with_a_limit(twin: Twin) {
    let space = Arc::new(Semaphore::new(4));
    let job = |name: &'static str, size| {
        let space = space.clone();
        named(name, async move {
            let space = timeout(Duration::from_secs(3600), space.acquire_many(size)); //@ wants
            drop(space.await.unwrap().unwrap());
        })
    };
    let large = job("large", if is_buggy(twin) { 5 } else { 4 });
    wakeful::task::yield_now().await;
    let small = job("small", 1);
    let _ = join!(large, small);
}

/// The configuration is loaded with a client that reads the configuration.
async fn a_cell_that_reads_itself(twin: Twin) {
    let config = Arc::new(OnceCell::new());
    let load = named("load", async move {
        let inner = config.clone();
        let loaded = config.get_or_init(|| async move {
            match is_buggy(twin) {
                true => *timeout(Duration::MAX, inner.get_or_init(async || 1)).await.unwrap(), //@ wants
                false => 2,
            }
        }); //@ end
        loaded.await;
    });
    load.await.unwrap();
}

/// Two cells, each of which is computed from the other.
async fn two_cells(twin: Twin) {
    let cells = Arc::new([OnceCell::new(), OnceCell::new()]);
    let both = Arc::new(Barrier::new(2));
    let compute = |name: &'static str, own: usize| {
        let (cells, both) = (cells.clone(), both.clone());
        named(name, async move {
            let other = &cells[1 - own];
            let value = cells[own].get_or_init(|| async {
                //@ has
                both.wait().await;
                match is_buggy(twin) {
                    true => *other.get_or_init(async || 1).await, //@ wants
                    false => 2,
                }
            });
            value.await;
        })
    };
    let (left, right) = (compute("left", 0), compute("right", 1));
    let _ = join!(left, right);
}

/// A permit is held while a task that needs one is awaited.
async fn a_permit_over_join(twin: Twin) {
    let slots = Arc::new(Semaphore::new(1));
    let crawl = named("crawl", async move {
        let permit = slots.clone().acquire_owned().await.unwrap(); //@ has
        let inner = slots.clone();
        let page = named("page", async move {
            let _permit = inner.acquire_owned().await.unwrap(); //@ wants
        });
        if !is_buggy(twin) {
            drop(permit);
        }
        page.await.unwrap();
    });
    crawl.await.unwrap();
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(more_than_there_is)
            .reports("stuck_block_on", super::PROVEN)
            .says("Semaphore::acquire at @wants")
            .says("requests 16 permits, of which 10 are free")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("\"upload\" requests 16 permits of a semaphore that never had more than 10")
            .says("Semaphore::acquire at @wants"),
        bug!(too_much_with_a_limit)
            .reports("stalled", Suspected)
            .says("\"large\" requests 5 permits of a semaphore that never had more than 4")
            .says("Semaphore::acquire at @wants")
            .says("ends if: the time-out at @wants")
            .passes(),
        bug!(a_nested_connection)
            .reports("deadlock", Suspected)
            .edge(("request", "Semaphore::acquire", "wants"), ("request", "has")),
        bug!(a_pool_of_two)
            .reports("deadlock", Suspected)
            .says("\"one\"")
            .says("\"two\"")
            .says("@wants")
            .says("@has"),
        bug!(a_pool_of_four)
            .reports("deadlock", Suspected)
            .says("\"one\"")
            .says("\"two\"")
            .says("\"three\"")
            .says("\"four\"")
            .says("@wants")
            .says("@has")
            .says("4 tasks wait for each other")
            .says("acquire all permits that a task needs in one call"),
        bug!(a_pool_of_ten)
            .reports("slow_holder", Suspected)
            .says("4 tasks acquired permits and have released nothing for 3.")
            .says("; 10 tasks wait\n")
            .says("others      there are more holders that were not recorded")
            .says("Semaphore::acquire at @wants")
            .says("@has")
            .says("acquire all permits that a task needs in one call")
            .passes(),
        bug!(forgotten_permits)
            .reports("stuck_block_on", super::PROVEN)
            .says("Semaphore::acquire")
            .says("@wants")
            .only_alone(),
        bug!(hoarded_permits)
            .reports("deadlock", Suspected)
            .says("\"main\"")
            .says("@wants")
            .only_alone(),
        bug!(a_barrier_with_too_few)
            .reports("stuck_block_on", super::PROVEN)
            .says("Barrier::wait")
            .says("@waits")
            .says("3 of 4")
            .in_a_service()
            .reports("stalled", Suspected)
            .says("3 of 4 tasks have arrived at a barrier")
            .says("Barrier::wait at @waits")
            .says("created     at @made")
            .says("2 other tasks wait"),
        bug!(a_cell_that_reads_itself)
            .reports("deadlock", Suspected)
            .says("\"load\"")
            .says("OnceCell::get_or_init at @wants"),
        bug!(two_cells)
            .reports("deadlock", Suspected)
            .edge(("left", "OnceCell::get_or_init", "wants"), ("right", "has"))
            .edge(("right", "OnceCell::get_or_init", "wants"), ("left", "has")),
        bug!(a_permit_over_join)
            .reports("deadlock", Suspected)
            .says("\"crawl\"")
            .says("\"page\"")
            .says("@wants")
            .says("@has"),
    ]
}
