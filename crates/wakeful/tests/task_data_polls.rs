//! Data that a spawn hook attaches: it wraps each poll, and is dropped once however its task ends.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread::{self, ThreadId};

use wakeful::task::{self, LocalSet, may_wait_forever, yield_now};

mod support {
    pub mod runtimes;
    pub mod tags;
}
use support::tags::Event::{self, End, Enter, Exit, Future};
use support::tags::{DropLogger, Log, builders, tagged, tagging};

#[test]
fn each_poll_is_wrapped_and_the_end_comes_once() {
    for (runtime, log) in tagged() {
        let noted = log.clone();
        let task = runtime.spawn(async move {
            let _dropped_inside = DropLogger(1, noted);
            yield_now().await;
        });
        runtime.block_on(task).unwrap();
        assert_eq!(log.of(1), [Enter, Exit, Enter, Future, Exit, End, Event::Drop]);
    }
}

#[test]
fn a_closure_is_wrapped() {
    for (runtime, log) in tagged() {
        let noted = DropLogger(1, log.clone());
        runtime.block_on(runtime.spawn_blocking(move || drop(noted))).unwrap();
        assert_eq!(log.of(1), [Enter, Future, Exit, End, Event::Drop]);
    }
}

#[test]
fn a_local_task_is_wrapped_inside_of_the_task_that_polls_its_set() {
    for mut builder in builders().into_iter().take(1) {
        let log = Log::default();
        let runtime = builder.on_spawn(tagging(&log)).build_local(Default::default()).unwrap();
        runtime.block_on(async {
            let outer = task::spawn_local(async {
                let set = LocalSet::new();
                set.run_until(async { task::spawn_local(yield_now()).await.unwrap() }).await;
            });
            outer.await.unwrap();
        });
        let events = log.all();
        let ends = [(2, End), (2, Event::Drop)];
        assert_eq!(events[..3], [(1, Enter), (2, Enter), (2, Exit)]);
        let last = [[(2, Enter), (2, Exit)], ends].concat();
        assert!(events.windows(4).any(|it| it == last), "{events:?}");
        assert_eq!(events[events.len() - 3..], [(1, Exit), (1, End), (1, Event::Drop)]);
    }
}

#[test]
fn a_panic_an_abort_and_the_shutdown_leave_nothing_entered() {
    for (runtime, log) in tagged() {
        let noted = log.clone();
        let panicked = runtime.spawn(async move {
            let _noted = DropLogger(1, noted);
            yield_now().await;
            resume_unwind(Box::new("planted"));
        });
        let noted = DropLogger(2, log.clone());
        let (tx, rx) = wakeful::sync::oneshot::channel::<()>();
        let aborted = runtime.spawn(async move {
            let _noted = noted;
            drop(tx);
            may_wait_forever(pending::<()>()).await;
        });
        let noted = DropLogger(3, log.clone());
        let (told_third, tell_third) = wakeful::sync::oneshot::channel::<()>();
        runtime.spawn(async move {
            let _noted = noted;
            drop(told_third);
            may_wait_forever(pending::<()>()).await;
        });
        runtime.block_on(async {
            rx.await.unwrap_err();
            tell_third.await.unwrap_err();
            aborted.abort();
            assert!(aborted.await.unwrap_err().is_cancelled());
        });
        let twice = [Enter, Exit, Enter, Future, Exit, End];
        while log.of(1).len() < twice.len() {
            runtime.block_on(yield_now());
        }
        assert_eq!(log.of(1), twice, "the data of a panic is kept for reports");
        assert!(runtime.block_on(panicked).unwrap_err().is_panic());
        assert_eq!(log.of(1).last(), Some(&Event::Drop));
        assert_eq!(log.of(2), [Enter, Exit, Enter, Future, Exit, End, Event::Drop]);
        drop(runtime);
        assert_eq!(log.of(3), [Enter, Exit, Enter, Future, Exit, End, Event::Drop]);
        let mut inside: Vec<(usize, ThreadId)> = Vec::new();
        for (number, event, thread) in log.0.lock().unwrap().iter() {
            match event {
                Enter => inside.push((*number, *thread)),
                Exit => {
                    let on_thread = inside.iter().rposition(|it| it.1 == *thread).unwrap();
                    assert_eq!(inside.remove(on_thread).0, *number, "in the reverse order");
                }
                _ => {}
            }
        }
        assert!(inside.is_empty());
    }
}

#[test]
fn data_is_dropped_exactly_once_however_its_task_ends() {
    const TASKS: usize = 400;
    for (runtime, log) in tagged() {
        let mut kept = Vec::new();
        for n in 0..TASKS {
            let task = runtime.spawn(async move {
                if n % 4 != 0 {
                    yield_now().await;
                }
                match n % 4 {
                    1 => resume_unwind(Box::new("planted")),
                    2 => may_wait_forever(pending::<()>()).await,
                    _ => {}
                }
            });
            match n % 5 {
                0 => drop(task),
                1 => task.abort(),
                _ => kept.push(task),
            }
        }
        let dump = runtime.handle().dump();
        for task in kept.drain(..TASKS / 5) {
            if !task.is_finished() {
                task.abort();
            }
            let _ = runtime.block_on(task);
        }
        drop((dump, kept));
        drop(runtime);
        let events = log.all();
        for number in 1..=TASKS {
            let of = |event| events.iter().filter(|it| **it == (number, event)).count();
            assert_eq!((of(Event::Drop), of(End)), (1, 1), "task {number}");
            assert_eq!(of(Enter), of(Exit), "task {number}");
        }
    }
}

#[test]
fn a_spawn_during_the_shutdown_loses_no_data() {
    const ROUNDS: usize = 50;
    for round in 0..ROUNDS {
        for (runtime, log) in tagged() {
            let handle = runtime.handle().clone();
            let (begun, begin) = mpsc::channel();
            let spawner = thread::spawn(move || {
                for n in 0..40 {
                    let task = handle.spawn(yield_now());
                    let _closure = handle.spawn_blocking(|| ());
                    if n == round % 40 {
                        begun.send(()).unwrap();
                    }
                    drop(task);
                }
            });
            begin.recv().unwrap();
            drop(runtime);
            spawner.join().unwrap();
            let events = log.all();
            let of = |event| events.iter().filter(|it| it.1 == event).count();
            let numbers = events.iter().map(|it| it.0).max().unwrap();
            assert_eq!((of(Event::Drop), of(End), of(Enter)), (numbers, numbers, of(Exit)));
        }
    }
}
