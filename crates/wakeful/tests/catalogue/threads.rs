//! Waits that cross threads: closures of the pool, nested `block_on`, threads, two runtimes.

use std::sync::{Arc, OnceLock};
use std::thread;

use wakeful::inspect::Certainty::Suspected;
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, Semaphore, mpsc, oneshot};
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

/// A closure waits for a message of the task that awaits the closure.
async fn a_closure_that_receives(twin: Twin) {
    let importer = named("importer", async move {
        let (tx, mut rx) = mpsc::channel::<u32>(4);
        let closure = spawn_blocking(move || {
            let mut sum = 0;
            while let Some(n) = rx.blocking_recv() {
                //@ waits
                sum += n;
            }
            sum
        });
        tx.send(1).await.unwrap();
        let tx = is_buggy(twin).then_some(tx);
        closure.await.unwrap();
        drop(tx);
    });
    importer.await.unwrap();
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

/// Closures of a pool that is full wait for closures of the same pool.
async fn an_exhausted_pool(twin: Twin) {
    // The pool has four threads.
    let outer = if is_buggy(twin) { 4 } else { 3 };
    let all_run = Arc::new(std::sync::Barrier::new(outer));
    let handle = Handle::current();
    let closures: Vec<_> = (0..outer)
        .map(|_| {
            let (handle, all_run) = (handle.clone(), all_run.clone());
            spawn_blocking(move || {
                //@ outer
                all_run.wait();
                handle.block_on(async { spawn_blocking(|| 1).await.unwrap() }) //@ inner
            })
        })
        .collect();
    for closure in closures {
        closure.await.unwrap();
    }
}

/// A closure waits for a permit that the task which awaits it has.
async fn a_closure_that_wants_a_permit(twin: Twin) {
    let slots = Arc::new(Semaphore::new(1));
    let resize = named("resize", async move {
        let permit = slots.clone().acquire_owned().await.unwrap(); //@ has
        if !is_buggy(twin) {
            drop(permit);
        }
        let handle = Handle::current();
        let closure = spawn_blocking(move || {
            let _permit = handle.block_on(slots.acquire_owned()).unwrap(); //@ wants
        });
        closure.await.unwrap();
    });
    resize.await.unwrap();
}

/// A thread has the lock and waits for a reply of the task that wants the lock.
async fn a_thread_that_waits(twin: Twin) {
    let state = Arc::new(Mutex::new(0));
    let (ask, asked) = oneshot::channel::<()>();
    let (reply, replied) = oneshot::channel::<()>();
    let other = state.clone();
    let thread = thread::Builder::new().name("legacy".into()).spawn(move || {
        let guard = other.blocking_lock(); //@ has
        ask.send(()).unwrap();
        if !is_buggy(twin) {
            drop(guard);
        }
        replied.blocking_recv().unwrap(); //@ waits
    });
    let answers = named("answers", async move {
        asked.await.unwrap();
        *state.lock().await += 1; //@ wants
        reply.send(()).unwrap();
    });
    answers.await.unwrap();
    thread.unwrap().join().unwrap();
}

fn second_runtime() -> &'static Runtime {
    static SECOND: OnceLock<Runtime> = OnceLock::new();
    SECOND.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().name("second").build().unwrap()
    })
}

/// Tasks of two runtimes lock two resources in opposite orders.
async fn two_runtimes(twin: Twin) {
    let [a, b] = [Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2))];
    let both = Arc::new(wakeful::sync::Barrier::new(2));
    let (a2, b2, both2) = if is_buggy(twin) {
        (b.clone(), a.clone(), both.clone())
    } else {
        (a.clone(), b.clone(), both.clone())
    };
    let here = named("here", async move {
        let _a = a.lock().await; //@ here_has
        if is_buggy(twin) {
            both.wait().await;
        }
        let _b = b.lock().await; //@ here_wants
    });
    let there = wakeful::task::Builder::new().name("there").spawn_on(
        async move {
            let _b = a2.lock().await; //@ there_has
            if is_buggy(twin) {
                both2.wait().await;
            }
            let _a = b2.lock().await; //@ there_wants
        },
        second_runtime().handle(),
    );
    let _ = wakeful::join!(here, there.unwrap());
}

/// A task of one runtime joins a task of the other, which waits for the first one's lock.
async fn a_join_across_runtimes(twin: Twin) {
    let state = Arc::new(Mutex::new(0));
    let front = named("front", async move {
        let guard = state.lock().await; //@ has
        let other = state.clone();
        let back = wakeful::task::Builder::new().name("back").spawn_on(
            async move { *other.lock().await += 1 }, //@ wants
            second_runtime().handle(),
        );
        if !is_buggy(twin) {
            drop(guard);
        }
        back.unwrap().await.unwrap();
    });
    front.await.unwrap();
}

pub fn bugs() -> Vec<Bug> {
    vec![
        bug!(a_closure_that_locks)
            .reports("deadlock", Suspected)
            .says("\"rebuild\"")
            .says("@wants")
            .says("@has"),
        bug!(a_closure_that_receives)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"importer\"")
            .says("@waits")
            .only_alone(),
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
        bug!(an_exhausted_pool).reports("deadlock", Suspected).says("@outer").says("@inner"),
        bug!(a_closure_that_wants_a_permit)
            .reports("deadlock", Suspected)
            .says("\"resize\"")
            .says("@wants")
            .says("@has"),
        bug!(a_thread_that_waits)
            .reports("stuck_block_on", super::PROVEN)
            .says("\"answers\"")
            .says("@wants")
            .says("@has")
            .only_alone(),
        bug!(two_runtimes)
            .reports("deadlock", Suspected)
            .edge(("here", "Mutex::lock", "here_wants"), ("there", "there_has"))
            .edge(("there", "Mutex::lock", "there_wants"), ("here", "here_has")),
        bug!(a_join_across_runtimes)
            .reports("deadlock", Suspected)
            .says("\"front\"")
            .says("\"back\"")
            .says("@wants")
            .says("@has"),
    ]
}
