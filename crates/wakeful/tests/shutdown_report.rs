//! What a shutdown leaves behind at its limit: `Runtime::shutdown_with_report`, and the report of `shutdown_timeout`.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use wakeful::inspect::{LateTask, LateThread, Report, ReportFilter, SlowShutdown, TaskState};
use wakeful::io::AsyncReadExt;
use wakeful::runtime::{Builder, LocalOptions, Runtime};
use wakeful::sync::mpsc;
use wakeful::task;

/// A limit that a shutdown reaches in these tests. Too short for stacks.
const SHORT: Duration = Duration::from_millis(50);
/// A limit that no shutdown reaches.
const LONG: Duration = Duration::from_secs(600);

/// Returns a builder of each flavor.
fn builders() -> [Builder; 2] {
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(1);
    let mut builders = [Builder::new_current_thread(), multi_thread];
    for builder in &mut builders {
        builder.enable_all().report_blocked_after(None);
    }
    builders
}

/// Builds a runtime. Returns its reports, too.
fn build(mut builder: Builder) -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    builder.on_report(move |report| drop(tx.send(report.clone())));
    (builder.build().unwrap(), rx)
}

/// Returns when the thread is parked, or waits for a channel of std.
fn until_parked(thread: libc::pid_t) {
    let call = format!("/proc/self/task/{thread}/syscall");
    let futex = format!("{} ", libc::SYS_futex);
    while !std::fs::read_to_string(&call).unwrap().starts_with(&futex) {
        thread::yield_now();
    }
}

fn current_thread_id() -> libc::pid_t {
    // SAFETY: `gettid` has no requirements.
    unsafe { libc::gettid() }
}

/// A closure that blocks until `_end` is dropped.
struct Blocked {
    _end: Sender<()>,
    /// The line of its spawn.
    line: u32,
    thread: libc::pid_t,
}

/// Starts a closure that blocks.
fn block(rt: &Runtime) -> Blocked {
    let (end, ended) = channel::<()>();
    let (start, started) = channel();
    let line = line!() + 1;
    rt.spawn_blocking(move || {
        start.send(current_thread_id()).unwrap();
        ended.recv().unwrap_err();
    });
    let thread = started.recv().unwrap();
    until_parked(thread);
    Blocked { _end: end, line, thread }
}

/// Starts a closure that waits in `blocking_recv`. Returns the lines of its spawn and of its wait.
fn block_in_recv(rt: &Runtime) -> (mpsc::Sender<()>, u32, u32) {
    let (sender, mut receiver) = mpsc::channel::<()>(1);
    let (start, started) = channel();
    let line = line!() + 1;
    rt.spawn_blocking(move || {
        start.send(current_thread_id()).unwrap();
        receiver.blocking_recv()
    });
    until_parked(started.recv().unwrap());
    (sender, line, line + 2)
}

#[track_caller]
fn thread_of<'s>(slow: &'s SlowShutdown, closure: &Blocked) -> &'s LateThread {
    let found = slow.threads().iter().find(|thread| thread.id() == closure.thread);
    found.unwrap_or_else(|| panic!("no thread {}: {slow}", closure.thread))
}

/// Checks the text of a shutdown that has left one closure, line by line.
///
/// On a starved machine, other threads of the runtime may be there as well.
fn check_text(slow: &SlowShutdown, limit: &str, closure: &Blocked) {
    let text = slow.to_string();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        format!(
            "slow shutdown (suspected): the runtime did not shut down within {limit}; still alive: 1 closure"
        )
    );
    let [late] = slow.tasks() else { panic!("{text}") };
    let spawned =
        format!("    {} (closure, running), spawned at {}:{}:", late.task(), file!(), closure.line);
    assert!(lines.next().unwrap().starts_with(&spawned), "{text}");
    for thread in slow.threads() {
        let head = format!("    thread {} {:?}", thread.id(), thread.name());
        assert_eq!(lines.next().unwrap(), head);
        if let Some(call) = thread.system_call() {
            assert_eq!(lines.next().unwrap(), format!("      system call {call}"));
        }
        for (nth, frame) in thread.stack().iter().enumerate() {
            let name = if nth == 0 { "stack" } else { "" };
            assert_eq!(lines.next().unwrap(), format!("      {name:<11} {frame}"));
        }
    }
    assert_eq!(thread_of(slow, closure).system_call(), Some("futex"), "{text}");
    assert!(
        lines.next().unwrap().starts_with("  why: a shutdown drops each task at its next .await. ")
    );
    assert_eq!(
        lines.next().unwrap(),
        "  fix: signal them to stop before the shutdown, with a flag or a closed channel."
    );
    assert_eq!(lines.next(), None, "{text}");
}

