//! Waits that end through help that the wait graph does not show: a thread, a child, a task ahead in a queue.
//!
//! No such wait is reported as a proven deadlock, and no `block_on` is ended.

mod children;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver as StdReceiver, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use wakeful::inspect::{Report, TaskState, WorkerState};
use wakeful::runtime::{Builder, Handle, RngSeed, Runtime};
use wakeful::sync::{Mutex, Notify, RwLock, Semaphore, mpsc, oneshot};
use wakeful::task::{self, yield_now};
use wakeful::time::timeout;

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(600);

fn builders() -> Vec<Builder> {
    let mut two = Builder::new_multi_thread();
    two.worker_threads(2);
    vec![Builder::new_current_thread(), two]
}

fn build(builder: &mut Builder) -> Runtime {
    builder.enable_time().block_on_name("root").on_report(|_| {}).build().unwrap()
}

/// Returns whether the `block_on` future and all tasks wait, and no worker is busy.
fn is_quiet(handle: &Handle) -> bool {
    let dump = handle.dump();
    let waits = |task: &wakeful::inspect::TaskDump| task.state() == TaskState::Waiting;
    dump.find_named("root").is_some_and(|root| waits(root) && root.waiting_on().is_some())
        && dump.tasks().iter().all(waits)
        && dump
            .workers()
            .iter()
            .all(|worker| matches!(worker.state(), WorkerState::Asleep | WorkerState::NotStarted))
}

/// Runs `waits`; when it waits, and nothing else goes on, what is found then is given back, and `helps` is called.
fn found_while<T: Send + 'static>(
    rt: &Runtime,
    waits: impl Future<Output = ()>,
    thing_rx: StdReceiver<T>,
    helps: impl FnOnce(T) + Send + 'static,
) -> Vec<Report> {
    let handle = rt.handle().clone();
    let looks = thread::spawn(move || {
        let thing = thing_rx.recv().unwrap();
        while !is_quiet(&handle) {
            thread::yield_now();
        }
        let found = handle.diagnose();
        helps(thing);
        found
    });
    rt.block_on(waits);
    looks.join().unwrap()
}

fn is_ended(found: &[Report]) -> bool {
    found.iter().any(|report| matches!(report, Report::StuckBlockOn(_)))
}

#[test]
fn permits_that_a_thread_adds() {
    for mut builder in builders() {
        for closes in [false, true] {
            let (tx, rx) = channel();
            let waits = async {
                let seats = Arc::new(Semaphore::new(1));
                let _seat = seats.acquire().await.unwrap();
                tx.send(seats.clone()).unwrap();
                assert_eq!(seats.acquire().await.is_err(), closes);
            };
            let found =
                found_while(&build(&mut builder), waits, rx, move |seats: Arc<Semaphore>| {
                    if closes { seats.close() } else { seats.add_permits(1) }
                });
            assert!(!is_ended(&found), "{found:?}");
            let text = found[0].to_string();
            assert!(text.contains("permits are added"), "{text}");
        }
    }
}

/// The owner of the runtime may shut it down, which ends the wait.
#[test]
fn the_end_of_the_runtime_for_a_block_on_of_a_handle() {
    let rt = build(Builder::new_multi_thread().worker_threads(1));
    let handle = rt.handle().clone();
    let waits = thread::spawn(move || handle.block_on(handle.spawn(std::future::pending::<()>())));
    while !is_quiet(rt.handle()) {
        thread::yield_now();
    }
    let found = rt.handle().diagnose();
    assert!(!is_ended(&found), "{found:?}");
    rt.shutdown_background();
    assert!(waits.join().unwrap().unwrap_err().is_cancelled());
}

