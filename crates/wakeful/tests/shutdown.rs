//! Shutdown of a runtime: what is dropped, what the dropping thread waits for, where a drop panics; thread callbacks.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::runtime::{Builder, Runtime};
use wakeful::task::{block_in_place, may_wait_forever, yield_now};

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::panic_site::panic_site;
use support::runtimes::{TestRuntime, current_thread, multi_thread, runtimes, watch};
use support::waker_store::WakerStore;

const FORBIDDEN: &str = "Cannot drop a runtime in a context where blocking is not allowed. This happens when a \
     runtime is dropped from within an asynchronous context.";
const LONG: Duration = Duration::from_secs(3_600);

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn every_task_is_dropped_once_in_whatever_state_it_is() {
    type Shutdown = fn(Runtime);
    let ways: [Shutdown; 2] = [drop, |runtime| runtime.shutdown_timeout(LONG)];
    for shut_down in ways {
        for rt in runtimes() {
            let drops = Arc::new(AtomicUsize::new(0));
            let store = WakerStore::default();
            let mut spawned = 0;
            let mut handles = Vec::new();
            let mut spawn = |future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
                let counted = Counted(drops.clone());
                handles.push(rt.spawn(async move {
                    let _counted = counted;
                    future.await;
                }));
                spawned += 1;
            };
            for _ in 0..10 {
                spawn(Box::pin(async {}));
                spawn(Box::pin(store.wait()));
                spawn(Box::pin(may_wait_forever(pending())));
                spawn(Box::pin(async {
                    loop {
                        yield_now().await;
                    }
                }));
            }
            rt.block_on(rt.spawn(async {})).unwrap();
            for _ in 0..10 {
                spawn(Box::pin(async {})); // most are still queued when the shutdown begins
            }
            let woken = store.take();
            woken.iter().for_each(std::task::Waker::wake_by_ref);
            let TestRuntime { runtime, reports, name } = rt;
            shut_down(runtime);
            assert_eq!(drops.load(SeqCst), spawned, "{name}");
            for handle in handles {
                assert!(handle.is_finished(), "{name}");
                if let Err(error) = executor::block_on(handle) {
                    assert!(error.is_cancelled() && !error.is_orphaned(), "{name}: {error}");
                }
            }
            drop(reports);
        }
    }
}

#[test]
fn a_task_may_spawn_and_wake_while_it_is_dropped() {
    struct Spawns(mpsc::Sender<bool>, WakerStore);
    impl Drop for Spawns {
        fn drop(&mut self) {
            self.1.open();
            let task = wakeful::spawn(async { unreachable!("nothing runs any more") });
            self.0.send(task.is_finished()).unwrap();
        }
    }
    for rt in runtimes() {
        let (dropped, drops) = mpsc::channel();
        let store = WakerStore::default();
        let other = rt.spawn(store.wait());
        let spawns = Spawns(dropped, store);
        let task = rt.spawn(may_wait_forever(async move {
            let _spawns = spawns;
            pending::<()>().await;
        }));
        rt.block_on(rt.spawn(async {})).unwrap();
        let name = rt.name;
        drop(rt);
        assert!(drops.recv().is_ok(), "{name}");
        assert!(executor::block_on(task).unwrap_err().is_cancelled());
        // The drop of the first task woke this one, or it was dropped before. It did not run again.
        assert!(executor::block_on(other).unwrap_err().is_cancelled());
    }
}

#[test]
fn shutdown_wakes_a_joiner_outside_of_the_runtime() {
    for rt in runtimes() {
        let (store, (asked, is_asking)) = (WakerStore::default(), mpsc::channel());
        let mut task = rt.spawn(store.wait());
        let joiner = thread::spawn(move || {
            executor::block_on(std::future::poll_fn(|cx| {
                let polled = std::pin::Pin::new(&mut task).poll(cx);
                asked.send(()).unwrap();
                polled
            }))
        });
        is_asking.recv().unwrap();
        drop(rt);
        assert!(joiner.join().unwrap().unwrap_err().is_cancelled());
    }
}

