//! `spawn_blocking`: closures run, panic, queue and are dropped, and the pool grows and shrinks as configured.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use futures::executor;
use futures::future::join_all;
use wakeful::runtime::{Builder, Handle};
use wakeful::task::{self, JoinError, spawn_blocking};

mod support {
    pub mod runtimes;
}
use support::runtimes::{TestRuntime, runtimes, watch};

fn builders() -> [(&'static str, Builder); 2] {
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(2);
    [("current_thread", Builder::new_current_thread()), ("multi_thread", multi_thread)]
}

/// Both kinds of runtime, with a pool of at most `threads`.
fn with_pool_of(threads: usize) -> impl Iterator<Item = TestRuntime> {
    builders()
        .into_iter()
        .map(move |(name, mut builder)| watch(name, builder.max_blocking_threads(threads)))
}

/// A closure that says that it runs, and then blocks until the test lets it go.
struct Gate {
    started: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

fn gated() -> (Gate, impl FnOnce() + Send + 'static) {
    let ((start, started), (release, released)) = (mpsc::channel(), mpsc::channel());
    let closure = move || {
        start.send(()).unwrap();
        released.recv().unwrap();
    };
    (Gate { started, release }, closure)
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn results_arrive_in_tasks_in_block_on_and_through_handles() {
    for rt in runtimes() {
        assert_eq!(rt.block_on(rt.spawn_blocking(|| 6 * 7)).unwrap(), 42, "{}", rt.name);
        assert_eq!(rt.block_on(async { spawn_blocking(|| "root").await }).unwrap(), "root");
        let task = rt.spawn(async { spawn_blocking(|| vec![1, 2, 3]).await.unwrap() });
        assert_eq!(rt.block_on(task).unwrap(), [1, 2, 3]);
        let handle = rt.handle().clone();
        let outside = thread::spawn(move || executor::block_on(handle.spawn_blocking(|| 'x')));
        assert_eq!(outside.join().unwrap().unwrap(), 'x', "no thread needs to be in block_on");
        assert!(rt.metrics().num_blocking_threads() > 0);
    }
}

#[test]
fn a_panic_reaches_the_handle_and_spares_the_thread() {
    for rt in with_pool_of(1) {
        let threads: BTreeSet<String> = (0..20)
            .map(|n| {
                let boom = rt.spawn_blocking(move || -> () { panic!("closure {n}") });
                let error: JoinError = rt.block_on(boom).unwrap_err();
                assert!(error.is_panic() && error.to_string().contains(&format!("closure {n}")));
                let id = rt.spawn_blocking(|| format!("{:?}", thread::current().id()));
                rt.block_on(id).unwrap()
            })
            .collect();
        assert_eq!(threads.len(), 1, "{}", rt.name);
        assert_eq!(rt.metrics().num_blocking_threads(), 1, "{}", rt.name);
    }
}

#[test]
fn a_closure_is_inside_the_runtime_and_is_a_task() {
    for rt in runtimes() {
        let id = rt.handle().id();
        let closure = rt.spawn_blocking(move || {
            assert_eq!(Handle::current().id(), id);
            assert!(task::coop::has_budget_remaining());
            // A closure may spawn closures and tasks, and wait for them.
            let nested = spawn_blocking(|| spawn_blocking(|| 20));
            let task = wakeful::spawn(async { 22 });
            Handle::current()
                .block_on(async { nested.await.unwrap().await.unwrap() + task.await.unwrap() })
        });
        assert_eq!(rt.block_on(closure).unwrap(), 42, "{}", rt.name);
    }
}

#[test]
fn many_closures_at_once_all_run() {
    for rt in runtimes() {
        let sum = rt.block_on(async {
            let closures = (0..5_000u64).map(|n| spawn_blocking(move || n));
            join_all(closures).await.into_iter().map(Result::unwrap).sum::<u64>()
        });
        assert_eq!(sum, 12_497_500, "{}", rt.name);
    }
}

#[test]
fn many_threads_may_ask_at_once() {
    for rt in with_pool_of(4) {
        let done = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                let (done, handle) = (done.clone(), rt.handle().clone());
                scope.spawn(move || {
                    for _ in 0..250 {
                        let done = done.clone();
                        let closure = handle.spawn_blocking(move || done.fetch_add(1, SeqCst));
                        executor::block_on(closure).unwrap();
                    }
                });
            }
        });
        assert_eq!(done.load(SeqCst), 1_000, "{}", rt.name);
        assert!(rt.metrics().num_blocking_threads() <= 4, "{}", rt.name);
    }
}

