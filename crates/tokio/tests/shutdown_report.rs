//! A shutdown through the tokio shim reports what it waits for: at the end of `#[tokio::main]`, and at a limit.
#![cfg(feature = "full")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Programs whose shutdown lasts until their standard input ends.
mod planted {
    use super::*;

    /// Starts a closure that reads standard input to its end.
    fn read_stdin() {
        let (start, started) = channel();
        tokio::task::spawn_blocking(move || {
            start.send(()).unwrap();
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        });
        started.recv().unwrap();
    }

    #[tokio::main(flavor = "current_thread")]
    async fn main_of_current_thread() {
        read_stdin();
    }

    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn main_of_multi_thread() {
        read_stdin();
    }

    #[test]
    #[ignore = "for a child process"]
    fn current_thread() {
        main_of_current_thread();
        std::io::stdout().write_all(b"ended\n").unwrap();
    }

    #[test]
    #[ignore = "for a child process"]
    fn multi_thread() {
        main_of_multi_thread();
        std::io::stdout().write_all(b"ended\n").unwrap();
    }
}

/// Runs a program until stderr shows what its shutdown waits for. Then closes its input, which ends it.
fn report_of(test: &str) -> String {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", &format!("planted::{test}"), "--nocapture"]);
    for name in ["WAKEFUL_REPORT", "WAKEFUL_REPORTS", "WAKEFUL_ON_PANIC"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut report = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        report += &line.unwrap();
        report.push('\n');
        if report.contains("\n  fix: ") {
            break;
        }
    }
    drop(child.stdin.take());
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(output.contains("ended\n"), "{report}{output}");
    assert!(child.wait().unwrap().success(), "{report}{output}");
    report
}

/// Checks the text of a shutdown that waits for the planted closure.
fn check(text: &str) {
    let (_, text) = text.split_once(" wakeful: ").expect("a report has its time");
    let lines: Vec<&str> = text.lines().collect();
    let [head, task, thread, .., why, fix] = lines[..] else { panic!("{text}") };
    assert!(
        head.starts_with("slow shutdown (suspected): the drop of the runtime has waited "),
        "{text}"
    );
    assert!(head.ends_with(" s for 1 closure"), "{text}");
    let spawned = format!(" (closure, running), spawned at {}:", file!());
    assert!(task.starts_with("    task ") && task.contains(&spawned), "{text}");
    assert!(thread.starts_with("    thread ") && thread.ends_with(" \"wakeful-worker\""), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("      system call read on ")), "{text}");
    assert!(text.contains("planted::read_stdin::{{closure}}"), "{text}");
    assert_eq!(
        why,
        "  why: a shutdown waits for polls that run and for closures of spawn_blocking that run or are queued."
    );
    assert!(fix.starts_with("  fix: signal them to stop before the shutdown, "), "{text}");
}

#[test]
fn the_end_of_main_says_what_it_waits_for_on_one_thread() {
    check(&report_of("current_thread"));
}

#[test]
fn the_end_of_main_says_what_it_waits_for_on_several_threads() {
    check(&report_of("multi_thread"));
}

/// The signatures are tokio's, and the report is also available as data.
#[test]
fn a_shutdown_at_its_limit_is_there_as_data() {
    let _timeout: fn(Runtime, Duration) = Runtime::shutdown_timeout;
    let _background: fn(Runtime) = Runtime::shutdown_background;
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let rt = builder.enable_all().build().unwrap();
        let (end, ended) = channel::<()>();
        let (start, started) = channel();
        let line = line!() + 1;
        rt.spawn_blocking(move || {
            start.send(()).unwrap();
            ended.recv().unwrap_err();
        });
        started.recv().unwrap();
        let report = rt.shutdown_with_report(Duration::from_millis(50));
        let late = report.late().expect("the closure waits for the channel");
        let [task] = late.tasks() else { panic!("{late}") };
        assert_eq!((task.task().spawned_at().line(), task.is_closure()), (line, true), "{late}");
        assert!(
            late.to_string().starts_with(
                "slow shutdown (suspected): the runtime did not shut down within 50 ms; still alive: 1 closure\n"
            ),
            "{late}"
        );
        drop(end);
    }
}
