//! A runtime leaks no memory: the bytes in use are the same after every round.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::task::{AbortHandle, JoinHandle, may_wait_forever, spawn_blocking, yield_now};

mod support {
    pub mod counting;
    pub mod runtimes;
}
use support::counting::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// The first round fills caches that a thread or the process keeps.
const ROUNDS: usize = 6;
/// Tasks that finish in each round. The rounds are compared to the byte, so a leak in one of them shows.
const TASKS: usize = 20_000;

/// Values that outlive the runtime.
#[derive(Default)]
struct Left {
    wakers: Vec<Waker>,
    aborts: Vec<AbortHandle>,
    joins: Vec<JoinHandle<String>>,
}

fn text(n: usize) -> String {
    format!("an output with memory of its own: {n}")
}

/// Leaves a waker behind and waits.
async fn leave_waker(to: mpsc::Sender<Waker>) {
    poll_fn(|cx| {
        to.send(cx.waker().clone()).unwrap();
        Poll::Pending
    })
    .await
}

/// Runs tasks that end in every way: by output, panic, abort and drop.
async fn run_tasks() {
    for _ in 0..TASKS / 1_000 {
        let batch: Vec<_> = (0..1_000).map(|n| wakeful::spawn(async move { n })).collect();
        for (n, task) in batch.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), n);
        }
    }
    for n in 0..500 {
        drop(wakeful::spawn(async move { text(n) }));
        wakeful::spawn(async { std::panic::resume_unwind(Box::new(text(0))) })
            .await
            .map(|_: ()| ())
            .unwrap_err();
        drop(wakeful::spawn(async { std::panic::resume_unwind(Box::new(text(0))) }).abort_handle());
        // Aborted while it is queued, because it yields in a loop.
        let yields: JoinHandle<()> = wakeful::spawn(async {
            loop {
                yield_now().await
            }
        });
        yield_now().await;
        yields.abort();
        yields.await.unwrap_err();
        let held = text(n);
        let aborted = wakeful::spawn(may_wait_forever(async move {
            pending::<()>().await;
            drop(held);
        }));
        if n % 2 == 0 {
            yield_now().await;
        }
        aborted.abort();
        aborted.await.unwrap_err();
        let large = [n; 1_000];
        wakeful::spawn(async move {
            yield_now().await;
            assert_eq!(large[999], n);
        })
        .await
        .unwrap();
        let closure = spawn_blocking(move || text(n));
        match n % 3 {
            0 => drop(closure),
            1 => closure.abort(),
            _ => assert_eq!(closure.await.unwrap(), text(n)),
        }
    }
}

/// Leaves tasks in every state for the shutdown.
fn leave_tasks(runtime: &Runtime, left: &mut Left) {
    let (to, wakers) = mpsc::channel();
    for n in 0..200 {
        drop(runtime.spawn(leave_waker(to.clone())));
        let held = text(n);
        let waits = runtime.spawn(may_wait_forever(async move {
            pending::<()>().await;
            held
        }));
        left.aborts.push(waits.abort_handle());
        left.joins.push(waits);
        left.joins.push(runtime.spawn(async move { text(n) }));
    }
    runtime.block_on(async {
        for _ in 0..10 {
            yield_now().await;
        }
    });
    for _ in 0..200 {
        runtime.block_on(runtime.spawn(async {})).unwrap();
    }
    left.wakers.extend((0..200).map(|_| wakers.recv().unwrap()));
    for n in 0..50 {
        drop(runtime.spawn(async move { text(n) })); // most of them never run
    }
}

fn round(builder: &mut Builder) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = reports.clone();
    // Some tasks of a round panic without being joined.
    let hook = move |report: &Report| {
        if !matches!(report, Report::UnobservedPanic(_) | Report::NeverPolled(_)) {
            seen.lock().unwrap().push(report.to_string());
        }
    };
    let runtime = builder
        .on_report(hook)
        .thread_keep_alive(Duration::from_millis(1))
        .max_blocking_threads(4)
        .build()
        .unwrap();
    let mut left = Left::default();
    runtime.block_on(run_tasks());
    runtime.block_on(runtime.spawn(run_tasks())).unwrap();
    let handle = runtime.handle().clone();
    let foreign = {
        let handle = handle.clone();
        thread::spawn(move || {
            (0..500).map(|n| handle.spawn(async move { text(n) })).collect::<Vec<_>>()
        })
    };
    left.joins.extend(foreign.join().unwrap());
    leave_tasks(&runtime, &mut left);
    drop(runtime);
    assert_eq!(*reports.lock().unwrap(), Vec::<String>::new());
    outlive(left, &handle);
}

fn outlive(left: Left, handle: &Handle) {
    left.wakers.iter().step_by(2).for_each(Waker::wake_by_ref);
    thread::spawn(move || drop(left.wakers)).join().unwrap();
    left.aborts.iter().for_each(AbortHandle::abort);
    for (n, join) in left.joins.into_iter().enumerate() {
        if n % 2 == 0 {
            // These handles are awaited. The others are dropped with the output inside.
            drop(executor::block_on(join));
        }
    }
    for _ in 0..100 {
        let refused = handle.spawn(async { text(0) });
        assert!(executor::block_on(refused).unwrap_err().is_cancelled());
    }
}

/// Waits in a channel of std until the time-out.
///
/// A thread's first wait in a channel of std allocates 48 bytes (in Rust 1.95). std keeps them in a thread-local until
/// the thread ends. The test's thread receives wakers from tasks. The machine's scheduling decides whether, and in
/// which round, the thread has to wait for one.
fn wait_in_a_channel() {
    let (_to, from) = mpsc::channel::<()>();
    from.recv_timeout(Duration::from_millis(1)).unwrap_err();
}

#[test]
fn memory_is_the_same_after_every_round() {
    support::runtimes::bound_this_binary();
    // Allocates what std keeps for this thread, which is not the runtime's.
    wait_in_a_channel();
    let mut after = Vec::with_capacity(ROUNDS);
    for nth in 0..ROUNDS {
        // Makes the thread wait in the last round, on every machine.
        if nth == ROUNDS - 1 {
            wait_in_a_channel();
        }
        round(&mut Builder::new_current_thread());
        round(Builder::new_multi_thread().worker_threads(2));
        after.push((MEMORY.bytes(), MEMORY.pieces()));
    }
    println!("(bytes, pieces) in use after each round: {after:?}");
    assert!(after[1..].iter().all(|memory| *memory == after[1]), "it grows: {after:?}");
}
