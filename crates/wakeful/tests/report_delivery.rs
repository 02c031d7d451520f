//! Filters and formats of reports: `Builder::report_filter`, `report_format`, and `WAKEFUL_REPORT`.
//!
//! The program in `planted` makes a proven and a suspected report. Others run it in a child process.

use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use support::json::Json;
use wakeful::inspect::{Report, ReportFilter, ReportFormat};
use wakeful::runtime::{Builder, Runtime};
use wakeful::sync::Mutex;
use wakeful::task;

mod support {
    pub mod json;
}

fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).name("app").report_blocked_after(None);
    builder
}

fn count(rt: &Runtime, kind: &str) -> u64 {
    let reports = rt.metrics().reports();
    reports.iter().find(|(name, _)| *name == kind).expect("every kind is counted").1
}

/// Makes an orphan, which is proven, and a deadlock, which is suspected. Returns when both are counted.
fn make_both(rt: &Runtime) {
    let _entered = rt.enter();
    let lock = Arc::new(Mutex::new(()));
    let twice = async move {
        let _first = lock.lock().await;
        let _second = lock.lock().await;
    };
    task::Builder::new().name("orphan").spawn(std::future::pending::<()>()).unwrap();
    let twice = task::Builder::new().name("twice").spawn(twice).unwrap();
    // While another thread can abort the task, the deadlock is not proven.
    while count(rt, "orphan") == 0 || count(rt, "deadlock") == 0 {
        thread::yield_now();
    }
    twice.abort();
}

#[test]
#[ignore = "for a child process"]
fn planted() {
    // The drop of the runtime waits for the watchdog, which may still print.
    make_both(&builder().build().unwrap());
}

#[test]
#[ignore = "for a child process"]
fn planted_by_builder() {
    let mut builder = builder();
    builder.report_filter(ReportFilter::All).report_format(ReportFormat::Text);
    make_both(&builder.build().unwrap());
}

#[test]
#[ignore = "for a child process"]
#[should_panic(expected = "can never return")]
fn planted_stuck() {
    let mut builder = Builder::new_current_thread();
    let rt = builder.always_end_stuck_block_on(true).build().unwrap();
    rt.block_on(std::future::pending::<()>());
}

/// Runs the planted program. Returns what it writes to stderr.
fn run(environment: &[(&str, &str)]) -> String {
    run_test("planted", environment)
}

fn run_test(test: &str, environment: &[(&str, &str)]) -> String {
    let this = std::env::current_exe().expect("a test binary knows where it is");
    let mut command = Command::new(this);
    command.args(["--ignored", "--exact", test, "--nocapture"]);
    command.env_remove("WAKEFUL_REPORT").env_remove("WAKEFUL_REPORTS");
    let Output { status, stderr, .. } = command.envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{text}");
    text
}

/// Returns whether it has the form of `2026-11-18T03:04:05.678Z`.
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000Z";
    let digit = |char: char| if char.is_ascii_digit() { '0' } else { char };
    text.chars().map(digit).eq(form.chars())
}

/// Returns the first lines of the reports, without their time.
fn heads(text: &str) -> Vec<&str> {
    let stamped = text.lines().filter_map(|line| line.split_once(" wakeful: "));
    let mut heads: Vec<&str> = stamped
        .inspect(|(time, _)| assert!(is_time(time), "{time}"))
        .map(|(_, head)| head)
        .collect();
    heads.sort_unstable();
    heads
}

#[test]
fn every_report_is_printed_with_its_time() {
    for environment in [&[][..], &[("WAKEFUL_REPORT", "all")], &[("WAKEFUL_REPORT", "text")]] {
        let text = run(environment);
        let heads = heads(&text);
        assert_eq!(heads.len(), 2, "{text}");
        assert!(heads[0].starts_with("deadlock (suspected): task "), "{text}");
        assert!(heads[1].starts_with("orphan (proven): task "), "{text}");
    }
}

#[test]
fn only_proven_reports_are_printed() {
    let text = run(&[("WAKEFUL_REPORT", "proven")]);
    assert!(matches!(&heads(&text)[..], [head] if head.starts_with("orphan")), "{text}");
}

#[test]
fn no_report_is_printed() {
    let text = run(&[("WAKEFUL_REPORT", "off")]);
    assert!(!text.contains("wakeful") && !text.contains("orphan"), "{text}");
}

#[test]
fn value_that_means_nothing_is_named_once() {
    let text = run(&[("WAKEFUL_REPORT", "some")]);
    assert_eq!(text.matches("WAKEFUL_REPORT must be off, proven or all").count(), 1, "{text}");
    assert!(text.contains("but it is \"some\""), "{text}");
    assert_eq!(heads(&text).len(), 2, "{text}");
}

