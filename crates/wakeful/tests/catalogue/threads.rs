//! Waits that cross threads: closures of the pool, nested `block_on`, threads, two runtimes.

use std::sync::Arc;

use wakeful::inspect::Certainty::Suspected;
use wakeful::runtime::Handle;
use wakeful::sync::Mutex;
use wakeful::task::{block_in_place, spawn_blocking};

use super::Twin;
use super::child::{is_buggy, named};
use super::program::{Bug, bug};

/// A task awaits a closure that wants the lock which the task has.
async fn a_closure_that_locks(twin: Twin) {
    let index = Arc::new(Mutex::new(0));
    let rebuild = named("rebuild", async move {
        let guard = index.lock().await; //@ has
        let other = index.clone();
        let closure = spawn_blocking(move || *other.blocking_lock() += 1); //@ wants
        if !is_buggy(twin) {
            drop(guard);
        }
        closure.await.unwrap();
    });
    rebuild.await.unwrap();
}

/// A closure drives a future that joins a task, which waits for the lock of the task that awaits the closure.
async fn a_closure_that_blocks_on(twin: Twin) {
    let table = Arc::new(Mutex::new(0));
    let migrate = named("migrate", async move {
        let guard = table.lock().await; //@ has
        let other = table.clone();
        let handle = Handle::current();
        let closure = spawn_blocking(move || {
            handle.block_on(async move { *other.lock().await += 1 }); //@ wants
        });
        if !is_buggy(twin) {
            drop(guard);
        }
        closure.await.unwrap();
    });
    migrate.await.unwrap();
}

/// A synchronous callback inside of a task drives a future that needs the task's lock.
async fn a_nested_block_on(twin: Twin) {
    let session = Arc::new(Mutex::new(0));
    let request = named("request", async move {
        let guard = session.lock().await; //@ has
        if !is_buggy(twin) {
            drop(guard);
        }
        let other = session.clone();
        block_in_place(|| {
            Handle::current().block_on(async move { *other.lock().await += 1 }); //@ wants
        });
    });
    request.await.unwrap();
}

/// A task under a nested `block_on` joins a task that waits for the outer one.
async fn a_nested_join(twin: Twin) {
    let state = Arc::new(Mutex::new(0));
    let outer = named("outer", async move {
        let guard = state.lock().await; //@ has
        let other = state.clone();
        let inner = named("inner", async move { *other.lock().await += 1 }); //@ wants
        if !is_buggy(twin) {
            drop(guard);
        }
        block_in_place(|| Handle::current().block_on(inner)).unwrap();
    });
    outer.await.unwrap();
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(a_closure_that_locks)
            .reports("deadlock", Suspected)
            .says("\"rebuild\"")
            .says("@wants")
            .says("@has"),
        bug!(a_closure_that_blocks_on)
            .reports("deadlock", Suspected)
            .says("\"migrate\"")
            .says("@wants")
            .says("@has"),
        bug!(a_nested_block_on)
            .reports("deadlock", Suspected)
            .says("\"request\"")
            .says("@wants")
            .says("@has")
            .tolerates("blocked")
            .only_multi_thread(),
        bug!(a_nested_join)
            .reports("deadlock", Suspected)
            .says("\"outer\"")
            .says("\"inner\"")
            .says("@wants")
            .says("@has")
            .tolerates("blocked")
            .only_multi_thread(),
    ]
}
