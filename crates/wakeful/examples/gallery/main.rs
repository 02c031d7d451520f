//! Shows the gallery of bugs: `cargo run --example gallery` all of them, `… gallery abba` one.
//!
//! Each bug runs in its own process and runtime, and its report is printed. It needs its own process,
//! because wakeful ends a stuck `block_on` only if the process has no other threads. `docs/WHY.md`
//! explains each report.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Runtime};

#[path = "mod.rs"]
mod gallery;

use gallery::Twin::Buggy;
use gallery::{stalls, waits};

/// A function that plants a bug in a runtime.
type Plant = fn(&Runtime, Arc<AtomicBool>);

macro_rules! waiting {
    ($($bug:ident)+) => {
        [$((stringify!($bug), (|rt, _| drop(rt.block_on(waits::$bug(Buggy)))) as Plant)),+]
    };
}

fn bugs() -> Vec<(&'static str, Plant)> {
    let mut bugs: Vec<(&'static str, Plant)> = waiting!(
        pending_without_a_waker a_future_that_moves a_sender_dropped_without_waking abba locking_twice
        reading_and_writing a_lock_held_across_a_join a_ring_of_channels futurelock an_unobserved_panic
    )
    .into();
    bugs.push(("everything_asleep", |rt, _| {
        // It ends with a panic whose message is the report.
        let ends = || rt.block_on(waits::everything_asleep(Buggy));
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ends));
    }));
    bugs.push(("sleeping_with_the_thread", |rt, _| {
        let duration = Duration::from_millis(300);
        let (ticks, echoes) = rt.block_on(stalls::sleeping_with_the_thread(Buggy, 2, duration));
        println!(
            "(meanwhile, a ticker ticked {ticks} times, and a server answered {echoes} times)"
        );
    }));
    bugs.push(("a_loop_without_an_await", |rt, stop| {
        rt.spawn(stalls::a_loop_without_an_await(Buggy, stop));
    }));
    bugs.push(("a_self_waking_spinner", |rt, stop| {
        rt.spawn(stalls::a_self_waking_spinner(Buggy, stop));
    }));
    bugs.push(("a_loop_over_a_closed_channel", |rt, stop| {
        rt.spawn(stalls::a_loop_over_a_closed_channel(Buggy, stop));
    }));
    bugs
}

fn runtime() -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().block_on_name("main").on_report(hook);
    (builder.build().expect("threads can be started"), rx)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&str> = bugs().iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        eprintln!("there is no bug {unknown:?} here, but {}", names.join(", "));
        std::process::exit(2);
    }
    if wanted.len() != 1 {
        let gallery = std::env::current_exe().expect("the gallery has a file");
        let shown =
            if wanted.is_empty() { names } else { wanted.iter().map(String::as_str).collect() };
        for name in shown {
            let status = Command::new(&gallery).arg(name).status().expect("the gallery starts");
            assert!(status.success(), "{name} ended with {status}");
        }
        return;
    }
    for (name, plant) in bugs().into_iter().filter(|(name, _)| *name == wanted[0]) {
        println!("\n── {name} ──");
        let (rt, reports) = runtime();
        let stop = Arc::new(AtomicBool::new(false));
        plant(&rt, stop.clone());
        match reports.recv_timeout(Duration::from_secs(30)) {
            Ok(report) => println!("{report}"),
            Err(_) => println!("no report came, which is a bug of wakeful's"),
        }
        stop.store(true, Relaxed);
        rt.shutdown_background();
    }
}
