//! `JoinSet`: tasks of every source and every outcome, also tasks that end on other threads while the set is polled.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use futures::executor;
use wakeful::task::{AbortHandle, JoinHandle, JoinSet, LocalSet, may_wait_forever, yield_now};

mod support {
    pub mod not_send;
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::not_send::DropLog;
use support::panic_site::panic_site;
use support::runtimes::{TestRuntime, current_thread, local, multi_thread, runtimes, watch};
use support::waker_store::WakerStore;

const ROUNDS: usize = if cfg!(miri) { 5 } else { 300 };

#[test]
fn outside_of_a_runtime_the_caller_is_told() {
    let texts = [
        panic_site(|| JoinSet::new().spawn(async {})),
        panic_site(|| JoinSet::new().spawn_blocking(|| ())),
        panic_site(|| JoinSet::new().build_task().spawn(async {})),
        panic_site(|| JoinSet::new().build_task().spawn_blocking(|| ())),
        panic_site(|| JoinSet::new().spawn_local(async {})),
        panic_site(|| JoinSet::new().build_task().spawn_local(async {})),
    ];
    for (at, site) in texts.into_iter().enumerate() {
        assert_eq!(site.file, file!());
        let expected =
            if at < 4 { "there is no reactor running" } else { "`spawn_local` called from" };
        assert!(site.message.starts_with(expected), "{at}: {}", site.message);
    }
}

#[test]
fn tasks_are_spawned_on_other_runtimes_and_awaited_anywhere() {
    let [a, b, c] = runtimes();
    let mut set = JoinSet::new();
    for runtime in [&a, &b, &c] {
        set.spawn_on(async { 1 }, runtime.handle());
        set.spawn_blocking_on(|| 10, runtime.handle());
        set.build_task().name("named").spawn_on(async { 100 }, runtime.handle()).unwrap();
        set.build_task().spawn_blocking_on(|| 1000, runtime.handle()).unwrap();
    }
    // A current-thread runtime runs its task only in `block_on`.
    a.block_on(yield_now());
    assert_eq!(executor::block_on(set.join_all()).into_iter().sum::<u32>(), 3333);
}

#[test]
fn on_a_runtime_that_is_gone_tasks_are_cancelled_at_once() {
    for runtime in runtimes() {
        let handle = runtime.handle().clone();
        drop(runtime);
        let mut set = JoinSet::new();
        let ids = [
            set.spawn_on(async {}, &handle).id(),
            set.spawn_blocking_on(|| (), &handle).id(),
            set.build_task().spawn_on(async {}, &handle).unwrap().id(),
        ];
        assert_eq!(set.len(), 3);
        for id in ids {
            let error = executor::block_on(set.join_next()).unwrap().unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(error.id(), id);
        }
    }
}

#[test]
fn a_runtime_that_goes_ends_its_tasks() {
    for TestRuntime { runtime, reports, .. } in runtimes() {
        let mut set = JoinSet::new();
        let store = WakerStore::default();
        for _ in 0..10 {
            set.spawn_on(store.wait(), runtime.handle());
        }
        runtime.block_on(yield_now());
        drop(runtime);
        for _ in 0..10 {
            assert!(set.try_join_next().unwrap().unwrap_err().is_cancelled());
        }
        assert!(set.is_empty());
        drop(reports);
    }
}

#[test]
fn local_tasks_are_members_too() {
    let runtime = current_thread();
    let local = LocalSet::new();
    let log = DropLog::new();
    local.block_on(&runtime, async {
        let mut set = JoinSet::new();
        for n in 0..4 {
            let output = Rc::new(n);
            set.spawn_local(async move { output });
        }
        set.build_task().name("local").spawn_local(async { Rc::new(4) }).unwrap();
        let outputs = set.join_all().await;
        assert!(outputs.iter().map(|n| **n).eq(0..5));
    });
    let mut set = JoinSet::new();
    for _ in 0..3 {
        let not_send = log.not_send();
        set.spawn_local_on(async move { drop(not_send) }, &local);
    }
    let not_send = log.not_send();
    set.build_task().spawn_local_on(async move { drop(not_send) }, &local).unwrap();
    assert!(set.try_join_next().is_none());
    log.assert_dropped_here(0);
    // The set may go to another thread, the tasks may not.
    let joined = thread::spawn(move || executor::block_on(set.join_all()).len());
    executor::block_on(local);
    assert_eq!(joined.join().unwrap(), 4);
    log.assert_dropped_here(4);
}

#[test]
fn local_tasks_are_aborted_and_dropped_with_the_set() {
    let runtime = local();
    let log = DropLog::new();
    let mut set = JoinSet::new();
    let hold = |store: &WakerStore| {
        let (not_send, wait) = (log.not_send(), store.wait());
        async move {
            wait.await;
            drop(not_send);
        }
    };
    let store = WakerStore::default();
    runtime.block_on(async {
        for _ in 0..5 {
            set.spawn_local(hold(&store));
        }
        yield_now().await;
        set.shutdown().await;
    });
    log.assert_dropped_here(5);
    let local = LocalSet::new();
    for _ in 0..5 {
        set.spawn_local_on(hold(&store), &local);
    }
    runtime.block_on(local.run_until(yield_now()));
    drop(local);
    log.assert_dropped_here(10);
    assert_eq!(set.len(), 5);
    while let Some(output) = executor::block_on(set.join_next()) {
        assert!(output.unwrap_err().is_cancelled());
    }
}

#[test]
fn aborted_tasks_stay_until_they_are_taken_out() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for n in 0..8 {
                set.spawn(may_wait_forever(async move {
                    if n % 2 == 0 {
                        pending::<()>().await;
                    }
                }));
            }
            set.join_next().await.unwrap().unwrap();
            set.abort_all();
            set.abort_all();
            assert_eq!(set.len(), 7);
            let (mut ended, mut cancelled) = (0, 0);
            while let Some(output) = set.join_next().await {
                match output {
                    Ok(()) => ended += 1,
                    Err(error) if error.is_cancelled() => cancelled += 1,
                    Err(error) => panic!("neither ended nor cancelled: {error}"),
                }
            }
            assert_eq!(ended + cancelled, 7, "{}", runtime.name);
            assert!(cancelled >= 4, "{}", runtime.name);
        });
    }
}