/// The `block_on` future polls a join handle, moves it to another task, and then waits for a notification or for a
/// foreign future.
#[test]
fn a_handle_that_went_to_another_task() {
    for mut builder in builders() {
        for is_foreign in [false, true] {
            let (tx, rx) = channel();
            let waits = async {
                let mut idle = wakeful::spawn(std::future::pending::<()>());
                wakeful::select! {
                    biased;
                    _ = &mut idle => unreachable!(),
                    () = std::future::ready(()) => {}
                }
                wakeful::spawn(async move { drop(idle.await) });
                let called = Arc::new(Notify::new());
                let (call, calls) = futures::channel::oneshot::channel::<()>();
                tx.send((call, called.clone())).unwrap();
                match is_foreign {
                    true => calls.await.unwrap(),
                    false => called.notified().await,
                }
            };
            let found = found_while(&build(&mut builder), waits, rx, |(call, called)| {
                called.notify_one();
                let _ = call.send(());
            });
            assert!(!is_ended(&found), "{found:?}");
        }
    }
}

/// Runtimes that are shuffled number their tasks alike, and one awaits a task of another.
#[test]
fn a_task_of_another_runtime_with_an_id_of_ours() {
    // Our task has no waiter, or a waiter with a foreign waker.
    [false, true].into_iter().for_each(a_task_of_another_runtime);
}

fn a_task_of_another_runtime(ours_is_awaited: bool) {
    let shuffled = || {
        let seed = RngSeed::from_bytes(b"any");
        build(Builder::new_current_thread().shuffle_tasks(seed))
    };
    let (give, given) = channel();
    let (tx, rx) = channel();
    let theirs = thread::spawn(move || {
        shuffled().block_on(async {
            let (end, ends) = oneshot::channel::<()>();
            let task = wakeful::spawn(ends);
            let (done, is_done) = oneshot::channel::<()>();
            give.send((task, end, done)).unwrap();
            is_done.await.unwrap();
        });
    });
    let (task, end, done) = given.recv().unwrap();
    let waits = async {
        let mut orphan = wakeful::spawn(std::future::pending::<()>());
        assert_eq!(orphan.id(), task.id(), "the test needs that");
        if ours_is_awaited {
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut orphan).poll(cx).is_pending());
        }
        tx.send(end).unwrap();
        task.await.unwrap().unwrap();
    };
    let found = found_while(&shuffled(), waits, rx, |end| end.send(()).unwrap());
    assert!(!is_ended(&found), "{found:?}");
    done.send(()).unwrap();
    theirs.join().unwrap();
}

#[test]
fn a_guard_that_a_scoped_thread_has() {
    for mut builder in builders() {
        let (rt, lock) = (build(&mut builder), Mutex::new(()));
        let (handle, given) = (rt.handle().clone(), Barrier::new(2));
        thread::scope(|scope| {
            rt.block_on(async {
                let guard = lock.lock().await;
                let (handle, given) = (&handle, &given);
                let keeper = scope.spawn(move || {
                    given.wait();
                    while !is_quiet(handle) {
                        thread::yield_now();
                    }
                    let found = handle.diagnose();
                    drop(guard);
                    found
                });
                given.wait();
                drop(lock.lock().await);
                let found = keeper.join().unwrap();
                assert!(!is_ended(&found), "{found:?}");
            });
        });
    }
}

#[test]
fn a_future_that_moved_to_another_runtime_with_its_guard() {
    for mut builder in builders() {
        let other = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (tx, rx) = channel();
        let waits = async {
            let lock = Arc::new(Mutex::new(()));
            let (let_go, goes) = oneshot::channel::<()>();
            let theirs = lock.clone();
            let mut keeps = Box::pin(async move {
                let _guard = theirs.lock().await;
                let _ = goes.await;
            });
            assert!(futures::poll!(&mut keeps).is_pending());
            other.spawn(keeps);
            tx.send(let_go).unwrap();
            drop(lock.lock().await);
        };
        let found = found_while(&build(&mut builder), waits, rx, drop::<oneshot::Sender<()>>);
        assert!(!is_ended(&found), "{found:?}");
    }
}