#[test]
fn a_report_names_the_closure_that_is_left() {
    for builder in builders() {
        let (rt, reports) = build(builder);
        let closure = block(&rt);
        let report = rt.shutdown_with_report(SHORT);
        assert!(!report.is_complete() && report.waited() >= SHORT);
        let late = report.late().unwrap();
        assert_eq!((late.is_over(), late.limit()), (true, Some(SHORT)));
        assert_eq!(
            thread_of(late, &closure).stack(),
            ["not captured: the time limit of the shutdown is near"]
        );
        check_text(late, "50 ms", &closure);
        let text = report.to_string();
        assert!(text.starts_with("shutdown: incomplete after "), "{text}");
        assert!(text.contains(", 1 task alive when it began\nruntime after "), "{text}");
        assert!(text.ends_with(&late.to_string()), "{text}");
        assert!(reports.try_recv().is_err(), "the caller has it");
    }
}

/// With a second or more, there is time for stacks.
#[test]
fn a_report_has_the_stack_of_the_thread_that_is_left() {
    for builder in builders() {
        let (rt, _reports) = build(builder);
        let closure = block(&rt);
        let report = rt.shutdown_with_report(Duration::from_secs(1));
        let late = report.late().unwrap();
        check_text(late, "1.0 s", &closure);
        let stack = thread_of(late, &closure).stack().join("\n");
        assert!(stack.contains("shutdown_report::block::{{closure}}"), "{stack}");
    }
}

