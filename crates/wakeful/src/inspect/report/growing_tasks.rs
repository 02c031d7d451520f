//! Tasks of one spawn site whose number only grows.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// Many tasks of one spawn site whose number only grows, while the old ones neither run nor end.
///
/// The tasks are [suspected](super::Certainty::Suspected) of being a leak. They may be idle on
/// purpose, like the tasks of idle connections, or may all end together. Tasks that [may wait
/// forever](crate::task::may_wait_forever) do not count. A single burst of tasks is not reported.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Notify;
/// use wakeful::time::sleep;
///
/// let rt = Builder::new_current_thread()
///     .enable_time()
///     .start_paused(true)
///     .on_report(|_| {})
///     .build()?;
/// rt.block_on(async {
///     let notify = Arc::new(Notify::new());
///     let mut found = Vec::new();
///     for count in [1000, 200, 200, 200, 200] {
///         for _ in 0..count {
///             let notify = notify.clone();
///             wakeful::spawn(async move { notify.notified().await });
///         }
///         sleep(Duration::from_secs(3)).await;
///         found = Handle::current().diagnose();
///     }
///     let [Report::GrowingTasks(report)] = &*found else { panic!("{found:?}") };
///     assert_eq!((report.alive_before(), report.alive()), (1000, 1800));
///     assert_eq!(report.unmoved(), 1000);
///     assert_eq!(report.kind(), Some("Notify::notified"));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GrowingTasks {
    spawned_at: &'static Location<'static>,
    alive: usize,
    alive_before: usize,
    unmoved: usize,
    within: Duration,
    wait: Option<CommonWait>,
    stamp: Stamp,
}

/// The wait that most of the tasks have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommonWait {
    pub(crate) kind: WaitKind,
    pub(crate) site: &'static Location<'static>,
    /// The words that precede the site and say what it is.
    pub(crate) site_label: &'static str,
    pub(crate) tasks: usize,
}

impl GrowingTasks {
    pub(crate) fn new(
        spawned_at: &'static Location<'static>,
        alive: usize,
        alive_before: usize,
        unmoved: usize,
        within: Duration,
    ) -> Self {
        let (wait, stamp) = (None, Stamp::now());
        Self { spawned_at, alive, alive_before, unmoved, within, wait, stamp }
    }

    /// Adds the wait that most of the tasks have in common.
    pub(crate) fn with_wait(self, wait: Option<CommonWait>) -> Self {
        // The waiting tasks are counted after the living ones, so their number may be higher.
        let wait = wait.map(|it| CommonWait { tasks: it.tasks.min(self.alive), ..it });
        Self { wait, ..self }
    }

    /// Returns where the tasks are spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// Returns how many of the tasks are alive.
    pub fn alive(&self) -> usize {
        self.alive
    }

    /// Returns how many tasks were alive at the start of the [measured time](Self::within).
    pub fn alive_before(&self) -> usize {
        self.alive_before
    }

    /// Returns how many of the tasks [alive before](Self::alive_before) have not run since.
    pub fn unmoved(&self) -> usize {
        self.unmoved
    }

    /// Returns the measured time.
    pub fn within(&self) -> Duration {
        self.within
    }

    /// Returns the call in which most of the tasks wait, for example `"mpsc::Receiver::recv"`.
    pub fn kind(&self) -> Option<&'static str> {
        self.wait.map(|wait| wait.kind.name())
    }

    /// Returns the site of the call in which most of the tasks wait.
    pub fn site(&self) -> Option<&'static Location<'static>> {
        self.wait.map(|wait| wait.site)
    }
}

impl Content for GrowingTasks {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        Vec::new() // there are too many
    }
}

impl fmt::Display for GrowingTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spawned_at, alive, alive_before, unmoved, .. } = self;
        let within = Short(self.within);
        writeln!(
            f,
            "growing tasks (suspected): {alive} tasks spawned at {spawned_at} are alive, \
             {alive_before} were {within} ago, and {unmoved} of those have not run since"
        )?;
        if let Some(CommonWait { kind, site, site_label, tasks }) = self.wait {
            let phrase = kind.phrase();
            field(
                f,
                "    ",
                "waiting",
                format_args!("{tasks} of them for {phrase}, {site_label} {site}"),
            )?;
        }
        f.write_str(
            "  assumes: the tasks are meant to end. If they are meant to be idle, this is not a bug.\n  \
             likely cause: each of them waits for an event that does not happen, or work arrives faster than it \
             completes.\n  \
             fix: end a task when its peer is gone (time-out, closed channel, abort), and bound the number of tasks \
             with a Semaphore. Spawn tasks that are meant to wait with task::Builder::forever.",
        )
    }
}
