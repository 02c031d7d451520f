//! Workers without a thread, because the system refuses one or a callback panics.
//!
//! Other workers serve their timers and sockets. They get a thread as soon as the system has one.

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use futures::executor;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::UnixStream;
use wakeful::runtime::{Builder, Handle, Runtime, worker_index};
use wakeful::task::{block_in_place, yield_now};
use wakeful::time::sleep;

mod support {
    pub mod panic_site;
}
use support::panic_site::panic_site;

/// The time limit of a wait; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(600);
const MOMENT: Duration = Duration::from_millis(1);

/// Runs `scenario` on a new thread, and panics if it does not end in time.
fn must_end(scenario: impl FnOnce() + Send + 'static) {
    let (end, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        scenario();
        end.send(()).unwrap();
    });
    if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("it hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Workers that no other thread rescues. The flag makes threads fail to start.
fn builder(workers: usize) -> (Builder, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let name_fails = fails.clone();
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .rescue_after(None)
        .on_report(|_| ())
        .thread_name_fn(move || {
            assert!(!name_fails.load(SeqCst), "planted");
            "worker".to_owned()
        });
    (builder, fails)
}

/// Waits for timers and sockets from outside, and in tasks.
fn use_drivers(rt: &Runtime) {
    rt.block_on(async { sleep(MOMENT).await });
    rt.block_on(async {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let writes = async {
            sleep(MOMENT).await;
            one.write_all(b"x").await.unwrap();
        };
        let ((), byte) = wakeful::join!(writes, other.read_u8());
        assert_eq!(byte.unwrap(), b'x');
    });
    rt.handle().block_on(async { sleep(MOMENT).await });
    let _inside = rt.enter();
    executor::block_on(sleep(MOMENT));
}

#[test]
fn outsiders_are_served_by_the_workers_that_start() {
    for failing in [0, 1] {
        must_end(move || {
            let (mut builder, _) = builder(2);
            let start = move || assert_ne!(worker_index(), Some(failing), "planted");
            let rt = builder.on_thread_start(start).build().unwrap();
            for _ in 0..20 {
                use_drivers(&rt);
                rt.block_on(rt.spawn(async { sleep(MOMENT).await })).unwrap();
            }
        });
    }
}

fn poll_once<F: Future>(future: &mut Pin<Box<F>>) {
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Timers and sockets of a worker are served while the worker has no thread.
#[test]
fn timers_and_sockets_of_a_worker_whose_thread_is_not_replaced_are_served() {
    must_end(|| {
        let (mut builder, fails) = builder(2);
        let starts = Arc::new(AtomicUsize::new(0));
        let count = starts.clone();
        let rt = builder.on_thread_start(move || _ = count.fetch_add(1, SeqCst)).build().unwrap();
        while starts.load(SeqCst) < 2 {
            thread::yield_now();
        }
        for _ in 0..20 {
            let fails = fails.clone();
            let task = rt.spawn(async move {
                let mut timer = Box::pin(sleep(Duration::from_millis(5)));
                poll_once(&mut timer);
                let (mut peer, socket) = std::os::unix::net::UnixStream::pair().unwrap();
                socket.set_nonblocking(true).unwrap();
                let mut socket = UnixStream::from_std(socket).unwrap();
                let (tx, rx) = mpsc::channel();
                let tell_too = tx.clone();
                wakeful::spawn(async move {
                    timer.await;
                    tx.send(1).unwrap();
                });
                wakeful::spawn(async move {
                    tell_too.send(socket.read_u8().await.unwrap()).unwrap();
                });
                fails.store(true, SeqCst);
                block_in_place(|| {
                    peer.write_all(&[2]).unwrap();
                    let sum = rx.recv_timeout(LIMIT).unwrap() + rx.recv_timeout(LIMIT).unwrap();
                    assert_eq!(sum, 3);
                });
                fails.store(false, SeqCst);
                assert!(worker_index().is_some(), "the thread has its worker again");
            });
            rt.block_on(task).unwrap();
        }
    });
}

/// With one worker and no other thread, the thread in `block_on` polls the driver.
#[test]
fn a_wait_in_place_is_served_although_there_is_no_other_thread() {
    must_end(|| {
        let (mut builder, fails) = builder(1);
        let rt = builder.build().unwrap();
        for _ in 0..20 {
            let fails = fails.clone();
            let task = rt.spawn(async move {
                fails.store(true, SeqCst);
                block_in_place(|| {
                    Handle::current().block_on(sleep(MOMENT));
                    executor::block_on(sleep(MOMENT));
                });
                fails.store(false, SeqCst);
                sleep(MOMENT).await;
            });
            rt.block_on(task).unwrap();
        }
    });
}

/// A closure waits for a task that only a new thread can run.
#[test]
fn a_worker_gets_a_thread_as_soon_as_there_is_one() {
    must_end(|| {
        let (mut builder, fails) = builder(1);
        let rt = builder.build().unwrap();
        for _ in 0..5 {
            let ((block, blocks), (tx, rx)) = (mpsc::channel(), mpsc::channel());
            let fail = fails.clone();
            let task = rt.spawn(async move {
                wakeful::spawn(async move {
                    yield_now().await;
                    tx.send(()).unwrap();
                });
                fail.store(true, SeqCst);
                block_in_place(|| {
                    block.send(()).unwrap();
                    rx.recv_timeout(LIMIT).expect("another thread runs it");
                });
            });
            blocks.recv().unwrap();
            fails.store(false, SeqCst);
            rt.block_on(task).unwrap();
        }
    });
}

/// Every worker's thread ends, and no thread can be started. Waits in `block_on` still end, and tasks run again
/// afterwards.
#[test]
fn a_runtime_without_threads_serves_block_on_and_recovers() {
    must_end(|| {
        let (mut builder, fails) = builder(2);
        let alive = Arc::new(AtomicUsize::new(0));
        let (starts, ends, park_fails) = (alive.clone(), alive.clone(), fails.clone());
        let rt = builder
            .on_thread_start(move || _ = starts.fetch_add(1, SeqCst))
            .on_thread_park(move || {
                if park_fails.load(SeqCst) {
                    ends.fetch_sub(1, SeqCst);
                    panic!("planted");
                }
            })
            .build()
            .unwrap();
        for _ in 0..5 {
            rt.block_on(rt.spawn(async {})).unwrap();
            fails.store(true, SeqCst);
            while alive.load(SeqCst) > 0 {
                // Wakes a worker, which goes to sleep again.
                drop(rt.spawn(async {}));
                thread::yield_now();
            }
            for _ in 0..3 {
                use_drivers(&rt);
            }
            let task = rt.spawn(async { sleep(MOMENT).await });
            fails.store(false, SeqCst);
            rt.block_on(task).unwrap();
            use_drivers(&rt);
        }
    });
}

#[test]
fn a_worker_that_could_not_start_is_tried_again() {
    must_end(|| {
        let (mut builder, _) = builder(2);
        let bad = Arc::new(AtomicBool::new(true));
        let (hook, fails) = (bad.clone(), Arc::new(AtomicUsize::new(0)));
        let count = fails.clone();
        let start = move || {
            if worker_index() == Some(0) && hook.load(SeqCst) {
                count.fetch_add(1, SeqCst);
                panic!("planted");
            }
        };
        let rt = builder.on_thread_start(start).build().unwrap();
        while fails.load(SeqCst) < 8 {
            thread::yield_now();
        }
        bad.store(false, SeqCst);
        // Two tasks that block need two workers.
        let is_back = || {
            let (go, goes) = mpsc::channel::<()>();
            let first = rt.spawn(async move {
                let _ = goes.recv_timeout(Duration::from_millis(100));
                worker_index()
            });
            let second = rt.spawn(async move {
                drop(go);
                worker_index()
            });
            executor::block_on(first).unwrap() == Some(0)
                || executor::block_on(second).unwrap() == Some(0)
        };
        while !is_back() {}
        use_drivers(&rt);
    });
}

#[test]
fn a_runtime_whose_workers_never_start_says_so() {
    for workers in [1, 3] {
        must_end(move || {
            let (mut builder, _) = builder(workers);
            let rt = builder.on_thread_start(|| panic!("planted")).build().unwrap();
            let task = rt.spawn(async {});
            assert!(executor::block_on(task).unwrap_err().is_cancelled());
            let panic = panic_site(AssertUnwindSafe(|| rt.block_on(async { sleep(MOMENT).await })));
            let text = "no worker thread of this runtime can start: `on_thread_start` has panicked";
            assert!(panic.message.starts_with(text), "{panic:?}");
            assert_eq!(panic.file, file!());
        });
    }
}