#[test]
fn a_report_names_what_a_closure_waits_for_and_where() {
    for builder in builders() {
        let (rt, _reports) = build(builder);
        let (sender, spawned, waits) = block_in_recv(&rt);
        let report = rt.shutdown_with_report(SHORT);
        let slow = report.late().unwrap();
        let [late] = slow.tasks() else { panic!("{slow}") };
        assert_eq!(late.task().spawned_at().line(), spawned);
        let wait = late.waiting_on().expect("it waits for a message");
        assert_eq!((wait.kind(), wait.site().line()), ("mpsc::Receiver::recv", waits));
        let text = slow.to_string();
        let line = text.lines().find(|line| line.starts_with("      waiting     ")).unwrap();
        let text_of_wait = wait.to_string();
        assert_eq!(
            line.trim_start_matches("      waiting     "),
            &text_of_wait["waiting ".len()..]
        );
        assert!(line.contains(&format!("at {}:{waits}:", file!())), "{line}");
        let json = Report::SlowShutdown(slow.clone()).to_json();
        assert!(
            json.contains(r#""what":"waits""#) && json.contains(&format!(":{waits}:")),
            "{json}"
        );
        drop(sender);
    }
}

/// A poll that blocks its worker.
#[test]
fn a_report_names_the_poll_that_is_left() {
    let [_, builder] = builders();
    let (rt, _reports) = build(builder);
    let (end, ended) = channel::<()>();
    let (start, started) = channel();
    let poll = async move {
        start.send(()).unwrap();
        ended.recv().unwrap_err();
    };
    let entered = rt.enter();
    task::Builder::new().name("stubborn").spawn(poll).unwrap();
    started.recv().unwrap();
    drop(entered);
    let report = rt.shutdown_with_report(SHORT);
    let slow = report.late().unwrap();
    let [late] = slow.tasks() else { panic!("{slow}") };
    assert_eq!((late.task().name(), late.is_closure()), (Some("stubborn"), false), "{slow}");
    assert!(slow.to_string().contains("; still alive: 1 poll\n"), "{slow}");
    drop(end);
}

/// Tasks that wait are dropped in time. The report has what they waited for.
#[test]
fn a_complete_shutdown_reports_what_the_tasks_waited_for() {
    for builder in builders() {
        let (rt, reports) = build(builder);
        let (sender, mut receiver) = mpsc::channel::<()>(1);
        let line = line!() + 1;
        let waits = rt.spawn(async move { receiver.recv().await });
        let is_waiting =
            || rt.handle().dump().find(waits.id()).unwrap().state() == TaskState::Waiting;
        rt.block_on(async {
            while !is_waiting() {
                task::yield_now().await;
            }
        });
        let report = rt.shutdown_with_report(LONG);
        assert!(report.is_complete() && report.late().is_none());
        let wait = report.before().find(waits.id()).unwrap().waiting_on().unwrap();
        assert_eq!((wait.kind(), wait.site().line()), ("mpsc::Receiver::recv", line));
        let text = report.to_string();
        assert!(text.starts_with("shutdown: complete after "), "{text}");
        assert!(text.contains(", 1 task alive when it began\n"), "{text}");
        assert!(text.contains(&wait.to_string()), "{text}");
        assert!(sender.is_closed(), "the task was dropped");
        assert!(reports.try_recv().is_err());
    }
}

#[test]
fn a_local_runtime_reports_too() {
    let [mut builder, _] = builders();
    let rt = builder.build_local(LocalOptions::default()).unwrap();
    assert!(rt.shutdown_with_report(LONG).is_complete());
}

#[test]
fn a_shutdown_timeout_reports_what_is_left() {
    for builder in builders() {
        let (rt, reports) = build(builder);
        let closure = block(&rt);
        rt.shutdown_timeout(SHORT);
        let Ok(Report::SlowShutdown(slow)) = reports.recv() else { panic!("another report") };
        assert_eq!((slow.is_over(), slow.limit()), (true, Some(SHORT)));
        check_text(&slow, "50 ms", &closure);
        assert!(reports.try_recv().is_err(), "once");
    }
}

/// It waits, and later gives up.
#[test]
fn a_shutdown_timeout_reports_before_its_limit_and_at_it() {
    for mut builder in builders() {
        builder.report_lasting_after(Some(Duration::ZERO));
        let (rt, all_reports) = build(builder);
        let _closure = block(&rt);
        rt.shutdown_timeout(SHORT);
        let reports: Vec<SlowShutdown> = all_reports
            .try_iter()
            .filter_map(|report| match report {
                Report::SlowShutdown(slow) => Some(slow),
                _ => None,
            })
            .collect();
        let [waits, over] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((waits.is_over(), over.is_over()), (false, true));
        let text = waits.to_string();
        assert!(
            text.starts_with("slow shutdown (suspected): the shutdown of the runtime has waited "),
            "{text}"
        );
        assert!(text.lines().next().unwrap().ends_with(" for 1 closure"), "{text}");
    }
}

#[test]
fn a_shutdown_that_ends_or_must_not_wait_reports_nothing() {
    type Way = fn(Runtime);
    let ways: [Way; 2] = [|rt| rt.shutdown_background(), |rt| rt.shutdown_timeout(Duration::ZERO)];
    for shut_down in ways {
        for builder in builders() {
            let (rt, reports) = build(builder);
            let _closure = block(&rt);
            shut_down(rt);
            assert!(reports.try_recv().is_err());
        }
    }
    for mut builder in builders() {
        builder.report_lasting_after(None);
        let (rt, reports) = build(builder);
        let _closure = block(&rt);
        rt.shutdown_timeout(SHORT);
        assert!(reports.try_recv().is_err(), "reports of what lasts are off");
    }
    for mut builder in builders() {
        builder.report_filter(ReportFilter::Proven);
        let (rt, reports) = build(builder);
        rt.block_on(rt.spawn_blocking(|| ())).unwrap();
        rt.shutdown_timeout(LONG);
        assert!(reports.try_recv().is_err());
    }
}

/// A queued closure runs after the one before it.
#[test]
fn a_report_names_closures_that_are_queued() {
    for mut builder in builders() {
        builder.max_blocking_threads(1);
        let (rt, _reports) = build(builder);
        let closure = block(&rt);
        let queued = line!() + 1;
        rt.spawn_blocking(|| ());
        let report = rt.shutdown_with_report(SHORT);
        let slow = report.late().unwrap();
        let line_of = |late: &LateTask| (late.task().spawned_at().line(), late.is_queued());
        let mut late: Vec<_> = slow.tasks().iter().map(line_of).collect();
        late.sort_unstable();
        assert_eq!(late, [(closure.line, false), (queued, true)], "{slow}");
        assert!(slow.to_string().contains("; still alive: 2 closures\n"), "{slow}");
    }
}

/// Leaves a read of standard input behind, as tokio advises for programs that read it.
#[test]
#[ignore = "for a child process"]
fn leave_stdin() {
    for builder in builders() {
        let (rt, reports) = build(builder);
        let read = rt.spawn(async { wakeful::io::stdin().read(&mut [0]).await });
        // Another read of the same lock may wait: all closures of stdin have this name.
        let has_begun = || {
            let dump = rt.handle().dump();
            dump.find_named("stdin").is_some_and(|it| matches!(it.state(), TaskState::Running(_)))
        };
        rt.block_on(async {
            while !has_begun() {
                task::yield_now().await;
            }
        });
        rt.shutdown_timeout(SHORT);
        assert!(reports.try_recv().is_err(), "no program can end it");
        drop(read);
    }
}

#[test]
fn a_shutdown_timeout_that_leaves_only_stdin_reports_nothing() {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", "leave_stdin", "--nocapture"]);
    // Its end of the pipe stays open until the process ends.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
