//! Threads and closures that hold what tasks wait for, and give it back.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wakeful::runtime::{Builder, Handle};
use wakeful::sync::{Mutex, Semaphore, mpsc, oneshot};
use wakeful::task::{block_in_place, spawn_blocking};
use wakeful::time::sleep;

use super::super::child::named;
use super::super::program::{Innocent, innocent};
use super::{LONG, later};

/// A thread has the lock for a while, and then asks the runtime for a result.
async fn a_thread_with_a_guard() {
    let state = Arc::new(Mutex::new(0));
    let other = state.clone();
    let handle = Handle::current();
    let (has, had) = oneshot::channel();
    thread::spawn(move || {
        let guard = other.blocking_lock();
        has.send(()).unwrap();
        handle.block_on(sleep(LONG));
        drop(guard);
    });
    had.await.unwrap();
    *state.lock().await += 1;
}

/// A task computes in `block_in_place`, with a lock that others wait for.
async fn a_long_block_in_place() {
    let state = Arc::new(Mutex::new(0));
    let other = state.clone();
    let (has, had) = oneshot::channel();
    let computes = named("computes", async move {
        let mut state = other.lock().await;
        has.send(()).unwrap();
        block_in_place(|| {
            // The work of a user, in real time; no result depends on how long.
            thread::sleep(LONG);
        });
        *state += 1;
    });
    had.await.unwrap();
    *state.lock().await += 1;
    computes.await.unwrap();
}

/// A handle moves to a thread, which aborts the task.
async fn a_handle_on_a_thread() {
    let state = Arc::new(Mutex::new(0));
    let twice = named("twice", async move {
        let _first = state.lock().await;
        let _second = state.lock().await;
    });
    let (ended, end) = oneshot::channel();
    later(move || {
        twice.abort();
        ended.send(()).unwrap();
    });
    end.await.unwrap();
}

/// A closure works for long while its task has a lock that the closure does not need.
async fn a_slow_closure() {
    let state = Arc::new(Mutex::new(0));
    let other = state.clone();
    let (has, had) = oneshot::channel();
    let export = named("export", async move {
        let mut state = other.lock().await;
        has.send(()).unwrap();
        spawn_blocking(|| {
            // The work of a user, in real time; no result depends on how long.
            thread::sleep(LONG);
        })
        .await
        .unwrap();
        *state += 1;
    });
    had.await.unwrap();
    *state.lock().await += 1;
    export.await.unwrap();
}

/// More closures than threads, each of which ends by itself.
async fn more_closures_than_threads() {
    let closures: Vec<_> = (0..12)
        .map(|_| {
            spawn_blocking(|| {
                // The work of a user, in real time; no result depends on how long.
                thread::sleep(LONG / 3);
            })
        })
        .collect();
    for closure in closures {
        closure.await.unwrap();
    }
}

/// A closure drives a future that a timer of the runtime completes.
async fn a_closure_that_is_answered() {
    let (tx, rx) = oneshot::channel();
    let handle = Handle::current();
    let closure = spawn_blocking(move || handle.block_on(rx).unwrap());
    named("timer", async move {
        sleep(LONG).await;
        tx.send(()).unwrap();
    });
    closure.await.unwrap();
}

/// Two runtimes exchange messages, slowly.
async fn runtimes_that_talk() {
    let (to_there, mut there) = mpsc::channel(1);
    let (to_here, mut here) = mpsc::channel(1);
    let second = thread::spawn(|| {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(async move {
            while let Some(n) = there.recv().await {
                sleep(LONG / 4).await;
                to_here.send(n + 1).await.unwrap();
            }
        });
    });
    for n in 0..4 {
        to_there.send(n).await.unwrap();
        assert_eq!(here.recv().await, Some(n + 1));
    }
    drop(to_there);
    second.join().unwrap();
}

/// A thread in `block_on` waits for a permit that a task gives back late.
async fn a_thread_that_wants_a_permit() {
    let slots = Arc::new(Semaphore::new(1));
    let permit = slots.clone().acquire_owned().await.unwrap();
    let handle = Handle::current();
    let closure = spawn_blocking(move || drop(handle.block_on(slots.acquire_owned()).unwrap()));
    sleep(LONG).await;
    drop(permit);
    closure.await.unwrap();
}

/// A thread feeds a full queue, and the consumer is slow.
async fn a_thread_that_feeds() {
    let (tx, mut rx) = mpsc::channel(1);
    thread::spawn(move || {
        for n in 0..6 {
            tx.blocking_send(n).unwrap();
        }
    });
    while rx.recv().await.is_some() {
        sleep(LONG / 6).await;
    }
}

/// The whole process is stopped for a while, and goes on.
async fn a_paused_process() {
    let script = format!("kill -STOP {0}; sleep 1; kill -CONT {0}", std::process::id());
    let mut shell = wakeful::process::Command::new("sh").arg("-c").arg(script).spawn().unwrap();
    let works = named("works", async {
        for _ in 0..50 {
            sleep(Duration::from_millis(10)).await;
        }
    });
    shell.wait().await.unwrap();
    works.await.unwrap();
}

pub fn all() -> Vec<Innocent> {
    vec![
        innocent!(a_thread_with_a_guard),
        innocent!(a_long_block_in_place).only_multi_thread(),
        innocent!(a_handle_on_a_thread).may_be(&["deadlock"]),
        innocent!(a_slow_closure),
        innocent!(more_closures_than_threads),
        innocent!(a_closure_that_is_answered),
        innocent!(runtimes_that_talk),
        innocent!(a_thread_that_wants_a_permit),
        innocent!(a_thread_that_feeds),
        innocent!(a_paused_process),
    ]
}