#[test]
fn a_task_that_a_thread_aborts() {
    for mut builder in builders() {
        let (tx, rx) = channel();
        let waits = async {
            let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let _mine = a.lock().await;
            let theirs = (a.clone(), b.clone());
            let other = wakeful::spawn(async move {
                let _b = theirs.1.lock().await;
                drop(theirs.0.lock().await);
            });
            while b.try_lock().is_ok() {
                yield_now().await;
            }
            tx.send(other).unwrap();
            drop(b.lock().await);
        };
        let abort = |other: task::JoinHandle<()>| other.abort();
        let found = found_while(&build(&mut builder), waits, rx, abort);
        assert!(!is_ended(&found), "{found:?}");
        assert!(found.iter().any(|report| matches!(report, Report::Deadlock(_))), "{found:?}");
    }
}

#[test]
fn capacity_reserved_by_an_owned_permit() {
    for mut builder in builders() {
        let (permit_tx, permit_rx) = channel();
        let waits = async {
            let (tx, mut rx) = mpsc::channel(1);
            tx.send(0).await.unwrap();
            assert_eq!(rx.recv().await, Some(0));
            let permit = tx.clone().reserve_owned().await.unwrap();
            // The receiving task waits for the sending task.
            let theirs = tx.clone();
            let sender = wakeful::spawn(async move { theirs.send(1).await.unwrap() });
            permit_tx.send(permit).unwrap();
            sender.await.unwrap();
            assert_eq!(rx.recv().await, Some(1));
        };
        let found =
            found_while(&build(&mut builder), waits, permit_rx, drop::<mpsc::OwnedPermit<i32>>);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_writer_ahead_that_gives_up() {
    let rt = build(&mut Builder::new_current_thread());
    rt.block_on(async {
        let lock = Arc::new(RwLock::new(()));
        let (theirs, its) = (lock.clone(), lock);
        let reader = task::Builder::new().name("reader").spawn(async move {
            let _first = theirs.read().await;
            yield_now().await;
            drop(theirs.read().await);
        });
        let writer = wakeful::spawn(async move { timeout(LIMIT, its.write()).await.is_ok() });
        let waits = |dump: &wakeful::inspect::Dump| {
            let reader = dump.find_named("reader").unwrap();
            reader.state() == TaskState::Waiting && reader.polls() == 2
        };
        while !waits(&Handle::current().dump()) {
            yield_now().await;
        }
        let found = Handle::current().diagnose();
        assert!(found.is_empty(), "{found:?}");
        writer.abort();
        reader.unwrap().await.unwrap();
    });
}

/// A reader waits behind a writer that waits for the reader's first guard: a cycle.
#[test]
fn a_reader_behind_a_writer_that_waits_for_it() {
    let rt = build(&mut Builder::new_current_thread());
    let found = rt.block_on(async {
        let lock = Arc::new(RwLock::new(()));
        let named = |name| task::Builder::new().name(name);
        let (theirs, its) = (lock.clone(), lock);
        let reader = named("reader").spawn(async move {
            let _first = theirs.read().await;
            yield_now().await;
            drop(theirs.read().await);
        });
        let writer = named("writer").spawn(async move { drop(its.write().await) });
        let _handles = (reader.unwrap(), writer.unwrap());
        loop {
            let found = Handle::current().diagnose();
            if !found.is_empty() {
                return found;
            }
            yield_now().await;
        }
    });
    let [Report::Deadlock(deadlock)] = &*found else { panic!("{found:?}") };
    let edges = deadlock.edges();
    assert_eq!(edges.len(), 2, "{deadlock}");
    for edge in edges {
        let names = [edge.task().name().unwrap(), edge.holder().name().unwrap()];
        match edge.kind() {
            "RwLock::read" => {
                assert_eq!((names, edge.is_queued_ahead()), (["reader", "writer"], true))
            }
            _ => assert_eq!((names, edge.is_queued_ahead()), (["writer", "reader"], false)),
        }
    }
    assert!(deadlock.to_string().contains("behind      task"), "{deadlock}");
}

#[test]
fn a_holder_of_no_permits_is_not_waited_for() {
    for mut builder in builders() {
        let (tx, rx) = channel();
        let waits = async {
            let signal = Arc::new(Semaphore::new(0));
            let _none = signal.acquire_many(0).await.unwrap();
            tx.send(signal.clone()).unwrap();
            drop(signal.acquire().await.unwrap());
        };
        let found = found_while(&build(&mut builder), waits, rx, |signal: Arc<Semaphore>| {
            signal.add_permits(1);
        });
        assert!(found.is_empty(), "{found:?}");
    }
}

/// Locks pass from task to task all the time. No scan reports a task as waiting for a lock that it was just granted.
#[test]
fn a_task_that_is_granted_a_lock_is_not_reported() {
    let rt = build(Builder::new_multi_thread().worker_threads(2));
    let lock = Arc::new(Mutex::new(0u32));
    let seats = Arc::new(Semaphore::new(1));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (lock, seats) = (lock.clone(), seats.clone());
            rt.spawn(async move {
                for _ in 0..2_000 {
                    let mut count = lock.lock().await;
                    yield_now().await;
                    *count += 1;
                    drop(count);
                    let seat = seats.acquire().await.unwrap();
                    yield_now().await;
                    drop(seat);
                }
            })
        })
        .collect();
    let mut looks = 0;
    while !tasks.iter().all(task::JoinHandle::is_finished) {
        let found = rt.handle().diagnose();
        assert!(found.is_empty(), "after {looks} looks: {found:?}");
        looks += 1;
    }
    assert_eq!(*lock.try_lock().unwrap(), 12_000);
}

