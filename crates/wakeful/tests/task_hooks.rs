//! Hooks for tasks: each event is passed to its hook, once, with the task's id and spawn site.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use futures::future::pending;
use wakeful::runtime::{Builder, Handle, LocalOptions, Runtime, TaskMeta};
use wakeful::task::{Id, LocalSet, block_in_place, may_wait_forever, spawn_blocking, yield_now};

mod support {
    pub mod runtimes;
}
use support::runtimes::{serial_builders, watch};

/// An event that a hook has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Spawn,
    Before,
    After,
    End,
}
use Event::{After, Before, End, Spawn};

type Seen = Arc<Mutex<Vec<(Event, Id, u32)>>>;

/// Returns a hook that records the event with the task's id and the line of its spawn.
fn hook(seen: &Seen, event: Event) -> impl Fn(&TaskMeta<'_>) + Send + Sync + 'static {
    let seen = seen.clone();
    move |task| {
        assert_eq!(task.spawned_at().file(), file!());
        seen.lock().unwrap().push((event, task.id(), task.spawned_at().line()));
    }
}

fn with_hooks(mut builder: Builder) -> (Runtime, Seen) {
    let seen = Seen::default();
    let runtime = builder
        .on_task_spawn(hook(&seen, Spawn))
        .on_before_task_poll(hook(&seen, Before))
        .on_after_task_poll(hook(&seen, After))
        .on_task_terminate(hook(&seen, End))
        .build()
        .unwrap();
    (runtime, seen)
}

/// A runtime of each flavor. Its only worker makes the order of events certain.
fn runtimes() -> [(Runtime, Seen); 2] {
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(1);
    [Builder::new_current_thread(), multi_thread].map(with_hooks)
}

/// Returns the events of one task, in order.
fn events_of(seen: &Seen, id: Id) -> Vec<Event> {
    seen.lock()
        .unwrap()
        .iter()
        .filter(|(_, task, _)| *task == id)
        .map(|(event, ..)| *event)
        .collect()
}

/// Runs `f` as a task, drops the runtime, and returns the output of `f`.
fn run<T: Send + 'static>(runtime: Runtime, f: impl Future<Output = T> + Send + 'static) -> T {
    let output = runtime.block_on(runtime.spawn(f)).unwrap();
    drop(runtime);
    output
}

#[test]
fn each_event_of_a_task_is_seen_once_and_in_order() {
    for (runtime, seen) in runtimes() {
        let (from_outside, line) = (runtime.spawn(yield_now()), line!());
        let id = from_outside.id();
        let (inside, inside_line) = run(runtime, async move {
            from_outside.await.unwrap();
            let (task, line) = (wakeful::spawn(yield_now()), line!());
            let id = task.id();
            task.await.unwrap();
            (id, line)
        });
        for id in [id, inside] {
            assert_eq!(events_of(&seen, id), [Spawn, Before, After, Before, End, After]);
        }
        let lines = |id| seen.lock().unwrap().iter().find(|it| it.1 == id).unwrap().2;
        assert_eq!((lines(id), lines(inside)), (line, inside_line));
    }
}

/// Every poll counts: those of a long round, and those after the worker was parked.
#[test]
fn many_polls_are_all_seen() {
    for (runtime, seen) in runtimes() {
        let id = run(runtime, async {
            let task = wakeful::spawn(async {
                for _ in 0..1000 {
                    yield_now().await;
                }
            });
            let id = task.id();
            task.await.unwrap();
            id
        });
        let events = events_of(&seen, id);
        let count = |event| events.iter().filter(|it| **it == event).count();
        assert_eq!([Spawn, Before, After, End].map(count), [1, 1001, 1001, 1]);
    }
}

/// The first task after a `block_on` has begun, and the last before it ends.
#[test]
fn each_block_on_sees_all_polls() {
    let (runtime, seen) = with_hooks(Builder::new_current_thread());
    for _ in 0..50 {
        let task = runtime.spawn(async {});
        let id = task.id();
        runtime.block_on(task).unwrap();
        assert_eq!(events_of(&seen, id), [Spawn, Before, End, After]);
    }
}