#[test]
fn closures_that_wait_for_each_other_all_get_a_thread() {
    for rt in with_pool_of(24) {
        // The second and third meeting find idle threads. The second finds too few.
        for meeting_of in [8, 24, 24] {
            let meeting = Arc::new(Barrier::new(meeting_of));
            let threads = rt.block_on(async {
                join_all((0..meeting_of).map(|_| {
                    let meeting = meeting.clone();
                    spawn_blocking(move || {
                        meeting.wait();
                        thread::current().id()
                    })
                }))
                .await
            });
            let distinct: Vec<ThreadId> = threads.into_iter().map(Result::unwrap).collect();
            let distinct: BTreeSet<String> = distinct.iter().map(|id| format!("{id:?}")).collect();
            assert_eq!(distinct.len(), meeting_of, "{}", rt.name);
        }
        assert_eq!(rt.metrics().num_blocking_threads(), 24, "{}", rt.name);
    }
}

#[test]
fn beyond_the_cap_closures_wait_their_turn_in_order() {
    for rt in with_pool_of(1) {
        let (gate, first) = gated();
        let first = rt.spawn_blocking(first);
        gate.started.recv().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = (0..10)
            .map(|n| {
                let order = order.clone();
                rt.spawn_blocking(move || order.lock().unwrap().push(n))
            })
            .collect();
        assert!(order.lock().unwrap().is_empty(), "the only thread is busy, {}", rt.name);
        assert!(waiting.iter().all(|closure| !closure.is_finished()));
        gate.release.send(()).unwrap();
        rt.block_on(async {
            first.await.unwrap();
            for closure in waiting {
                closure.await.unwrap();
            }
        });
        assert_eq!(*order.lock().unwrap(), Vec::from_iter(0..10), "{}", rt.name);
        assert_eq!(rt.metrics().num_blocking_threads(), 1, "{}", rt.name);
    }
}

#[test]
fn abort_reaches_a_closure_only_before_it_starts() {
    for rt in with_pool_of(1) {
        let (gate, running) = gated();
        let running = rt.spawn_blocking(running);
        gate.started.recv().unwrap();
        let (dropped, was_dropped) = mpsc::channel();
        let mark = OnDrop(move || dropped.send(()).unwrap());
        let waiting = rt.spawn_blocking(move || {
            let _mark = mark;
            unreachable!("aborted before its turn");
        });
        waiting.abort();
        running.abort();
        gate.release.send(()).unwrap();
        rt.block_on(running).expect("it had started");
        let error: JoinError = rt.block_on(waiting).map(|_: ()| ()).unwrap_err();
        assert!(error.is_cancelled(), "{}: {error}", rt.name);
        was_dropped.recv().unwrap();
        assert!(was_dropped.recv().is_err(), "dropped once");
    }
}

#[test]
fn a_detached_closure_runs_all_the_same() {
    for rt in runtimes() {
        let (ran, has_run) = mpsc::channel();
        drop(rt.spawn_blocking(move || ran.send("ran").unwrap()));
        assert_eq!(has_run.recv().unwrap(), "ran", "{}", rt.name);
    }
}

