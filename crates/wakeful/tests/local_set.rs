//! `LocalSet`: its tasks run only while it is polled, in order, and `spawn_local` finds the set that it is called in.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::thread;

use futures::channel::oneshot;
use futures::executor;
use futures::future::join_all;
use wakeful::runtime::UnhandledPanic;
use wakeful::task::{
    self, JoinHandle, LocalSet, block_in_place, may_wait_forever, spawn_local, yield_now,
};

mod support {
    pub mod not_send;
    pub mod panic_site;
    pub mod runtimes;
}
use support::not_send::{DropLog, Trace};
use support::panic_site::panic_site;
use support::runtimes::{current_thread, local, multi_thread, runtimes};

const OUTSIDE: &str =
    "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`";

#[test]
fn tasks_run_in_the_order_of_their_spawns_and_wakes() {
    for runtime in runtimes() {
        let trace = Trace::new();
        let set = LocalSet::new();
        let task = |name: &'static str| {
            let trace = trace.clone();
            async move {
                for turn in 1..=2 {
                    trace.note(format!("{name}{turn}"));
                    yield_now().await;
                }
            }
        };
        set.spawn_local(task("early"));
        set.block_on(&runtime, async {
            trace.note("main");
            let a = spawn_local(task("a"));
            let b = spawn_local(task("b"));
            a.await.unwrap();
            trace.note("a is done");
            b.await.unwrap();
        });
        let expected = ["main", "early1", "a1", "b1", "early2", "a2", "b2", "a is done"];
        assert_eq!(trace.take(), expected, "{}", runtime.name);
    }
}

#[test]
fn tasks_wait_while_the_set_is_not_polled() {
    let runtime = current_thread();
    let set = LocalSet::new();
    let runs = Rc::new(Cell::new(0));
    let counted = runs.clone();
    let task = set.spawn_local(async move {
        loop {
            counted.set(counted.get() + 1);
            yield_now().await;
        }
    });
    runtime.block_on(yield_now());
    assert_eq!(runs.get(), 0, "no poll of the set, no turn");
    set.block_on(&runtime, yield_now());
    let after = runs.get();
    assert!(after > 0);
    runtime.block_on(async {
        for _ in 0..100 {
            yield_now().await;
        }
    });
    assert_eq!(runs.get(), after, "run_until is over");
    task.abort();
    set.block_on(&runtime, async { assert!(task.await.unwrap_err().is_cancelled()) });
}

#[test]
fn awaiting_the_set_runs_all_tasks_to_their_end() {
    for runtime in runtimes() {
        let set = LocalSet::new();
        let done = Rc::new(Cell::new(0));
        for depth in 0..10 {
            let done = done.clone();
            set.spawn_local(async move { descend(depth, done).await });
        }
        runtime.block_on(set);
        assert_eq!(done.get(), (1..=10).sum::<usize>(), "{}", runtime.name);
        runtime.block_on(LocalSet::new());
    }
}

/// Spawns its successor without awaiting it.
fn descend(depth: usize, done: Rc<Cell<usize>>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        yield_now().await;
        if depth > 0 {
            spawn_local(descend(depth - 1, done.clone()));
        }
        done.set(done.get() + 1);
    })
}

#[test]
fn a_set_needs_no_runtime() {
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel();
    let task = set.spawn_local(async move { rx.await.unwrap() + 1 });
    let sender = thread::spawn(move || tx.send(41).unwrap());
    assert_eq!(executor::block_on(set.run_until(task)).unwrap(), 42);
    sender.join().unwrap();

    let log = DropLog::new();
    let not_send = log.not_send();
    set.spawn_local(async move { drop(not_send) });
    log.assert_dropped_here(0);
    drop(set);
    log.assert_dropped_here(1);
}

