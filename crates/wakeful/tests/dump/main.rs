//! `Handle::dump`: what a dump says of each task and worker.

mod holders;

use std::future::{pending, poll_fn};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use wakeful::inspect::{Dump, TaskState, WorkerState};
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::sync::{Mutex, Notify};
use wakeful::task::{self, JoinHandle, yield_now};

fn runtimes() -> Vec<Runtime> {
    vec![
        Builder::new_current_thread().enable_all().block_on_name("the root").build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .block_on_name("the root")
            .build()
            .unwrap(),
    ]
}

#[track_caller]
fn named<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::Builder::new().name(name).spawn(future).unwrap()
}

/// Takes dumps until one meets the condition. A hang is ended by the time limit of the test binary.
async fn dump_when(has: impl Fn(&Dump) -> bool) -> Dump {
    loop {
        let dump = Handle::current().dump();
        if has(&dump) {
            return dump;
        }
        yield_now().await;
    }
}

fn waits(dump: &Dump, name: &str) -> bool {
    dump.find_named(name).is_some_and(|task| task.state() == TaskState::Waiting)
}

#[track_caller]
fn wait_of<'a>(dump: &'a Dump, name: &str) -> &'a wakeful::inspect::WaitDump {
    dump.find_named(name).unwrap().waiting_on().unwrap()
}

#[test]
fn the_wakers_of_a_task_are_counted_while_it_is_polled() {
    for rt in runtimes() {
        rt.block_on(async {
            let own = || Handle::current().dump().find(wakeful::task::id()).unwrap().wakers();
            let task = wakeful::spawn(async move {
                let mut kept = Vec::new();
                for yields in 0..3 {
                    let mut seen = Vec::new();
                    poll_fn(|cx| {
                        seen.push(own());
                        for _ in 0..2 {
                            kept.push(cx.waker().clone());
                            seen.push(own());
                        }
                        kept.pop();
                        seen.push(own());
                        Poll::Ready(())
                    })
                    .await;
                    let before = yields;
                    assert_eq!(seen, [before, before + 1, before + 2, before + 1]);
                    // A yield wakes the task by its own waker, so the task goes through the queue.
                    yield_now().await;
                }
                kept.clear();
                assert_eq!(own(), 0);
            });
            task.await.unwrap();
        });
    }
}

#[test]
fn polls_and_wake_ups_by_others_are_counted() {
    // On one thread, each wake-up leads to a poll of its own.
    let rt = Builder::new_current_thread().build().unwrap();
    rt.block_on(async {
        let bell = Arc::new(Notify::new());
        let theirs = bell.clone();
        let listener = named("listener", async move {
            for _ in 0..3 {
                yield_now().await;
            }
            loop {
                theirs.notified().await;
            }
        });
        let counts = |dump: &Dump| {
            let task = dump.find(listener.id()).unwrap();
            (task.polls(), task.wakes())
        };
        let dump = dump_when(|dump| waits(dump, "listener")).await;
        assert_eq!(counts(&dump), (4, 0), "its spawn and its yields are not wake-ups by others");
        for rings in 1..=5 {
            bell.notify_one();
            bell.notify_one(); // a wake-up of a queued task changes nothing
            let dump = dump_when(|dump| waits(dump, "listener")).await;
            assert_eq!(counts(&dump), (4 + rings, rings));
        }
        assert!(Handle::current().metrics().wake_to_poll_times().count() > 0);
    });
}

