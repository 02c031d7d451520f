//! Callbacks of the user that panic, block or use the runtime.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Context;
use std::time::Duration;

use futures::executor;
use wakeful::runtime::{Builder, OrphanPolicy, UnhandledPanic};
use wakeful::select;
use wakeful::task::{LocalSet, block_in_place, may_wait_forever, yield_now};
use wakeful::time::timeout;

mod support {
    pub mod runtimes;
}
use support::runtimes::{multi_thread, serial_builders, watch};

fn builder(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers);
    builder
}

#[test]
fn callbacks_may_block_in_place() {
    let rt = watch(
        "blocking callbacks",
        builder(2)
            .on_thread_start(|| block_in_place(|| ()))
            .on_thread_park(|| block_in_place(|| ()))
            .on_thread_unpark(|| block_in_place(|| ()))
            .on_thread_stop(|| block_in_place(|| ())),
    );
    for n in 0..100 {
        assert_eq!(rt.block_on(rt.spawn(async move { n })).unwrap(), n);
    }
}

#[test]
fn a_callback_that_panics_once_ends_one_thread() {
    for at_start in [true, false] {
        let rounds = Arc::new(AtomicUsize::new(0));
        let bomb = {
            let rounds = rounds.clone();
            move || assert_ne!(rounds.fetch_add(1, SeqCst), 1, "planted")
        };
        let mut builder = builder(1);
        if at_start {
            // The second thread that starts is a pool thread.
            builder.on_thread_start(bomb);
        } else {
            builder.on_thread_park(bomb);
        }
        let rt = watch("a bad moment", &mut builder);
        for n in 0..200 {
            assert_eq!(rt.block_on(rt.spawn(async move { n })).unwrap(), n);
            // Waits until the worker has parked, so that the callback panics.
            while !at_start && rounds.load(SeqCst) < 4.min(n) {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn workers_that_never_start_cancel_what_is_spawned() {
    let rt = watch("no start", builder(1).on_thread_start(|| panic!("planted")));
    let error = executor::block_on(rt.spawn(async {})).unwrap_err();
    assert!(error.is_cancelled());
}

#[test]
fn a_pool_thread_that_does_not_start_cancels_its_closure() {
    let bad = Arc::new(AtomicBool::new(true));
    let mut builder = Builder::new_current_thread();
    builder.on_thread_start({
        let bad = bad.clone();
        move || assert!(!bad.load(SeqCst), "planted")
    });
    let rt = watch("no pool", &mut builder);
    let error = rt.block_on(rt.spawn_blocking(|| ())).unwrap_err();
    assert!(error.is_cancelled());
    bad.store(false, SeqCst);
    assert_eq!(rt.block_on(rt.spawn_blocking(|| 1)).unwrap(), 1);
}

#[test]
fn a_yield_inside_of_block_in_place_comes_back_under_any_executor() {
    let rt = multi_thread(1);
    let task = rt.spawn(async {
        block_in_place(|| executor::block_on(yield_now()));
        7
    });
    assert_eq!(rt.block_on(task).unwrap(), 7);
}

/// Blocks in place when it is dropped.
struct Heavy;

impl Drop for Heavy {
    fn drop(&mut self) {
        block_in_place(|| ());
    }
}

#[test]
fn destructors_may_block_in_place() {
    for _ in 0..50 {
        let rt = multi_thread(2);
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                rt.spawn(async {
                    {
                        let set = LocalSet::new();
                        let heavy = Heavy;
                        set.spawn_local(async move {
                            let _heavy = heavy;
                            pending::<()>().await
                        });
                    }
                    // This worker's arena allocates and frees cells afterwards.
                    for _ in 0..8 {
                        wakeful::spawn(async {}).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            rt.block_on(task).unwrap();
        }
        // The shutdown drops this future outside of a poll.
        drop(rt.spawn(async {
            let _heavy = Heavy;
            may_wait_forever(pending::<()>()).await;
        }));
    }
}

#[test]
fn threads_that_handed_over_are_let_go_of() {
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let rt = multi_thread(1);
    let before = mappings();
    rt.block_on(rt.spawn(async {
        for _ in 0..500 {
            block_in_place(|| ());
            yield_now().await;
        }
    }))
    .unwrap();
    // Each thread has two mappings at least. A few threads may still be about to end.
    assert!(mappings() < before + 500, "{} mappings, {before} before", mappings());
}

#[test]
fn a_closure_that_panics_does_not_shut_the_runtime_down() {
    for (name, mut builder) in serial_builders() {
        let rt = watch(name, builder.unhandled_panic(UnhandledPanic::ShutdownRuntime));
        let error = rt.block_on(rt.spawn_blocking(|| panic!("planted"))).unwrap_err();
        assert!(error.is_panic());
        assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1, "{name}");
    }
}

#[test]
fn an_exemption_ends_with_the_future_that_asked_for_it() {
    for (name, mut builder) in serial_builders() {
        let rt = watch(name, builder.on_orphan(OrphanPolicy::Report));
        let lost = rt.spawn(async {
            select! {
                biased;
                () = may_wait_forever(pending()) => {}
                () = ready(()) => {}
            }
            pending::<()>().await;
        });
        rt.settle();
        assert_eq!(rt.reports.wait_for_one().id(), lost.id(), "{name}");
        // One exempt branch of two is enough.
        let exempt = rt.spawn(async {
            let mut kept = std::pin::pin!(may_wait_forever(pending::<()>()));
            select! {
                biased;
                () = &mut kept => {}
                () = may_wait_forever(pending()) => {}
                () = ready(()) => {}
            }
            kept.await;
        });
        rt.settle();
        assert!(rt.reports.take().is_empty(), "{name}");
        exempt.abort();
    }
}

/// The worker that runs the callback is not woken for the task.
#[test]
fn a_callback_that_blocks_before_its_thread_parks_delays_no_task() {
    let (enter, entered) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let first = Mutex::new(Some((enter, goes)));
    let blocks = move || {
        let first = first.lock().unwrap().take();
        if let Some((enter, goes)) = first {
            enter.send(()).unwrap();
            goes.recv().unwrap();
        }
    };
    let rt = watch("a callback that blocks", builder(2).on_thread_park(blocks));
    entered.recv().unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    let task = rt.spawn(async move { tx.send(()).unwrap() });
    rx.recv_timeout(LIMIT).expect("the other worker runs the task");
    go.send(()).unwrap();
    rt.block_on(task).unwrap();
}

#[test]
fn a_task_deferred_in_a_callback_is_woken_before_the_thread_parks() {
    for (name, mut builder) in serial_builders() {
        let (woken, wakes) = std::sync::mpsc::channel();
        let waker = futures::task::waker(Arc::new(Tells(Mutex::new(woken))));
        let is_first = AtomicBool::new(true);
        builder.on_thread_park(move || {
            if is_first.swap(false, SeqCst) {
                let mut cx = Context::from_waker(&waker);
                assert!(std::pin::pin!(yield_now()).poll(&mut cx).is_pending());
            }
        });
        let rt = watch(name, &mut builder);
        let (parked, is_parked) = futures::channel::oneshot::channel();
        let foreign = std::thread::spawn(move || {
            wakes.recv().unwrap();
            parked.send(()).unwrap();
        });
        rt.block_on(is_parked).unwrap();
        foreign.join().unwrap();
    }
}

/// A waker that sends a message to its channel.
struct Tells(Mutex<std::sync::mpsc::Sender<()>>);

impl futures::task::ArcWake for Tells {
    fn wake_by_ref(this: &Arc<Self>) {
        let _ = this.0.lock().unwrap().send(());
    }
}

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_name_that_panics_costs_one_thread() {
    let names = AtomicUsize::new(0);
    let name = move || match names.fetch_add(1, SeqCst) {
        1 => panic!("planted"),
        number => format!("number {number}"),
    };
    let rt = watch("names", builder(4).rescue_after(None).thread_name_fn(name));
    let (begin, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel();
    // Keeps the first worker busy.
    let blocked = rt.spawn(async move {
        begin.send(()).unwrap();
        ends.recv_timeout(LIMIT)
    });
    begun.recv().unwrap();
    drop(rt.spawn(async {}));
    rt.spawn(async move { end.send(()).unwrap() });
    executor::block_on(blocked).unwrap().expect("another worker has got a thread");
}

#[test]
fn workers_go_on_without_one_that_cannot_start() {
    let start = || assert_ne!(wakeful::runtime::worker_index(), Some(0), "planted");
    let rt = watch("no first worker", builder(2).on_thread_start(start));
    let (tx, rx) = mpsc::channel();
    for n in 0..3 {
        let tx = tx.clone();
        rt.spawn(async move { tx.send(n).unwrap() });
        assert_eq!(rx.recv_timeout(LIMIT), Ok(n));
    }
}

#[test]
fn a_closure_that_counts_on_a_thread_that_cannot_start_is_run_by_another() {
    let starts = AtomicUsize::new(0);
    let ((come, comes), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    let goes = Mutex::new(goes);
    let start = move || {
        if starts.fetch_add(1, SeqCst) == 1 {
            come.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
            panic!("planted");
        }
    };
    let mut builder = Builder::new_current_thread();
    builder.enable_time().thread_keep_alive(2 * LIMIT).on_thread_start(start);
    let rt = watch("a bad thread", &mut builder);
    let (end, ends) = mpsc::channel::<()>();
    let first = rt.spawn_blocking(move || ends.recv().unwrap());
    let second = rt.spawn_blocking(|| ());
    comes.recv().unwrap();
    end.send(()).unwrap();
    rt.block_on(async {
        first.await.unwrap();
        second.await.unwrap();
    });
    while !rt.metrics().to_string().contains("threads, 1 idle") {
        std::thread::yield_now();
    }
    let third = rt.spawn_blocking(|| 3);
    go.send(()).unwrap();
    assert_eq!(rt.block_on(async { timeout(LIMIT, third).await }).unwrap().unwrap(), 3);
}

#[test]
fn a_thread_that_cannot_start_is_started_again_for_a_closure_that_another_waits_for() {
    for of_name in [false, true] {
        let starts = Arc::new(AtomicUsize::new(0));
        let is_second = move || starts.fetch_add(1, SeqCst) == 1;
        let mut builder = Builder::new_current_thread();
        if of_name {
            builder.thread_name_fn(move || {
                assert!(!is_second(), "planted");
                "any".to_owned()
            });
        } else {
            builder.on_thread_start(move || assert!(!is_second(), "planted"));
        }
        let rt = watch("a bad moment", &mut builder);
        let (tx, rx) = mpsc::channel();
        let waits = rt.spawn_blocking(move || rx.recv_timeout(LIMIT));
        rt.spawn_blocking(move || tx.send(()).unwrap());
        rt.block_on(waits).unwrap().expect("the other has got a thread");
    }
}
