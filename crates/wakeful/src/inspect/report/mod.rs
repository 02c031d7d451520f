//! Reports: bugs that the runtime found in the program. Each kind is a type of its own.
//!
//! The `Display` of a report says what happened, to which task, where, why the runtime believes it,
//! and how to fix it.

mod aborted_closure;
mod blocked;
mod certainty;
mod deadlock;
mod delivery;
mod edge;
mod exit;
mod futile_loop;
mod growing_tasks;
mod json;
mod never_polled;
mod orphan;
mod recent;
mod reporter;
mod slow_holder;
mod slow_shutdown;
mod spinning;
mod stalled;
mod stamp;
mod stuck_block_on;
mod text;
mod unawaited_panic;
mod unobserved_panic;

use super::task_info::TaskInfo;
pub(in crate::inspect) use json::ReportSite;
use stamp::{Stamp, Utc};
use std::fmt;
use std::panic::Location;
use std::time::SystemTime;

pub use aborted_closure::AbortedClosure;
pub use blocked::Blocked;
pub use certainty::Certainty;
pub(crate) use deadlock::Basis;
pub use deadlock::{Deadlock, Futurelock};
pub(crate) use delivery::Delivery;
pub use delivery::{ReportFilter, ReportFormat};
pub use edge::Edge;
pub(crate) use edge::RuntimeName;
pub use exit::Exit;
pub(crate) use exit::ExitReason;
pub use futile_loop::FutileLoop;
pub(crate) use growing_tasks::CommonWait;
pub use growing_tasks::GrowingTasks;
pub use never_polled::NeverPolled;
pub use orphan::Orphan;
pub(crate) use reporter::{ReportHook, Reporter};
pub(crate) use slow_holder::OldestWaiter;
pub use slow_holder::{LastingHolder, SlowHolder};
pub(crate) use slow_shutdown::MAX_LISTED as MAX_LISTED_THREADS;
pub use slow_shutdown::{LateTask, LateThread, SlowShutdown};
pub use spinning::Spinning;
pub use stalled::Stalled;
pub(crate) use stalled::{StallCause, StalledWait};
pub(crate) use stuck_block_on::NoRescueReason;
pub use stuck_block_on::StuckBlockOn;
pub(crate) use stuck_block_on::{RootCause, WaitStep};
pub(in crate::inspect) use text::Short;
pub use unawaited_panic::UnawaitedPanic;
pub use unobserved_panic::UnobservedPanic;
pub(crate) use unobserved_panic::{fatal_panic_text, panic_text};

/// A bug in the program that the runtime found while running it.
///
/// The `Display` of a report says what happened, to which task, where, and how to fix it. Pass a
/// function to [`Builder::on_report`](crate::runtime::Builder::on_report) to receive reports;
/// without one they are printed to stderr.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use wakeful::inspect::{Certainty, Report};
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// rt.block_on(async {
///     wakeful::spawn(std::future::pending::<()>());
///     wakeful::task::yield_now().await;
/// });
/// let report: Report = rx.recv().unwrap();
/// assert_eq!((report.kind(), report.certainty()), ("orphan", Certainty::Proven));
/// assert!(report.to_string().contains("fix: "));
/// let Report::Orphan(orphan) = report else { panic!() };
/// assert_eq!(orphan.polls(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A task that waits although no waker for it exists.
    Orphan(Orphan),
    /// A task whose poll does not return.
    Blocked(Blocked),
    /// A task that wakes itself in nearly every poll.
    Spinning(Spinning),
    /// A task that repeats a call whose result cannot change.
    FutileLoop(FutileLoop),
    /// Tasks that wait for each other in a cycle.
    Deadlock(Deadlock),
    /// Tasks that wait for a resource which was granted to a future that is no longer polled.
    Futurelock(Futurelock),
    /// A `block_on` that can never return.
    StuckBlockOn(StuckBlockOn),
    /// A task that panicked and whose `JoinHandle` was dropped.
    UnobservedPanic(UnobservedPanic),
    /// A lock or permit that is held for seconds while other tasks wait for it.
    SlowHolder(SlowHolder),
    /// Tasks of one spawn site whose number only grows.
    GrowingTasks(GrowingTasks),
    /// A task that panicked and whose `JoinHandle` is kept but not awaited.
    UnawaitedPanic(UnawaitedPanic),
    /// A blocking closure that still runs after it was aborted.
    AbortedClosure(AbortedClosure),
    /// Tasks that were dropped at shutdown before their first poll.
    NeverPolled(NeverPolled),
    /// A drop of a runtime that waits for seconds.
    SlowShutdown(SlowShutdown),
    /// A task that has waited for seconds for an event that is not expected to happen.
    Stalled(Stalled),
}