#[test]
fn a_runtime_is_not_dropped_where_blocking_is_forbidden() {
    for rt in runtimes() {
        let inner = current_thread();
        let in_root = rt.block_on(async { panic_site(AssertUnwindSafe(|| drop(inner.runtime))) });
        assert!(in_root.message.starts_with(FORBIDDEN), "{in_root:?}");
        assert!(in_root.message.contains("shutdown_background"), "{in_root:?}");
        let inner = multi_thread(1);
        let task = rt.spawn(async { panic_site(AssertUnwindSafe(|| drop(inner.runtime))) });
        let in_task = rt.block_on(task).unwrap();
        assert!(in_task.message.starts_with(FORBIDDEN), "{in_task:?}");
    }
}

#[test]
fn a_runtime_dropped_by_a_panic_does_not_panic_again() {
    for rt in runtimes() {
        for inner in runtimes() {
            let outcome = rt.block_on(async {
                catch_unwind(AssertUnwindSafe(|| {
                    let _inner = inner.runtime;
                    panic!("the one and only");
                }))
            });
            assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "the one and only");
        }
    }
}

#[test]
fn shutdown_background_is_allowed_everywhere() {
    for rt in runtimes() {
        for inner in runtimes() {
            let TestRuntime { runtime, reports, .. } = inner;
            let task = runtime.spawn(may_wait_forever(pending::<()>()));
            rt.block_on(async { runtime.shutdown_background() });
            assert!(rt.block_on(task).unwrap_err().is_cancelled(), "{}", rt.name);
            drop(reports);
        }
        for inner in runtimes() {
            let TestRuntime { runtime, reports, .. } = inner;
            rt.block_on(rt.spawn(async { runtime.shutdown_background() })).unwrap();
            drop(reports);
        }
    }
}

#[test]
fn a_runtime_may_be_shut_down_by_one_of_its_own_tasks() {
    let TestRuntime { runtime, reports, .. } = multi_thread(2);
    let handle = runtime.handle().clone();
    let (give, take) = mpsc::channel::<Runtime>();
    let (done, is_done) = mpsc::channel();
    handle.spawn(async move {
        block_in_place(|| take.recv().unwrap()).shutdown_background();
        done.send(()).unwrap();
    });
    give.send(runtime).unwrap();
    is_done.recv().unwrap();
    let refused = handle.spawn(async {});
    assert!(executor::block_on(refused).unwrap_err().is_cancelled());
    drop(reports);
}

#[test]
fn dropping_waits_for_closures_and_shutdown_timeout_at_most_its_limit() {
    for rt in runtimes() {
        let TestRuntime { runtime, reports, name } = rt;
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let closure = runtime.spawn_blocking(move || {
            started.send(()).unwrap();
            released.recv().is_ok()
        });
        has_started.recv().unwrap();
        runtime.shutdown_timeout(Duration::from_millis(5));
        assert!(!closure.is_finished(), "it is not released yet, {name}");
        release.send(()).unwrap();
        assert!(executor::block_on(closure).unwrap(), "it was left behind, not killed, {name}");
        drop(reports);
    }
    for rt in runtimes() {
        let TestRuntime { runtime, reports, name } = rt;
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let closure = runtime.spawn_blocking(move || {
            started.send(()).unwrap();
            released.recv().is_ok()
        });
        has_started.recv().unwrap();
        let releasing = thread::spawn(move || release.send(()).unwrap());
        drop(runtime);
        assert!(closure.is_finished(), "{name}");
        releasing.join().unwrap();
        drop(reports);
    }
}

#[test]
fn a_shutdown_without_end_can_be_asked_for() {
    for rt in runtimes() {
        let TestRuntime { runtime, reports, .. } = rt;
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        runtime.shutdown_timeout(Duration::MAX);
        drop(reports);
    }
}

#[test]
fn threads_are_named_and_tell_of_their_start_and_end() {
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let (starts, stops) = (counts.clone(), counts.clone());
    let names = Arc::new(Mutex::new(Vec::new()));
    let (numbers, noted) = (AtomicUsize::new(0), names.clone());
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .thread_name_fn(move || format!("oarsman-{}", numbers.fetch_add(1, SeqCst)))
        .on_thread_start(move || {
            noted.lock().unwrap().push(thread::current().name().unwrap().to_owned());
            starts[0].fetch_add(1, SeqCst);
        })
        .on_thread_stop(move || {
            stops[1].fetch_add(1, SeqCst);
        });
    let rt = watch("callbacks", &mut builder);
    let name = || thread::current().name().unwrap().to_owned();
    let worker = rt.block_on(rt.spawn(async move { name() })).unwrap();
    let closure = rt.block_on(rt.spawn_blocking(name)).unwrap();
    assert!(worker.starts_with("oarsman-") && closure.starts_with("oarsman-"));
    assert_ne!(worker, closure);
    drop(rt);
    assert_eq!(counts[0].load(SeqCst), counts[1].load(SeqCst), "who starts also stops");
    let mut names = std::mem::take(&mut *names.lock().unwrap());
    assert_eq!(names.len(), counts[0].load(SeqCst));
    assert!(names.contains(&worker) && names.contains(&closure));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), counts[0].load(SeqCst), "the function names each thread anew");
}

