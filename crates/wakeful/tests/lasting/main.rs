//! Situations that last: locks that are not released, tasks that only become more, panics that no task learns of,
//! closures that run after an abort. Each has a twin in which nothing is wrong, and nothing is reported.
//!
//! On a current-thread runtime the clock is paused and moved by hand. On a multi-thread runtime every situation counts
//! as lasting at once.

#[path = "../support/settle.rs"]
mod settle;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::runtime::{Builder, Handle, Runtime};
use wakeful::task::{self, JoinHandle};
use wakeful::time::advance;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A runtime whose clock only moves by `advance`, with the default time of three seconds.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).on_report(|_| ()).build().unwrap()
}

/// A runtime on which each situation counts as lasting at once, and what it reports.
fn hasty() -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().report_lasting_after(Some(Duration::ZERO));
    builder.report_blocked_after(None);
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    (builder.on_report(hook).build().unwrap(), rx)
}

/// Runs a program on both kinds of runtime. It calls `pass` where time passes.
macro_rules! on_both {
    ($program:expr) => {{
        paused().block_on(async { $program(Clock::Paused).await });
        let (rt, _told) = hasty();
        rt.block_on(async { $program(Clock::Hasty).await });
        rt.shutdown_background();
    }};
}

#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Paused,
    Hasty,
}

impl Clock {
    /// Lets three seconds pass, with a scan in each.
    async fn pass(self) {
        if self == Clock::Paused {
            for _ in 0..3 {
                diagnose();
                advance(SECOND).await;
            }
        }
    }
}

fn diagnose() -> Vec<Report> {
    Handle::current().diagnose()
}

/// Returns the only report, if it is of this kind.
macro_rules! only {
    ($reports:expr, $kind:ident) => {
        match &*$reports {
            [Report::$kind(it)] => it.clone(),
            others => panic!("expected one {}: {others:#?}", stringify!($kind)),
        }
    };
}

// After the macros, which they use.
mod growing;
mod results;
mod slow_holders;

fn spawn_named<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    task::Builder::new().name(name).spawn(future).unwrap()
}
