//! `WAKEFUL_TEST_TIMEOUT` limits `#[tokio::test]`, and SIGQUIT prints a dump in it.
#![cfg(feature = "full")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// Tests that hang without a limit.
mod planted {
    use std::io::{Read, Write};

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
    #[ignore = "hangs: run by `test_that_hangs_fails_with_the_dump`, in a child process"]
    async fn waits_for_a_thread() {
        wait_for_a_thread().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "hangs: run by `test_that_hangs_fails_with_the_dump`, in a child process"]
    async fn waits_for_a_thread_on_several_threads() {
        wait_for_a_thread().await;
    }

    #[tokio::test]
    #[ignore = "run by `sigquit_prints_a_dump_past_the_harness_and_the_test_goes_on`"]
    async fn quits() {
        // Not `println!`, which the harness captures.
        std::io::stdout().write_all(b"ready\n").unwrap();
        std::io::stdout().flush().unwrap();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}

fn command(test: &str) -> Command {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", &format!("planted::{test}")]);
    command.env_remove("WAKEFUL_TEST_TIMEOUT");
    // A stack takes long to print: the grace period of a blocked test may end meanwhile.
    command.env("RUST_BACKTRACE", "0");
    command
}

fn run(test: &str, environment: &[(&str, &str)]) -> (Output, String) {
    let output = command(test).envs(environment.iter().copied()).output().unwrap();
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
        let (output, text) = run(test, &[("WAKEFUL_TEST_TIMEOUT", "3s")]);
        assert_eq!(output.status.code(), Some(101), "{text}");
        assert!(text.contains(&format!("test {test:?} did not end within 3s\n")), "{text}");
        assert!(text.contains(&format!("block_on {test:?} waiting")), "{text}");
    }
}

#[test]
fn sigquit_prints_a_dump_past_the_harness_and_the_test_goes_on() {
    let mut command = command("quits");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(stdout.any(|line| line.unwrap().contains("ready")), "the child says so");
    let kill = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(stderr.any(|line| line.unwrap().contains("block_on \"quits\" running")), "a dump");
    drop(child.stdin.take());
    assert!(stdout.any(|line| line.unwrap().contains("1 passed")), "the test goes on");
    assert!(child.wait().unwrap().success());
}
