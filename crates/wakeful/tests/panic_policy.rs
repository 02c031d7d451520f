//! What happens when a task or closure panics and no code observes it: `UnhandledPanic`, `WAKEFUL_ON_PANIC`.

use std::future::pending;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use support::json::Json;
use support::panic_site::panic_site;
use wakeful::inspect::Report;
use wakeful::runtime::{Builder, LocalOptions, Runtime, UnhandledPanic};
use wakeful::sync::mpsc::unbounded_channel;
use wakeful::task::{self, JoinHandle, LocalSet, may_wait_forever};

mod support {
    pub mod json;
    pub mod panic_site;
}

/// Returns a builder of each flavor.
fn builders() -> [Builder; 2] {
    let mut multi_thread = Builder::new_multi_thread();
    multi_thread.worker_threads(1);
    let mut builders = [Builder::new_current_thread(), multi_thread];
    for builder in &mut builders {
        builder.report_blocked_after(None);
    }
    builders
}

/// Builds a runtime with the policy. Returns its reports, too.
fn build(mut builder: Builder, policy: UnhandledPanic) -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    builder.on_report(move |report| drop(tx.send(report.clone())));
    (builder.unhandled_panic(policy).build().unwrap(), rx)
}

#[track_caller]
fn spawn_culprit(rt: &Runtime) -> (JoinHandle<()>, &'static Location<'static>) {
    let _entered = rt.enter();
    let culprit = async { panic!("the culprit") };
    (task::Builder::new().name("culprit").spawn(culprit).unwrap(), Location::caller())
}

/// Runs a `block_on` that never returns by itself. Returns the message of its panic.
fn message_of_block_on(rt: &Runtime) -> String {
    panic_site(AssertUnwindSafe(|| rt.block_on(may_wait_forever(pending::<()>())))).message
}

const FIX: &str = "  fix: keep the handle and await it, or collect tasks in a JoinSet.";
const SHUTDOWN: &str = "shut the runtime down (UnhandledPanic::ShutdownIfUnobserved)";

fn unobserved(id: task::Id, at: &Location<'_>, policy: &str) -> String {
    format!(
        "unobserved panic (proven): task {id} \"culprit\" panicked, and its JoinHandle was dropped\n    \
         message     \"the culprit\"\n    \
         spawned     at {at}\n    \
         policy      {policy}\n{FIX}"
    )
}

#[test]
fn a_dropped_panic_shuts_the_runtime_down() {
    for builder in builders() {
        let (rt, reports) = build(builder, UnhandledPanic::ShutdownIfUnobserved);
        let alive = Arc::new(());
        let dropped = Arc::downgrade(&alive);
        let bystander = rt.spawn(may_wait_forever(async move {
            let _alive = alive;
            pending::<()>().await;
        }));
        let (culprit, at) = spawn_culprit(&rt);
        let id = culprit.id();
        drop(culprit);
        let text = unobserved(id, at, SHUTDOWN);
        assert_eq!(message_of_block_on(&rt), text);
        assert_eq!(reports.recv().unwrap().to_string(), text);
        assert!(reports.try_recv().is_err(), "reported once");
        // All of it before the runtime is dropped.
        assert!(futures_block_on(bystander).unwrap_err().is_cancelled());
        assert_eq!(dropped.strong_count(), 0);
        assert_eq!(message_of_block_on(&rt), text, "later ones as well");
    }
}

/// Waits for a task without a runtime.
fn futures_block_on<T>(task: JoinHandle<T>) -> Result<T, task::JoinError> {
    Builder::new_current_thread().build().unwrap().block_on(task)
}

#[test]
fn a_panic_that_is_awaited_is_observed() {
    let policies = [
        UnhandledPanic::ShutdownIfUnobserved,
        UnhandledPanic::AbortIfUnobserved,
        UnhandledPanic::call(|report| panic!("called with {report}")),
    ];
    for policy in policies {
        for builder in builders() {
            let (rt, reports) = build(builder, policy.clone());
            let (culprit, _) = spawn_culprit(&rt);
            assert!(rt.block_on(culprit).unwrap_err().is_panic());
            let closure: JoinHandle<()> = rt.spawn_blocking(|| panic!("the closure"));
            assert!(rt.block_on(closure).unwrap_err().is_panic());
            drop(rt);
            assert!(reports.try_recv().is_err());
        }
    }
}