#[test]
fn spawn_local_outside_panics_at_the_caller() {
    let check = |site: support::panic_site::PanicSite| {
        assert_eq!(site.message, OUTSIDE);
        assert_eq!(site.file, file!());
    };
    check(panic_site(|| spawn_local(async {})));
    check(panic_site(|| task::Builder::new().spawn_local(async {})));
    let set = LocalSet::new();
    set.spawn_local(async {});
    check(panic_site(|| spawn_local(async {})));
    executor::block_on(set.run_until(yield_now()));
    check(panic_site(|| spawn_local(async {})));
    for runtime in runtimes() {
        runtime.block_on(async { check(panic_site(|| spawn_local(async {}))) });
        let in_task = runtime.spawn(async { panic_site(|| spawn_local(async {})) });
        check(runtime.block_on(in_task).unwrap());
    }
}

#[test]
fn a_local_runtime_is_a_place_for_local_tasks_too() {
    let runtime = local();
    let log = DropLog::new();
    runtime.block_on(async {
        let not_send = log.not_send();
        spawn_local(async move { drop(not_send) }).await.unwrap();
        log.assert_dropped_here(1);
        // `spawn_local` uses the innermost set.
        let set = LocalSet::new();
        let not_send = log.not_send();
        set.run_until(async {
            spawn_local(may_wait_forever(async move {
                let _not_send = not_send;
                pending::<()>().await;
            }));
            yield_now().await;
        })
        .await;
        log.assert_dropped_here(1);
        drop(set);
        log.assert_dropped_here(2);
    });
    let handle = runtime.handle().clone();
    let other = thread::spawn(move || {
        let _entered = handle.enter();
        panic_site(|| spawn_local(async {}))
    });
    let site = other.join().unwrap();
    assert_eq!(
        site.message,
        "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was created on"
    );
    assert_eq!(site.file, file!());
}

#[test]
fn of_a_set_and_a_local_runtime_the_one_entered_last_counts() {
    let (runtime, set) = (local(), LocalSet::new());
    let entered_set = set.enter();
    // A task that goes to the set waits forever, because the set is not polled.
    assert_eq!(runtime.block_on(async { spawn_local(async { 1 }).await.unwrap() }), 1);
    let entered_runtime = runtime.enter();
    let on_runtime = spawn_local(async { 2 });
    drop(entered_runtime);
    let on_set = spawn_local(async { 3 });
    drop(entered_set);
    assert_eq!(runtime.block_on(on_runtime).unwrap(), 2);
    assert!(!on_set.is_finished(), "the runtime does not run the set");
    assert_eq!(runtime.block_on(set.run_until(on_set)).unwrap(), 3);

    // A runtime without local tasks changes nothing.
    let entered_set = set.enter();
    let other = current_thread();
    let mut on_set = None;
    other.block_on(async { on_set = Some(spawn_local(async { 4 })) });
    drop(entered_set);
    assert_eq!(set.block_on(&other, on_set.unwrap()).unwrap(), 4);
}

#[test]
fn a_local_runtime_polls_a_set() {
    let runtime = local();
    let set = LocalSet::new();
    let (tx, rx) = oneshot::channel();
    let task = set.spawn_local(async move { rx.await.unwrap() });
    runtime.block_on(async {
        wakeful::spawn(async move { tx.send(9).unwrap() });
        assert_eq!(set.run_until(task).await.unwrap(), 9);
    });
}

#[test]
fn spawn_goes_to_the_runtime_and_spawn_local_stays() {
    let runtime = multi_thread(2);
    let here = thread::current().id();
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        let other = wakeful::spawn(async { thread::current().id() });
        assert_ne!(other.await.unwrap(), here);
        let ids = join_all((0..100).map(|_| spawn_local(async { thread::current().id() }))).await;
        assert!(ids.into_iter().all(|id| id.unwrap() == here));
        let outside = wakeful::spawn(async { panic_site(|| spawn_local(async {})).message });
        assert_eq!(outside.await.unwrap(), OUTSIDE, "a worker is not inside the set");
    });
}

