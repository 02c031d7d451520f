//! The time limit of tests: `#[wakeful::test(timeout = "…")]` and `WAKEFUL_TEST_TIMEOUT`.
//!
//! The tests in `planted` hang, and are ignored. Others run them in a child process.

use std::process::{Command, Output};

use wakeful::time::Instant;

/// Tests that hang, or that need a certain environment.
mod planted {
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use wakeful::sync::{Mutex, Notify, mpsc};
    use wakeful::task::{self, spawn_blocking, yield_now};
    use wakeful::time::sleep;

    /// Moves a value to a thread that never ends, so that no wait for it is proven stuck.
    fn move_to_thread(value: impl Send + 'static) {
        thread::spawn(move || {
            let _kept = value;
            block_this_thread();
        });
    }

    /// Two tasks that take two locks in opposite orders.
    async fn deadlock() {
        let (first, second) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let met = Arc::new(wakeful::sync::Barrier::new(2));
        let take = |name, one: &Arc<Mutex<()>>, other: &Arc<Mutex<()>>| {
            let (one, other, met) = (one.clone(), other.clone(), met.clone());
            let both = async move {
                let _one = one.lock().await;
                met.wait().await;
                let _other = other.lock().await;
            };
            task::Builder::new().name(name).spawn(both).unwrap()
        };
        let (forth, back) = (take("forth", &first, &second), take("back", &second, &first));
        move_to_thread((forth.abort_handle(), back.abort_handle()));
        forth.await.unwrap();
        back.await.unwrap();
    }

    async fn keeps_a_sender() {
        let (sender, mut receiver) = mpsc::channel::<()>(1);
        move_to_thread(sender);
        receiver.recv().await;
    }

    fn block_this_thread() -> ! {
        loop {
            thread::park();
        }
    }

    #[wakeful::test(timeout = "2s")]
    #[ignore = "hangs"]
    async fn current_thread() {
        deadlock().await;
    }

    #[wakeful::test(timeout = "2s", flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "hangs"]
    async fn multi_thread() {
        deadlock().await;
    }

    #[wakeful::test(timeout = "3s", flavor = "local")]
    #[ignore = "hangs"]
    async fn local() {
        keeps_a_sender().await;
    }

    #[wakeful::test(timeout = "1s", start_paused = true)]
    #[ignore = "hangs"]
    async fn paused_clock() {
        loop {
            sleep(Duration::from_secs(3600)).await;
        }
    }

    #[wakeful::test(timeout = "1s")]
    #[ignore = "hangs"]
    async fn yields_for_ever() {
        loop {
            yield_now().await;
        }
    }

    #[wakeful::test(timeout = "3s")]
    #[ignore = "hangs"]
    async fn blocked_poll() {
        let blocks = async { block_this_thread() };
        task::Builder::new().name("blocks").spawn(blocks).unwrap().await.unwrap();
    }

    #[wakeful::test(timeout = "3s", flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "hangs"]
    async fn blocked_body() {
        block_this_thread();
    }

    #[wakeful::test(timeout = "3s", flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "hangs"]
    async fn blocked_worker() {
        let blocks = async { block_this_thread() };
        task::Builder::new().name("blocks").spawn(blocks).unwrap().await.unwrap();
    }

    #[wakeful::test(timeout = "3s")]
    #[ignore = "hangs"]
    async fn blocked_closure() {
        let runs = Arc::new(Notify::new());
        let started = runs.clone();
        drop(spawn_blocking(move || {
            started.notify_one();
            block_this_thread();
        }));
        runs.notified().await;
    }

    #[wakeful::test]
    #[ignore = "hangs"]
    async fn unlimited() {
        keeps_a_sender().await;
    }

    #[wakeful::test(timeout = "10ms")]
    #[ignore = "takes longer than its limit"]
    async fn slow() {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            yield_now().await;
        }
    }

    #[wakeful::test]
    #[ignore = "for a child process"]
    async fn z_runs_after_the_others() {}
}

