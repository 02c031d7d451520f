//! Workers whose thread is blocked, in `block_in_place` or without it: the other tasks keep running.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use futures::executor;
use futures::stream::{FuturesUnordered, StreamExt};
use wakeful::inspect::Report;
use wakeful::io::AsyncReadExt;
use wakeful::net::TcpListener;
use wakeful::runtime::{Builder, Handle, OrphanPolicy, Runtime};
use wakeful::task::{JoinError, block_in_place, yield_now};

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::panic_site::{PanicSite, panic_site};
use support::runtimes::{TestRuntime, current_thread, multi_thread, watch};
use support::waker_store::WakerStore;

#[track_caller]
fn assert_here(panic: &PanicSite, start: &str) {
    assert!(panic.message.starts_with(start), "{panic:?}");
    assert_eq!(panic.file, file!(), "{panic:?}");
}

#[test]
fn a_worker_stuck_in_a_poll_gives_its_run_next_slot_up() {
    let (rt, store) = (multi_thread(2), Arc::new(WakerStore::default()));
    let (ran, has_run) = mpsc::channel();
    let wait = store.wait();
    let woken = rt.spawn(async move {
        wait.await;
        ran.send(thread::current().id()).unwrap();
    });
    while store.len() == 0 {
        rt.block_on(rt.spawn(async {})).unwrap();
    }
    let stuck = rt.spawn(async move {
        store.open(); // the woken task goes to this worker's LIFO slot
        let ran_on = has_run.recv().unwrap(); // this poll returns only after that task has run
        (ran_on, thread::current().id())
    });
    let (ran_on, stuck_on) = rt.block_on(stuck).unwrap();
    assert_ne!(ran_on, stuck_on);
    rt.block_on(woken).unwrap();
}

#[test]
fn a_worker_stuck_in_a_poll_gives_its_queue_up() {
    let rt = multi_thread(2);
    let stuck = rt.spawn(async {
        let (ran, have_run) = mpsc::channel();
        for n in 0..300 {
            let ran = ran.clone();
            wakeful::spawn(async move {
                yield_now().await;
                ran.send(n).unwrap();
            });
        }
        drop(ran);
        have_run.iter().collect::<BTreeSet<u32>>().len()
    });
    assert_eq!(rt.block_on(stuck).unwrap(), 300);
}

/// The other worker sleeps while this one is stuck, or it is busy.
#[test]
fn a_socket_of_a_worker_stuck_in_a_poll_is_watched_by_others() {
    for is_other_busy in [false, true] {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_io().on_orphan(OrphanPolicy::Panic);
        // The worker is stuck on purpose. On a busy machine its rescue may take as long as a report.
        let builder = builder.report_blocked_after(None);
        let rt = watch("with sockets", builder);
        let stop = Arc::new(AtomicUsize::new(0));
        if is_other_busy {
            let stop = stop.clone();
            rt.spawn(async move {
                while stop.load(SeqCst) == 0 {
                    yield_now().await;
                }
            });
        }
        let stuck = rt.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let mut sender = std::net::TcpStream::connect(addr).unwrap();
            let (mut receiver, _) = listener.accept().await.unwrap();
            let (got, has_got) = mpsc::channel();
            let reads = wakeful::spawn(async move {
                for _ in 0..2 {
                    let mut bytes = [0; 4];
                    receiver.read_exact(&mut bytes).await.unwrap();
                    got.send((bytes, thread::current().id())).unwrap();
                }
            });
            sender.write_all(b"ping").unwrap();
            // The second message comes when the reader waits again. It waits in this worker's poller, or in that of the
            // worker that stole the task.
            let (first, _) = has_got.recv().unwrap();
            sender.write_all(b"pong").unwrap();
            let (second, read_on) = has_got.recv().unwrap();
            assert_ne!(read_on, thread::current().id());
            (first, second, reads)
        });
        let (first, second, reads) = rt.block_on(stuck).unwrap();
        assert_eq!((&first, &second), (b"ping", b"pong"));
        stop.store(1, SeqCst);
        rt.block_on(reads).unwrap();
    }
}

#[test]
fn block_in_place_moves_the_worker_to_another_thread() {
    for workers in [1, 2] {
        let rt = multi_thread(workers);
        let outcome = rt.spawn(async {
            let (ran, has_run) = mpsc::channel();
            let beside = wakeful::spawn(async move { ran.send("the other task ran").unwrap() });
            let heard = block_in_place(|| has_run.recv().unwrap());
            beside.await.unwrap();
            block_in_place(|| Handle::current().block_on(yield_now()));
            heard
        });
        assert_eq!(rt.block_on(outcome).unwrap(), "the other task ran");
        assert_eq!(rt.block_on(async { block_in_place(|| 4) }), 4, "in the root");
    }
    assert_eq!(block_in_place(|| 5), 5, "outside");
}

#[test]
fn block_in_place_panics_where_no_thread_could_take_over() {
    let rt = current_thread();
    let text = "can call blocking only when running on the multi-threaded runtime";
    let in_root = rt.block_on(async { panic_site(|| block_in_place(|| ())) });
    assert_here(&in_root, text);
    assert!(in_root.message.contains("spawn_blocking"), "{in_root:?}");
    let in_task = rt.block_on(rt.spawn(async { panic_site(|| block_in_place(|| ())) })).unwrap();
    assert_here(&in_task, text);
    let in_closure = rt.block_on(rt.spawn_blocking(|| block_in_place(|| 6)));
    assert_eq!(in_closure.unwrap(), 6, "a pool thread may block as it likes");
}

