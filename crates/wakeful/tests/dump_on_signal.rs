//! Dumps on SIGQUIT and after a delay. Each test runs itself again as a child process.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};

use rustix::process::{Pid, Signal, kill_process};
use wakeful::runtime::Builder;
use wakeful::task;

const CHILD: &str = "WAKEFUL_TEST_CHILD";

/// Runs this test again, as a child.
fn child(test: &str, environment: &[(&str, &str)]) -> Child {
    child_of("env", &[], test, environment)
}

/// Runs this test again as a child of the program `by`, which runs its last arguments.
fn child_of(by: &str, args: &[&str], test: &str, environment: &[(&str, &str)]) -> Child {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(by);
    command.args(args).arg(this).args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    for (name, value) in environment {
        command.env(name, value);
    }
    // The parent of the tests may ignore the signal, as shells do for background jobs.
    // SAFETY: `signal` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        });
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// In the child: prints that it is ready, and blocks until the parent closes its standard input.
fn ready_until_let_go() {
    // Not `println!`, which the harness captures.
    std::io::stdout().write_all(b"ready\n").unwrap();
    std::io::stdout().flush().unwrap();
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).unwrap();
}

/// In the parent: returns what the child writes to stderr, up to a line with `mark`.
fn stderr_until(child: &mut Child, mark: &str) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut text = String::new();
    for line in &mut lines {
        text += &line.unwrap();
        text.push('\n');
        if text.contains(mark) {
            break;
        }
    }
    text
}

fn wait_until_ready(child: &mut Child, times: usize) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let ready = lines.filter(|line| line.as_ref().unwrap().contains("ready"));
    assert_eq!(ready.take(times).count(), times, "the child says so");
}

fn quit(child: &Child) {
    kill_process(Pid::from_child(child), Signal::QUIT).unwrap();
}

/// In the child: a runtime whose workers are all blocked.
fn block_all_workers(builder: &mut Builder) {
    let rt = builder.worker_threads(2).enable_all().on_report(|_| {}).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let (in_poll, in_polls) = mpsc::channel();
    for _ in 0..2 {
        let (released, in_poll) = (released.clone(), in_poll.clone());
        let _entered = rt.enter();
        let stuck = async move {
            in_poll.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        };
        task::Builder::new().name("stuck one").spawn(stuck).unwrap();
    }
    in_polls.iter().take(2).for_each(drop);
    ready_until_let_go();
    drop(release);
}

#[test]
fn sigquit_prints_a_dump_while_every_worker_is_blocked() {
    if is_child() {
        return block_all_workers(Builder::new_multi_thread().dump_on_signal(true));
    }
    let mut child = child("sigquit_prints_a_dump_while_every_worker_is_blocked", &[]);
    wait_until_ready(&mut child, 1);
    quit(&child);
    let text = stderr_until(&mut child, "wakers");
    assert!(text.contains("\"stuck one\" running on worker"), "{text}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "and the program goes on");
}

/// Shells start background jobs with SIGQUIT ignored.
#[test]
fn a_program_that_was_started_to_ignore_sigquit_prints_a_dump() {
    if is_child() {
        return block_all_workers(Builder::new_multi_thread().dump_on_signal(true));
    }
    let test = "a_program_that_was_started_to_ignore_sigquit_prints_a_dump";
    let mut child = child_of("sh", &["-c", "trap '' QUIT; exec \"$0\" \"$@\""], test, &[]);
    wait_until_ready(&mut child, 1);
    quit(&child);
    let text = stderr_until(&mut child, "wakers");
    assert!(text.contains("\"stuck one\" running on worker"), "{text}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_it_sigquit_is_what_it_was() {
    if is_child() {
        return block_all_workers(&mut Builder::new_multi_thread());
    }
    let mut child = child("without_it_sigquit_is_what_it_was", &[]);
    wait_until_ready(&mut child, 1);
    quit(&child);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_program_that_handles_sigquit_keeps_it() {
    if is_child() {
        let rt = Builder::new_current_thread().enable_all().dump_on_signal(true).build().unwrap();
        return rt.block_on(async {
            let mut signal =
                wakeful::signal::unix::signal(wakeful::signal::unix::SignalKind::quit()).unwrap();
            println!("ready");
            std::io::stdout().flush().unwrap();
            signal.recv().await;
        });
    }
    let mut child = child("a_program_that_handles_sigquit_keeps_it", &[]);
    wait_until_ready(&mut child, 1);
    quit(&child);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("block_on"), "{text}");
}

/// Tests that a child runs at the same time.
mod planted {
    use super::{ready_until_let_go, task};

    #[wakeful::test]
    #[ignore = "for a child process"]
    async fn one() {
        let waits =
            task::Builder::new().name("of one").spawn(std::future::pending::<()>()).unwrap();
        ready_until_let_go();
        waits.abort();
    }

    #[wakeful::test(flavor = "multi_thread", worker_threads = 1)]
    #[ignore = "for a child process"]
    async fn two() {
        let waits = task::may_wait_forever(std::future::pending::<()>());
        let waits = task::Builder::new().name("of two").spawn(waits).unwrap();
        ready_until_let_go();
        waits.abort();
    }
}

#[test]
fn sigquit_prints_one_dump_of_each_test_past_the_harness() {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--exact", "--ignored", "--test-threads=2", "planted::one", "planted::two"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_ready(&mut child, 2);
    quit(&child);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut text = String::new();
    while !(text.contains("\"of one\"") && text.contains("\"of two\"")) {
        text += &lines.next().expect("both dumps").unwrap();
        text.push('\n');
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "and the tests go on");
    text.extend(lines.map(|line| line.unwrap() + "\n"));
    for test in ["one", "two"] {
        assert_eq!(text.matches(&format!("block_on {test:?} running")).count(), 1, "{text}");
    }
}

#[test]
fn a_dump_after_a_while() {
    if is_child() {
        return block_all_workers(&mut Builder::new_multi_thread());
    }
    let mut child = child("a_dump_after_a_while", &[("WAKEFUL_DUMP_AFTER", "200ms")]);
    let text = stderr_until(&mut child, "wakers");
    assert!(text.contains("runtime after"), "{text}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
