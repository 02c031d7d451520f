//! The policy for panics that no code observes, through the tokio shim and `WAKEFUL_ON_PANIC`.
#![cfg(feature = "full")]

use std::future::pending;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};

use tokio::runtime::{Builder, Runtime, UnhandledPanic};
use tokio::task::JoinHandle;

/// Tests that `WAKEFUL_ON_PANIC` fails or aborts. None of them observes the panic.
mod planted {
    async fn lose_a_panic() {
        tokio::spawn(async { panic!("the culprit") });
        wait().await;
    }

    /// Waits for a message that is never sent.
    async fn wait() {
        let (_kept, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        receiver.recv().await;
    }

    #[tokio::test]
    #[ignore = "for a child process"]
    async fn current_thread() {
        lose_a_panic().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "for a child process"]
    async fn multi_thread() {
        lose_a_panic().await;
    }

    #[tokio::test]
    #[ignore = "for a child process"]
    async fn local_set() {
        let set = tokio::task::LocalSet::new();
        set.spawn_local(async { panic!("the culprit") });
        set.run_until(wait()).await;
    }

    #[tokio::test]
    #[ignore = "for a child process"]
    async fn closure() {
        tokio::task::spawn_blocking(|| panic!("the culprit"));
        wait().await;
    }
}

fn run(test: &str, policy: &str) -> (Output, String) {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", &format!("planted::{test}"), "--nocapture"]);
    command.env("RUST_BACKTRACE", "0").env("WAKEFUL_ON_PANIC", policy);
    let output = command.env_remove("WAKEFUL_REPORT").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

const TESTS: [&str; 4] = ["current_thread", "multi_thread", "local_set", "closure"];

#[test]
fn the_environment_fails_the_test() {
    for test in TESTS {
        let (output, text) = run(test, "shutdown");
        assert_eq!(output.status.code(), Some(101), "{test}: {text}");
        let panic = text.rsplit_once("unobserved panic (proven): ").expect("block_on panics").1;
        for field in [
            " panicked, and its JoinHandle was dropped\n",
            "    message     \"the culprit\"\n",
            &format!("    spawned     at {}:", file!()),
            "    policy      shut the runtime down (WAKEFUL_ON_PANIC=shutdown)\n",
            "  fix: keep the handle and await it, or collect ",
        ] {
            assert!(panic.contains(field), "{test}: no {field:?} in {text}");
        }
    }
}

#[test]
fn the_environment_aborts_the_process() {
    for test in TESTS {
        let (output, text) = run(test, "abort");
        assert_eq!(output.status.signal(), Some(6), "{test}: {text}");
        assert!(text.contains("wakeful: unobserved panic (proven): "), "{test}: {text}");
        assert!(text.contains("    message     \"the culprit\"\n"), "{test}: {text}");
        assert!(
            text.contains("    policy      abort the process (WAKEFUL_ON_PANIC=abort)\n"),
            "{test}: {text}"
        );
    }
}

fn runtimes(policy: UnhandledPanic) -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.unhandled_panic(policy.clone()).build().unwrap())
}

/// tokio's own values have tokio's meaning: a panic is unhandled even if it is awaited.
#[test]
fn shutdown_runtime_is_for_every_panic_of_a_task() {
    for rt in runtimes(UnhandledPanic::ShutdownRuntime) {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            rt.block_on(async {
                let _panics = tokio::spawn(async { panic!("the culprit") }).await;
                pending::<()>().await
            });
        }));
        let message = *ended.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.starts_with(
                "a spawned task panicked and the runtime is configured to shut down on unhandled panic\n"
            ),
            "{message}"
        );
        assert!(message.contains("    message     \"the culprit\"\n"), "{message}");
        assert!(message.contains(&format!("    spawned     at {}:", file!())), "{message}");
    }
    for rt in runtimes(UnhandledPanic::Ignore) {
        let culprit: JoinHandle<()> = rt.spawn(async { panic!("the culprit") });
        assert!(rt.block_on(culprit).unwrap_err().is_panic());
    }
}

#[test]
fn a_policy_for_unobserved_panics_can_be_set() {
    for rt in runtimes(UnhandledPanic::ShutdownIfUnobserved) {
        let awaited: JoinHandle<()> = rt.spawn(async { panic!("awaited") });
        assert!(rt.block_on(awaited).unwrap_err().is_panic());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            rt.block_on(async {
                tokio::spawn(async { panic!("the culprit") });
                pending::<()>().await
            });
        }));
        let message = *ended.unwrap_err().downcast::<String>().unwrap();
        assert!(message.starts_with("unobserved panic (proven): "), "{message}");
        assert!(message.contains("(UnhandledPanic::ShutdownIfUnobserved)\n"), "{message}");
    }
}