#[test]
fn an_awaited_task_is_named_and_tasks_stand_under_their_spawner() {
    for rt in runtimes() {
        rt.block_on(async {
            let stop = Arc::new(Notify::new());
            let stopped = stop.clone();
            let outer = named("outer", async move {
                named("inner", async move { stopped.notified().await }).await.unwrap();
            });
            let dump = dump_when(|dump| waits(dump, "outer") && waits(dump, "inner")).await;
            let inner = dump.find_named("inner").unwrap();
            assert_eq!(inner.parent(), Some(outer.id()));
            let wait = wait_of(&dump, "outer");
            assert_eq!((wait.kind(), wait.is_certain()), ("JoinHandle", true));
            assert_eq!(wait.holders()[0].task(), Some(inner.info()));
            let text = dump.to_string();
            let (outer_at, inner_at) =
                (text.find("\"outer\"").unwrap(), text.find("\n      task").unwrap());
            assert!(outer_at < inner_at, "{text}");
            let json = dump.to_json();
            assert!(
                json.contains(r#""name":"inner""#) && json.contains(r#""kind":"JoinHandle""#),
                "{json}"
            );
            stop.notify_one();
            outer.await.unwrap();
        });
    }
}

#[test]
fn a_dump_is_taken_while_every_worker_is_blocked() {
    let rt = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let (in_poll, in_polls) = mpsc::channel();
    for name in ["one", "two"] {
        let (released, in_poll) = (released.clone(), in_poll.clone());
        let _entered = rt.enter();
        named(name, async move {
            in_poll.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        });
    }
    in_polls.recv().unwrap();
    in_polls.recv().unwrap();
    let dump = rt.handle().dump();
    for name in ["one", "two"] {
        let task = dump.find_named(name).unwrap();
        let TaskState::Running(Some(worker)) = task.state() else { panic!("{dump}") };
        let worker = &dump.workers()[worker];
        assert_eq!((worker.state(), worker.task()), (WorkerState::Polling, Some(task.info())));
    }
    drop(release);
}

#[test]
fn orphans_and_closures_are_told_apart() {
    let rt = Builder::new_current_thread().on_report(|_| {}).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    rt.block_on(async {
        let closure = task::spawn_blocking(move || released.recv());
        named("orphan", pending::<()>());
        task::Builder::new().name("keeper").forever().spawn(pending::<()>()).unwrap();
        let dump = dump_when(|dump| waits(dump, "orphan") && waits(dump, "keeper")).await;
        assert!(dump.find_named("orphan").unwrap().is_orphan());
        assert!(!dump.find_named("keeper").unwrap().is_orphan());
        assert!(dump.to_string().contains("ORPHANED"), "{dump}");
        let task = dump.find(closure.id()).unwrap();
        assert!(task.is_closure() && !task.is_orphan());
        drop(release);
        let _ = closure.await.unwrap();
    });
}

#[test]
fn a_wait_that_is_given_up_is_not_certain_any_longer() {
    for rt in runtimes() {
        rt.block_on(async {
            let lock = Arc::new(Mutex::new(()));
            let _guard = lock.lock().await;
            let theirs = lock.clone();
            let mut waker = None;
            let (send, recv) = mpsc::channel();
            let task = named("fickle", async move {
                {
                    let mut attempt = std::pin::pin!(theirs.lock());
                    poll_fn(|cx| {
                        assert!(attempt.as_mut().poll(cx).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                }
                // A future that is none of wakeful's.
                poll_fn(|cx| {
                    if waker.is_none() {
                        waker = Some(cx.waker().clone());
                        send.send(cx.waker().clone()).unwrap();
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
                .await;
            });
            let dump = dump_when(|dump| waits(dump, "fickle")).await;
            assert!(!wait_of(&dump, "fickle").is_certain(), "{dump}");
            recv.recv().unwrap().wake();
            task.await.unwrap();
        });
    }
}

#[test]
fn time_spent_is_charged_to_the_task_that_spent_it() {
    let rt = Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async {
        let busy = named("busy", async {
            for _ in 0..2_000 {
                let until = std::time::Instant::now() + Duration::from_micros(50);
                while std::time::Instant::now() < until {
                    std::hint::spin_loop();
                }
                yield_now().await;
            }
            pending_until_aborted().await;
        });
        let dump = dump_when(|dump| waits(dump, "busy")).await;
        let task = dump.find(busy.id()).unwrap();
        assert!(task.busy() >= Duration::from_millis(10), "{dump}");
        assert!(task.polls() > 2_000 && task.age() >= Duration::from_millis(90), "{dump}");
        assert!(dump.workers()[0].polls() >= 1_900, "{dump}");
        busy.abort();
    });
}

#[test]
fn a_poll_that_lasts_is_charged_while_it_does() {
    for rt in runtimes() {
        let busy_enough = rt.block_on(rt.spawn(async {
            let (handle, own) = (Handle::current(), wakeful::task::id());
            // Another thread has to scan twice. The limit is for a test that hangs.
            let started = std::time::Instant::now();
            while started.elapsed() < Duration::from_secs(60) {
                if handle.dump().find(own).unwrap().busy() >= Duration::from_millis(20) {
                    return true;
                }
            }
            false
        }));
        assert!(busy_enough.unwrap(), "{}", rt.handle().dump());
    }
}

async fn pending_until_aborted() {
    task::may_wait_forever(pending::<()>()).await;
}

#[test]
fn tasks_come_and_go_while_dumps_are_taken() {
    let rt = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let handle = rt.handle().clone();
    let (stop, stopped) = mpsc::channel::<()>();
    let dumper = thread::spawn(move || {
        let mut most = 0;
        // Takes at least one dump, even if the tasks have ended before this thread starts.
        loop {
            let dump = handle.dump();
            for task in &dump {
                assert!(task.info().spawned_at().line() > 0);
                assert!(task.info().name().is_none_or(|name| name.starts_with("n")), "{task}");
            }
            most = most.max(dump.to_json().len());
            if stopped.try_recv() != Err(mpsc::TryRecvError::Empty) {
                return most;
            }
        }
    });
    rt.block_on(async {
        let lock = Arc::new(Mutex::new(0));
        for round in 0..300 {
            let tasks: Vec<_> = (0..50)
                .map(|n| {
                    let lock = lock.clone();
                    named(&format!("n{round}-{n}"), async move {
                        *lock.lock().await += 1;
                        yield_now().await;
                        let _guard = lock.lock().await;
                        yield_now().await;
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
        assert_eq!(*lock.lock().await, 15_000);
    });
    drop(stop);
    assert!(dumper.join().unwrap() > 0);
}

#[wakeful::test]
async fn the_future_of_block_on_is_named_after_its_function() {
    let dump = dump_when(|dump| {
        dump.find_named("the_future_of_block_on_is_named_after_its_function").is_some()
    });
    let task = wakeful::spawn(async { wakeful::time::sleep(Duration::from_secs(3600)).await });
    let named = wakeful::spawn(async move {
        wakeful::time::sleep(Duration::from_millis(1)).await;
        Handle::current().dump()
    })
    .await
    .unwrap();
    assert!(named.to_string().contains("the_future_of_block_on"), "{named}");
    drop(dump);
    task.abort();
}