#[test]
fn dropped_and_panicked_tasks_end_too() {
    for (runtime, seen) in runtimes() {
        let (ids, at_shutdown) = run(runtime, async {
            let panics = wakeful::spawn(async { resume_unwind(Box::new("on purpose")) });
            let aborted = wakeful::spawn(may_wait_forever(pending::<()>()));
            let at_shutdown = wakeful::spawn(may_wait_forever(pending::<()>())).id();
            aborted.abort();
            let ids = [panics.id(), aborted.id()];
            assert!(panics.await.unwrap_err().is_panic());
            assert!(aborted.await.unwrap_err().is_cancelled());
            (ids, at_shutdown)
        });
        for id in ids.into_iter().chain([at_shutdown]) {
            let events = events_of(&seen, id);
            assert_eq!(events.iter().filter(|event| **event == End).count(), 1, "{events:?}");
        }
    }
}

/// As in tokio: a closure of the blocking pool has no spawn and no poll, but an end.
#[test]
fn closures_end_and_local_sets_are_not_seen() {
    for (runtime, seen) in runtimes() {
        let closure = runtime.block_on(async {
            let closure = spawn_blocking(|| ());
            let id = closure.id();
            closure.await.unwrap();
            let set = LocalSet::new();
            set.run_until(async { wakeful::task::spawn_local(yield_now()).await }).await.unwrap();
            id
        });
        drop(runtime);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|it| (it.0, it.1) == (End, closure)), "{seen:?}");
        assert_eq!(seen.len(), 1);
    }
}

#[test]
fn hooks_of_a_local_runtime() {
    let seen = Seen::default();
    let mut options = LocalOptions::default();
    options
        .on_task_spawn(hook(&seen, Spawn))
        .on_before_task_poll(hook(&seen, Before))
        .on_after_task_poll(hook(&seen, After))
        .on_task_terminate(hook(&seen, End));
    let runtime = Builder::new_current_thread()
        .on_task_spawn(|_| unreachable!("the options replace it"))
        .build_local(options)
        .unwrap();
    let task = runtime.spawn_local(yield_now());
    let id = task.id();
    runtime.block_on(task).unwrap();
    assert_eq!(events_of(&seen, id), [Spawn, Before, After, Before, End, After]);
}

/// A hook may spawn a task, whose spawn it sees as well.
#[test]
fn a_hook_may_spawn() {
    for (_, mut builder) in serial_builders() {
        let spawns = Arc::new(AtomicUsize::new(0));
        let count = spawns.clone();
        let rt = watch(
            "a hook that spawns",
            builder.on_task_spawn(move |_| {
                if count.fetch_add(1, SeqCst).is_multiple_of(2) {
                    drop(Handle::current().spawn(async {}));
                }
            }),
        );
        let _entered = rt.enter();
        let task = rt.spawn(async {
            for _ in 0..100 {
                wakeful::spawn(yield_now()).await.unwrap();
            }
        });
        rt.block_on(task).unwrap();
        assert_eq!(spawns.load(SeqCst), 202);
    }
}

/// A hook is outside of the poll, so the worker keeps its core. It needs that afterwards.
#[test]
fn hooks_may_block_in_place() {
    let block = |_: &TaskMeta<'_>| block_in_place(|| ());
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .on_task_spawn(block)
        .on_before_task_poll(block)
        .on_after_task_poll(block)
        .on_task_terminate(block);
    let rt = watch("blocking hooks", &mut builder);
    let task = rt.spawn(async {
        let metrics = Handle::current().metrics();
        for _ in 0..100 {
            wakeful::spawn(yield_now()).await.unwrap();
        }
        metrics.num_alive_tasks()
    });
    assert_eq!(rt.block_on(task).unwrap(), 1);
}

