//! Entering a runtime, `block_on`, sharing a runtime among threads, and the messages of its panics.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use futures::executor;
use wakeful::runtime::{Builder, Handle, LocalOptions, Runtime, RuntimeFlavor, worker_index};
use wakeful::task::{spawn_blocking, yield_now};

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::panic_site::{PanicSite, panic_site};
use support::runtimes::{current_thread, multi_thread, runtimes, watch};
use support::waker_store::WakerStore;

const NO_RUNTIME: &str =
    "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
const NESTED: &str = "Cannot start a runtime from within a runtime. This happens because a function (like \
     `block_on`) attempted to block the current thread while the thread is being used to drive asynchronous tasks.";

#[track_caller]
fn assert_here(panic: &PanicSite, start: &str) {
    assert!(panic.message.starts_with(start), "{panic:?}");
    assert_eq!(panic.file, file!(), "{panic:?}");
}

#[test]
fn block_on_returns_what_the_future_does_send_or_not() {
    for rt in runtimes() {
        let local = std::rc::Rc::new(3);
        let borrowed = 4;
        let sum = rt.block_on(async {
            yield_now().await;
            *local + borrowed
        });
        assert_eq!(sum, 7, "{}", rt.name);
    }
}

#[test]
fn a_panic_in_block_on_leaves_the_runtime_usable() {
    for rt in runtimes() {
        let panic = panic_site(AssertUnwindSafe(|| {
            rt.block_on(async {
                yield_now().await;
                panic!("the root gives up");
            })
        }));
        assert_here(&panic, "the root gives up");
        assert!(Handle::try_current().is_err(), "the context was left, {}", rt.name);
        assert_eq!(rt.block_on(rt.spawn(async { 5 })).unwrap(), 5, "{}", rt.name);
    }
}

