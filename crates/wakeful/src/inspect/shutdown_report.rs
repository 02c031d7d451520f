//! [`ShutdownReport`]: what a runtime shutdown found, and what it left behind.

use super::dump::text::Count;
use super::dump::{Dump, TaskState};
use super::report::{Short, SlowShutdown};
use std::fmt;
use std::time::Duration;

/// What was alive when a runtime began to shut down, and what was still alive at the end.
///
/// [`Runtime::shutdown_with_report`](crate::runtime::Runtime::shutdown_with_report) returns it. It
/// answers two questions:
///
/// - Which tasks kept a graceful shutdown from ending? [`before`](Self::before) lists them, with
///   what each task waited for and where. The shutdown has dropped them since.
/// - What does the shutdown leave behind? [`late`](Self::late) lists the polls, closures and
///   threads that did not end within the limit, with what they wait for. With a limit of a second
///   or more, it includes their stacks.
///
/// The `Display` prints both.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::runtime::Builder;
/// use wakeful::sync::mpsc;
///
/// let rt = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let (sender, mut receiver) = mpsc::channel::<()>(1);
/// let consumer = rt.spawn(async move { receiver.recv().await });
/// # while rt.handle().dump().find(consumer.id()).unwrap().waiting_on().is_none() {
/// #     std::thread::yield_now();
/// # }
/// let report = rt.shutdown_with_report(Duration::from_secs(60));
/// let task = report.before().find(consumer.id()).unwrap();
/// assert_eq!(task.waiting_on().unwrap().kind(), "mpsc::Receiver::recv");
/// assert!(report.is_complete() && report.late().is_none());
/// println!("{report}");
/// # drop(sender);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShutdownReport {
    before: Dump,
    waited: Duration,
    late: Option<SlowShutdown>,
}

impl ShutdownReport {
    pub(crate) fn new(before: Dump, waited: Duration, late: Option<SlowShutdown>) -> Self {
        Self { before, waited, late }
    }

    /// Returns the tasks and workers of the runtime when the shutdown began.
    ///
    /// The shutdown has dropped the tasks that were waiting, except tasks of a
    /// [`LocalSet`](crate::task::LocalSet).
    pub fn before(&self) -> &Dump {
        &self.before
    }

    /// Returns how long the shutdown took, or its limit if it was reached.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns what was still alive when the limit was reached, or `None` if everything ended in
    /// time.
    pub fn late(&self) -> Option<&SlowShutdown> {
        self.late.as_ref()
    }

    /// Returns whether all tasks were dropped and all threads ended in time.
    pub fn is_complete(&self) -> bool {
        self.late.is_none()
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.before.tasks().iter();
        let alive = tasks.filter(|it| it.id().is_some() && it.state() != TaskState::Done).count();
        let outcome = if self.is_complete() { "complete" } else { "incomplete" };
        let (waited, alive) = (Short(self.waited), Count(alive as u64, "task"));
        writeln!(f, "shutdown: {outcome} after {waited}, {alive} alive when it began")?;
        f.write_str(self.before.to_string().trim_end())?;
        match &self.late {
            Some(late) => write!(f, "\n{late}"),
            None => Ok(()),
        }
    }
}