/// Yields inside a collection of futures that has its own wakers and then yields itself.
async fn put_off() {
    let loops = async {
        for _ in 0..10 {
            yield_now().await;
        }
    };
    let mut set = FuturesUnordered::from_iter([loops]);
    set.next().await;
}

#[test]
fn deferred_tasks_run_while_their_worker_blocks_in_place() {
    for workers in [1, 2] {
        let rt = multi_thread(workers);
        let (done, is_done) = mpsc::channel();
        let outer = rt.spawn(async move {
            let first = wakeful::spawn(async move {
                put_off().await;
                done.send("done").unwrap();
            });
            // This task is behind the first in the queue. The first has yielded when it runs.
            let blocks = wakeful::spawn(async move {
                yield_now().await;
                block_in_place(|| is_done.recv().unwrap())
            });
            first.await.unwrap();
            blocks.await.unwrap()
        });
        assert_eq!(rt.block_on(outer).unwrap(), "done", "{workers} workers");
    }
}

#[test]
fn deferred_tasks_run_while_their_worker_is_stuck() {
    let rt = multi_thread(2);
    // Keeps the second worker busy, so that the tasks below meet on the first.
    let ((busy, is_busy), (free, may_go)) = (mpsc::channel(), mpsc::channel::<()>());
    let other = rt.spawn(async move {
        busy.send(()).unwrap();
        may_go.recv().unwrap();
    });
    is_busy.recv().unwrap();
    let (done, is_done) = mpsc::channel();
    let outer = rt.spawn(async move {
        let first = wakeful::spawn(async move {
            put_off().await;
            done.send("done").unwrap();
        });
        let stuck = wakeful::spawn(async move {
            yield_now().await;
            free.send(()).unwrap();
            is_done.recv().unwrap()
        });
        first.await.unwrap();
        stuck.await.unwrap()
    });
    assert_eq!(rt.block_on(outer).unwrap(), "done");
    rt.block_on(other).unwrap();
}

#[test]
fn blocking_in_place_over_and_over_leaves_no_threads_behind() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (starts, stops) = (alive.clone(), alive.clone());
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .on_thread_start(move || {
            starts.fetch_add(1, SeqCst);
        })
        .on_thread_stop(move || {
            stops.fetch_sub(1, SeqCst);
        });
    let rt = watch("many hand-overs", &mut builder);
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            rt.spawn(async move {
                let mut sum = 0;
                for turn in 0..50 {
                    sum += block_in_place(|| turn);
                    yield_now().await;
                }
                sum + n
            })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(rt.block_on(task).unwrap(), 1_225 + n);
    }
    drop(rt);
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_panic_in_place_is_the_tasks_own() {
    let rt = multi_thread(1);
    let task = rt.spawn(async { block_in_place(|| -> u32 { panic!("in place") }) });
    assert!(rt.block_on(task).unwrap_err().to_string().contains("in place"));
    assert_eq!(rt.block_on(rt.spawn(async { 2 })).unwrap(), 2);
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_dropped_runtime_waits_for_block_in_place() {
    let TestRuntime { runtime, reports, .. } = multi_thread(1);
    let ((blocked, is_blocked), (release, released)) = (mpsc::channel(), mpsc::channel());
    // Dropped when the worker's new thread drains the queue: the shutdown has begun.
    let at_the_end = OnDrop(move || release.send(()).unwrap());
    let task = runtime.spawn(async move {
        wakeful::spawn(async move {
            let _at_the_end = at_the_end;
            loop {
                yield_now().await;
            }
        });
        block_in_place(|| {
            blocked.send(()).unwrap();
            released.recv().unwrap();
        });
        yield_now().await;
        unreachable!("the runtime is going down");
    });
    is_blocked.recv().unwrap();
    drop(runtime);
    assert!(task.is_finished());
    let error: JoinError = executor::block_on(task).map(|_: ()| ()).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    drop(reports);
}

/// The watchdog inspects a thread that is blocked in `recv` with a time-out. The call still ends by its time-out. A
/// signal would interrupt it.
#[test]
fn asking_why_a_thread_blocks_ends_none_of_its_system_calls() {
    let multi_thread = Builder::new_multi_thread().worker_threads(2).build_with_reports();
    for (rt, reports) in [Builder::new_current_thread().build_with_reports(), multi_thread] {
        let error = rt.block_on(rt.spawn(async move {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
            loop {
                let error = socket.recv(&mut [0]).unwrap_err();
                if error.kind() != ErrorKind::WouldBlock || reports.try_recv().is_ok() {
                    return error;
                }
            }
        }));
        assert_eq!(error.unwrap().kind(), ErrorKind::WouldBlock);
    }
}

trait WithReports {
    /// A runtime, and what it reports.
    fn build_with_reports(&mut self) -> (Runtime, mpsc::Receiver<Report>);
}

impl WithReports for Builder {
    fn build_with_reports(&mut self) -> (Runtime, mpsc::Receiver<Report>) {
        let (tx, rx) = mpsc::channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        (self.on_report(hook).build().unwrap(), rx)
    }
}
