//! Reports of a shutdown: the tasks that it dropped before their first poll, and what it waits for.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use wakeful::inspect::{NeverPolled, Report, SlowShutdown};
use wakeful::net::UnixDatagram;
use wakeful::runtime::{Builder, Handle, Runtime, is_rt_shutdown_err};
use wakeful::task;

/// Longer than a shutdown takes on a starved machine. Tests about shutdowns that last set their own time.
const HOUR: Duration = Duration::from_secs(3600);

fn current_thread() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.report_lasting_after(Some(HOUR));
    builder
}

fn multi_thread() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.report_lasting_after(Some(HOUR));
    builder
}

fn builders() -> [Builder; 2] {
    let mut multi = multi_thread();
    multi.worker_threads(2);
    [current_thread(), multi]
}

fn build(mut builder: Builder) -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    (builder.enable_all().report_blocked_after(None).on_report(hook).build().unwrap(), rx)
}

fn none(reports: &Receiver<Report>) {
    let left: Vec<Report> = reports.try_iter().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tasks_that_never_ran_are_reported_at_shutdown() {
    let (rt, reports) = build(current_thread());
    let line = line!() + 3;
    rt.block_on(async {
        for _ in 0..3 {
            wakeful::spawn(async {});
        }
        wakeful::spawn(async {});
        // The program has given this task up, so it is not reported.
        wakeful::spawn(async {}).abort();
    });
    none(&reports);
    drop(rt);
    let Ok(Report::NeverPolled(found)) = reports.recv() else { panic!("no report") };
    check_never_polled(&found, line);
    none(&reports);
}

fn check_never_polled(found: &NeverPolled, line: u32) {
    let text = found.to_string();
    let sites: Vec<_> = found.sites().iter().map(|(at, count)| (at.line(), *count)).collect();
    assert_eq!(sites, [(line, 3), (line + 2, 1)], "{text}");
    assert_eq!(found.tasks(), 4);
    assert!(
        text.starts_with("never polled (suspected): 4 tasks were dropped at shutdown"),
        "{text}"
    );
    assert!(text.contains(" (3 tasks)\n"), "{text}");
}

/// The worker is in a callback until the runtime closes.
#[test]
fn tasks_that_never_ran_are_reported_on_workers_too() {
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let mut builder = multi_thread();
    builder.worker_threads(1).rescue_after(None).on_thread_start(move || {
        opened.lock().unwrap().recv().unwrap_err();
    });
    let (rt, reports) = build(builder);
    let line = line!() + 3;
    for _ in 0..3 {
        // In the shared queue: the only worker has not started.
        rt.spawn(async {});
    }
    rt.spawn(async {});
    let handle = rt.handle().clone();
    let dropping = thread::spawn(move || drop(rt));
    while !is_closing(&handle) {
        thread::yield_now();
    }
    drop(open);
    dropping.join().unwrap();
    let Ok(Report::NeverPolled(found)) = reports.recv() else { panic!("no report") };
    let sites: Vec<_> = found.sites().iter().map(|(at, count)| (at.line(), *count)).collect();
    assert_eq!(sites, [(line, 3), (line + 2, 1)], "{found}");
    none(&reports);
}

/// A runtime that closes registers no socket.
fn is_closing(handle: &Handle) -> bool {
    let _entered = handle.enter();
    UnixDatagram::unbound().is_err_and(|error| is_rt_shutdown_err(&error))
}

/// Tasks that are awaited, given up on purpose, or spawned in a test are not reported.
#[test]
fn tasks_that_ran_or_were_given_up_are_not_reported() {
    for builder in builders() {
        let (rt, reports) = build(builder);
        rt.block_on(async { wakeful::spawn(async {}).await.unwrap() });
        drop(rt);
        none(&reports);
    }
    type Way = fn(Runtime);
    let ways: [Way; 2] =
        [|rt| rt.shutdown_background(), |rt| rt.shutdown_timeout(Duration::from_secs(600))];
    for shut_down in ways {
        let (rt, reports) = build(current_thread());
        rt.spawn(async {});
        shut_down(rt);
        none(&reports);
    }
    let mut of_a_test = current_thread();
    of_a_test.always_end_stuck_block_on(true);
    // `#[tokio::test]` sets only this.
    let mut of_a_tokio_test = current_thread();
    of_a_tokio_test.test_timeout(None);
    let mut without = current_thread();
    without.report_lasting_after(None);
    for builder in [of_a_test, of_a_tokio_test, without] {
        let (rt, reports) = build(builder);
        rt.spawn(async {});
        drop(rt);
        none(&reports);
    }
}

/// Shuts down a runtime that waits for what `start` has started, and ends that when the report comes. Returns the
/// report.
fn slow_shutdown(mut builder: Builder, start: impl FnOnce(&Runtime, Receiver<()>)) -> SlowShutdown {
    let (end, ended) = channel::<()>();
    let (tx, rx) = channel();
    let end = Mutex::new(Some(end));
    builder.report_blocked_after(None).report_lasting_after(Some(Duration::ZERO));
    builder.on_report(move |report| {
        if let Report::SlowShutdown(slow) = report {
            tx.send(slow.clone()).unwrap();
            drop(end.lock().unwrap().take());
        }
    });
    let rt = builder.build().unwrap();
    start(&rt, ended);
    drop(rt);
    let slow = rx.recv().unwrap();
    assert!(rx.try_recv().is_err(), "reported once");
    let text = slow.to_string();
    assert!(
        text.starts_with("slow shutdown (suspected): the drop of the runtime has waited "),
        "{text}"
    );
    slow
}

#[test]
fn a_shutdown_names_the_closures_that_it_waits_for() {
    for mut builder in builders() {
        builder.max_blocking_threads(1);
        let line = line!() + 4;
        let slow = slow_shutdown(builder, |rt, ended| {
            let (start, started) = channel();
            // Runs until the report is delivered, and keeps the second one in the queue.
            rt.spawn_blocking(move || {
                start.send(()).unwrap();
                ended.recv().unwrap_err();
            });
            started.recv().unwrap();
            rt.spawn_blocking(|| ());
        });
        let tasks = slow.tasks().iter();
        let mut tasks: Vec<_> = tasks
            .map(|late| (late.task().spawned_at().line(), late.is_closure(), late.is_queued()))
            .collect();
        tasks.sort_unstable();
        assert_eq!(tasks, [(line, true, false), (line + 5, true, true)], "{slow}");
        assert!(slow.to_string().contains(" for 2 closures\n"), "{slow}");
        assert!(!slow.threads().is_empty(), "{slow}");
    }
}

#[test]
fn a_shutdown_names_the_poll_that_it_waits_for() {
    let [_, multi] = builders();
    let slow = slow_shutdown(multi, |rt, ended| {
        let (start, started) = channel();
        let poll = async move {
            start.send(()).unwrap();
            ended.recv().unwrap_err();
        };
        let _entered = rt.enter();
        task::Builder::new().name("stubborn").spawn(poll).unwrap();
        started.recv().unwrap();
    });
    let [late] = slow.tasks() else { panic!("{slow}") };
    assert_eq!((late.task().name(), late.is_closure()), (Some("stubborn"), false), "{slow}");
    assert!(slow.to_string().contains(" for 1 poll\n"), "{slow}");
}

/// The capture of a stack may take longer than the shutdown may last.
#[test]
fn a_shutdown_with_little_time_captures_no_stack() {
    let (end, ended) = channel::<()>();
    let (tx, rx) = channel();
    let end = Mutex::new(Some(end));
    let mut builder = Builder::new_current_thread();
    builder.report_blocked_after(None).report_lasting_after(Some(Duration::ZERO));
    builder.on_report(move |report| {
        tx.send(report.clone()).unwrap();
        drop(end.lock().unwrap().take());
    });
    let rt = builder.build().unwrap();
    let (start, started) = channel();
    rt.spawn_blocking(move || {
        start.send(()).unwrap();
        ended.recv().unwrap_err();
    });
    started.recv().unwrap();
    rt.shutdown_timeout(Duration::from_millis(400));
    let Report::SlowShutdown(slow) = rx.recv().unwrap() else { panic!() };
    assert!(!slow.threads().is_empty(), "{slow}");
    for thread in slow.threads() {
        assert_eq!(thread.stack(), ["not captured: the time limit of the shutdown is near"]);
    }
}

/// A shutdown with nothing to wait for, or with a time limit, is not reported.
#[test]
fn a_shutdown_that_does_not_last_is_not_reported() {
    for builder in builders() {
        let (rt, reports) = build(builder);
        rt.block_on(rt.spawn_blocking(|| ())).unwrap();
        drop(rt);
        let left: Vec<Report> = reports.try_iter().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    for mut builder in builders() {
        builder.report_lasting_after(Some(Duration::ZERO));
        let (rt, reports) = build(builder);
        let (end, ended) = channel::<()>();
        rt.spawn_blocking(move || ended.recv().unwrap_err());
        rt.shutdown_background();
        none(&reports);
        drop(end);
    }
}
