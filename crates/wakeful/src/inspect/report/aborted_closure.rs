//! Closures of the blocking pool that still run after they were aborted.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A blocking closure that was aborted while it ran and still runs seconds later.
///
/// An abort has no effect on a closure of [`spawn_blocking`](crate::task::spawn_blocking) that has
/// started. The report is [suspected](super::Certainty::Suspected): the closure may end by itself.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::task::spawn_blocking;
///
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(|_| {})
///     .build()?;
/// let (end, ended) = mpsc::channel::<()>();
/// let (start, started) = wakeful::sync::oneshot::channel();
/// rt.block_on(async {
///     let closure = spawn_blocking(move || {
///         start.send(()).unwrap();
///         ended.recv()
///     });
///     started.await.unwrap();
///     closure.abort();
///     let found = Handle::current().diagnose();
///     let Report::AbortedClosure(report) = &found[0] else { panic!("{found:?}") };
///     assert_eq!(report.task().id(), Some(closure.id()));
/// });
/// drop(end);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AbortedClosure {
    task: TaskInfo,
    since: Duration,
    stamp: Stamp,
}

impl AbortedClosure {
    pub(crate) fn new(task: TaskInfo, since: Duration) -> Self {
        Self { task, since, stamp: Stamp::now() }
    }

    /// Returns the closure, which is a task of the blocking pool.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the minimum time since the closure was aborted.
    pub fn since(&self) -> Duration {
        self.since
    }
}

impl Content for AbortedClosure {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

impl fmt::Display for AbortedClosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "aborted closure (suspected): the closure of {} was aborted at least {} ago, and still runs",
            self.task,
            Short(self.since)
        )?;
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(
            "  why: abort drops a future at its next .await. A closure of spawn_blocking has none, so an abort after \
             its start has no effect.\n  \
             effect: it occupies a thread of the blocking pool, and a drop of the runtime waits for it.\n  \
             fix: give the closure a flag or a channel, and return when it is set or closed.",
        )
    }
}
