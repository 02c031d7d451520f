//! An idle process has no wake-ups: no thread of the runtime wakes up on its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use wakeful::net::TcpListener;
use wakeful::runtime::{Builder, Runtime};
use wakeful::task::{LocalSet, block_in_place};

/// Returns the context switches of this process's runtime threads, by thread name.
fn switches() -> BTreeMap<String, u64> {
    let mut switches = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        let (Some(name), Some(number)) = (field("Name:"), field("Pid:")) else { continue };
        if name.starts_with("idle-") || name.starts_with("wakeful") {
            let count = |name| field(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            let left = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
            switches.insert(format!("{name} {number}"), left);
        }
    }
    switches
}

#[test]
fn nothing_wakes_up_by_itself() {
    let mut builder = Builder::new_multi_thread();
    let rt = builder.worker_threads(2).enable_all().thread_name("idle-worker").build().unwrap();
    // One task waits for a connection, and one for a timer in the far future.
    rt.spawn(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _ = listener.accept().await;
    });
    rt.spawn(async { wakeful::time::sleep(Duration::from_secs(100_000)).await });
    rt.block_on(rt.spawn(async {})).unwrap();
    // A current-thread runtime with a task that waits for a timer in the far future.
    let (end, ended) = wakeful::sync::oneshot::channel::<()>();
    let one_thread = thread::Builder::new().name("idle-root".to_owned()).spawn(|| {
        let rt = Builder::new_current_thread().enable_all().build().unwrap();
        rt.spawn(async { wakeful::time::sleep(Duration::from_secs(100_000)).await });
        rt.block_on(async {
            wakeful::spawn(async {}).await.unwrap();
            ended.await.unwrap();
        });
    });
    // The first worker of this runtime never gets a thread. Neither the watchdog nor the other worker stays awake for
    // it.
    let start = || assert_ne!(wakeful::runtime::worker_index(), Some(0), "planted");
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().thread_name("idle-lost").on_thread_start(start);
    let lost = builder.build().unwrap();
    lost.block_on(async { wakeful::time::sleep(Duration::from_millis(1)).await });
    lost.spawn(async { wakeful::time::sleep(Duration::from_secs(100_000)).await });
    let listening = with_a_lost_listener();
    let alone = with_a_lost_worker();
    let (end_local, local) = with_a_blocked_local_set();
    let failing = with_a_callback_that_panics();
    // The watchdog goes to sleep last. After that, no thread of the process wakes up.
    let mut before = switches();
    let mut still = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300)); // a real sleep: in this time no thread may wake up
        let after = switches();
        still = if after == before { still + 1 } else { 0 };
        before = after;
        if still == 3 {
            break;
        }
    }
    assert_eq!(still, 3, "a thread keeps waking up: {before:?}");
    let is_there = |name: &str| before.keys().any(|thread| thread.starts_with(name));
    for name in ["idle-worker", "idle-root", "idle-local", "wakeful-watchdo"] {
        assert!(is_there(name), "{name}: {before:?}");
    }
    let _client = std::net::TcpStream::connect(listening.address).unwrap();
    listening
        .accepted
        .recv_timeout(LIMIT)
        .expect("the monitor waits for the lost worker's listener");
    listening.end.send(()).unwrap();
    alone.end.send(()).unwrap();
    alone.is_rescued.recv_timeout(LIMIT).expect("the monitor sees that the worker is stuck");
    end.send(()).unwrap();
    one_thread.unwrap().join().unwrap();
    end_local.send(()).unwrap();
    local.join().unwrap();
    run_a_task(&failing);
}

/// Returns a runtime whose `on_thread_park` always panics. Its thread starts again only when there is work.
fn with_a_callback_that_panics() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().thread_name("idle-failing");
    let rt = builder.on_thread_park(|| panic!("planted")).build().unwrap();
    run_a_task(&rt);
    rt
}

