//! wakeful ends a `block_on` that waits for a deadlocked lock, if the process has no other threads.
//!
//! This test has no harness, as the harness has threads. It runs on the main thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use wakeful::inspect::{Certainty, Report};
use wakeful::runtime::{Builder, Runtime, RuntimeFlavor};
use wakeful::sync::Mutex;
use wakeful::task::{AbortHandle, JoinHandle, block_in_place, spawn_blocking};

async fn waits_for_itself() {
    let lock = Mutex::new(());
    let _first = lock.lock().await;
    drop(lock.lock().await);
}

/// The text with which it ended.
fn end_of(rt: &Runtime) -> String {
    end_of_future(rt, async { wakeful::spawn(waits_for_itself()).await.unwrap() })
}

/// Returns whether the watchdog is parked without a time limit: it scans nothing any more.
fn is_quiet() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |path: &Path, name| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    threads.map(|thread| thread.unwrap().path()).any(|thread| {
        let call = read(&thread, "syscall");
        let words: Vec<&str> = call.split(' ').collect();
        let waits_for_ever =
            words[0] == libc::SYS_futex.to_string() && words.get(4) == Some(&"0x0");
        // The kernel keeps 15 characters of a name.
        waits_for_ever && read(&thread, "comm").trim() == "wakeful-watchdo"
    })
}

fn wait_until_quiet() {
    while !is_quiet() {
        // A real sleep between two readings of /proc. No event tells that the watchdog has parked.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// The text with which it ended.
fn end_of_future(rt: &Runtime, future: impl Future) -> String {
    let ended = catch_unwind(AssertUnwindSafe(|| drop(rt.block_on(future))));
    *ended.expect_err("it cannot go on").downcast::<String>().unwrap()
}

/// The text with which one ended that could have been helped by a closure, until that ended.
fn end_after_closure(rt: &Runtime) -> String {
    end_of_future(rt, async {
        let task = wakeful::spawn(std::future::pending::<()>());
        drop(spawn_blocking(wait_until_quiet));
        task.await.unwrap();
    })
}

/// The text with which one ended that could have been helped by another `block_on`, until that ended.
fn end_after_another(rt: &Runtime) -> String {
    let (tx, rx) = std::sync::mpsc::channel();
    let (call, called) = futures::channel::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            rx.recv().unwrap();
            scope.spawn(move || {
                wait_until_quiet();
                call.send(()).unwrap();
            });
            rt.block_on(called).unwrap();
        });
        end_of_future(rt, async {
            let task = wakeful::spawn(std::future::pending::<()>());
            tx.send(()).unwrap();
            task.await.unwrap();
        })
    })
}

/// Returns the panic message of a `block_on` that another thread could have helped. The end of that thread is not an event
/// for the watchdog.
fn end_after_thread(
    rt: &Runtime,
    reports: Receiver<(&'static str, Certainty)>,
) -> (String, Receiver<(&'static str, Certainty)>) {
    std::thread::scope(|scope| {
        let looks_on = scope.spawn(move || {
            while reports.recv().unwrap() != ("deadlock", Certainty::Suspected) {}
            reports
        });
        (end_of_future(rt, waits_for_itself()), looks_on.join().unwrap())
    })
}

/// The texts with which two ended of which the second got stuck after the first had been looked at.
fn ends_of_two(rt: &Runtime) -> [String; 2] {
    let (tx, rx) = std::sync::mpsc::channel();
    let (call, called) = futures::channel::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            let task: JoinHandle<()> = rx.recv().unwrap();
            end_of_future(rt, async {
                scope.spawn(move || {
                    wait_until_quiet();
                    call.send(()).unwrap();
                });
                called.await.unwrap();
                task.await.unwrap();
            })
        });
        let first = end_of_future(rt, async {
            let task = wakeful::spawn(std::future::pending::<()>());
            tx.send(wakeful::spawn(std::future::pending::<()>())).unwrap();
            task.await.unwrap();
        });
        [first, second.join().unwrap()]
    })
}

/// The texts with which those ended that had to wait forever only after all had fallen quiet.
fn late_ends_of(rt: &Runtime) -> [String; 3] {
    let of_root = async {
        let task = wakeful::spawn(std::future::pending::<()>());
        spawn_blocking(wait_until_quiet).await.unwrap();
        task.await.unwrap();
    };
    let of_lock = async {
        let lock = Mutex::new(());
        let _first = lock.lock().await;
        spawn_blocking(wait_until_quiet).await.unwrap();
        drop(lock.lock().await);
    };
    let in_place = async {
        let late = async {
            let lock = Mutex::new(());
            let _first = lock.lock().await;
            block_in_place(wait_until_quiet);
            drop(lock.lock().await);
        };
        wakeful::spawn(late).await.unwrap();
    };
    [end_of_future(rt, of_root), end_of_future(rt, of_lock), end_of_future(rt, in_place)]
}

/// A report hook may end a deadlock: then the `block_on` goes on.
fn helped_by_its_hook(builder: &mut Builder) -> bool {
    let aborts: Arc<std::sync::Mutex<Option<AbortHandle>>> = Arc::default();
    let theirs = aborts.clone();
    let hook = move |report: &Report| {
        if let (Report::Deadlock(_), Some(task)) = (report, theirs.lock().unwrap().take()) {
            task.abort();
        }
    };
    let rt = builder.enable_all().on_report(hook).build().unwrap();
    rt.block_on(async {
        let lock = Arc::new(Mutex::new(()));
        let task = wakeful::spawn(async move {
            let _first = lock.lock().await;
            drop(lock.lock().await);
        });
        *aborts.lock().unwrap() = Some(task.abort_handle());
        task.await.unwrap_err().is_cancelled()
    })
}