#[test]
fn sets_nest_and_the_innermost_is_found() {
    let runtime = current_thread();
    let trace = Trace::new();
    let (outer, inner) = (LocalSet::new(), Rc::new(LocalSet::new()));
    let mine = trace.clone();
    let nested = inner.clone();
    let task = outer.spawn_local(async move {
        let traced = mine.clone();
        nested
            .run_until(async {
                spawn_local(async move { traced.note("inner") });
                yield_now().await;
            })
            .await;
        let traced = mine.clone();
        nested.spawn_local(async move { traced.note("inner, but its set is not polled") });
        spawn_local(async move { mine.note("outer") });
    });
    outer.block_on(&runtime, task).unwrap();
    runtime.block_on(outer);
    assert_eq!(trace.take(), ["inner", "outer"]);
}

#[test]
fn a_task_may_poll_its_own_set() {
    let set = Rc::new(LocalSet::new());
    let trace = Trace::new();
    let (mine, traced) = (Rc::downgrade(&set), trace.clone());
    let task = set.spawn_local(async move {
        let set = mine.upgrade().unwrap();
        let other = traced.clone();
        let inside = set.run_until(async {
            spawn_local(async move { other.note("run from inside") }).await.unwrap();
        });
        inside.await;
        traced.note("back");
    });
    let traced = trace.clone();
    set.spawn_local(async move { traced.note("neighbour") });
    executor::block_on(set.run_until(task)).unwrap();
    assert_eq!(trace.take(), ["neighbour", "run from inside", "back"]);
}

#[test]
fn busy_tasks_starve_no_other_task() {
    let runtime = current_thread();
    let set = LocalSet::new();
    set.spawn_local(async {
        loop {
            yield_now().await;
        }
    });
    set.block_on(&runtime, async {
        for _ in 0..10 {
            yield_now().await;
        }
        wakeful::spawn(async {}).await.unwrap();
        // A task that another thread wakes goes through the injector.
        let (tx, rx) = oneshot::channel();
        let woken = spawn_local(rx);
        yield_now().await;
        thread::spawn(move || tx.send(())).join().unwrap().unwrap();
        woken.await.unwrap().unwrap();
    });
}

#[test]
fn guards_enter_and_leave_in_any_order() {
    let (first, second) = (LocalSet::new(), LocalSet::new());
    let runs = Rc::new(Cell::new((0, 0)));
    let note = |in_first: bool| {
        let runs = runs.clone();
        async move {
            let (a, b) = runs.get();
            runs.set(if in_first { (a + 1, b) } else { (a, b + 1) });
        }
    };
    let outer = first.enter();
    let inner = second.enter();
    spawn_local(note(false));
    drop(outer);
    spawn_local(note(false));
    drop(inner);
    assert_eq!(panic_site(|| spawn_local(async {})).message, OUTSIDE);

    let outer = first.enter();
    let inner = second.enter();
    drop(inner);
    spawn_local(note(true));
    drop(outer);
    executor::block_on(first);
    assert_eq!(runs.get(), (1, 0));
    executor::block_on(second);
    assert_eq!(runs.get(), (1, 2));
}

#[test]
fn a_guard_may_outlive_the_set() {
    let log = DropLog::new();
    let set = LocalSet::new();
    let guard = set.enter();
    let not_send = log.not_send();
    spawn_local(async move { drop(not_send) });
    drop(set);
    log.assert_dropped_here(1);
    let not_send = log.not_send();
    let late = spawn_local(async move { drop(not_send) });
    log.assert_dropped_here(2);
    drop(guard);
    assert!(executor::block_on(late).unwrap_err().is_cancelled());
    // A leaked guard does no harm either.
    std::mem::forget(LocalSet::new().enter());
    drop(spawn_local(async {}));
}

#[test]
fn a_guard_held_inside_a_task_stays_entered() {
    let (outer, inner) = (LocalSet::new(), Rc::new(LocalSet::new()));
    let (tx, rx) = oneshot::channel::<()>();
    let entered = inner.clone();
    let task = outer.spawn_local(async move {
        let _guard = entered.enter();
        rx.await.unwrap();
    });
    executor::block_on(outer.run_until(yield_now()));
    let join = spawn_local(async { 5 });
    tx.send(()).unwrap();
    executor::block_on(outer.run_until(task)).unwrap();
    assert_eq!(panic_site(|| spawn_local(async {})).message, OUTSIDE);
    assert_eq!(executor::block_on(inner.run_until(join)).unwrap(), 5);
}

