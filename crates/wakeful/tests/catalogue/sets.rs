//! Sets of tasks and futures: `JoinSet`, `join_all`, `FuturesUnordered`, local tasks.

use std::rc::Rc;
use std::sync::Arc;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use wakeful::inspect::Certainty::Suspected;
use wakeful::sync::{Barrier, Mutex, Semaphore, mpsc, watch};
use wakeful::task::{JoinSet, LocalSet};
use wakeful::{join, select};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A coordinator holds the results while it waits for the tasks that add to them.
async fn join_set_under_lock(twin: Twin) {
    let results = Arc::new(Mutex::new(Vec::new()));
    let coordinator = named("coordinator", async move {
        let guard = results.lock().await; //@ has
        let mut set = JoinSet::new();
        for n in 0..3 {
            let results = results.clone();
            set.spawn(async move { results.lock().await.push(n) }); //@ wants
        }
        if !is_buggy(twin) {
            drop(guard);
        }
        while let Some(done) = set.join_next().await {
            done.unwrap();
        }
    });
    coordinator.await.unwrap();
}

/// `join_all` over handles, with the lock that the tasks need held outside.
async fn join_all_under_lock(twin: Twin) {
    let results = Arc::new(Mutex::new(Vec::new()));
    let coordinator = named("coordinator", async move {
        let guard = results.lock().await; //@ has
        let add = |n| {
            let results = results.clone();
            named("adder", async move { results.lock().await.push(n) }) //@ wants
        };
        let adders = [add(1), add(2), add(3)];
        if !is_buggy(twin) {
            drop(guard);
        }
        join_all(adders).await;
    });
    coordinator.await.unwrap();
}

/// Futures of one `join_all` lock a pair of shards, in the order of their keys.
async fn join_all_abba(twin: Twin) {
    let shards = [Mutex::new(0), Mutex::new(0)];
    let both = Barrier::new(2);
    let moves = [(0, 1), (1, 0)].map(|(from, to)| {
        let (shards, both) = (&shards, &both);
        let (from, to) = if is_buggy(twin) { (from, to) } else { (0, 1) };
        async move {
            let mut first = shards[from].lock().await; //@ has
            if is_buggy(twin) {
                both.wait().await;
            }
            let mut second = shards[to].lock().await; //@ wants
            (*first, *second) = (*first - 1, *second + 1);
        }
    });
    join_all(moves).await;
}

/// Futures of one `FuturesUnordered` each hold a permit and want another one.
async fn unordered_permits(twin: Twin) {
    let seats = Semaphore::new(if is_buggy(twin) { 2 } else { 3 });
    let both = Barrier::new(2);
    let mut jobs: FuturesUnordered<_> = (0..2)
        .map(|_| async {
            let _first = seats.acquire().await.unwrap(); //@ has
            both.wait().await;
            let _second = seats.acquire().await.unwrap(); //@ wants
        })
        .collect();
    while jobs.next().await.is_some() {}
}

/// The members of a set wait for a message that the owner of the set sends after `join_next`.
async fn join_set_before_the_start(twin: Twin) {
    let (start, started) = watch::channel(false);
    let mut set = JoinSet::new();
    for _ in 0..2 {
        let mut started = started.clone();
        set.spawn(async move { started.changed().await.is_ok() }); //@ waits
    }
    if !is_buggy(twin) {
        start.send(true).unwrap();
    }
    while let Some(done) = set.join_next().await {
        assert!(done.unwrap());
    }
    start.send_replace(true);
}

/// Two local tasks lock two resources in opposite orders.
async fn local_abba(twin: Twin) {
    let [a, b] = [Rc::new(Mutex::new(1)), Rc::new(Mutex::new(2))];
    let both = Rc::new(Barrier::new(2));
    let set = LocalSet::new();
    for (first, second) in [(&a, &b), (&b, &a)] {
        let (first, second) = if is_buggy(twin) { (first, second) } else { (&a, &b) };
        let (first, second, both) = (first.clone(), second.clone(), both.clone());
        set.spawn_local(async move {
            let _first = first.lock().await; //@ has
            if is_buggy(twin) {
                both.wait().await;
            }
            let _second = second.lock().await; //@ wants
        });
    }
    set.await;
}

