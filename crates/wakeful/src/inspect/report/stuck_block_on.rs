//! Calls of `block_on` that can never return.

use super::Content;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::Dump;
use crate::inspect::task_info::TaskInfo;
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// A `block_on` that provably can never return.
///
/// The future waits for an event that can never happen, and no other task of the runtime can run.
/// The `block_on` ends with a panic whose message is this report. Some cases are detected only with
/// [`Builder::always_end_stuck_block_on`](crate::runtime::Builder::always_end_stuck_block_on). The
/// report is always [proven](super::Certainty::Proven).
///
/// # Examples
///
/// ```
/// use std::future::pending;
/// use std::panic::{AssertUnwindSafe, catch_unwind};
/// use std::sync::mpsc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .always_end_stuck_block_on(true)
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// let ended = catch_unwind(AssertUnwindSafe(|| rt.block_on(pending::<()>())));
/// assert!(ended.is_err());
/// let Report::StuckBlockOn(stuck) = rx.recv().unwrap() else { panic!() };
/// assert!(stuck.block_on().is_block_on());
/// assert_eq!(stuck.dump().tasks().len(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StuckBlockOn {
    block_on: TaskInfo,
    /// The `BlockOnRecord::poll_number` of the wait in which the future was found.
    pub(crate) poll_number: u32,
    reason: NoRescueReason,
    root_cause: Option<RootCause>,
    /// The number of threads outside all runtimes that wait in a `blocking_…` method.
    blocked_threads: usize,
    dump: Dump,
    stamp: Stamp,
}

/// The root of the chain of waits that leads to the `block_on`.
#[derive(Clone, Debug)]
pub(crate) struct RootCause {
    pub(crate) cause: WaitStep,
    pub(crate) waited: Duration,
    /// Whether a waker for this wait exists.
    pub(crate) has_wakers: bool,
    /// What the future recorded about the resource, for example where a channel was made.
    pub(crate) details: Option<String>,
    /// The waits that depend on the root, up to that of the `block_on`.
    pub(crate) held_up: Vec<WaitStep>,
}

/// A waiting task in the chain of waits of a stuck `block_on`.
#[derive(Clone, Debug)]
pub(crate) struct WaitStep {
    pub(crate) task: TaskInfo,
    pub(crate) wait: WaitKind,
    pub(crate) site: &'static Location<'static>,
}

impl fmt::Display for WaitStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits: {} at {}", self.task, self.wait.name(), self.site)
    }
}

impl RootCause {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, waited) = (&self.cause, Short(self.waited));
        field(f, "    ", "root cause", format_args!("{cause}, for {waited}"))?;
        if !self.has_wakers {
            field(f, "    ", "", "no waker for it exists")?;
        }
        if let Some(details) = &self.details {
            field(f, "    ", "", details)?;
        }
        for (nth, step) in self.held_up.iter().enumerate() {
            field(f, "    ", if nth == 0 { "held up" } else { "" }, step)?;
        }
        Ok(())
    }
}

/// Why no other thread can end the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRescueReason {
    /// The future of the `block_on` has no waker.
    WakersGone,
    /// The process has no other threads.
    RuntimeThreadsOnly,
    /// The only other thread is the main thread of the test harness, which waits for its tests.
    RuntimeThreadsAndHarness,
}

impl StuckBlockOn {
    pub(crate) fn new(
        block_on: TaskInfo,
        poll_number: u32,
        reason: NoRescueReason,
        dump: Dump,
    ) -> Self {
        Self {
            block_on,
            poll_number,
            reason,
            root_cause: None,
            blocked_threads: 0,
            dump,
            stamp: Stamp::now(),
        }
    }

    pub(crate) fn with_blocked_threads(self, blocked_threads: usize) -> Self {
        Self { blocked_threads, ..self }
    }

    pub(crate) fn with_root_cause(self, root_cause: Option<RootCause>) -> Self {
        Self { root_cause, ..self }
    }

    /// Returns the waits that the text names, the root cause first.
    fn steps(&self) -> impl Iterator<Item = &WaitStep> {
        let cause = self.root_cause.iter();
        cause.flat_map(|root| std::iter::once(&root.cause).chain(&root.held_up))
    }

    /// Returns the future of the `block_on`.
    pub fn block_on(&self) -> &TaskInfo {
        &self.block_on
    }

    /// Returns a dump of the runtime, taken when the `block_on` was found stuck.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }
}

impl Content for StuckBlockOn {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        let others = self.steps().map(|step| &step.task);
        std::iter::once(&self.block_on)
            .chain(others.filter(|task| **task != self.block_on))
            .collect()
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        let sites = self.steps();
        sites.map(|it| ReportSite { what: "waits", task: &it.task, at: it.site }).collect()
    }
}

impl fmt::Display for StuckBlockOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_helper = match self.reason {
            NoRescueReason::WakersGone => "and no waker of its future is left",
            NoRescueReason::RuntimeThreadsOnly => {
                "and the process has no threads other than those of its runtimes"
            }
            NoRescueReason::RuntimeThreadsAndHarness => {
                "and the process has no threads other than those of its runtimes and the test harness"
            }
        };
        let blocked = match (self.reason, self.blocked_threads) {
            (NoRescueReason::WakersGone, _) | (_, 0) => String::new(),
            (_, 1) => ", and 1 that waits in a blocking method".to_owned(),
            (_, threads) => format!(", and {threads} that wait in blocking methods"),
        };
        writeln!(f, "stuck block_on (proven): {} can never return", self.block_on)?;
        field(f, "    ", "called", format_args!("at {}", self.block_on.spawned_at()))?;
        if let Some(root_cause) = &self.root_cause {
            root_cause.write(f)?;
        }
        write!(
            f,
            "  why: every task waits, and nothing can wake one: no timer, no descriptor, no blocking closure that can continue, {no_helper}{blocked}.\n\
             {}  fix: see what the first task of the dump waits for. Whatever should wake it has ended, or waits \
             too.",
            self.dump
        )
    }
}