/// The names of the kinds, in the order of [`Report::index`].
pub(crate) const KINDS: [&str; 15] = [
    "orphan",
    "blocked",
    "spinning",
    "deadlock",
    "futurelock",
    "stuck_block_on",
    "unobserved_panic",
    "futile_loop",
    "slow_holder",
    "growing_tasks",
    "unawaited_panic",
    "aborted_closure",
    "never_polled",
    "slow_shutdown",
    "stalled",
];

impl Report {
    /// Returns the kind as an identifier.
    ///
    /// The kind is the name of the variant in lower case with underscores, for example
    /// `"stuck_block_on"` for [`StuckBlockOn`](Self::StuckBlockOn).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .on_report(move |report| drop(tx.send(report.kind())))
    ///     .build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>());
    ///     wakeful::task::yield_now().await;
    /// });
    /// assert_eq!(rx.recv(), Ok("orphan"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn kind(&self) -> &'static str {
        KINDS[self.index()]
    }

    /// Returns how certain the runtime is that the situation does not end by itself.
    ///
    /// An orphan, a stuck `block_on` and an unobserved panic are always proven. A deadlock or futurelock
    /// can be either, and its text says why. All other reports are suspected. See [`Certainty`] for
    /// examples.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::inspect::Certainty;
    /// use wakeful::runtime::{Builder, Handle};
    /// use wakeful::sync::Mutex;
    ///
    /// # Builder::new_current_thread().on_report(|_| {}).build()?.block_on(async {
    /// let lock = Arc::new(Mutex::new(()));
    /// let twice = wakeful::spawn(async move {
    ///     let _first = lock.lock().await;
    ///     let _second = lock.lock().await;
    /// });
    /// wakeful::task::yield_now().await;
    /// assert_eq!(Handle::current().diagnose()[0].certainty(), Certainty::Suspected);
    /// # twice.abort();
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn certainty(&self) -> Certainty {
        match self {
            Report::Orphan(_) | Report::StuckBlockOn(_) | Report::UnobservedPanic(_) => {
                Certainty::Proven
            }
            Report::Blocked(_)
            | Report::Spinning(_)
            | Report::FutileLoop(_)
            | Report::SlowHolder(_)
            | Report::GrowingTasks(_)
            | Report::UnawaitedPanic(_)
            | Report::AbortedClosure(_)
            | Report::NeverPolled(_)
            | Report::SlowShutdown(_)
            | Report::Stalled(_) => Certainty::Suspected,
            Report::Deadlock(deadlock) => deadlock.certainty(),
            Report::Futurelock(futurelock) => futurelock.certainty(),
        }
    }

    /// Returns the time at which the report was made.
    ///
    /// This is the system time, even if the runtime's clock is paused.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// for report in Handle::current().diagnose() {
    ///     assert!(report.time() <= SystemTime::now());
    /// }
    /// # }
    /// ```
    pub fn time(&self) -> SystemTime {
        self.content().stamp().time()
    }

    /// Returns the name of the runtime that made the report, if it has one.
    ///
    /// [`Builder::name`](crate::runtime::Builder::name) names a runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .name("database")
    ///     .on_report(move |report| drop(tx.send(report.runtime().map(str::to_owned))))
    ///     .build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>());
    ///     wakeful::task::yield_now().await;
    /// });
    /// assert_eq!(rx.recv().unwrap().as_deref(), Some("database"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn runtime(&self) -> Option<&str> {
        self.content().stamp().runtime()
    }

    pub(crate) fn set_runtime(&self, name: Option<&str>) {
        if let Some(name) = name {
            self.content().stamp().set_runtime(name);
        }
    }

    /// Returns the tasks that the report is about, in the order of its text.
    ///
    /// A report about a spawn site, such as [`GrowingTasks`](Self::GrowingTasks), names no task.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// for report in Handle::current().diagnose() {
    ///     for task in report.tasks() {
    ///         println!("{}: {task}", report.kind());
    ///     }
    /// }
    /// # }
    /// ```
    pub fn tasks(&self) -> Vec<&TaskInfo> {
        self.content().tasks()
    }

    /// Returns the main site of the report.
    ///
    /// This is the first site that the text names, or else the spawn site of the first task.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::Handle;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// for report in Handle::current().diagnose() {
    ///     println!("{} at {:?}", report.kind(), report.site().map(ToString::to_string));
    /// }
    /// # }
    /// ```
    pub fn site(&self) -> Option<&'static Location<'static>> {
        match self {
            Report::GrowingTasks(growing) => Some(growing.spawned_at()),
            Report::NeverPolled(dropped) => dropped.sites().first().map(|(site, _)| *site),
            other => {
                let content = other.content();
                let named = content.sites().first().map(|site| site.at);
                named.or_else(|| content.tasks().first().map(|task| task.spawned_at()))
            }
        }
    }

    /// Returns the sites in the program that the report names.
    #[cfg(feature = "page")]
    pub(in crate::inspect) fn sites(&self) -> Vec<ReportSite<'_>> {
        self.content().sites()
    }

    /// Formats the data of the tasks. The text does not change afterwards.
    pub(crate) fn write_data(&self) {
        self.content().tasks().into_iter().for_each(|task| _ = task.data_text());
    }

    fn content(&self) -> &dyn Content {
        match self {
            Report::Orphan(orphan) => orphan,
            Report::Blocked(blocked) => blocked,
            Report::Spinning(spinning) => spinning,
            Report::FutileLoop(futile) => futile,
            Report::Deadlock(deadlock) => deadlock,
            Report::Futurelock(futurelock) => futurelock,
            Report::StuckBlockOn(stuck) => stuck,
            Report::UnobservedPanic(panic) => panic,
            Report::SlowHolder(slow) => slow,
            Report::GrowingTasks(growing) => growing,
            Report::UnawaitedPanic(panic) => panic,
            Report::AbortedClosure(closure) => closure,
            Report::NeverPolled(dropped) => dropped,
            Report::SlowShutdown(slow) => slow,
            Report::Stalled(stalled) => stalled,
        }
    }

    fn index(&self) -> usize {
        match self {
            Report::Orphan(_) => 0,
            Report::Blocked(_) => 1,
            Report::Spinning(_) => 2,
            Report::Deadlock(_) => 3,
            Report::Futurelock(_) => 4,
            Report::StuckBlockOn(_) => 5,
            Report::UnobservedPanic(_) => 6,
            Report::FutileLoop(_) => 7,
            Report::SlowHolder(_) => 8,
            Report::GrowingTasks(_) => 9,
            Report::UnawaitedPanic(_) => 10,
            Report::AbortedClosure(_) => 11,
            Report::NeverPolled(_) => 12,
            Report::SlowShutdown(_) => 13,
            Report::Stalled(_) => 14,
        }
    }

    /// Returns the id of the first task that the report is about, or 0.
    fn task(&self) -> u64 {
        match self {
            Report::Orphan(orphan) => orphan.id().as_u64(),
            Report::UnobservedPanic(panic) => panic.task().id,
            Report::SlowHolder(slow) => slow.holders()[0].task().id,
            Report::UnawaitedPanic(panic) => panic.task().id,
            Report::AbortedClosure(closure) => closure.task().id,
            Report::Stalled(stalled) => stalled.task().id,
            other => other.repeat_key().and_then(|tasks| tasks.first().copied()).unwrap_or(0),
        }
    }

    /// Returns a key that is equal for two reports of the same situation.
    ///
    /// Returns `None` if a situation is reported only once.
    fn repeat_key(&self) -> Option<Vec<u64>> {
        match self {
            Report::Orphan(_) | Report::UnobservedPanic(_) => None,
            // `Findings` reports each of these once.
            Report::SlowHolder(_)
            | Report::GrowingTasks(_)
            | Report::UnawaitedPanic(_)
            | Report::AbortedClosure(_)
            | Report::Stalled(_) => None,
            Report::NeverPolled(_) | Report::SlowShutdown(_) => None,
            Report::Blocked(blocked) => Some(vec![blocked.task().id]),
            Report::Spinning(spinning) => Some(vec![spinning.task().id]),
            Report::FutileLoop(futile) => Some(futile.repeat_key()),
            Report::Deadlock(deadlock) => Some(deadlock.repeat_key()),
            Report::Futurelock(futurelock) => Some(futurelock.repeat_key()),
            Report::StuckBlockOn(stuck) => {
                Some(vec![stuck.block_on().id, u64::from(stuck.poll_number)])
            }
        }
    }
}

/// Returns the current time as text.
#[cfg(feature = "page")]
pub(in crate::inspect) fn now_text() -> String {
    Utc(SystemTime::now()).to_string()
}

/// The interface that all kinds of reports share.
trait Content: fmt::Display {
    fn stamp(&self) -> &Stamp;

    /// Returns the tasks that the report is about, in the order of its text.
    fn tasks(&self) -> Vec<&TaskInfo>;

    /// Returns the sites that the text names, except the spawn sites of the tasks.
    fn sites(&self) -> Vec<ReportSite<'_>> {
        Vec::new()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.content().fmt(f)
    }
}

/// A report in its printed form: the time and `wakeful: ` precede the text.
pub(crate) struct Stamped<'r>(pub(crate) &'r Report);

impl fmt::Display for Stamped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wakeful: {}", Utc(self.0.time()), self.0)
    }
}