#[test]
fn a_runtime_that_goes_waits_for_what_runs_and_for_what_waits() {
    const WAITING: usize = 20;
    for rt in with_pool_of(1).chain(runtimes()) {
        let TestRuntime { runtime, reports, name } = rt;
        let (gate, running) = gated();
        let running = runtime.spawn_blocking(running);
        gate.started.recv().unwrap();
        let (ran, has_run) = mpsc::channel();
        let waiting: Vec<_> = (0..WAITING)
            .map(|nth| {
                let ran = ran.clone();
                runtime.spawn_blocking(move || ran.send(nth).unwrap())
            })
            .collect();
        drop(ran);
        let handle = runtime.handle().clone();
        let opener = thread::spawn(move || {
            // A runtime that shuts down refuses new closures. It runs those that it accepted before.
            let is_refused = || {
                let probe = handle.spawn_blocking(|| ());
                probe.is_finished() && executor::block_on(probe).is_err()
            };
            while !is_refused() {
                thread::yield_now();
            }
            gate.release.send(()).unwrap();
        });
        drop(runtime);
        opener.join().unwrap();
        executor::block_on(running).unwrap();
        for waiting in waiting {
            executor::block_on(waiting).unwrap();
        }
        let mut all: Vec<usize> = has_run.into_iter().collect();
        all.sort_unstable();
        assert_eq!(all, Vec::from_iter(0..WAITING), "{name}");
        drop(reports);
    }
}

#[test]
fn closures_spawned_before_the_drop_run() {
    for (name, mut builder) in builders() {
        for _ in 0..50 {
            let runtime = builder.build().unwrap();
            let (ran, has_run) = mpsc::channel();
            runtime.block_on(async {
                for nth in 0..10 {
                    let ran = ran.clone();
                    spawn_blocking(move || ran.send(nth).unwrap());
                }
            });
            drop((ran, runtime));
            assert_eq!(has_run.into_iter().count(), 10, "{name}");
        }
    }
}

#[test]
fn idle_threads_end_when_their_time_is_up() {
    for (name, mut builder) in builders() {
        let (stop, stopped) = mpsc::channel();
        let stop = Mutex::new(stop);
        builder
            .thread_keep_alive(Duration::ZERO)
            .on_thread_stop(move || stop.lock().unwrap().send(()).unwrap());
        let rt = watch(name, &mut builder);
        for round in 0..100 {
            assert_eq!(rt.block_on(rt.spawn_blocking(move || round)).unwrap(), round, "{name}");
        }
        stopped.recv().unwrap(); // long before the runtime is dropped
        let burst = rt.block_on(async {
            join_all((0..200).map(|n| spawn_blocking(move || n)))
                .await
                .into_iter()
                .map(Result::unwrap)
                .sum::<u32>()
        });
        assert_eq!(burst, 19_900, "{name}");
        drop(builder);
    }
}

#[test]
fn a_closure_that_comes_while_the_last_thread_leaves_still_runs() {
    for (name, mut builder) in builders() {
        // The only thread of the pool sends a message when it is about to end, and waits for one before it ends.
        let ((stop, stopping), (go, may_go)) = (mpsc::channel(), mpsc::channel::<()>());
        let ends = Mutex::new((stop, may_go, false));
        builder.max_blocking_threads(1).thread_keep_alive(Duration::ZERO).on_thread_stop(
            move || {
                let mut ends = ends.lock().unwrap();
                if !std::mem::replace(&mut ends.2, true) {
                    ends.0.send(()).unwrap();
                    ends.1.recv().unwrap();
                }
            },
        );
        let rt = watch(name, &mut builder);
        rt.block_on(rt.spawn_blocking(|| ())).unwrap();
        stopping.recv().unwrap();
        let late = rt.spawn_blocking(|| "late");
        go.send(()).unwrap();
        assert_eq!(rt.block_on(late).unwrap(), "late", "{name}");
    }
}

#[test]
fn threads_may_be_kept_for_ever() {
    for (name, mut builder) in builders() {
        let rt = watch(name, builder.thread_keep_alive(Duration::MAX));
        for round in 0..20 {
            assert_eq!(rt.block_on(rt.spawn_blocking(move || round)).unwrap(), round, "{name}");
        }
    }
}

#[test]
fn a_closure_with_a_thread_on_its_way_runs_although_the_runtime_ends() {
    for rt in with_pool_of(4) {
        let TestRuntime { runtime, reports, name } = rt;
        let closure = runtime.spawn_blocking(|| 42);
        drop(runtime);
        assert_eq!(executor::block_on(closure).unwrap(), 42, "{name}");
        drop(reports);
    }
}