/// A callback for the end of a thread may wake a task: the `block_on` goes on.
fn is_woken_by_a_callback(builder: &mut Builder) -> bool {
    let (tx, rx) = futures::channel::oneshot::channel::<()>();
    let tx = Arc::new(std::sync::Mutex::new(Some(tx)));
    let callback = move || {
        // The thread of the blocking pool ends first.
        if let Some(tx) = tx.lock().unwrap().take() {
            // The watchdog scans meanwhile. No event tells that it has.
            std::thread::sleep(std::time::Duration::from_secs(1));
            let _ = tx.send(());
        }
    };
    let rt = builder.on_thread_stop(callback).build().unwrap();
    let is_woken = rt.block_on(async {
        spawn_blocking(|| ()).await.unwrap();
        rx.await.is_ok()
    });
    rt.shutdown_background();
    is_woken
}

/// Where a thread is started, so that its callback wakes the task.
#[derive(Clone, Copy, PartialEq)]
enum Starts {
    PoolThread,
    SpareWorker,
}

/// A callback for the start of a thread may wake a task: the `block_on` goes on.
///
/// Another thread does the work for which the thread was started, while that one is in the callback.
fn is_woken_by_a_start(builder: &mut Builder, starts: Starts) -> bool {
    type Armed = (std::sync::mpsc::Sender<()>, futures::channel::oneshot::Sender<()>);
    let armed: Arc<std::sync::Mutex<Option<Armed>>> = Arc::default();
    let theirs = armed.clone();
    let callback = move || {
        let armed = theirs.lock().unwrap().take();
        if let Some((started, tx)) = armed {
            started.send(()).unwrap();
            // The watchdog scans meanwhile. No event tells that it has.
            std::thread::sleep(std::time::Duration::from_secs(1));
            let _ = tx.send(());
        }
    };
    let rt = builder.on_thread_start(callback).report_blocked_after(None).build().unwrap();
    let is_woken = rt.block_on(async {
        let (started, starts_now) = std::sync::mpsc::channel();
        let (tx, rx) = futures::channel::oneshot::channel::<()>();
        let (tell_runs, runs) = futures::channel::oneshot::channel::<()>();
        let occupies = move || {
            tell_runs.send(()).unwrap();
            starts_now.recv().unwrap();
        };
        let occupied = match starts {
            Starts::PoolThread => spawn_blocking(occupies),
            Starts::SpareWorker => wakeful::spawn(async move { occupies() }),
        };
        runs.await.unwrap();
        *armed.lock().unwrap() = Some((started, tx));
        let next = match starts {
            Starts::PoolThread => spawn_blocking(|| ()),
            Starts::SpareWorker => wakeful::spawn(async {}),
        };
        occupied.await.unwrap();
        next.await.unwrap();
        rx.await.is_ok()
    });
    rt.shutdown_background();
    is_woken
}

fn main() {
    // A test runner that lists the tests gets an empty list, and runs this binary as a whole.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    // If it does not end: the system ends the program.
    // SAFETY: sets a timer of the process, and touches no memory.
    unsafe { libc::alarm(600) };
    for new in [Builder::new_current_thread, Builder::new_multi_thread] {
        let mut short = new();
        short.worker_threads(1).thread_keep_alive(std::time::Duration::from_millis(1));
        assert!(is_woken_by_a_callback(&mut short));
        let mut short = new();
        short.worker_threads(1).thread_keep_alive(std::time::Duration::from_millis(1));
        assert!(is_woken_by_a_start(&mut short, Starts::PoolThread));
    }
    let mut one = Builder::new_multi_thread();
    one.worker_threads(1).rescue_after(Some(std::time::Duration::from_millis(1)));
    assert!(is_woken_by_a_start(&mut one, Starts::SpareWorker));
    let mut two = Builder::new_multi_thread();
    for builder in [&mut Builder::new_current_thread(), two.worker_threads(2)] {
        assert!(helped_by_its_hook(builder));
        let (tx, rx) = std::sync::mpsc::channel();
        let hook = move |report: &Report| _ = tx.send((report.kind(), report.certainty()));
        // Nothing is proven while the pool has an idle thread.
        builder.thread_keep_alive(std::time::Duration::from_millis(1));
        let rt = builder.enable_all().dump_on_signal(true).on_report(hook).build().unwrap();
        let (text, reports) = end_after_thread(&rt, rx);
        assert!(text.contains("no threads other than those of its runtimes"), "{text}");
        let text = end_of(&rt);
        assert!(text.contains("can never return") && text.contains("Mutex::lock"), "{text}");
        let of_handle = catch_unwind(AssertUnwindSafe(|| rt.handle().block_on(waits_for_itself())));
        let text =
            *of_handle.expect_err("no other thread could help").downcast::<String>().unwrap();
        assert!(text.contains("no threads other than those of its runtimes"), "{text}");
        let [first, second] = ends_of_two(&rt);
        let mut texts = vec![end_after_closure(&rt), first, second];
        match rt.handle().runtime_flavor() {
            RuntimeFlavor::MultiThread => texts.extend(late_ends_of(&rt)),
            _ => texts.push(end_after_another(&rt)),
        }
        for text in &texts {
            assert!(text.contains("can never return"), "{text}");
        }
        // Each is told, though all but one are of one thread, and within seconds.
        let reports: Vec<_> = reports.try_iter().collect();
        let ends = reports
            .iter()
            .filter(|report| **report == ("stuck_block_on", Certainty::Proven))
            .count();
        assert_eq!(ends, 3 + texts.len());
        // So is each cycle of locks, as proven: no other thread could have a guard.
        let proven =
            reports.iter().filter(|report| **report == ("deadlock", Certainty::Proven)).count();
        assert!(proven >= 3, "{reports:?}");
        rt.shutdown_background();
    }
}
