//! The gallery's stalls: each bug is reported, and its fixed twin makes no report.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Runtime};
use wakeful::task::JoinSet;
use wakeful::time::sleep;

#[path = "../examples/gallery/mod.rs"]
#[allow(dead_code, reason = "the bugs of waiting have their own tests")]
mod gallery;

use gallery::Twin::{Buggy, Fixed};
use gallery::stalls;

const LIMIT: Duration = Duration::from_secs(600);
const WORKERS: usize = 2;
/// The number of twins that run at a time.
const AT_ONCE: usize = 50;

mod support {
    pub mod load;
    pub mod quotes;
}
use support::load::{Load, rounds};
use support::quotes;

/// Asserts that docs/WHY.md quotes the report of a bug.
fn assert_quoted(bug: &str, report: &Report) {
    let lines: Vec<String> =
        report.to_string().lines().map(|line| quotes::shorten(line, None)).collect();
    let differences = quotes::check("docs/WHY.md", bug, &lines);
    assert!(differences.is_empty(), "{}", differences.concat());
}

/// Runs the fixed twin many times on a busy machine, several at once. One run in a thousand gets `true`: it lasts
/// longer than the detection of the bug.
fn no_report_of<F>(twin: impl Fn(bool) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (rt, reports) = runtime();
    let load = Load::on_every_core();
    let rounds = rounds(200);
    rt.block_on(async {
        for round in (0..rounds).step_by(AT_ONCE) {
            let mut twins = JoinSet::new();
            for nth in round..(round + AT_ONCE).min(rounds) {
                twins.spawn(twin(nth % 1000 == 0));
            }
            twins.join_all().await;
        }
    });
    drop(load);
    if let Ok(report) = reports.try_recv() {
        panic!("{report}");
    }
    let counts = rt.metrics().reports().iter().map(|(_, count)| *count).sum::<u64>();
    assert_eq!(counts, 0, "nor was one held back");
}

/// Runs the fixed twin, and ends it after `duration`.
async fn ended_after<F: Future>(duration: Duration, twin: impl FnOnce(Arc<AtomicBool>) -> F) {
    let stop = Arc::new(AtomicBool::new(false));
    let end = async {
        sleep(duration).await;
        stop.store(true, Relaxed);
    };
    wakeful::join!(twin(stop.clone()), end);
}

fn runtime() -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let mut builder = Builder::new_multi_thread();
    (builder.worker_threads(WORKERS).enable_all().on_report(hook).build().unwrap(), rx)
}