#[test]
fn one_name_serves_all_threads_and_callbacks_run_inside_the_runtime() {
    let (context, contexts) = mpsc::channel();
    let context = Mutex::new(context);
    let rt = watch(
        "named",
        Builder::new_multi_thread().worker_threads(1).thread_name("rower").on_thread_start(
            move || {
                let inside = wakeful::runtime::Handle::try_current().is_ok();
                context.lock().unwrap().send(inside).unwrap();
            },
        ),
    );
    let name = || thread::current().name().unwrap().to_owned();
    assert_eq!(rt.block_on(rt.spawn(async move { name() })).unwrap(), "rower");
    assert_eq!(rt.block_on(rt.spawn_blocking(name)).unwrap(), "rower");
    drop(rt);
    assert!(contexts.iter().all(|inside| inside));
}

#[test]
fn park_and_unpark_come_in_pairs_around_a_sleep() {
    for multi in [false, true] {
        let mut builder =
            if multi { Builder::new_multi_thread() } else { Builder::new_current_thread() };
        let (event, events) = mpsc::channel();
        let (parks, unparks) = (Mutex::new(event.clone()), Mutex::new(event));
        builder
            .worker_threads(1)
            .on_thread_park(move || parks.lock().unwrap().send("park").unwrap())
            .on_thread_unpark(move || unparks.lock().unwrap().send("unpark").unwrap());
        let rt = watch("parks", &mut builder);
        drop(builder); // drops its ends of the channel
        let store = WakerStore::default();
        let task = rt.spawn(store.wait());
        let opener = thread::spawn(move || {
            // The worker sleeps, or is about to, when the store opens.
            assert_eq!(events.recv().unwrap(), "park");
            store.open();
            (store, events)
        });
        rt.block_on(task).unwrap();
        let (_store, events) = opener.join().unwrap();
        drop(rt);
        let rest: Vec<&str> = events.iter().collect();
        for (turn, event) in rest.into_iter().enumerate() {
            let expected = if turn % 2 == 0 { "unpark" } else { "park" };
            assert_eq!(event, expected, "multi: {multi}, event {turn}");
        }
    }
}

#[test]
fn a_thread_that_blocks_in_place_may_wait_for_the_end_of_the_others() {
    for workers in [1, 2] {
        let rt = multi_thread(workers);
        let (kept, gone) = mpsc::channel::<()>();
        let (blocks, is_blocking) = mpsc::channel();
        rt.spawn(may_wait_forever(async move {
            let _kept = kept;
            pending::<()>().await;
        }));
        let blocked = rt.spawn(async move {
            block_in_place(|| {
                blocks.send(()).unwrap();
                gone.recv()
            })
        });
        is_blocking.recv().unwrap();
        drop(rt);
        let outcome = executor::block_on(blocked).unwrap();
        assert!(outcome.is_err(), "the other task was dropped, and nothing was sent");
    }
}

#[test]
fn on_thread_start_is_called_for_all_workers_at_once() {
    let (started, starts) = mpsc::channel();
    let started = Mutex::new(started);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(4).on_thread_start(move || started.lock().unwrap().send(()).unwrap());
    let rt = watch("four workers", &mut builder);
    for _ in 0..4 {
        starts.recv().unwrap();
    }
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
}

#[test]
fn a_runtime_may_be_shut_down_while_its_context_is_entered() {
    for TestRuntime { runtime, reports, name } in runtimes() {
        let _entered = runtime.enter();
        runtime.shutdown_timeout(LONG);
        let task = wakeful::spawn(async { unreachable!("the runtime is gone") });
        assert!(executor::block_on(task).unwrap_err().is_cancelled(), "{name}");
        drop(reports);
    }
}