#[test]
fn blocking_in_place_is_refused_inside() {
    let runtime = multi_thread(2);
    let set = LocalSet::new();
    let refused = || {
        let text = panic_site(|| block_in_place(|| ())).message;
        assert!(text.starts_with("can call blocking only when"), "{text}");
    };
    set.block_on(&runtime, async {
        refused();
        spawn_local(async move { refused() }).await.unwrap();
        wakeful::spawn(async { block_in_place(|| ()) }).await.unwrap();
    });
    runtime.block_on(async { block_in_place(|| ()) });
    // Without a runtime, `block_in_place` delays no other task.
    executor::block_on(set.run_until(async { block_in_place(|| ()) }));
}

/// A worker may run a set to its end inside of one poll. Afterwards it uses its own arena and queue again.
#[test]
fn a_worker_may_poll_a_set_of_its_own() {
    let runtime = multi_thread(2);
    let result = runtime.spawn(async {
        let before = wakeful::spawn(async { 1 });
        let sum = {
            let set = LocalSet::new();
            let local = set.spawn_local(async {
                let inner = wakeful::spawn(async { 10 });
                let local = spawn_local(async { 100 });
                (inner, local.await.unwrap())
            });
            let (inner, sum) = executor::block_on(set.run_until(local)).unwrap();
            (inner, sum)
        };
        let after = wakeful::spawn(async { 1000 });
        before.await.unwrap() + sum.0.await.unwrap() + sum.1 + after.await.unwrap()
    });
    assert_eq!(runtime.block_on(result).unwrap(), 1111);
}

#[test]
fn tasks_have_a_budget_of_their_own() {
    let runtime = current_thread();
    // Returns how much budget the current poll has left.
    let spend = || async {
        let spent = Cell::new(0);
        let mut all = pin!(async {
            loop {
                task::consume_budget().await;
                spent.set(spent.get() + 1);
            }
        });
        poll_fn(|cx| {
            let never: Poll<()> = all.as_mut().poll(cx);
            assert!(never.is_pending());
            Poll::Ready(())
        })
        .await;
        spent.get()
    };
    let set = LocalSet::new();
    set.block_on(&runtime, async {
        task::consume_budget().await;
        let local = spawn_local(spend());
        assert_eq!(spend().await, 127, "run_until spends the budget of its caller");
        assert_eq!(local.await.unwrap(), 128);
    });
}

#[test]
fn sets_have_ids_and_say_what_they_are() {
    let (mut first, second) = (LocalSet::new(), LocalSet::default());
    assert_ne!(first.id(), second.id());
    first.spawn_local(async {});
    first.unhandled_panic(UnhandledPanic::Ignore);
    assert!(format!("{first:?}").contains("tasks: 1"), "{first:?}");
    assert!(format!("{:?}", first.enter()).contains("LocalEnterGuard"));
}

/// Compiles only if the type does not implement the trait: with two implementations, the call is ambiguous.
macro_rules! assert_not_impl {
    ($type:ty: $trait:path) => {{
        trait Ambiguous<A> {
            fn some_item() {}
        }
        impl<T: ?Sized> Ambiguous<()> for T {}
        struct Has;
        impl<T: ?Sized + $trait> Ambiguous<Has> for T {}
        <$type as Ambiguous<_>>::some_item();
    }};
}

#[test]
fn a_set_cannot_leave_its_thread() {
    assert_not_impl!(LocalSet: Send);
    assert_not_impl!(LocalSet: Sync);
    assert_not_impl!(task::LocalEnterGuard: Send);
    assert_not_impl!(task::futures::RunUntil<'static, std::future::Ready<()>>: Send);
    assert_not_impl!(task::futures::RunUntil<'static, std::future::Ready<()>>: Unpin);
    assert_not_impl!(JoinHandle<Rc<()>>: Send);
    fn unpin<T: Unpin>() {}
    unpin::<LocalSet>();
}
