//! Tests that a proven deadlock ends.

use std::process::Command;

use wakeful::sync::Mutex;

/// Sets an alarm, so that the kernel ends a process that hangs.
fn limit_this_process() {
    // SAFETY: sets a timer of the process, and touches no memory.
    unsafe { libc::alarm(60) };
}

async fn waits_for_itself() {
    let lock = Mutex::new(());
    let _first = lock.lock().await;
    drop(lock.lock().await);
}

// Run by `a_proven_deadlock_ends_a_test`, each in a process of its own.
#[wakeful::test]
#[ignore = "it can never return: run by `a_proven_deadlock_ends_a_test`"]
async fn stuck() {
    limit_this_process();
    wakeful::spawn(waits_for_itself()).await.unwrap();
}

#[wakeful::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it can never return: run by `a_proven_deadlock_ends_a_test`"]
async fn stuck_on_two_threads() {
    limit_this_process();
    wakeful::spawn(waits_for_itself()).await.unwrap();
}

#[wakeful::test]
#[ignore = "it can never return: run by `a_proven_deadlock_ends_a_test`"]
async fn stuck_without_a_waker() {
    limit_this_process();
    std::future::pending::<()>().await;
}

/// A test that is alone in its process with the harness's main thread, or on that thread.
#[test]
fn a_proven_deadlock_ends_a_test() {
    let ends = |test: &str, threads: &str, why: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let args = ["--exact", test, "--ignored", "--test-threads", threads];
        let output = command.args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("stuck block_on (proven): block_on \"stuck"), "{test}: {text}");
        assert!(text.contains(why), "{test}: {text}");
        assert!(text.contains("1 failed"), "{test}: {text}");
    };
    for test in ["ends::stuck", "ends::stuck_on_two_threads"] {
        ends(test, "2", "no threads other than those of its runtimes and the test harness");
        // The harness may run it on its main thread.
        ends(test, "1", "no threads other than those of its runtimes");
    }
    ends("ends::stuck_without_a_waker", "2", "no waker of its future is left");
}
