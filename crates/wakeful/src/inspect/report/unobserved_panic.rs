//! A panic that no code of the program observed.

use super::Content;
use super::stamp::Stamp;
use super::text::field;
use crate::inspect::task_info::TaskInfo;
use crate::task::header::Header;
use crate::task::state::BLOCKING;
use std::any::Any;
use std::fmt;

/// A task that panicked, and whose `JoinHandle` was dropped without being awaited.
///
/// It is always [proven](super::Certainty::Proven).
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (tell, told) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .report_blocked_after(None)
///     .on_report(move |report| drop(tell.send(report.clone())))
///     .build()?;
/// rt.block_on(async {
///     drop(wakeful::spawn(async { panic!("no such user") }));
///     wakeful::task::yield_now().await;
/// });
/// let Report::UnobservedPanic(report) = told.recv().unwrap() else { panic!() };
/// assert_eq!(report.message(), Some("no such user"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnobservedPanic {
    task: TaskInfo,
    /// It is a closure of `spawn_blocking`.
    is_closure: bool,
    message: Option<String>,
    stamp: Stamp,
}

impl UnobservedPanic {
    pub(crate) fn new(task: &Header, payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let is_closure = task.state.load().has(BLOCKING);
        Self { task: TaskInfo::of_task(task), is_closure, message, stamp: Stamp::now() }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
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
    /// let (tell, told) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .report_blocked_after(None)
    ///     .on_report(move |report| drop(tell.send(report.clone())))
    ///     .build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(async { std::panic::panic_any(7) });
    ///     wakeful::task::yield_now().await;
    /// });
    /// let Report::UnobservedPanic(report) = told.recv().unwrap() else { panic!() };
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

impl fmt::Display for UnobservedPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "unobserved panic (proven): {} panicked, and its JoinHandle was dropped",
            self.task
        )?;
        if let Some(message) = &self.message {
            field(f, "    ", "message", format_args!("{message:?}"))?;
        }
        field(f, "    ", "spawned", format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(match self.is_closure {
            true => {
                "  fix: keep the handle and await it, or collect closures in a JoinSet \
                 (JoinSet::spawn_blocking)."
            }
            false => {
                "  fix: keep the handle and await it, collect tasks in a JoinSet, or shut the runtime down on \
                 a panic with Builder::unhandled_panic(UnhandledPanic::ShutdownRuntime)."
            }
        })
    }
}