#[test]
fn one_task_is_aborted_by_its_handle() {
    let runtime = current_thread();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        let handles: Vec<AbortHandle> =
            (0..6).map(|_| set.spawn(may_wait_forever(pending::<()>()))).collect();
        for handle in [&handles[4], &handles[1]] {
            handle.abort();
            let error = set.join_next().await.unwrap().unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(error.id(), handle.id());
        }
        assert_eq!(set.len(), 4);
        assert!(set.try_join_next().is_none());
    });
}

#[test]
fn panics_are_given_out_like_outputs() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut set: JoinSet<()> = JoinSet::new();
            let boom = set.spawn(async { std::panic::resume_unwind(Box::new("boom")) });
            let error = set.join_next().await.unwrap().unwrap_err();
            assert!(error.is_panic());
            assert_eq!(error.id(), boom.id());
            assert_eq!(error.into_panic().downcast_ref(), Some(&"boom"));
        });
    }
}

#[test]
fn join_all_gives_up_at_the_first_failure() {
    let runtime = current_thread();
    let mut set = JoinSet::new();
    set.spawn_on(async {}, runtime.handle());
    set.spawn_on(async { std::panic::resume_unwind(Box::new("boom")) }, runtime.handle());
    let other = set.spawn_on(may_wait_forever(pending()), runtime.handle());
    let joined = catch_unwind(AssertUnwindSafe(|| runtime.block_on(set.join_all())));
    assert_eq!(joined.unwrap_err().downcast_ref(), Some(&"boom"));
    runtime.block_on(yield_now());
    assert!(other.is_finished(), "the others are aborted");

    let mut set: JoinSet<()> = JoinSet::new();
    let id = set.spawn_on(may_wait_forever(pending()), runtime.handle()).id();
    set.abort_all();
    let site = panic_site(AssertUnwindSafe(|| runtime.block_on(set.join_all())));
    assert_eq!(site.message, format!("task {id} was cancelled"));
    assert!(runtime.block_on(JoinSet::<u32>::new().join_all()).is_empty());
}

