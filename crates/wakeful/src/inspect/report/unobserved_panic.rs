//! Panics that no code of the program observed.

use super::Content;
use super::stamp::Stamp;
use super::text::{POLICY_HINT, field};
use crate::inspect::task_info::TaskInfo;
use crate::task::header::Header;
use crate::task::state::BLOCKING;
use std::any::Any;
use std::fmt;

/// A task that panicked and whose `JoinHandle` was dropped without being awaited.
///
/// The report is always [proven](super::Certainty::Proven).
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .report_blocked_after(None)
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// rt.block_on(async {
///     drop(wakeful::spawn(async { panic!("no such user") }));
///     wakeful::task::yield_now().await;
/// });
/// let Report::UnobservedPanic(report) = rx.recv().unwrap() else { panic!() };
/// assert_eq!(report.message(), Some("no such user"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnobservedPanic {
    task: TaskInfo,
    /// Whether the task is a closure of `spawn_blocking`.
    is_closure: bool,
    message: Option<String>,
    policy: Option<&'static str>,
    stamp: Stamp,
}

impl UnobservedPanic {
    pub(crate) fn new(task: &Header, payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let is_closure = task.state.load().has(BLOCKING);
        let (task, stamp) = (TaskInfo::of_task(task), Stamp::now());
        Self { task, is_closure, message, policy: None, stamp }
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

    /// Returns what the runtime does about the panic, if it does more than report it.
    ///
    /// The text names the setting, for example `abort the process (WAKEFUL_ON_PANIC=abort)`. See
    /// [`UnhandledPanic`](crate::runtime::UnhandledPanic).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::{Builder, UnhandledPanic};
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .on_report(move |report| drop(tx.send(report.clone())))
    ///     .unhandled_panic(UnhandledPanic::call(|_| {}))
    ///     .build()?;
    /// rt.block_on(async {
    ///     drop(wakeful::spawn(async { panic!("no such user") }));
    ///     wakeful::task::yield_now().await;
    /// });
    /// let Report::UnobservedPanic(report) = rx.recv().unwrap() else { panic!() };
    /// assert_eq!(report.policy(), Some("call a function (UnhandledPanic::Call)"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn policy(&self) -> Option<&str> {
        self.policy
    }

    /// Returns the panic message, if the payload is a string.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .report_blocked_after(None)
    ///     .on_report(move |report| drop(tx.send(report.clone())))
    ///     .build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(async { std::panic::panic_any(7) });
    ///     wakeful::task::yield_now().await;
    /// });
    /// let Report::UnobservedPanic(report) = rx.recv().unwrap() else { panic!() };
    /// assert_eq!(report.message(), None); // the payload is a number
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl Content for UnobservedPanic {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

/// Returns the error text of a runtime or `LocalSet` that shuts down because a task panicked:
/// `headline`, then the task.
pub(crate) fn fatal_panic_text(
    headline: &str,
    task: &Header,
    payload: &(dyn Any + Send),
    policy: &'static str,
) -> String {
    let panic = UnobservedPanic::new(task, payload).with_policy(Some(policy));
    let noun = if panic.is_closure { "closure" } else { "task" };
    format!("{headline}\n    {noun:<11} {}\n{}", panic.task, Fields(&panic)).trim_end().to_owned()
}

/// Describes the panic of a task or closure, for the failure of a simulation.
pub(crate) fn panic_text(task: &Header, payload: &(dyn Any + Send)) -> String {
    let panic = UnobservedPanic::new(task, payload);
    let noun = if panic.is_closure { "the closure of " } else { "" };
    format!("{noun}{} panicked\n{}", panic.task, Fields(&panic)).trim_end().to_owned()
}

/// The lines about the panic, with its message, the spawn site and the policy.
struct Fields<'a>(&'a UnobservedPanic);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let panic = self.0;
        if let Some(message) = &panic.message {
            field(f, "    ", "message", format_args!("{message:?}"))?;
        }
        field(f, "    ", "spawned", format_args!("at {}", panic.task.spawned_at()))?;
        match panic.policy {
            Some(policy) => field(f, "    ", "policy", policy),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UnobservedPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.is_closure { "the closure of " } else { "" };
        writeln!(
            f,
            "unobserved panic (proven): {noun}{} panicked, and its JoinHandle was dropped",
            self.task
        )?;
        Fields(self).fmt(f)?;
        f.write_str(match self.is_closure {
            true => {
                "  fix: keep the handle and await it, or collect closures in a JoinSet \
                 (JoinSet::spawn_blocking)."
            }
            false => "  fix: keep the handle and await it, or collect tasks in a JoinSet.",
        })?;
        match self.policy {
            Some(_) => Ok(()),
            None => f.write_str(POLICY_HINT),
        }
    }
}
