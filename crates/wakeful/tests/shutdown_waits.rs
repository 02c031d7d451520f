//! Waits inside a runtime end when the runtime shuts down: in closures of `block_in_place` and `spawn_blocking`, in
//! destructors, in hooks and callbacks.
//!
//! A wait that only the waiting thread itself could end would hang; each test has a time limit.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::fs::File;
use wakeful::io::AsyncReadExt;
use wakeful::net::{UnixDatagram, UnixStream};
use wakeful::runtime::{Builder, Handle, Runtime, is_rt_shutdown_err};
use wakeful::task::{block_in_place, may_wait_forever};
use wakeful::time::sleep;

mod support {
    pub mod panic_site;
}
use support::panic_site::panic_site;

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(600);
const FOREVER: Duration = Duration::from_secs(100_000);
const SHUT_DOWN: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// Runs `scenario` on a new thread, and panics if it does not end in time.
fn must_end(name: &str, scenario: impl FnOnce() + Send + 'static) {
    let (end, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        scenario();
        end.send(()).unwrap();
    });
    if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{name} hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Returns when the current runtime has begun to close: it registers nothing any more.
fn await_closing() {
    while UnixDatagram::unbound().is_ok() {
        thread::yield_now();
    }
}

/// A way to shut a runtime down.
type Way = (&'static str, fn(Runtime));

const WAYS: [Way; 3] = [
    ("drop", drop),
    ("shutdown_timeout", |runtime| runtime.shutdown_timeout(Duration::MAX)),
    ("shutdown_background", Runtime::shutdown_background),
];

type Wait = Box<dyn FnOnce() -> String + Send>;
/// A kind of wait: its name, its constructor, and its outcome.
type WaitCase = (&'static str, fn() -> Wait, &'static str);

/// Waits, made in a task of the runtime: what they wait for, and how they end.
const WAITS: [WaitCase; 10] = [
    ("a timer", || Box::new(block_on_sleep), SHUT_DOWN),
    (
        "a timer, on another executor",
        || Box::new(|| panic_site(|| executor::block_on(sleep(FOREVER))).message),
        SHUT_DOWN,
    ),
    (
        "a timer, nested",
        || Box::new(|| block_in_place(|| block_in_place(block_on_sleep))),
        SHUT_DOWN,
    ),
    ("a timer that waits already", waiting_timer, SHUT_DOWN),
    ("a socket", socket, "shut down: true"),
    ("a file", file, "is error: true"),
    ("a channel", channel, "None"),
    ("a thread's channel", std_channel, "RecvError"),
    ("a task", join, "cancelled: true"),
    ("another runtime", other_runtime, "done"),
];

fn block_on_sleep() -> String {
    panic_site(|| Handle::current().block_on(sleep(FOREVER))).message
}

fn waiting_timer() -> Wait {
    let mut timer = Box::pin(sleep(FOREVER));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(timer.as_mut().poll(&mut cx).is_pending());
    Box::new(move || panic_site(AssertUnwindSafe(|| Handle::current().block_on(timer))).message)
}

fn socket() -> Wait {
    let (socket, peer) = UnixStream::pair().unwrap();
    Box::new(move || {
        let error = Handle::current().block_on(socket.readable()).unwrap_err();
        drop(peer);
        format!("shut down: {}", is_rt_shutdown_err(&error))
    })
}

/// A task has the writing end, so the read ends when the tasks are dropped. If a ring performs the read, a thread must
/// still look for its completion.
fn file() -> Wait {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut file = File::from_std(std::os::fd::OwnedFd::from(reader).into());
    let mut read = Box::pin(async move { file.read_u8().await });
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(read.as_mut().poll(&mut cx).is_pending());
    wakeful::spawn(may_wait_forever(async move {
        let _writer = writer;
        pending::<()>().await;
    }));
    Box::new(move || format!("is error: {}", Handle::current().block_on(read).is_err()))
}

fn channel() -> Wait {
    let (sender, mut receiver) = wakeful::sync::mpsc::channel::<()>(1);
    wakeful::spawn(may_wait_forever(async move {
        let _sender = sender;
        pending::<()>().await;
    }));
    Box::new(move || format!("{:?}", Handle::current().block_on(receiver.recv())))
}

fn std_channel() -> Wait {
    let (sender, receiver) = mpsc::channel::<()>();
    wakeful::spawn(may_wait_forever(async move {
        let _sender = sender;
        pending::<()>().await;
    }));
    Box::new(move || format!("{:?}", receiver.recv().unwrap_err()))
}

fn join() -> Wait {
    let task = wakeful::spawn(may_wait_forever(pending::<()>()));
    Box::new(move || {
        let error = Handle::current().block_on(task).unwrap_err();
        format!("cancelled: {}", error.is_cancelled())
    })
}

fn other_runtime() -> Wait {
    let other = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    Box::new(move || {
        other.handle().block_on(async { sleep(Duration::from_millis(1)).await });
        "done".to_owned()
    })
}

fn multi_thread(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().report_blocked_after(None).on_report(|_| ());
    builder
}

/// Spawns a task that makes a wait, calls `before`, and waits in place. The receivers get a message when the wait is
/// made, and its outcome.
fn waits_in_place(
    rt: &Runtime,
    make: fn() -> Wait,
    before: impl FnOnce() + Send + 'static,
) -> (mpsc::Receiver<()>, mpsc::Receiver<String>) {
    let ((start, started), (end, ended)) = (mpsc::channel(), mpsc::channel());
    rt.spawn(async move {
        let wait = make();
        start.send(()).unwrap();
        before();
        end.send(block_in_place(wait)).unwrap();
    });
    (started, ended)
}

#[test]
fn waits_in_place_end_that_begin_after_the_runtime_began_to_close() {
    for workers in [1, 2] {
        for (way, shut_down) in WAYS {
            for (what, make, outcome) in WAITS {
                must_end(&format!("{way} with {workers} and {what}"), move || {
                    let rt = multi_thread(workers).build().unwrap();
                    let (started, ended) = waits_in_place(&rt, make, await_closing);
                    started.recv().unwrap();
                    shut_down(rt);
                    assert_eq!(ended.recv().expect(what), outcome, "{way}, {workers}, {what}");
                });
            }
        }
    }
}

#[test]
fn waits_in_place_end_that_began_before() {
    for (way, shut_down) in WAYS {
        for (what, make, outcome) in WAITS {
            must_end(&format!("{way} with {what}"), move || {
                let rt = multi_thread(2).build().unwrap();
                let ((enter, entered), (end, ended)) = (mpsc::channel(), mpsc::channel());
                rt.spawn(async move {
                    let wait = make();
                    let outcome = block_in_place(move || {
                        enter.send(()).unwrap();
                        wait()
                    });
                    end.send(outcome).unwrap();
                });
                entered.recv().unwrap();
                shut_down(rt);
                assert_eq!(ended.recv().expect(what), outcome, "{way}, {what}");
            });
        }
    }
}

/// No thread replaces the worker that blocks in place, and then the runtime shuts down.
#[test]
fn waits_in_place_end_although_no_thread_took_over() {
    for workers in [1, 2] {
        for (what, make, outcome) in WAITS {
            must_end(&format!("{workers} and {what}"), move || {
                let fails = Arc::new(AtomicBool::new(false));
                let (name_fails, fail) = (fails.clone(), fails.clone());
                let rt = multi_thread(workers)
                    .rescue_after(None)
                    .thread_name_fn(move || {
                        assert!(!name_fails.load(SeqCst), "planted");
                        "any".to_owned()
                    })
                    .build()
                    .unwrap();
                let ((enter, entered), (end, ended)) = (mpsc::channel(), mpsc::channel());
                rt.spawn(async move {
                    let wait = make();
                    fail.store(true, SeqCst);
                    let outcome = block_in_place(move || {
                        enter.send(()).unwrap();
                        wait()
                    });
                    end.send(outcome).unwrap();
                });
                entered.recv().unwrap();
                drop(rt);
                assert_eq!(ended.recv().expect(what), outcome, "{workers}, {what}");
            });
        }
    }
}

/// The only worker is stuck, so a spare thread polls the task that blocks in place.
#[test]
fn waits_in_place_end_on_spare_threads() {
    for (what, make, outcome) in WAITS {
        must_end(what, move || {
            let rt = multi_thread(1).rescue_after(Some(Duration::from_millis(1))).build().unwrap();
            let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
            rt.spawn(async move {
                begin.send(()).unwrap();
                released.recv().unwrap_err();
            });
            begun.recv().unwrap();
            let (started, ended) = waits_in_place(&rt, make, move || {
                await_closing();
                drop(release);
            });
            started.recv().unwrap();
            drop(rt);
            assert_eq!(ended.recv().expect(what), outcome, "{what}");
        });
    }
}

fn both_kinds() -> [(&'static str, Builder); 2] {
    let mut current_thread = Builder::new_current_thread();
    current_thread.enable_all().report_blocked_after(None).on_report(|_| ());
    [("current_thread", current_thread), ("multi_thread", multi_thread(2))]
}

#[test]
fn waits_in_closures_of_the_pool_end() {
    for (way, shut_down) in WAYS {
        for (kind, mut builder) in both_kinds() {
            must_end(&format!("{way}, {kind}"), move || {
                let rt = builder.build().unwrap();
                let (begin, begun) = mpsc::channel();
                let closure = rt.spawn_blocking(move || {
                    begin.send(()).unwrap();
                    block_on_sleep()
                });
                begun.recv().unwrap();
                shut_down(rt);
                assert_eq!(executor::block_on(closure).unwrap(), SHUT_DOWN, "{way}, {kind}");
            });
        }
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn waits_in_destructors_end() {
    for (way, shut_down) in WAYS {
        for (kind, mut builder) in both_kinds() {
            for is_polled in [true, false] {
                let rt = builder.build().unwrap();
                must_end(&format!("{way}, {kind}, {is_polled}"), move || {
                    let (tx, rx) = mpsc::channel();
                    let waits = OnDrop(move || tx.send(block_in_place(block_on_sleep)).unwrap());
                    drop(rt.spawn(may_wait_forever(async move {
                        let _waits = waits;
                        pending::<()>().await;
                    })));
                    if is_polled {
                        rt.block_on(rt.spawn(async {})).unwrap();
                    }
                    // Without a handle, threads that start late have no runtime context.
                    let handle = rt.handle().clone();
                    shut_down(rt);
                    assert_eq!(rx.recv().unwrap(), SHUT_DOWN, "{way}, {kind}");
                    drop(handle);
                });
            }
        }
    }
}

/// A hook that waits for the end of a task delays neither that end nor the shutdown.
#[test]
fn waits_in_hooks_for_reports_end() {
    for (what, make, outcome) in WAITS {
        must_end(what, move || {
            let ((enter, entered), (end, ended)) = (mpsc::channel(), mpsc::channel());
            let wait = Arc::new(Mutex::new(None::<Wait>));
            let hooks_wait = wait.clone();
            let end = Mutex::new(end);
            let rt = multi_thread(2)
                .report_blocked_after(Some(Duration::from_millis(1)))
                .on_report(move |_| {
                    let Some(wait) = hooks_wait.lock().unwrap().take() else { return };
                    enter.send(()).unwrap();
                    end.lock().unwrap().send(wait()).unwrap();
                })
                .build()
                .unwrap();
            let (tx, rx) = mpsc::channel::<()>();
            rt.spawn(async move {
                *wait.lock().unwrap() = Some(make());
                let _ = rx.recv_timeout(LIMIT); // long enough to be reported
            });
            entered.recv().unwrap();
            drop(tx);
            drop(rt);
            assert_eq!(ended.recv().expect(what), outcome, "{what}");
        });
    }
}

/// A callback blocks a worker that holds its core. The thread in `block_on` polls the driver itself.
#[test]
fn timers_go_off_for_callbacks_that_block_in_place() {
    must_end("a callback", || {
        let rounds = Arc::new(AtomicUsize::new(0));
        let count = rounds.clone();
        let rt = multi_thread(1)
            .rescue_after(None)
            .on_thread_park(move || {
                if count.fetch_add(1, SeqCst) < 3 {
                    block_in_place(|| Handle::current().block_on(sleep(Duration::from_millis(1))));
                }
            })
            .build()
            .unwrap();
        for n in 0..20 {
            assert_eq!(rt.block_on(rt.spawn(async move { n })).unwrap(), n);
        }
        while rounds.load(SeqCst) < 3 {
            rt.block_on(rt.spawn(async {})).unwrap();
        }
    });
}

#[test]
fn waits_in_callbacks_end() {
    for at_stop in [false, true] {
        must_end("a callback", move || {
            let (end, ended) = mpsc::channel();
            let (enter, entered) = mpsc::channel();
            let is_first = AtomicBool::new(true);
            let ends = Mutex::new(end);
            let wait = move || {
                if is_first.swap(false, SeqCst) {
                    enter.send(()).unwrap();
                    ends.lock().unwrap().send(block_in_place(block_on_sleep)).unwrap();
                }
            };
            let mut builder = multi_thread(2);
            let rt = match at_stop {
                true => builder.on_thread_stop(wait),
                false => builder.on_thread_park(wait),
            };
            let rt = rt.build().unwrap();
            rt.block_on(rt.spawn(async {})).unwrap();
            if !at_stop {
                entered.recv().unwrap();
            }
            drop(rt);
            assert_eq!(ended.recv().unwrap(), SHUT_DOWN);
        });
    }
}