fn run_a_task(rt: &Runtime) {
    rt.block_on(rt.spawn(async {
        wakeful::time::sleep(Duration::from_millis(1)).await;
        wakeful::task::yield_now().await;
    }))
    .unwrap();
}

/// A thread that drives a local set without tasks, and blocks inside of a poll until it is told to end. No local task
/// waits for it, so there is nothing to report.
fn with_a_blocked_local_set() -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let ((end, ended), (tx, rx)) = (mpsc::channel(), mpsc::channel());
    let run = move || {
        let mut builder = Builder::new_multi_thread();
        let rt = builder.worker_threads(1).enable_all().thread_name("idle-beside").build().unwrap();
        LocalSet::new().block_on(&rt, async move {
            // The watchdog visits the runtime from now on.
            wakeful::spawn(async {}).await.unwrap();
            tx.send(()).unwrap();
            ended.recv().unwrap();
        });
    };
    let thread = thread::Builder::new().name("idle-local".to_owned()).spawn(run).unwrap();
    rx.recv().unwrap();
    (end, thread)
}

/// The time limit of a wait. Only a bug reaches it.
const LIMIT: Duration = Duration::from_secs(600);

/// A builder, and a flag that makes threads fail to start.
fn failing_builder(workers: usize) -> (Builder, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let name_fails = fails.clone();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().on_report(|_| ()).thread_name_fn(move || {
        assert!(!name_fails.load(SeqCst), "planted");
        "idle-in-place".to_owned()
    });
    (builder, fails)
}

struct Listening {
    address: SocketAddr,
    accepted: mpsc::Receiver<()>,
    end: mpsc::Sender<()>,
    _runtime: Runtime,
}

/// A runtime with two workers that have a listener each. The thread of one blocks in place until `end` tells, and no
/// thread takes its place: that worker is lost.
fn with_a_lost_listener() -> Listening {
    let (mut builder, fails) = failing_builder(2);
    let runtime = builder.build().unwrap();
    let (both_run, both_listen) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    runtime.spawn({
        let (both_run, both_listen) = (both_run.clone(), both_listen.clone());
        async move {
            both_run.wait();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            both_listen.wait();
            _ = listener.accept().await;
        }
    });
    let ((end, ended), (accept, accepted)) = (mpsc::channel(), mpsc::channel());
    let (tx, address) = mpsc::channel();
    runtime.spawn(async move {
        both_run.wait();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        both_listen.wait();
        let address = listener.local_addr().unwrap();
        wakeful::spawn(async move {
            _ = listener.accept().await;
            accept.send(()).unwrap();
        });
        fails.store(true, SeqCst);
        block_in_place(|| {
            tx.send(address).unwrap();
            ended.recv().unwrap();
        });
    });
    Listening { address: address.recv().unwrap(), accepted, end, _runtime: runtime }
}

struct Alone {
    end: mpsc::Sender<()>,
    is_rescued: mpsc::Receiver<()>,
    _runtime: Runtime,
}

/// A runtime whose one worker is lost until `end` tells. Its thread takes it back then, and waits for a task that only
/// another thread can run.
fn with_a_lost_worker() -> Alone {
    let (mut builder, fails) = failing_builder(1);
    let runtime = builder.build().unwrap();
    let ((end, ended), (rescue, is_rescued)) = (mpsc::channel(), mpsc::channel());
    let (enter, entered) = mpsc::channel();
    runtime.spawn(async move {
        fails.store(true, SeqCst);
        block_in_place(|| {
            enter.send(()).unwrap();
            ended.recv().unwrap();
        });
        fails.store(false, SeqCst);
        let (run, has_run) = mpsc::channel();
        wakeful::spawn(async move { run.send(()).unwrap() });
        has_run.recv_timeout(LIMIT).unwrap();
        rescue.send(()).unwrap();
    });
    entered.recv().unwrap();
    Alone { end, is_rescued, _runtime: runtime }
}