#[test]
fn sleeping_with_the_thread() {
    let (rt, reports) = runtime();
    // Without the rescue the interval does not tick while all workers sleep. With it, only the ticks before the rescue
    // are lost. A busy machine may start the second sleeper after the first has ended. So the sleep is doubled until
    // there were 36 ticks, 10 echoes and a poll on a spare thread.
    let mut duration = Duration::from_millis(400);
    let mut counts = Vec::new();
    loop {
        let blocked = stalls::sleeping_with_the_thread(Buggy, WORKERS, duration);
        let (ticks, echoes) = rt.block_on(blocked);
        counts.push((duration, ticks, echoes));
        if ticks >= 36 && echoes >= 10 && rt.metrics().spare_thread_polls() > 0 {
            break;
        }
        duration *= 2;
        assert!(duration < LIMIT, "the ticker and the server go on: {counts:?}");
    }
    let mut blocked = Vec::new();
    while blocked.len() < WORKERS {
        match reports.recv_timeout(LIMIT).unwrap() {
            Report::Blocked(report) => blocked.push(report),
            other => panic!("{other}"),
        }
    }
    for report in &blocked {
        assert_eq!(report.task().name(), Some("sleeper"));
        assert!(report.task().spawned_at().file().ends_with("stalls.rs"), "{report}");
        // `None` means that a spare thread was faster than the second worker.
        assert!(report.worker().is_none_or(|worker| worker < WORKERS), "{report}");
        assert!(report.duration() >= Duration::from_millis(100), "{report}");
        let stack = report.stack();
        assert!(stack.iter().any(|name| name.contains("sleeping_with_the_thread")), "{report}");
        assert!(stack.iter().any(|name| name.contains("sleep")), "{report}");
    }
    assert_ne!(blocked[0].task().id(), blocked[1].task().id());
    let workers = [0, 1].map(|nth| blocked[nth].worker());
    // With one attempt, the two reports are about the tasks that slept at the same time, on different threads.
    if counts.len() == 1 {
        assert!(workers[0] != workers[1] || workers == [None, None], "{workers:?}");
    }
    let spares = rt.metrics().spare_threads();
    assert!(rt.metrics().spare_threads_started() >= 1, "{spares} spares");
    // The spare threads end: the watchdog scans until the runtime is quiet.
    while rt.metrics().spare_threads() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn sleeping_as_a_task_is_no_stall() {
    no_report_of(|long| async move {
        let duration = Duration::from_millis(if long { 300 } else { 10 });
        stalls::sleeping_with_the_thread(Fixed, WORKERS, duration).await;
    });
}

#[test]
fn a_loop_without_an_await() {
    let (rt, reports) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let handle = rt.handle().clone();
    let blocks =
        std::thread::spawn(move || handle.block_on(stalls::a_loop_without_an_await(Buggy, until)));
    let report = reports.recv_timeout(LIMIT).unwrap();
    println!("{report}");
    let Report::Blocked(blocked) = &report else { panic!("{report}") };
    assert_eq!(blocked.task().name(), Some("number cruncher"));
    assert!(blocked.worker().is_some_and(|worker| worker < WORKERS));
    let stack = blocked.stack().to_vec();
    // Another task runs while this one blocks.
    rt.block_on(rt.spawn(async {})).unwrap();
    stop.store(true, Relaxed);
    blocks.join().unwrap();
    assert!(stack.iter().any(|name| name.contains("spin_until")), "{report}");
    assert!(!stack.iter().any(|name| name.contains("wakeful::scheduler")), "{report}");
    assert!(blocked.task().spawned_at().file().ends_with("stalls.rs"), "{report}");
    assert!(reports.try_recv().is_err(), "reported once");
}

#[test]
fn a_loop_on_a_thread_of_its_own_is_no_stall() {
    no_report_of(|long| async move {
        let duration = Duration::from_millis(if long { 300 } else { 1 });
        ended_after(duration, |stop| stalls::a_loop_without_an_await(Fixed, stop)).await;
    });
}

#[test]
fn a_self_waking_spinner() {
    let (rt, reports) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let handle = rt.handle().clone();
    let spins =
        std::thread::spawn(move || handle.block_on(stalls::a_self_waking_spinner(Buggy, until)));
    let report = reports.recv_timeout(LIMIT).unwrap();
    println!("{report}");
    let Report::Spinning(spinning) = &report else { panic!("{report}") };
    assert_eq!(spinning.task().name(), Some("spinner"));
    assert!(spinning.polls() >= 20_000 && spinning.within() >= Duration::from_secs(1), "{report}");
    assert!(spinning.task().spawned_at().file().ends_with("stalls.rs"), "{report}");
    stop.store(true, Relaxed);
    spins.join().unwrap();
    assert_quoted("a_self_waking_spinner", &report);
}

#[test]
fn sleeping_between_two_looks_is_no_spinning() {
    no_report_of(|long| async move {
        let duration = Duration::from_millis(if long { 1300 } else { 5 });
        ended_after(duration, |stop| stalls::a_self_waking_spinner(Fixed, stop)).await;
    });
}

#[test]
fn a_loop_over_a_closed_channel() {
    let (rt, reports) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let handle = rt.handle().clone();
    let loops = std::thread::spawn(move || {
        handle.block_on(stalls::a_loop_over_a_closed_channel(Buggy, until))
    });
    let report = reports.recv_timeout(LIMIT).unwrap();
    println!("{report}");
    let Report::FutileLoop(futile) = &report else { panic!("{report}") };
    assert_eq!(futile.task().name(), Some("consumer"));
    assert!(futile.count() >= 10_000 && futile.duration() >= Duration::from_secs(1), "{report}");
    assert!(futile.site().unwrap().file().ends_with("stalls.rs"), "{report}");
    stop.store(true, Relaxed);
    loops.join().unwrap();
    assert_quoted("a_loop_over_a_closed_channel", &report);
}

#[test]
fn leaving_the_loop_at_the_end_of_the_channel_is_not_reported() {
    no_report_of(|_| stalls::a_loop_over_a_closed_channel(Fixed, Arc::default()));
}

/// A current-thread runtime has no worker to take over, but the watchdog reports its stalls.
#[test]
fn stalls_of_a_current_thread_runtime() {
    type Bug = fn(Arc<AtomicBool>) -> Pin<Box<dyn Future<Output = ()>>>;
    let bugs: [Bug; 2] = [
        |stop| Box::pin(stalls::a_loop_without_an_await(Buggy, stop)),
        |stop| Box::pin(stalls::a_self_waking_spinner(Buggy, stop)),
    ];
    for bug in bugs {
        let (tx, rx) = channel();
        let hook = move |report: &Report| drop(tx.send(report.clone()));
        let rt = Builder::new_current_thread().enable_all().on_report(hook).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let stuck = std::thread::spawn(move || rt.block_on(bug(until)));
        let report = rx.recv_timeout(LIMIT).unwrap();
        println!("{report}");
        match &report {
            Report::Blocked(blocked) => {
                assert_eq!(blocked.task().name(), Some("number cruncher"));
                assert_eq!(blocked.worker(), Some(0));
                assert!(blocked.duration() >= Duration::from_millis(100), "{report}");
                let names = |name: &String| name.contains("spin_until");
                assert!(blocked.stack().iter().any(names), "{report}");
            }
            Report::Spinning(spinning) => assert_eq!(spinning.task().name(), Some("spinner")),
            other => panic!("{other}"),
        }
        stop.store(true, Relaxed);
        stuck.join().unwrap();
        assert!(rx.try_recv().is_err(), "reported once, and nothing else");
    }
}

/// A `block_on` future that delays a task is reported like a task.
#[test]
fn a_block_on_that_delays_a_task_is_reported() {
    // The future blocks in its first poll or in a later one. It delays an earlier task, or a task that it spawned.
    for (yields, spawns) in [(false, false), (true, false), (false, true)] {
        let (rt, reports) = current_thread();
        let waits = || rt.spawn(async { sleep(LIMIT).await });
        let _before = (!spawns).then(waits);
        let (report, line) = rt.block_on(async {
            let _own = spawns.then(waits);
            if yields {
                wakeful::task::yield_now().await;
            }
            (waits_with_the_thread(&reports), line!() - 5)
        });
        println!("{report}");
        let Report::Blocked(blocked) = &report else { panic!("{report}") };
        assert!(blocked.task().is_block_on() && blocked.task().id().is_none());
        assert_eq!((blocked.task().name(), blocked.worker()), (Some("main"), Some(0)));
        let site = blocked.task().spawned_at();
        assert!(site.file().ends_with("gallery_stalls.rs"), "{report}");
        assert_eq!(site.line(), line, "{report}");
        assert!(blocked.duration() >= Duration::from_millis(100), "{report}");
        let stack = blocked.stack();
        assert!(stack.iter().any(|name| name.contains("waits_with_the_thread")), "{report}");
        assert!(reports.try_recv().is_err(), "reported once, and nothing else");
    }
    let (rt, reports) = current_thread();
    let _waits = rt.spawn(async { sleep(LIMIT).await });
    let report = rt.block_on(std::future::poll_fn(|cx| match reports.try_recv() {
        Ok(report) => std::task::Poll::Ready(report),
        Err(_) => {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    }));
    println!("{report}");
    let Report::Spinning(spinning) = &report else { panic!("{report}") };
    assert!(spinning.task().is_block_on());
    assert_eq!(spinning.task().name(), Some("main"));
    assert!(spinning.task().spawned_at().file().ends_with("gallery_stalls.rs"), "{report}");
    assert!(spinning.polls() >= 20_000 && spinning.within() >= Duration::from_secs(1), "{report}");
}

/// A task of a local set that keeps its thread is named, not the `block_on` that the set is in.
#[test]
fn a_stall_of_a_local_task() {
    let (rt, reports) = current_thread();
    let set = wakeful::task::LocalSet::new();
    let _waits = set.spawn_local(async { sleep(LIMIT).await });
    let (report, id) = set.block_on(&rt, async move {
        let stalls = wakeful::task::Builder::new().name("local");
        let stalls = stalls.spawn_local(async move { waits_with_the_thread(&reports) }).unwrap();
        let id = stalls.id();
        (stalls.await.unwrap(), id)
    });
    println!("{report}");
    let Report::Blocked(blocked) = &report else { panic!("{report}") };
    assert_eq!((blocked.task().name(), blocked.task().id()), (Some("local"), Some(id)));
    assert!(blocked.duration() >= Duration::from_millis(100), "{report}");
    assert!(blocked.stack().iter().any(|name| name.contains("waits_with_the_thread")), "{report}");
}

#[inline(never)]
fn waits_with_the_thread(reports: &Receiver<Report>) -> Report {
    reports.recv_timeout(LIMIT).expect("a poll that waits for its own report gets it")
}

fn current_thread() -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let mut builder = Builder::new_current_thread();
    (builder.enable_all().block_on_name("main").on_report(hook).build().unwrap(), rx)
}

/// A `block_on` future may keep its thread if no task waits for it, and may be polled as often as others wake it.
#[test]
fn a_block_on_that_delays_no_task_is_no_stall() {
    let (rt, reports) = current_thread();
    // Only the future itself waits for this timer.
    rt.block_on(async {
        let sleeps = async {
            wakeful::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(300)); // a real sleep: longer than the limit of a report
        };
        wakeful::time::timeout(LIMIT, sleeps).await.unwrap();
    });
    let (tx, mut rx) = wakeful::sync::mpsc::channel(1);
    let started = std::time::Instant::now();
    rt.spawn(async move {
        while started.elapsed() < Duration::from_millis(1500) {
            tx.send(()).await.unwrap();
        }
    });
    let received = rt.block_on(async {
        let mut received = 0u64;
        while rx.recv().await.is_some() {
            received += 1;
        }
        received
    });
    assert!(received > 0);
    if let Ok(report) = reports.try_recv() {
        panic!("{report}");
    }
}