/// Runs planted tests, one after the other, as a child.
fn run(tests: &[&str], environment: &[(&str, &str)]) -> (Output, String) {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", "--test-threads=1"]);
    command.args(tests.iter().map(|test| format!("planted::{test}")));
    // Without stacks: printing one may take longer than the grace period of a blocked test.
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

/// Runs a planted test, which fails. Returns its text after checking the first line.
#[track_caller]
fn failure_of(test: &str, environment: &[(&str, &str)]) -> String {
    let (output, text) = run(&[test, "z_runs_after_the_others"], environment);
    assert_eq!(output.status.code(), Some(101), "{text}");
    let limits =
        ["3s", "2s", "1s"].map(|limit| format!("test {test:?} did not end within {limit}\n"));
    assert!(limits.iter().any(|limit| text.contains(limit)), "{text}");
    assert!(text.contains("1 passed; 1 failed"), "the other tests go on: {text}");
    text
}

#[track_caller]
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is not in its place: {text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn test_on_the_current_thread_fails_with_the_deadlock_before_the_dump() {
    let text = failure_of("current_thread", &[]);
    assert_in_order(&text, &["did not end", "2 tasks wait for each other", "runtime after"]);
    assert_in_order(&text, &["runtime after", "block_on \"current_thread\"", "\"forth\""]);
}

#[test]
fn test_on_several_threads_fails_with_the_deadlock_before_the_dump() {
    let text = failure_of("multi_thread", &[]);
    assert_in_order(&text, &["did not end", "2 tasks wait for each other", "runtime after"]);
}

#[test]
fn test_on_a_local_runtime_fails() {
    assert_in_order(&failure_of("local", &[]), &["runtime after", "block_on \"local\" waiting"]);
}

#[test]
fn limit_is_real_time_if_the_clock_is_paused() {
    failure_of("paused_clock", &[]);
}

#[test]
fn test_that_is_always_ready_fails() {
    failure_of("yields_for_ever", &[]);
}

#[test]
fn blocked_worker_fails_only_its_test() {
    assert_in_order(&failure_of("blocked_worker", &[]), &["runtime after", "\"blocks\" running"]);
}

#[test]
fn closure_that_does_not_end_fails_the_test_in_its_shutdown() {
    let text = failure_of("blocked_closure", &[]);
    assert!(text.contains("waits for spawn_blocking closures: 1"), "{text}");
}

#[test]
fn test_whose_thread_is_blocked_aborts_the_process_with_the_dump() {
    for (test, running) in [
        ("blocked_poll", "\"blocks\" running on worker 0"),
        ("blocked_body", "block_on \"blocked_body\" running"),
    ] {
        let (output, text) = run(&[test, "z_runs_after_the_others"], &[]);
        assert!(!output.status.success() && output.status.code().is_none(), "{text}");
        let head = format!("wakeful: test {test:?} did not end within 3s\n");
        let end = format!("wakeful: the thread of test {test:?} is blocked");
        assert_in_order(&text, &[&head, "runtime after", running, "block_this_thread", &end]);
    }
}

#[test]
fn variable_limits_tests_without_an_attribute() {
    let text = failure_of("unlimited", &[("WAKEFUL_TEST_TIMEOUT", "3s")]);
    assert_in_order(&text, &["runtime after", "waiting for a message (mpsc::Receiver)"]);
}

#[test]
fn attribute_wins_over_the_variable() {
    failure_of("local", &[("WAKEFUL_TEST_TIMEOUT", "10m")]);
}

#[test]
fn variable_can_remove_all_limits() {
    let (output, text) = run(&["slow"], &[]);
    assert_eq!(output.status.code(), Some(101), "{text}");
    let (output, text) = run(&["slow"], &[("WAKEFUL_TEST_TIMEOUT", "off")]);
    assert!(output.status.success(), "{text}");
}

#[test]
fn variable_that_is_no_time_fails_each_test() {
    for value in ["30", "soon", "0s", ""] {
        let (output, text) = run(&["z_runs_after_the_others"], &[("WAKEFUL_TEST_TIMEOUT", value)]);
        assert_eq!(output.status.code(), Some(101), "{text}");
        let message =
            "WAKEFUL_TEST_TIMEOUT must be a duration such as 30s, 500ms or 2m, or off, but it is";
        assert!(text.contains(message), "{text}");
    }
}

#[wakeful::test(timeout = "10m")]
async fn test_in_time_passes() {
    wakeful::spawn(async {}).await.unwrap();
}

#[wakeful::test(timeout = "10m", start_paused = true)]
async fn hours_on_a_paused_clock_pass() {
    let began = Instant::now();
    wakeful::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert!(began.elapsed().as_secs() >= 3600);
}
