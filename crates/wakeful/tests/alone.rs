//! A `block_on` whose locks can never be let go of ends if the process has no threads that could. A test without the
//! usual harness, as that has threads: it runs on the thread that `main` is on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Runtime, RuntimeFlavor};
use wakeful::sync::Mutex;
use wakeful::task::{AbortHandle, block_in_place, spawn_blocking};

/// The text with which it ended.
fn end_of(rt: &Runtime) -> String {
    let waits_for_itself = async {
        let lock = Arc::new(Mutex::new(()));
        let task = wakeful::spawn(async move {
            let _first = lock.lock().await;
            drop(lock.lock().await);
        });
        task.await.unwrap();
    };
    let ended = catch_unwind(AssertUnwindSafe(|| rt.block_on(waits_for_itself)));
    *ended.expect_err("it cannot have got the lock").downcast::<String>().unwrap()
}

/// The monitor looks at nothing any more: it sleeps without a limit.
fn is_monitor_asleep() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |path: &Path, name| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    threads.map(|thread| thread.unwrap().path()).any(|thread| {
        let call = read(&thread, "syscall");
        let words: Vec<&str> = call.split(' ').collect();
        let waits_for_ever =
            words[0] == libc::SYS_futex.to_string() && words.get(4) == Some(&"0x0");
        read(&thread, "comm").trim() == "wakeful-monitor" && waits_for_ever
    })
}

fn fall_quiet() {
    while !is_monitor_asleep() {
        std::thread::yield_now();
    }
}

/// The texts with which those ended that had to wait for ever only after all had fallen quiet.
fn late_ends_of(rt: &Runtime) -> [String; 3] {
    let of_root = async {
        let task = wakeful::spawn(std::future::pending::<()>());
        spawn_blocking(fall_quiet).await.unwrap();
        task.await.unwrap();
    };
    let of_lock = async {
        let lock = Mutex::new(());
        let _first = lock.lock().await;
        spawn_blocking(fall_quiet).await.unwrap();
        drop(lock.lock().await);
    };
    let in_place = async {
        let waits_for_itself = async {
            let lock = Mutex::new(());
            let _first = lock.lock().await;
            block_in_place(fall_quiet);
            drop(lock.lock().await);
        };
        wakeful::spawn(waits_for_itself).await.unwrap();
    };
    fn end_of(rt: &Runtime, future: impl Future) -> String {
        let ended = catch_unwind(AssertUnwindSafe(|| drop(rt.block_on(future))));
        *ended.expect_err("it cannot go on").downcast::<String>().unwrap()
    }
    [end_of(rt, of_root), end_of(rt, of_lock), end_of(rt, in_place)]
}

/// Who is told of a deadlock may end it: then the `block_on` goes on.
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

fn main() {
    // Whoever asks which tests there are learns of none, and runs it.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    // If it does not end: the system ends the program.
    // SAFETY: sets a timer of the process, and touches no memory.
    unsafe { libc::alarm(60) };
    let mut two = Builder::new_multi_thread();
    for builder in [&mut Builder::new_current_thread(), two.worker_threads(2)] {
        assert!(helped_by_its_hook(builder));
        let rt = builder.enable_all().dump_on_signal(true).on_report(|_| {}).build().unwrap();
        let text = end_of(&rt);
        assert!(text.contains("can never return") && text.contains("Mutex::lock"), "{text}");
        if rt.handle().runtime_flavor() == RuntimeFlavor::MultiThread {
            for text in late_ends_of(&rt) {
                assert!(text.contains("can never return"), "{text}");
            }
        }
        rt.shutdown_background();
    }
}