/// The handle is dropped after the panic, by a thread outside of the runtime.
#[test]
fn a_handle_that_is_dropped_later_shuts_the_runtime_down() {
    for builder in builders() {
        let (rt, _reports) = build(builder, UnhandledPanic::ShutdownIfUnobserved);
        let (culprit, at) = spawn_culprit(&rt);
        let id = culprit.id();
        rt.block_on(async {
            while !culprit.is_finished() {
                task::yield_now().await;
            }
        });
        let dropping = thread::spawn(move || drop(culprit));
        assert_eq!(message_of_block_on(&rt), unobserved(id, at, SHUTDOWN));
        dropping.join().unwrap();
    }
}

#[test]
fn a_closure_shuts_the_runtime_down() {
    for builder in builders() {
        let (rt, _reports) = build(builder, UnhandledPanic::ShutdownIfUnobserved);
        let (line, closure) = (line!(), rt.spawn_blocking(|| panic!("the closure")));
        let id = closure.id();
        drop::<JoinHandle<()>>(closure);
        let message = message_of_block_on(&rt);
        let lines: Vec<&str> = message.lines().collect();
        let [head, what, spawned, policy, fix] = lines[..] else { panic!("{message}") };
        assert_eq!(
            head,
            format!(
                "unobserved panic (proven): the closure of task {id} panicked, and its JoinHandle was dropped"
            )
        );
        assert_eq!(what, "    message     \"the closure\"");
        assert!(
            spawned.starts_with(&format!("    spawned     at {}:{line}:", file!())),
            "{spawned}"
        );
        assert_eq!(policy, format!("    policy      {SHUTDOWN}"));
        assert_eq!(
            fix,
            "  fix: keep the handle and await it, or collect closures in a JoinSet (JoinSet::spawn_blocking)."
        );
    }
}

#[test]
fn a_task_of_a_local_set_shuts_the_runtime_down() {
    for builder in builders() {
        let (rt, reports) = build(builder, UnhandledPanic::ShutdownIfUnobserved);
        let set = LocalSet::new();
        let id = {
            let _entered = set.enter();
            let culprit = async { panic!("the culprit") };
            task::Builder::new()
                .name("culprit")
                .spawn_local(culprit)
                .map(|task: JoinHandle<()>| task.id())
        };
        let id = id.unwrap();
        let forever = AssertUnwindSafe(|| set.block_on(&rt, may_wait_forever(pending::<()>())));
        let message = panic_site(forever).message;
        assert!(
            message.starts_with(&format!("unobserved panic (proven): task {id} ")),
            "{message}"
        );
        assert!(message.contains(&format!("    policy      {SHUTDOWN}\n")), "{message}");
        assert_eq!(reports.recv().unwrap().to_string(), message);
    }
}

#[test]
fn a_local_runtime_shuts_down() {
    let [mut builder, _] = builders();
    builder.unhandled_panic(UnhandledPanic::ShutdownIfUnobserved).on_report(|_| {});
    let rt = builder.build_local(LocalOptions::default()).unwrap();
    let id = rt.spawn_local(async { panic!("the culprit") }).id();
    let block_on = AssertUnwindSafe(|| rt.block_on(may_wait_forever(pending::<()>())));
    let message = panic_site(block_on).message;
    assert!(message.starts_with(&format!("unobserved panic (proven): task {id} ")), "{message}");
}

/// A handle that is kept may still be awaited: the panic is reported, and the runtime goes on.
#[test]
fn a_panic_whose_handle_is_kept_is_only_reported() {
    for mut builder in builders() {
        builder.report_lasting_after(Some(Duration::ZERO));
        let (rt, reports) = build(builder, UnhandledPanic::ShutdownIfUnobserved);
        let (kept, at) = spawn_culprit(&rt);
        // The watchdog reports it while the runtime does something.
        let report = loop {
            match reports.try_recv() {
                Ok(report) => break report,
                Err(_) => rt.block_on(wakeful::task::yield_now()),
            }
        };
        let text = report.to_string();
        let head = format!("unawaited panic (suspected): task {} \"culprit\" panicked", kept.id());
        assert!(text.starts_with(&head), "{text}");
        assert!(text.contains(&format!("    spawned     at {at}\n")), "{text}");
        assert!(!text.contains("    policy "), "{text}");
        assert!(rt.block_on(kept).unwrap_err().is_panic());
        assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    }
}

#[test]
fn a_function_is_called_with_the_report() {
    for builder in builders() {
        let (tx, mut called) = unbounded_channel();
        let (rt, reports) = build(
            builder,
            UnhandledPanic::call(move |report| {
                tx.send(report.clone()).unwrap();
                panic!("the function of the policy");
            }),
        );
        let (dropped, at) = spawn_culprit(&rt);
        let id = dropped.id();
        drop(dropped);
        let text = unobserved(id, at, "call a function (UnhandledPanic::Call)");
        assert_eq!(rt.block_on(called.recv()).unwrap().to_string(), text);
        assert_eq!(reports.recv().unwrap().to_string(), text);
        // The panic has not shut the runtime down.
        assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    }
}

