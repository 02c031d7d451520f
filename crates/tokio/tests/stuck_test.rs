//! A `#[tokio::test]` that can never return fails with the proof, without a time limit.
#![cfg(feature = "full")]

use std::process::{Command, Output};

/// Tests that can never return.
mod planted {
    async fn wait_for_a_kept_sender() {
        let (_sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        receiver.recv().await;
    }

    #[tokio::test]
    #[ignore = "hangs without its end: run by `test_that_can_never_return_fails`, in a child process"]
    async fn keeps_a_sender() {
        wait_for_a_kept_sender().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "hangs without its end: run by `test_that_can_never_return_fails`, in a child process"]
    async fn keeps_a_sender_on_several_threads() {
        wait_for_a_kept_sender().await;
    }

    #[tokio::test]
    #[ignore = "hangs without its end: run by `test_that_can_never_return_fails`, in a child process"]
    async fn stores_no_waker() {
        std::future::pending::<()>().await;
    }

    /// The task has no waker, but the test ends.
    #[tokio::test]
    #[ignore = "run by `orphan_fails_no_test`, in a child process"]
    async fn leaves_an_orphan() {
        tokio::spawn(std::future::pending::<()>());
        tokio::task::yield_now().await;
    }
}

fn run(test: &str) -> (Output, String) {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", &format!("planted::{test}")]);
    // A test that is not ended fails by this limit, with another message.
    command.env("WAKEFUL_TEST_TIMEOUT", "60s").env("RUST_BACKTRACE", "0");
    let output = command.output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

#[test]
fn test_that_can_never_return_fails() {
    for test in ["keeps_a_sender", "keeps_a_sender_on_several_threads", "stores_no_waker"] {
        let (output, text) = run(test);
        assert_eq!(output.status.code(), Some(101), "{text}");
        let proof = format!("stuck block_on (proven): block_on {test:?} can never return\n");
        assert!(text.contains(&proof), "{text}");
    }
}

#[test]
fn orphan_fails_no_test() {
    let (output, text) = run("leaves_an_orphan");
    assert!(output.status.success(), "{text}");
}