#[test]
fn each_report_is_a_line_of_json() {
    let text = run(&[("WAKEFUL_REPORT", "json")]);
    let mut reports: Vec<Json> =
        text.lines().filter(|line| line.starts_with('{')).map(Json::parse).collect();
    reports.sort_by_key(|report| report.get("kind").text().to_owned());
    let [deadlock, orphan] = &reports[..] else { panic!("{text}") };
    for (report, kind, certainty) in
        [(deadlock, "deadlock", "suspected"), (orphan, "orphan", "proven")]
    {
        assert_eq!(report.get("kind").text(), kind);
        assert_eq!(report.get("certainty").text(), certainty);
        assert_eq!(report.get("runtime").text(), "app");
        assert!(is_time(report.get("time").text()), "{text}");
        assert!(report.get("message").text().starts_with(&format!("{kind} ({certainty}): ")));
        let [task] = report.get("tasks").list() else { panic!("{text}") };
        assert!(task.get("spawned_at").text().contains("report_delivery.rs:"), "{text}");
    }
    assert_eq!(orphan.get("tasks").list()[0].get("name").text(), "orphan");
    let [waits, acquired] = deadlock.get("sites").list() else { panic!("{text}") };
    assert_eq!(waits.get("what").text(), "waits");
    assert_eq!(acquired.get("what").text(), "acquired");
    for site in [waits, acquired] {
        assert_eq!(site.get("name").text(), "twice");
        assert!(site.get("at").text().contains("report_delivery.rs:"), "{text}");
    }
    let [task] = deadlock.get("tasks").list() else { panic!("{text}") };
    assert_eq!(task.get("id").number(), waits.get("id").number());
}

#[test]
fn filter_and_format_go_together() {
    let text = run(&[("WAKEFUL_REPORT", "proven,json")]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
    assert!(
        matches!(lines[..], [line] if Json::parse(line).get("kind").text() == "orphan"),
        "{text}"
    );
}

#[test]
fn file_gets_what_is_printed() {
    let path = std::env::temp_dir().join(format!("wakeful-reports-{}", std::process::id()));
    let read = |report| {
        let file = path.to_str().unwrap();
        run(&[("WAKEFUL_REPORTS", file), ("WAKEFUL_REPORT", report)]);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(&path);
        text
    };
    let text = read("all");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for line in &lines {
        let [kind, program, time, message] = line[..] else { panic!("{text}") };
        assert!(program.contains("report_delivery") && is_time(time), "{text}");
        assert!(message.starts_with(&format!("{kind} (")), "{text}");
    }
    let text = read("proven,json");
    let json = Json::parse(text.trim_end());
    assert!(json.get("program").text().contains("report_delivery"), "{text}");
    assert_eq!(json.get("kind").text(), "orphan");
    assert_eq!(read("off"), "");
}

/// Returns the reports that a hook receives, and how many deadlocks were counted.
fn received(filter: ReportFilter) -> (Vec<Report>, u64) {
    let (tx, rx) = std::sync::mpsc::channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let rt = builder().report_filter(filter).on_report(hook).build().unwrap();
    make_both(&rt);
    let deadlocks = count(&rt, "deadlock");
    drop(rt);
    (rx.into_iter().collect(), deadlocks)
}

#[test]
fn hook_receives_what_the_filter_admits_and_all_are_counted() {
    for (filter, expected) in [
        (ReportFilter::All, &["deadlock", "orphan"][..]),
        (ReportFilter::Proven, &["orphan"]),
        (ReportFilter::Off, &[]),
    ] {
        let (reports, deadlocks) = received(filter);
        let mut kinds: Vec<&str> = reports.iter().map(Report::kind).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, expected);
        assert_eq!(deadlocks, 1);
    }
}

#[test]
fn reports_have_the_time_and_the_runtime() {
    let before = SystemTime::now();
    let (reports, _) = received(ReportFilter::All);
    let after = SystemTime::now();
    for report in &reports {
        assert!((before..=after).contains(&report.time()), "{report}");
        assert_eq!(report.runtime(), Some("app"));
        assert_eq!(Json::parse(&report.to_json()).get("message").text(), report.to_string());
    }
}

#[test]
fn builder_wins_over_the_environment() {
    let text = run_test("planted_by_builder", &[("WAKEFUL_REPORT", "off,json")]);
    assert_eq!(heads(&text).len(), 2, "{text}");
}

/// The panic that ends the `block_on` has its text, but no JSON.
#[test]
fn stuck_block_on_is_printed_as_json() {
    let text = run_test("planted_stuck", &[("WAKEFUL_REPORT", "json")]);
    let mut lines = text.lines().filter(|line| line.starts_with('{')).map(Json::parse);
    assert_eq!(lines.next().expect(&text).get("kind").text(), "stuck_block_on");
}