/// A set under a lock, in a loop that also listens to commands.
async fn join_set_in_select(twin: Twin) {
    let (command, mut commands) = mpsc::channel::<u32>(4);
    let index = Arc::new(Mutex::new(0));
    let manager = named("manager", async move {
        let mut set = JoinSet::new();
        let mut guard = Some(index.lock().await); //@ has
        let index = index.clone();
        set.spawn(async move { *index.lock().await += 1 }); //@ wants
        if !is_buggy(twin) {
            guard.take();
        }
        loop {
            select! {
                done = set.join_next() => match done {
                    Some(done) => done.unwrap(),
                    None => break,
                },
                Some(command) = commands.recv() => assert_eq!(command, 0),
            }
        }
        drop(guard);
    });
    manager.await.unwrap();
    drop(command);
}

/// A task joins a task that joins it, through a channel of handles.
async fn a_cycle_of_joins(twin: Twin) {
    let (give, mut given) = mpsc::channel::<wakeful::task::JoinHandle<()>>(1);
    let first = named("first", async move {
        if let Some(second) = given.recv().await {
            second.await.unwrap();
        }
    });
    let second = named("second", async move {
        if is_buggy(twin) {
            first.await.unwrap();
        }
    });
    give.send(second).await.unwrap();
    let _ = give.closed().await;
}

/// A task is sent its own handle, and joins it.
async fn a_task_that_joins_itself(twin: Twin) {
    let (give, mut given) = mpsc::channel::<wakeful::task::JoinHandle<()>>(1);
    let task = named("self", async move {
        //@ spawned
        let own = given.recv().await.unwrap();
        if is_buggy(twin) {
            own.await.unwrap();
        }
    });
    give.send(task).await.unwrap();
    give.closed().await;
}

/// Two branches of a `join!` in one task: one fills the channel that the other drains after it.
async fn a_pipeline_in_one_task(twin: Twin) {
    let (tx, mut rx) = mpsc::channel(2);
    let (done, wait) = wakeful::sync::oneshot::channel();
    let fill = async move {
        for n in 0..4 {
            tx.send(n).await.unwrap(); //@ sends
        }
        done.send(()).unwrap();
    };
    let drain = async move {
        if is_buggy(twin) {
            wait.await.unwrap(); //@ waits
        }
        while rx.recv().await.is_some() {}
    };
    join!(fill, drain);
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(join_set_under_lock)
            .reports("deadlock", Suspected)
            .says("\"coordinator\"")
            .says("@has")
            .says("Mutex::lock at @wants"),
        bug!(join_all_under_lock)
            .reports("deadlock", Suspected)
            .says("\"coordinator\"")
            .says("\"adder\"")
            .says("@has")
            .says("Mutex::lock at @wants"),
        bug!(join_all_abba)
            .reports("deadlock", Suspected)
            .says("\"main\"")
            .says("@has")
            .says("Mutex::lock at @wants"),
        bug!(unordered_permits)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"main\"")
            .says("@has")
            .says("@wants")
            .only_alone(),
        bug!(join_set_before_the_start)
            .reports("stuck_block_on", super::PROVEN)
            .says("watch::Receiver")
            .says("@waits")
            .only_alone(),
        bug!(local_abba).reports("deadlock", Suspected).says("@has").says("Mutex::lock at @wants"),
        bug!(join_set_in_select)
            .reports("deadlock", Suspected)
            .says("\"manager\"")
            .says("@has")
            .says("Mutex::lock at @wants"),
        bug!(a_cycle_of_joins)
            .reports("deadlock", super::PROVEN)
            .says("\"first\"")
            .says("\"second\""),
        bug!(a_task_that_joins_itself)
            .reports("deadlock", super::PROVEN)
            .edge(("self", "JoinHandle", "spawned"), ("self", ""))
            .says(
                "why: the task only joins itself, so it can never run again unless it is aborted.",
            ),
        bug!(a_pipeline_in_one_task)
            .reports("stuck_block_on", super::PROVEN)
            .says("@sends")
            .only_alone(),
    ]
}
