//! A `block_on` whose locks can never be let go of ends if the process has no threads that could. A test without the
//! usual harness, as that has threads: it runs on the thread that `main` is on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::Mutex;
use wakeful::task::AbortHandle;

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
        rt.shutdown_background();
    }
}