#[test]
fn the_default_reports_and_goes_on() {
    for mut builder in builders() {
        let (tx, mut rx) = unbounded_channel();
        builder.on_report(move |report| tx.send(report.clone()).unwrap());
        let rt = builder.unhandled_panic(UnhandledPanic::Ignore).build().unwrap();
        drop(spawn_culprit(&rt));
        let report = rt.block_on(rx.recv()).unwrap();
        let Report::UnobservedPanic(panic) = report else { panic!("{report}") };
        assert_eq!((panic.policy(), panic.is_closure()), (None, false));
        assert!(panic.to_string().ends_with(
            "in a JoinSet. To shut the runtime down or abort the process on such a panic, set \
             Builder::unhandled_panic or WAKEFUL_ON_PANIC."
        ));
        assert_eq!(rt.block_on(async { 7 }), 7);
    }
}

/// tokio's policy: any panic, whether it is observed or not.
#[test]
fn the_panic_of_any_task_may_shut_the_runtime_down() {
    for builder in builders() {
        let (rt, reports) = build(builder, UnhandledPanic::ShutdownRuntime);
        let closure: JoinHandle<()> = rt.spawn_blocking(|| panic!("the closure"));
        assert!(rt.block_on(closure).unwrap_err().is_panic(), "a closure does not");
        let (culprit, at) = spawn_culprit(&rt);
        let id = culprit.id();
        assert_eq!(
            message_of_block_on(&rt),
            format!(
                "a spawned task panicked and the runtime is configured to shut down on unhandled panic\n    \
                 task        task {id} \"culprit\"\n    \
                 message     \"the culprit\"\n    \
                 spawned     at {at}\n    \
                 policy      shut down (UnhandledPanic::ShutdownRuntime)"
            )
        );
        drop(culprit);
        assert!(reports.try_recv().is_err(), "what has shut the runtime down was observed");
    }
}

/// Programs that run in a child process. Their handles are dropped at once.
mod planted {
    use super::*;

    /// Runs a runtime that the environment configures. With `WAKEFUL_TEST_ENDS`, only the policy ends it.
    fn run(mut builder: Builder, name: &str) {
        builder.report_blocked_after(None);
        let rt = builder.build().unwrap();
        let _entered = rt.enter();
        let culprit = async { panic!("the culprit") };
        task::Builder::new().name(name).spawn(culprit).map(drop::<JoinHandle<()>>).unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            if std::env::var_os("WAKEFUL_TEST_ENDS").is_some() {
                rt.block_on(may_wait_forever(pending::<()>()));
            }
            let is_counted = || rt.metrics().reports().contains(&("unobserved_panic", 1));
            rt.block_on(async {
                while !is_counted() {
                    task::yield_now().await;
                }
            });
        }));
        let message = ended.err().and_then(|payload| payload.downcast::<String>().ok());
        eprintln!("block_on: {}", message.as_ref().map_or("returns", |text| text.as_str()));
    }

    #[test]
    #[ignore = "for a child process"]
    fn current_thread() {
        run(Builder::new_current_thread(), "single");
    }

    #[test]
    #[ignore = "for a child process"]
    fn multi_thread() {
        run(Builder::new_multi_thread(), "several");
    }

    #[test]
    #[ignore = "for a child process"]
    fn reporting_by_builder() {
        let mut builder = Builder::new_current_thread();
        builder.unhandled_panic(UnhandledPanic::Ignore);
        run(builder, "single");
    }

    #[test]
    #[ignore = "for a child process"]
    fn aborting_by_builder() {
        let mut builder = Builder::new_multi_thread();
        builder.unhandled_panic(UnhandledPanic::AbortIfUnobserved);
        builder.on_report(|report| eprintln!("hook: {}", report.kind()));
        run(builder, "several");
    }

    #[test]
    #[ignore = "for a child process"]
    fn closure() {
        let rt = Builder::new_current_thread().report_blocked_after(None).build().unwrap();
        rt.spawn_blocking(|| panic!("the closure"));
        rt.block_on(may_wait_forever(pending::<()>()));
    }
}

/// Runs a planted program. Returns what it writes to stderr.
fn run(test: &str, environment: &[(&str, &str)]) -> (ExitStatus, String) {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", &format!("planted::{test}"), "--nocapture"]);
    for name in ["WAKEFUL_ON_PANIC", "WAKEFUL_REPORT", "WAKEFUL_REPORTS"] {
        command.env_remove(name);
    }
    command.env("RUST_BACKTRACE", "0");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

const FLAVORS: [(&str, &str); 2] = [("current_thread", "single"), ("multi_thread", "several")];

/// Returns the line of a field, without its name.
#[track_caller]
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name:?} in {text}")).trim_start()
}

