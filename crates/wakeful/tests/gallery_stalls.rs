//! The gallery of bugs, those of tasks that keep their thread to themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Runtime};

#[path = "../examples/gallery/mod.rs"]
#[allow(dead_code, reason = "the bugs of waiting have their own tests")]
mod gallery;

use gallery::Twin::{Buggy, Fixed};
use gallery::stalls;

const LIMIT: Duration = Duration::from_secs(60);
const WORKERS: usize = 2;

fn runtime() -> (Runtime, Receiver<Report>) {
    let (tell, told) = channel();
    let hook = move |report: &Report| drop(tell.send(report.clone()));
    let mut builder = Builder::new_multi_thread();
    (builder.worker_threads(WORKERS).enable_all().on_report(hook).build().unwrap(), told)
}

#[test]
fn sleeping_with_the_thread() {
    let (rt, told) = runtime();
    let how_long = Duration::from_millis(400);
    let (ticks, echoes) = rt.block_on(stalls::sleeping_with_the_thread(Buggy, WORKERS, how_long));
    // 40 ticks are due. Those of the time until the rescue come late, not never; what is lost is what had not
    // come by the end.
    assert!(ticks >= 34, "the ticker goes on: {ticks} ticks");
    assert!(echoes >= 10, "the server goes on: {echoes} echoes");
    let mut blocked = Vec::new();
    while blocked.len() < WORKERS {
        match told.recv_timeout(LIMIT).unwrap() {
            Report::Blocked(report) => blocked.push(report),
            other => panic!("{other}"),
        }
    }
    for report in &blocked {
        assert_eq!(report.task().name(), Some("sleeper"));
        assert!(report.how_long() >= Duration::from_millis(100), "{report}");
        let stack = report.stack();
        assert!(stack.iter().any(|name| name.contains("sleeping_with_the_thread")), "{report}");
        assert!(stack.iter().any(|name| name.contains("sleep")), "{report}");
    }
    assert_ne!(blocked[0].task().id(), blocked[1].task().id());
    let spares = rt.metrics().spare_threads();
    assert!(rt.metrics().spare_threads_started() >= 1, "{spares} spares");
    // They leave again: the monitor goes on looking until all is quiet.
    while rt.metrics().spare_threads() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn sleeping_as_a_task_is_no_stall() {
    let (rt, told) = runtime();
    let how_long = Duration::from_millis(150);
    let (ticks, echoes) = rt.block_on(stalls::sleeping_with_the_thread(Fixed, WORKERS, how_long));
    assert!(ticks >= 5 && echoes >= 5, "{ticks} {echoes}");
    assert!(told.try_recv().is_err());
}

#[test]
fn a_loop_without_an_await() {
    let (rt, told) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let handle = rt.handle().clone();
    let blocks =
        std::thread::spawn(move || handle.block_on(stalls::a_loop_without_an_await(Buggy, until)));
    let report = told.recv_timeout(LIMIT).unwrap();
    println!("{report}");
    let Report::Blocked(blocked) = &report else { panic!("{report}") };
    assert_eq!(blocked.task().name(), Some("number cruncher"));
    assert!(blocked.worker().is_some_and(|worker| worker < WORKERS));
    let stack = blocked.stack().to_vec();
    // Others run meanwhile.
    rt.block_on(rt.spawn(async {})).unwrap();
    stop.store(true, Relaxed);
    blocks.join().unwrap();
    assert!(stack.iter().any(|name| name.contains("digits_of_nothing")), "{report}");
    assert!(!stack.iter().any(|name| name.contains("wakeful::scheduler")), "{report}");
    rt.block_on(async {
        let over = Arc::new(AtomicBool::new(true));
        for _ in 0..100 {
            let mut runs = wakeful::task::JoinSet::new();
            for _ in 0..100 {
                runs.spawn(stalls::a_loop_without_an_await(Fixed, over.clone()));
            }
            runs.join_all().await;
        }
    });
    assert!(told.try_recv().is_err());
}

#[test]
fn a_self_waking_spinner() {
    let (rt, told) = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let handle = rt.handle().clone();
    let spins =
        std::thread::spawn(move || handle.block_on(stalls::a_self_waking_spinner(Buggy, until)));
    let report = told.recv_timeout(LIMIT).unwrap();
    println!("{report}");
    let Report::Spinning(spinning) = &report else { panic!("{report}") };
    assert_eq!(spinning.task().name(), Some("spinner"));
    assert!(spinning.polls() >= 20_000 && spinning.within() >= Duration::from_secs(1), "{report}");
    stop.store(true, Relaxed);
    spins.join().unwrap();
    rt.block_on(async {
        for _ in 0..10_000 {
            stalls::a_self_waking_spinner(Fixed, Arc::new(AtomicBool::new(true))).await;
        }
    });
    assert!(told.try_recv().is_err());
}

#[test]
fn the_rescue_can_be_switched_off() {
    let (tell, told) = channel();
    let hook = move |report: &Report| drop(tell.send(report.clone()));
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
    assert!(matches!(told.recv_timeout(LIMIT).unwrap(), Report::Blocked(_)));
    assert!(!after.is_finished(), "nobody rescues");
    assert_eq!(rt.metrics().spare_threads_started(), 0);
    drop(release);
    rt.block_on(stuck).unwrap();
    rt.block_on(after).unwrap();
}