/// Tasks end on workers while they are spawned, awaited, aborted and let go here.
#[test]
fn tasks_end_on_other_threads_while_the_set_is_polled() {
    let runtime = multi_thread(2);
    let ended = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut set = JoinSet::new();
        let (mut spawned, mut joined) = (0, 0);
        for round in 0..ROUNDS {
            for n in 0..10 {
                let ended = ended.clone();
                set.spawn(async move {
                    for _ in 0..n {
                        yield_now().await;
                    }
                    ended.fetch_add(1, SeqCst);
                });
                spawned += 1;
            }
            while set.len() > 5 {
                set.join_next().await.unwrap().unwrap();
                joined += 1;
            }
            if round % 7 == 0 {
                joined += set.len();
                set.detach_all();
            }
        }
        while let Some(output) = set.join_next().await {
            output.unwrap();
            joined += 1;
        }
        assert_eq!(joined, spawned);
        // Waits for the detached tasks.
        while ended.load(SeqCst) < spawned {
            yield_now().await;
        }
    });
}

#[test]
fn a_set_may_go_while_its_tasks_end() {
    let runtime = multi_thread(2);
    for _ in 0..ROUNDS {
        let alive = Arc::new(());
        let mut set = JoinSet::new();
        for n in 0..8 {
            let output = alive.clone();
            set.spawn_on(
                async move {
                    for _ in 0..n {
                        yield_now().await;
                    }
                    output
                },
                runtime.handle(),
            );
        }
        runtime.block_on(async {
            drop(set.join_next().await);
            drop(set);
            while Arc::strong_count(&alive) > 1 {
                yield_now().await;
            }
        });
    }
}

/// A task that waits only for a set of orphans is not reported as an orphan: only the cause is. A task that stopped
/// waiting for the set becomes an orphan when the set, which holds its waker, is dropped.
#[test]
fn orphans_are_told_apart() {
    use wakeful::runtime::Builder;
    let runtime = watch("report", &mut Builder::new_current_thread());
    let (lost, waits, gave_up) = runtime.block_on(async {
        let mut set = JoinSet::new();
        let lost = set.spawn(pending::<()>());
        let waits: JoinHandle<()> = wakeful::spawn(async move {
            set.join_next().await;
        });
        let gave_up: JoinHandle<()> = wakeful::spawn(async {
            let mut set = JoinSet::new();
            set.spawn(may_wait_forever(pending::<()>()));
            let waker = std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            let waits = set.join_next();
            futures::future::select(Box::pin(waits), std::future::ready(())).await;
            drop((waker, set));
            pending::<()>().await;
        });
        for _ in 0..5 {
            yield_now().await;
        }
        (lost.id(), waits, gave_up)
    });
    let reported: Vec<_> = runtime.reports.take().iter().map(|orphan| orphan.id()).collect();
    assert_eq!(reported, [lost, gave_up.id()]);
    assert!(!waits.is_finished());
}

#[test]
fn a_set_is_as_free_as_its_outputs() {
    fn send_sync<T: Send + Sync + Unpin>(_: T) {}
    send_sync(JoinSet::<std::cell::Cell<u32>>::new());
    fn send<T: Send + Sync>(_: T) {}
    let mut set = JoinSet::<std::cell::Cell<u32>>::new();
    send(set.join_next());
    send(set.shutdown());
    // A set of outputs that are not `Send` compiles.
    let local = LocalSet::new();
    let mut set = JoinSet::new();
    set.spawn_local_on(async { Rc::new(1) }, &local);
    executor::block_on(local);
    assert_eq!(*executor::block_on(set.join_next()).unwrap().unwrap(), 1);
}
