//! The last chapters: four bugs of the gallery, with the reports that explain why a task is not running.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wakeful::inspect::Report;
use wakeful::process::Command;
use wakeful::runtime::{Builder, Runtime};
use wakeful::time::timeout;

use crate::gallery::Twin::Buggy;
use crate::gallery::{stalls, waits};
use crate::guide::{Guide, Page};

/// The time limit for a report. Reports take a fraction of a second.
const LIMIT: Duration = Duration::from_secs(20);

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "Two tasks that wait for each other",
        "Each task holds one lock and waits for the other's. When the runtime is quiet, the watchdog scans
         the wait graph and reports the cycle: each task, its lock, where it waits, and where the holder
         acquired the lock.",
        abba,
    );
    guide.chapter(
        "A lock that is granted to a future that is not polled",
        "select! over a reference to a lock's future takes another branch, which locks again. The lock is
         granted to the first future, which is not polled any more.",
        futurelock,
    );
    guide.chapter(
        "Every worker is blocked",
        "Two tasks call std::thread::sleep on a runtime with two workers. A ticker and an echo server go on,
         on spare threads. The report names the function that blocks.",
        blocked,
    );
    guide.chapter(
        "block_on can never return",
        "In a process of its own, block_on awaits a task that no event can wake. No other thread or timer
         is left, so block_on panics with a report and a dump of all tasks.",
        stuck_block_on,
    );
}

fn runtime() -> (Runtime, Receiver<Report>) {
    let (tx, rx) = channel();
    let hook = move |report: &Report| drop(tx.send(report.clone()));
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().block_on_name("tour").on_report(hook);
    (builder.build().expect("threads can be started"), rx)
}

fn abba(page: &mut Page<'_>) {
    let (rt, reports) = runtime();
    let lines = rt.block_on(waits::abba(Buggy));
    let Ok(Report::Deadlock(deadlock)) = reports.recv_timeout(LIMIT) else {
        return page.expect(false, "a deadlock is reported");
    };
    page.show(&deadlock);
    let names: Vec<_> = deadlock.edges().iter().filter_map(|edge| edge.task().name()).collect();
    page.expect(names == ["first", "second"], "both tasks are named");
    let sites = deadlock.edges().iter().map(|edge| edge.site().line()).eq([lines[1], lines[3]]);
    page.expect(sites, "with the sites where they wait");
    rt.shutdown_background();
}

fn futurelock(page: &mut Page<'_>) {
    let (rt, reports) = runtime();
    rt.block_on(waits::futurelock(Buggy));
    let Ok(Report::Futurelock(futurelock)) = reports.recv_timeout(LIMIT) else {
        return page.expect(false, "a futurelock is reported");
    };
    page.show(&futurelock);
    page.expect(futurelock.edges()[0].is_unpolled(), "the forgotten future is named");
    rt.shutdown_background();
}

fn blocked(page: &mut Page<'_>) {
    let (rt, reports) = runtime();
    let duration = Duration::from_millis(300);
    let (ticks, echoes) = rt.block_on(stalls::sleeping_with_the_thread(Buggy, 2, duration));
    let Ok(Report::Blocked(blocked)) = reports.recv_timeout(LIMIT) else {
        return page.expect(false, "a blocked worker is reported");
    };
    page.show(&blocked);
    page.show(format_args!("meanwhile: {ticks} ticks of 10 ms, {echoes} echoes"));
    page.expect(blocked.task().name() == Some("sleeper"), "the task is named");
    page.expect(ticks > 5 && echoes > 5, "others went on");
}

/// The argument that makes the tour run [`everything_waits`] instead.
pub const EVERYTHING_WAITS: &str = "everything-waits";

/// Shows a `block_on` that ends, in a separate process. While the tour's other threads exist, one of them could
/// still abort the task, and `block_on` would keep waiting.
fn stuck_block_on(page: &mut Page<'_>) {
    let (rt, _) = runtime();
    let tour = std::env::current_exe().expect("the tour has a file");
    let ended = rt.block_on(async {
        let mut command = Command::new(tour);
        timeout(LIMIT, command.arg(EVERYTHING_WAITS).kill_on_drop(true).output()).await
    });
    let Ok(Ok(output)) = ended else {
        return page.expect(false, "block_on did not hang");
    };
    page.show(String::from_utf8_lossy(&output.stdout));
    page.expect(output.status.success(), "block_on ended with a panic that has the report");
}

/// Waits for a task that no event can wake, on the only runtime of the process, and prints the report.
pub fn everything_waits() -> ExitCode {
    let (rt, reports) = runtime();
    let ends = || rt.block_on(waits::everything_asleep(Buggy));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ends)).is_err();
    match reports.iter().find(|report| matches!(report, Report::StuckBlockOn(_))) {
        Some(report) if ended => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}