/// A `block_on` that can never return is ended. Other and later ones are not.
#[test]
fn only_the_block_on_that_cannot_return_ends() {
    for mut builder in builders() {
        let rt = build(builder.always_end_stuck_block_on(true));
        let stuck = || {
            rt.block_on(async {
                wakeful::spawn(async {}).await.unwrap();
                std::future::poll_fn(|_| std::task::Poll::<()>::Pending).await;
            });
        };
        for _ in 0..2 {
            let ended = catch_unwind(AssertUnwindSafe(stuck)).unwrap_err();
            let text = ended.downcast_ref::<String>().unwrap();
            assert!(text.contains("can never return"), "{text}");
            let value = rt.block_on(async { wakeful::spawn(async { 42 }).await.unwrap() });
            assert_eq!(value, 42);
        }
    }
}

/// Each of several `block_on`s that can never return is ended.
#[test]
fn every_block_on_that_cannot_return_ends() {
    for mut builder in builders() {
        let rt = build(builder.always_end_stuck_block_on(true));
        let stuck = || {
            let ended =
                catch_unwind(AssertUnwindSafe(|| rt.block_on(std::future::pending::<()>())));
            ended.unwrap_err().downcast::<String>().unwrap()
        };
        thread::scope(|scope| {
            let both = [scope.spawn(stuck), scope.spawn(stuck)];
            for ended in both {
                assert!(ended.join().unwrap().contains("can never return"));
            }
        });
    }
}

/// A permit for zero that is merged with another permit has a holder.
#[test]
fn a_merged_permit_has_a_holder() {
    let rt = build(&mut Builder::new_current_thread());
    rt.block_on(async {
        let seats = Arc::new(Semaphore::new(1));
        let mut all = seats.acquire_many(0).await.unwrap();
        all.merge(seats.acquire().await.unwrap());
        let theirs = seats.clone();
        let waiter = task::Builder::new().name("waiter").spawn(async move {
            drop(theirs.acquire().await.unwrap());
        });
        yield_now().await;
        let dump = Handle::current().dump();
        let wait = dump.find_named("waiter").unwrap().waiting_on().unwrap();
        assert_eq!(wait.holders().len(), 1, "{dump}");
        drop(all);
        waiter.unwrap().await.unwrap();
    });
}
