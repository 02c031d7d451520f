//! `WAKEFUL_TEST_TIMEOUT` limits `#[tokio::test]`, and SIGQUIT prints a dump in it.
#![cfg(feature = "full")]

use std::process::{Command, Output};

/// Tests that hang without a limit.
mod planted {
    use std::io::Write;

    /// Waits for a message from a thread that never sends one.
    async fn wait_for_a_thread() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        std::thread::spawn(move || {
            let _kept = sender;
            loop {
                std::thread::park();
            }
        });
        receiver.recv().await;
    }

    #[tokio::test]
    #[ignore = "hangs"]
    async fn waits_for_a_thread() {
        wait_for_a_thread().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "hangs"]
    async fn waits_for_a_thread_on_several_threads() {
        wait_for_a_thread().await;
    }

    #[tokio::test]
    #[ignore = "for a child process"]
    async fn quits() {
        let id = std::process::id().to_string();
        assert!(
            std::process::Command::new("kill").args(["-QUIT", &id]).status().unwrap().success()
        );
        std::io::stdout().write_all(b"still alive\n").unwrap();
    }
}

fn run(test: &str, environment: &[(&str, &str)]) -> (Output, String) {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", &format!("planted::{test}")]);
    // A stack takes long to print: the grace time of a blocked test may end meanwhile.
    command.env("RUST_BACKTRACE", "0");
    command.env_remove("WAKEFUL_TEST_TIMEOUT").envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

#[test]
fn test_that_hangs_fails_with_the_dump() {
    for test in ["waits_for_a_thread", "waits_for_a_thread_on_several_threads"] {
        let (output, text) = run(test, &[("WAKEFUL_TEST_TIMEOUT", "300ms")]);
        assert_eq!(output.status.code(), Some(101), "{text}");
        assert!(text.contains(&format!("test {test:?} did not end within 300ms\n")), "{text}");
        assert!(text.contains(&format!("block_on {test:?} waiting")), "{text}");
    }
}

#[test]
fn test_goes_on_after_sigquit() {
    let (output, text) = run("quits", &[]);
    assert!(output.status.success() && text.contains("still alive"), "{text}");
}