#[test]
fn the_rescue_can_be_switched_off() {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .rescue_after(None)
        .report_blocked_after(Some(Duration::from_millis(30)));
    let rt = builder.on_report(hook).build().unwrap();
    let (release, released) = channel::<()>();
    let (in_poll, is_in_poll) = channel();
    let stuck = rt.spawn(async move {
        in_poll.send(()).unwrap();
        let _ = released.recv();
    });
    is_in_poll.recv().unwrap();
    let after = rt.spawn(async {});
    assert!(matches!(rx.recv_timeout(LIMIT).unwrap(), Report::Blocked(_)));
    assert!(!after.is_finished(), "rescue is off");
    assert_eq!(rt.metrics().spare_threads_started(), 0);
    drop(release);
    rt.block_on(stuck).unwrap();
    rt.block_on(after).unwrap();
}

/// The watchdog is already awake for the first runtime when the second one stalls.
#[test]
fn two_current_thread_runtimes_are_both_watched() {
    let (tx, rx) = channel();
    let busy = Arc::new(AtomicBool::new(true));
    let until = busy.clone();
    let (started, has_started) = channel();
    let other = std::thread::spawn(move || {
        let rt = Builder::new_current_thread().build().unwrap();
        rt.block_on(rt.spawn(async move {
            for turn in 0u64.. {
                if turn == 1_000 {
                    started.send(()).unwrap();
                }
                if !until.load(Relaxed) {
                    break;
                }
                wakeful::task::yield_now().await;
            }
        }))
        .unwrap();
    });
    has_started.recv_timeout(LIMIT).unwrap();
    let hook = move |report: &Report| _ = tx.send(report.kind());
    let rt = Builder::new_current_thread().on_report(hook).build().unwrap();
    let blocked = rt.spawn(async move { rx.recv_timeout(LIMIT) });
    let report = rt.block_on(blocked).unwrap();
    busy.store(false, Relaxed);
    other.join().unwrap();
    assert!(report.is_ok(), "a poll that waits for its own report gets it");
}

/// A hook that waits for a task of the runtime stops waiting when the tasks are dropped.
#[test]
fn a_runtime_ends_although_its_hook_waits_for_one_of_its_tasks() {
    let (full, mut never_asked) = wakeful::sync::mpsc::channel(1);
    full.try_send(0).unwrap();
    let (tx, rx) = channel();
    let hook = move |_: &Report| {
        let _ = tx.send(());
        assert!(full.blocking_send(1).is_err(), "the receiver was dropped");
    };
    let rt = Builder::new_current_thread().on_report(hook).build().unwrap();
    let receiver = async move {
        std::future::pending::<()>().await;
        never_asked.recv().await
    };
    rt.spawn(wakeful::task::may_wait_forever(receiver));
    let blocked = rt.spawn(async move { rx.recv_timeout(LIMIT).map(|()| rx) });
    let _rx = rt.block_on(blocked).unwrap().expect("it is reported while it blocks");
    drop(rt);
}