#[test]
fn a_wake_up_after_the_end_of_a_block_on_is_none_of_the_next_one() {
    let rt = current_thread();
    let waker = rt.block_on(poll_fn(|cx| Poll::Ready(cx.waker().clone())));
    waker.wake_by_ref();

    // A woken future would be polled where this task yields. The thread has one waker for all its futures.
    let is_done = Arc::new(AtomicBool::new(false));
    let done = is_done.clone();
    rt.spawn(async move {
        yield_now().await;
        done.store(true, SeqCst);
        waker.wake();
    });
    let mut polls = 0;
    rt.block_on(poll_fn(|_| {
        polls += 1;
        if is_done.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert_eq!(polls, 2);
}

#[test]
fn many_threads_block_on_one_runtime() {
    for rt in runtimes() {
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for n in 0..8 {
                let (rt, done) = (&rt, &done);
                scope.spawn(move || {
                    for round in 0..50 {
                        let sum = rt.block_on(async move {
                            let a = wakeful::spawn(async move {
                                yield_now().await;
                                n
                            });
                            let b = wakeful::spawn(async move { round });
                            a.await.unwrap() + b.await.unwrap()
                        });
                        assert_eq!(sum, n + round);
                        done.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 400, "{}", rt.name);
    }
}

#[test]
fn a_root_that_panics_hands_the_runtime_over_too() {
    for rt in runtimes() {
        thread::scope(|scope| {
            let roots = (0..8usize).map(|n| {
                let rt = &rt;
                scope.spawn(move || {
                    let root = async move {
                        let yields = wakeful::spawn(async move {
                            for _ in 0..10 * n {
                                yield_now().await;
                            }
                        });
                        yields.await.unwrap();
                        // Panics without a message from the hook.
                        std::panic::resume_unwind(Box::new(n));
                    };
                    catch_unwind(AssertUnwindSafe(|| rt.block_on(root)))
                        .map(|_: ()| ())
                        .unwrap_err()
                })
            });
            for (n, root) in Vec::from_iter(roots).into_iter().enumerate() {
                assert_eq!(*root.join().unwrap().downcast::<usize>().unwrap(), n);
            }
        });
        assert_eq!(rt.block_on(rt.spawn(async { 8 })).unwrap(), 8, "{}", rt.name);
    }
}

#[test]
fn the_one_who_leaves_hands_the_runtime_over() {
    let rt = current_thread();
    let (first_may_go, task_may_go) = (WakerStore::default(), WakerStore::default());
    let (inside, is_inside) = mpsc::channel();
    thread::scope(|scope| {
        let (rt, also_inside, wait) = (&rt, inside.clone(), first_may_go.wait());
        let first = scope.spawn(move || {
            rt.block_on(async {
                also_inside.send("first").unwrap();
                wait.await;
            })
        });
        assert_eq!(is_inside.recv().unwrap(), "first");
        let task = rt.spawn(task_may_go.wait());
        let second = scope.spawn(move || {
            rt.block_on(async {
                inside.send("second").unwrap();
                task.await
            })
        });
        assert_eq!(is_inside.recv().unwrap(), "second");
        first_may_go.open();
        first.join().unwrap();
        // Only the second thread is left to run the task.
        task_may_go.open();
        second.join().unwrap().unwrap();
    });
}

#[test]
fn spawns_and_wakes_from_other_threads_wake_a_sleeping_runtime() {
    for rt in runtimes() {
        let (store, handle) = (WakerStore::default(), rt.handle().clone());
        let task = rt.spawn(store.wait());
        let other = thread::spawn(move || {
            let spawned = handle.spawn(async { 11 });
            let eleven = executor::block_on(spawned).unwrap();
            store.open();
            (store, eleven)
        });
        rt.block_on(task).unwrap();
        assert_eq!(other.join().unwrap().1, 11, "{}", rt.name);
    }
}

#[test]
fn nested_block_on_panics_and_says_what_to_do() {
    for rt in runtimes() {
        let nested = {
            let handle = rt.handle().clone();
            move || panic_site(AssertUnwindSafe(|| handle.block_on(async {})))
        };
        let in_root = rt.block_on(async { nested() });
        assert_here(&in_root, NESTED);
        assert!(in_root.message.contains("spawn_blocking"), "{in_root:?}");
        let in_task = rt.block_on(rt.spawn(async move { nested() })).unwrap();
        assert_here(&in_task, NESTED);
        let other = current_thread();
        let nested =
            rt.block_on(async { panic_site(AssertUnwindSafe(|| other.block_on(async {}))) });
        assert_here(&nested, NESTED);
    }
}

#[test]
fn block_on_inside_a_blocking_closure_is_fine() {
    for rt in runtimes() {
        let closure = || Handle::current().block_on(async { wakeful::spawn(async { 9 }).await });
        assert_eq!(rt.block_on(rt.spawn_blocking(closure)).unwrap().unwrap(), 9, "{}", rt.name);
    }
}

#[test]
fn outside_of_a_runtime_there_is_no_current_one() {
    let error = Handle::try_current().unwrap_err();
    assert!(error.is_missing_context() && !error.is_thread_local_destroyed());
    assert!(error.to_string().starts_with(NO_RUNTIME));
    assert_here(&panic_site(|| drop(Handle::current())), NO_RUNTIME);
    assert_here(&panic_site(|| wakeful::spawn(async {})), NO_RUNTIME);
    assert_here(&panic_site(|| spawn_blocking(|| {})), NO_RUNTIME);
}

#[test]
fn the_current_runtime_is_known_wherever_its_code_runs() {
    for rt in runtimes() {
        let id = rt.handle().id();
        assert_eq!(rt.block_on(async { Handle::current().id() }), id);
        assert_eq!(rt.block_on(rt.spawn(async { Handle::current().id() })).unwrap(), id);
        assert_eq!(rt.block_on(rt.spawn_blocking(|| Handle::current().id())).unwrap(), id);
        let flavor = if rt.name == "current_thread" {
            RuntimeFlavor::CurrentThread
        } else {
            RuntimeFlavor::MultiThread
        };
        assert_eq!(rt.handle().runtime_flavor(), flavor);
    }
}

#[test]
fn enter_guards_nest() {
    let (one, two) = (current_thread(), multi_thread(1));
    let (id_one, id_two) = (one.handle().id(), two.handle().id());
    let current = || Handle::current().id();
    let outer = one.enter();
    assert_eq!(current(), id_one);
    {
        let _inner = two.handle().enter();
        assert_eq!(current(), id_two);
        let _again = one.enter();
        assert_eq!(current(), id_one);
    }
    assert_eq!(current(), id_one);
    let task = wakeful::spawn(async { 3 });
    drop(outer);
    assert!(Handle::try_current().is_err());
    assert_eq!(one.block_on(task).unwrap(), 3);
}

#[test]
fn enter_guards_dropped_out_of_order_panic() {
    let (one, two) = (current_thread(), current_thread());
    thread::scope(|scope| {
        scope.spawn(|| {
            let first = one.enter();
            let second = two.enter();
            let panic = panic_site(AssertUnwindSafe(|| drop(first)));
            assert!(panic.message.contains("dropped out of order"), "{panic:?}");
            drop(second);
        });
    });
}

#[test]
fn a_current_runtime_that_is_gone_is_never_touched() {
    // Safe code can leak a guard. The runtime that it points to must then stay alive.
    thread::spawn(|| {
        let rt = current_thread();
        std::mem::forget(rt.enter());
        drop(rt);
        if let Ok(handle) = Handle::try_current() {
            assert!(executor::block_on(handle.spawn(async {})).unwrap_err().is_cancelled());
        }
    })
    .join()
    .unwrap();
}

#[test]
fn a_runtime_that_a_guard_comes_back_to_stays() {
    thread::spawn(|| {
        let token = Arc::new(());
        let alive = Arc::downgrade(&token);
        let outer =
            Builder::new_current_thread().on_report(move |_| drop(token.clone())).build().unwrap();
        let inner = current_thread();
        let mut guard = None;
        // The guard outlives the future, so the `block_on` is left before it.
        let left = catch_unwind(AssertUnwindSafe(|| {
            outer.block_on(async { guard = Some(inner.enter()) });
        }));
        assert!(left.is_err());
        drop(guard);
        drop(outer);
        assert!(alive.upgrade().is_some(), "it is what the thread came back to");
        let handle = Handle::try_current().unwrap();
        assert!(executor::block_on(handle.spawn(async {})).unwrap_err().is_cancelled());
    })
    .join()
    .unwrap();
}

#[test]
fn handle_block_on_leaves_the_driving_to_the_runtimes_own() {
    for rt in runtimes() {
        let store = WakerStore::default();
        let (handle, wait) = (rt.handle().clone(), store.wait());
        let other =
            thread::spawn(move || handle.block_on(async { wakeful::spawn(async { 21 }).await }));
        let driven = rt.spawn(wait);
        let opener = thread::spawn(move || {
            let result = other.join().unwrap().unwrap();
            store.open();
            (store, result)
        });
        rt.block_on(driven).unwrap();
        assert_eq!(opener.join().unwrap().1, 21, "{}", rt.name);
    }
}

#[test]
fn a_handle_may_outlive_its_runtime() {
    for rt in runtimes() {
        let handle = rt.handle().clone();
        let name = rt.name;
        drop(rt);
        let shared = Arc::new(());
        let held = shared.clone();
        let task = handle.spawn(async move { drop(held) });
        assert_eq!(Arc::strong_count(&shared), 1, "dropped at once, {name}");
        assert!(executor::block_on(task).unwrap_err().is_cancelled(), "{name}");
        let closure = handle.spawn_blocking(|| unreachable!("the pool is closed"));
        assert!(executor::block_on(closure).unwrap_err().is_cancelled(), "{name}");
        let _guard = handle.enter();
        assert!(executor::block_on(wakeful::spawn(async {})).unwrap_err().is_cancelled(), "{name}");
        assert_eq!(handle.metrics().num_alive_tasks(), 0, "{name}");
    }
}

#[test]
fn settings_that_make_no_sense_panic_where_they_are_made() {
    let builder = Builder::new_multi_thread;
    let workers = panic_site(|| builder().worker_threads(0).build());
    assert_here(&workers, "Worker threads cannot be set to 0");
    let blocking = panic_site(|| builder().max_blocking_threads(0).build());
    assert_here(&blocking, "Max blocking threads cannot be set to 0");
    let event_interval = panic_site(|| builder().event_interval(0).build());
    assert_here(&event_interval, "event_interval must be greater than 0");
    let queue_interval = panic_site(|| builder().global_queue_interval(0).build());
    assert_here(&queue_interval, "global_queue_interval must be greater than 0");
    let name = panic_site(|| builder().name("").build());
    assert_here(&name, "runtime name shouldn't be empty");
    assert_here(
        &panic_site(|| builder().build_local(LocalOptions::default())),
        "multi_thread is not supported for LocalRuntime",
    );
}

#[test]
fn metrics_and_names_tell_what_was_built() {
    let rt = watch("named", Builder::new_multi_thread().worker_threads(3).name("ledger"));
    assert_eq!(rt.handle().name(), Some("ledger"));
    assert!(format!("{:?}", rt.handle()).contains("ledger"));
    assert_eq!(rt.metrics().num_workers(), 3);
    assert_eq!(current_thread().metrics().num_workers(), 1);
    assert_eq!(rt.metrics().num_alive_tasks(), 0);
    let store = WakerStore::default();
    let tasks: Vec<_> = (0..10).map(|_| rt.spawn(store.wait())).collect();
    assert_eq!(rt.metrics().num_alive_tasks(), 10);
    store.open();
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    assert_eq!(rt.metrics().num_alive_tasks(), 0);
    assert_eq!(rt.metrics().orphaned_tasks(), 0);
}

#[test]
fn only_a_thread_that_runs_tasks_has_a_workers_number() {
    for rt in runtimes() {
        let is_current_thread = rt.handle().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let entered = rt.enter();
        assert_eq!(worker_index(), None, "entered is not yet at work, {}", rt.name);
        drop(entered);
        let in_task = rt.block_on(rt.spawn(async { worker_index() })).unwrap();
        assert!(in_task.is_some_and(|index| index < rt.metrics().num_workers()), "{}", rt.name);
        let in_root = rt.block_on(async { worker_index() });
        assert_eq!(in_root, is_current_thread.then_some(0), "{}", rt.name);
        let in_closure = rt.block_on(rt.spawn_blocking(worker_index)).unwrap();
        assert_eq!(in_closure, None, "{}", rt.name);
        let through_handle = rt.handle().block_on(async { worker_index() });
        assert_eq!(through_handle, None, "{}", rt.name);
    }
    assert_eq!(worker_index(), None, "outside of all runtimes");
}

#[test]
fn a_new_runtime_is_multi_threaded() {
    let rt = Runtime::new().unwrap();
    assert_eq!(rt.handle().runtime_flavor(), RuntimeFlavor::MultiThread);
    let mut polls = 0;
    rt.block_on(poll_fn(|cx| {
        polls += 1;
        if polls == 3 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| rt.block_on(async { panic!("again") }))).is_err());
    assert_eq!(polls, 3);
    // The runtime has no hook, so its counter shows that there was no orphan.
    assert_eq!(rt.metrics().orphaned_tasks(), 0);
}
