//! One thread watches all runtimes, and no runtime keeps it from the others.

use std::fs;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Runtime};

/// The time limit of a wait. Only a bug reaches it.
const LIMIT: Duration = Duration::from_secs(600);

const KINDS: [fn() -> Builder; 2] = [Builder::new_current_thread, one_worker];

fn one_worker() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    builder
}

/// Runs a task that blocks its thread until the sender is dropped.
fn run_blocked(
    mut builder: Builder,
    hook: impl Fn(&Report) + Send + Sync + 'static,
) -> (Sender<()>, JoinHandle<()>) {
    let (release, released) = channel::<()>();
    let thread = thread::spawn(move || {
        let rt = builder.on_report(hook).build().unwrap();
        let blocks = rt.spawn(async move { released.recv_timeout(LIMIT) });
        rt.block_on(blocks).unwrap().unwrap_err();
    });
    (release, thread)
}

#[test]
fn a_hook_that_blocks_delays_no_other_runtime() {
    for first in KINDS {
        for second in KINDS {
            let ((enter, entered), (leave, left)) = (channel(), channel::<()>());
            let left = Mutex::new(left);
            let hook = move |_: &Report| {
                enter.send(()).unwrap();
                left.lock().unwrap().recv_timeout(LIMIT).unwrap_err();
            };
            let (release_first, first) = run_blocked(first(), hook);
            entered.recv_timeout(LIMIT).expect("its poll blocks");
            let (tx, rx) = channel();
            let (release, second) = run_blocked(second(), move |it| _ = tx.send(it.kind()));
            let kind = rx.recv_timeout(LIMIT / 2).expect("it is watched although the hook blocks");
            assert_eq!(kind, "blocked");
            drop((release, leave, release_first));
            [first, second].into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}

/// The watchdog starts a spare worker, and calls the user's function for the name of its thread.
#[test]
fn a_function_for_thread_names_that_blocks_delays_no_other_runtime() {
    let ((enter, entered), (leave, left)) = (channel(), channel::<()>());
    let left = Mutex::new(left);
    let mut builder = one_worker();
    builder.report_blocked_after(None).thread_name_fn(move || {
        if thread::current().name() == Some("wakeful-watchdog") {
            enter.send(()).unwrap();
            left.lock().unwrap().recv_timeout(LIMIT).unwrap_err();
        }
        "named".to_owned()
    });
    let rt = builder.build().unwrap();
    let ((start, started), (release_first, released)) = (channel(), channel::<()>());
    let blocks = rt.spawn(async move {
        start.send(()).unwrap();
        released.recv_timeout(LIMIT)
    });
    started.recv_timeout(LIMIT).unwrap();
    let waits = rt.spawn(async {});
    entered.recv_timeout(LIMIT).expect("the worker is stuck, and a task waits");
    for kind in KINDS {
        let (tx, rx) = channel();
        let (release, second) = run_blocked(kind(), move |it| _ = tx.send(it.kind()));
        let kind = rx.recv_timeout(LIMIT / 2).expect("it is watched although the function blocks");
        assert_eq!(kind, "blocked");
        drop(release);
        second.join().unwrap();
    }
    drop((leave, release_first));
    rt.block_on(blocks).unwrap().unwrap_err();
    rt.block_on(waits).unwrap();
}

/// Returns the number of threads with the watchdog's name. The kernel keeps 15 characters of it.
fn watchdogs() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let names = threads.filter_map(|thread| fs::read_to_string(thread.join("comm")).ok());
    names.filter(|name| name.trim() == "wakeful-watchdo").count()
}

/// Runs in a child process, where no other test makes the watchdog hand off its role.
#[test]
#[ignore = "run by `one_thread_watches_all_runtimes`"]
fn many_runtimes() {
    let mut runtimes: Vec<Runtime> = Vec::new();
    for _ in 0..10 {
        for builder in KINDS {
            let rt = builder().build().unwrap();
            rt.block_on(rt.spawn(async {})).unwrap();
            runtimes.push(rt);
        }
        // A new thread gives itself its name, so the first watchdog is not found at once.
        while watchdogs() == 0 {
            thread::yield_now();
        }
        assert_eq!(watchdogs(), 1);
    }
    drop(runtimes);
    assert_eq!(watchdogs(), 1, "it stays for the next runtime");
}

#[test]
fn one_thread_watches_all_runtimes() {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut child = std::process::Command::new(this);
    let run = child.args(["--exact", "many_runtimes", "--ignored"]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "{}\n{}", text(&run.stdout), text(&run.stderr));
    assert!(text(&run.stdout).contains("1 passed"), "the child ran nothing");
}