/// Checks the report that is printed before the abort.
fn check_abort(status: ExitStatus, text: &str, policy: &str) {
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{text}");
    assert_eq!(text.matches(" wakeful: un").count(), 1, "printed once: {text}");
    assert_eq!(field(text, "policy "), format!("abort the process ({policy})"));
    assert!(field(text, "spawned ").starts_with(&format!("at {}:", file!())), "{text}");
    assert!(!text.contains("block_on: "), "{text}");
}

#[test]
fn the_environment_aborts_the_process_after_the_report() {
    for (test, name) in FLAVORS {
        // The report is printed even if others are not.
        for filter in ["all", "off"] {
            let environment = [
                ("WAKEFUL_ON_PANIC", "abort"),
                ("WAKEFUL_REPORT", filter),
                ("WAKEFUL_TEST_ENDS", "1"),
            ];
            let (status, text) = run(test, &environment);
            check_abort(status, &text, "WAKEFUL_ON_PANIC=abort");
            let head = format!("{name:?} panicked, and its JoinHandle was dropped\n");
            assert!(text.contains(&head), "{text}");
            assert_eq!(field(&text, "message "), "\"the culprit\"");
        }
    }
    let (status, text) = run("closure", &[("WAKEFUL_ON_PANIC", "abort")]);
    check_abort(status, &text, "WAKEFUL_ON_PANIC=abort");
    assert_eq!(field(&text, "message "), "\"the closure\"");
}

#[test]
fn the_report_before_an_abort_may_be_json() {
    let environment =
        [("WAKEFUL_ON_PANIC", "abort"), ("WAKEFUL_REPORT", "json"), ("WAKEFUL_TEST_ENDS", "1")];
    let (status, text) = run("current_thread", &environment);
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{text}");
    let line = text.lines().find(|line| line.starts_with('{')).expect("one line of JSON");
    let report = Json::parse(line);
    assert_eq!(report.get("kind").text(), "unobserved_panic");
    let [task] = report.get("tasks").list() else { panic!("{line}") };
    assert!(task.get("id").number() > 0.0 && task.get("name").text() == "single", "{line}");
    assert!(report.get("message").text().contains("(WAKEFUL_ON_PANIC=abort)"), "{line}");
}

#[test]
fn the_environment_shuts_the_runtime_down() {
    for (test, name) in FLAVORS {
        let environment = [("WAKEFUL_ON_PANIC", "shutdown"), ("WAKEFUL_TEST_ENDS", "1")];
        let (status, text) = run(test, &environment);
        assert!(status.success(), "{text}");
        let ended = text.split_once("block_on: ").expect("the program says how block_on ends").1;
        assert!(ended.starts_with("unobserved panic (proven): task "), "{text}");
        assert!(ended.contains(&format!("{name:?} panicked")), "{text}");
        assert_eq!(field(ended, "message "), "\"the culprit\"");
        assert!(field(ended, "spawned ").starts_with(&format!("at {}:", file!())), "{text}");
        assert_eq!(field(ended, "policy "), "shut the runtime down (WAKEFUL_ON_PANIC=shutdown)");
    }
}

#[test]
fn the_environment_may_ask_for_the_default() {
    for (test, _) in FLAVORS {
        let (status, text) = run(test, &[("WAKEFUL_ON_PANIC", "report")]);
        assert!(status.success() && text.contains("block_on: returns"), "{text}");
        assert!(!text.contains("    policy "), "{text}");
    }
}

#[test]
fn a_value_that_means_nothing_is_named_and_has_no_effect() {
    for (test, _) in FLAVORS {
        let (status, text) = run(test, &[("WAKEFUL_ON_PANIC", "explode")]);
        assert!(status.success() && text.contains("block_on: returns"), "{text}");
        let named =
            "wakeful: WAKEFUL_ON_PANIC must be report, shutdown or abort, but it is \"explode\". ";
        assert_eq!(text.matches(named).count(), 1, "{text}");
    }
}

#[test]
fn the_builder_has_precedence() {
    let (status, text) = run("reporting_by_builder", &[("WAKEFUL_ON_PANIC", "abort")]);
    assert!(status.success() && text.contains("block_on: returns"), "{text}");
    let (status, text) =
        run("aborting_by_builder", &[("WAKEFUL_ON_PANIC", "report"), ("WAKEFUL_TEST_ENDS", "1")]);
    check_abort(status, &text, "UnhandledPanic::AbortIfUnobserved");
    assert_eq!(text.matches("hook: unobserved_panic\n").count(), 1, "{text}");
}
