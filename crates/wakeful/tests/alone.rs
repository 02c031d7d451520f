//! A `block_on` whose locks can never be let go of ends if the process has no threads that could. A test without the
//! usual harness, as that has threads: it runs on the thread that `main` is on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::Mutex;

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
        let rt = builder.enable_all().dump_on_signal(true).on_report(|_| {}).build().unwrap();
        let text = end_of(&rt);
        assert!(text.contains("can never return") && text.contains("Mutex::lock"), "{text}");
        rt.shutdown_background();
    }
}
