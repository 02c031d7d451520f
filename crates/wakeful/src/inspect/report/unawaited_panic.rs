//! A panic that no task has learned of, because the JoinHandle is kept and not awaited.

use super::Content;
use super::stamp::Stamp;
use super::text::{POLICY_HINT, Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A task that panicked some seconds ago, and whose `JoinHandle` is kept and was not awaited.
///
/// A [`JoinSet`](crate::task::JoinSet) that keeps the task counts as a handle. The report is
/// [suspected](super::Certainty::Suspected): the program may still await the handle. If it drops
/// the handle instead, the panic is reported as [`UnobservedPanic`](super::UnobservedPanic).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
///
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(|_| {})
///     .build()?;
/// rt.block_on(async {
///     let task = wakeful::spawn(async { panic!("a bug") });
///     wakeful::task::yield_now().await;
///     let found = Handle::current().diagnose();
///     let Report::UnawaitedPanic(report) = &found[0] else { panic!("{found:?}") };
///     assert_eq!(report.task().id(), Some(task.id()));
///     assert!(task.await.unwrap_err().is_panic());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnawaitedPanic {
    task: TaskInfo,
    is_closure: bool,
    since: Duration,
    policy: Option<&'static str>,
    stamp: Stamp,
}

impl UnawaitedPanic {
    pub(crate) fn new(task: TaskInfo, is_closure: bool, since: Duration) -> Self {
        Self { task, is_closure, since, policy: None, stamp: Stamp::now() }
    }

    pub(crate) fn with_policy(self, policy: Option<&'static str>) -> Self {
        Self { policy, ..self }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns whether the task is a closure of [`spawn_blocking`](crate::task::spawn_blocking).
    pub fn is_closure(&self) -> bool {
        self.is_closure
    }

    /// Returns how long ago the task panicked, at least.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Returns what the runtime does because of the panic, if it does more than to report it.
    ///
    /// The text names the setting, for example `abort the process (WAKEFUL_ON_PANIC=abort)`. See
    /// [`UnhandledPanic`](crate::runtime::UnhandledPanic).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// for report in Handle::current().diagnose() {
    ///     if let Report::UnawaitedPanic(panic) = report {
    ///         assert_eq!(panic.policy(), None, "a diagnosis does nothing to the runtime");
    ///     }
    /// }
    /// # }
    /// ```
    pub fn policy(&self) -> Option<&str> {
        self.policy
    }
}

impl Content for UnawaitedPanic {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

impl fmt::Display for UnawaitedPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.is_closure { "the closure of " } else { "" };
        writeln!(
            f,
            "unawaited panic (suspected): {noun}{} panicked at least {} ago, and its JoinHandle is kept and was not \
             awaited since",
            self.task,
            Short(self.since)
        )?;
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        if let Some(policy) = self.policy {
            field(f, "    ", "policy", policy)?;
        }
        f.write_str(
            "  effect: no code of the program knows of the panic yet.\n  \
             likely cause: handles are awaited one after the other, and an earlier one does not end; or they are \
             awaited only at shutdown.\n  \
             fix: collect the tasks in a JoinSet and await join_next, or await the handles with try_join!.",
        )?;
        match self.policy {
            Some(_) => Ok(()),
            None => f.write_str(POLICY_HINT),
        }
    }
}