/// A panic of the hook goes to the caller of `spawn`, and the task is dropped.
#[test]
fn a_hook_for_spawns_may_panic() {
    for (_, mut builder) in serial_builders() {
        let is_armed = Arc::new(AtomicBool::new(false));
        let bomb = is_armed.clone();
        let rt = watch(
            "a spawn hook that panics",
            builder.on_task_spawn(move |_| {
                if bomb.load(SeqCst) {
                    resume_unwind(Box::new("planted"));
                }
            }),
        );
        let task = rt.spawn(async move {
            is_armed.store(true, SeqCst);
            let dropped = Arc::new(());
            let held = dropped.clone();
            let spawn = || drop(wakeful::spawn(async move { drop(held) }));
            assert!(catch_unwind(AssertUnwindSafe(spawn)).is_err());
            is_armed.store(false, SeqCst);
            wakeful::spawn(async {}).await.unwrap();
            Arc::strong_count(&dropped)
        });
        assert_eq!(rt.block_on(task).unwrap(), 1);
    }
}

/// A thread outside of the runtime calls the hook while the runtime ends. The future is dropped once.
#[test]
fn a_hook_for_spawns_may_panic_after_the_runtime_has_ended() {
    for (_, mut builder) in serial_builders() {
        let (in_hook, hook_began) = std::sync::mpsc::channel();
        let (end_runtime, runtime_ended) = std::sync::mpsc::channel::<()>();
        let runtime_ended = Mutex::new(runtime_ended);
        let rt = watch(
            "a spawn hook that outlives its runtime",
            builder.on_task_spawn(move |_| {
                in_hook.send(()).unwrap();
                runtime_ended.lock().unwrap().recv().unwrap();
                resume_unwind(Box::new("planted"));
            }),
        );
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = CountsDrops(drops.clone());
        let handle = rt.handle().clone();
        let spawner = std::thread::spawn(move || {
            let spawn = || drop(handle.spawn(async move { drop(counted) }));
            catch_unwind(AssertUnwindSafe(spawn)).is_err()
        });
        hook_began.recv().unwrap();
        drop(rt);
        end_runtime.send(()).unwrap();
        assert!(spawner.join().unwrap());
        assert_eq!(drops.load(SeqCst), 1);
    }
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// While the only worker is stuck, a spare worker calls the hook, which blocks in place until the worker has left the
/// runtime. The spare worker holds the task meanwhile, so it is the last to leave.
#[test]
fn a_hook_on_a_spare_worker_may_block_in_place_while_the_runtime_ends() {
    let (in_hook, hook_began) = std::sync::mpsc::channel();
    let (release_hook, hook_released) = std::sync::mpsc::channel::<()>();
    let (left, worker_left) = std::sync::mpsc::channel();
    let (release_worker, worker_released) = std::sync::mpsc::channel::<()>();
    let hook_released = Mutex::new(hook_released);
    let held = Arc::new(Mutex::new(None));
    let is_held = held.clone();
    let rt = Builder::new_multi_thread()
        .worker_threads(1)
        .on_report(|_| ())
        .on_before_task_poll(move |task| {
            if is_held.lock().unwrap().take_if(|id| *id == task.id()).is_some() {
                in_hook.send(()).unwrap();
                block_in_place(|| hook_released.lock().unwrap().recv().unwrap());
            }
        })
        .on_thread_stop(move || _ = left.send(()))
        .build()
        .unwrap();
    let (enter, worker_entered) = std::sync::mpsc::channel();
    rt.spawn(async move {
        enter.send(()).unwrap();
        worker_released.recv().unwrap();
    });
    worker_entered.recv().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = CountsDrops(drops.clone());
    {
        let mut held = held.lock().unwrap();
        *held = Some(rt.spawn(async move { drop(counted) }).id());
    }
    hook_began.recv().unwrap();
    let ending = std::thread::spawn(move || drop(rt));
    release_worker.send(()).unwrap();
    worker_left.recv().unwrap();
    // A runtime that ends without the spare worker drops the task in this time.
    for _ in 0..20_000 {
        std::thread::yield_now();
    }
    assert_eq!(drops.load(SeqCst), 0, "the spare worker still holds the task");
    release_hook.send(()).unwrap();
    ending.join().unwrap();
    assert_eq!(drops.load(SeqCst), 1);
}

/// A task ends even if the hook panics.
#[test]
fn a_hook_for_ends_may_panic() {
    for (_, mut builder) in serial_builders() {
        let bomb = |_: &TaskMeta<'_>| resume_unwind(Box::new("planted"));
        let rt = watch("an end hook that panics", builder.on_task_terminate(bomb));
        for n in 0..10 {
            assert_eq!(rt.block_on(rt.spawn(async move { n })).unwrap(), n);
        }
    }
}

/// The task of the poll is dropped. The runtime goes on with another thread, or another `block_on`.
#[test]
fn a_hook_for_polls_may_panic() {
    for (name, mut builder) in serial_builders() {
        let armed = Arc::new(Mutex::new(None));
        let bomb = armed.clone();
        let rt = watch(
            "a poll hook that panics",
            builder.on_before_task_poll(move |task| {
                if bomb.lock().unwrap().take_if(|id| *id == task.id()).is_some() {
                    resume_unwind(Box::new("planted"));
                }
            }),
        );
        let (armed_tx, is_armed) = oneshot::channel::<()>();
        let task = rt.spawn(async { is_armed.await.unwrap() });
        *armed.lock().unwrap() = Some(task.id());
        armed_tx.send(()).unwrap();
        let joined = catch_unwind(AssertUnwindSafe(|| rt.block_on(task)));
        match name {
            "current_thread" => assert!(joined.is_err(), "the panic goes through `block_on`"),
            _ => assert!(joined.unwrap().unwrap_err().is_cancelled()),
        }
        assert_eq!(rt.block_on(rt.spawn(async { 5 })).unwrap(), 5);
    }
}

/// The hooks before and after a poll see the latency of this poll.
#[test]
fn hooks_see_schedule_latencies() {
    const AT_LEAST: Duration = Duration::from_millis(5);
    for (name, mut builder) in serial_builders() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hook = |event| {
            let seen = seen.clone();
            move |task: &TaskMeta<'_>| {
                seen.lock().unwrap().push((event, task.id(), task.schedule_latency()));
            }
        };
        let rt = watch(
            "latencies",
            builder
                // No spare worker polls the task while the worker is busy.
                .rescue_after(None)
                .track_task_schedule_latency()
                .on_task_spawn(hook(Spawn))
                .on_before_task_poll(hook(Before))
                .on_after_task_poll(hook(After))
                .on_task_terminate(hook(End)),
        );
        let task = rt.spawn(async {
            let waits = wakeful::spawn(yield_now());
            // The worker is busy, so the new task waits.
            let started = Instant::now();
            while started.elapsed() < AT_LEAST {
                std::hint::spin_loop();
            }
            let id = waits.id();
            waits.await.unwrap();
            id
        });
        let id = rt.block_on(task).unwrap();
        drop(rt.runtime);
        let seen = seen.lock().unwrap();
        let mine: Vec<_> = seen.iter().filter(|it| it.1 == id).map(|it| (it.0, it.2)).collect();
        let [spawn, first, after_first, second, end, after_second] = mine[..] else {
            panic!("{mine:?}")
        };
        assert_eq!([spawn, end], [(Spawn, None), (End, None)]);
        assert_eq!((first.1, second.1), (after_first.1, after_second.1), "{name}");
        assert!(first.1.unwrap() >= AT_LEAST, "{name}: {first:?}");
        assert!(second.1.is_some(), "it yielded");
    }
}

#[test]
fn latencies_are_not_measured_unasked() {
    for (_, mut builder) in serial_builders() {
        let rt = watch(
            "no latencies",
            builder.on_before_task_poll(|task| assert_eq!(task.schedule_latency(), None)),
        );
        rt.block_on(rt.spawn(async {})).unwrap();
    }
}
