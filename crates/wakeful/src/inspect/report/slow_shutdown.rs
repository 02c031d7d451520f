//! Runtime shutdowns that wait for polls or blocking closures.

use super::Content;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::dump::WaitDump;
use crate::inspect::dump::text::Count;
use crate::inspect::stack::is_stdio_source;
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A runtime shutdown that has waited for seconds or reached its limit, with what is still alive.
///
/// A shutdown waits for running polls and for closures of the blocking pool. The report is
/// [suspected](super::Certainty::Suspected): they may still end. It is made in two cases:
///
/// - A drop or a [`shutdown_timeout`](crate::runtime::Runtime::shutdown_timeout) has waited for the
///   time of [`report_lasting_after`](crate::runtime::Builder::report_lasting_after).
/// - A `shutdown_timeout` has reached its limit ([`is_over`](Self::is_over)).
///
/// # Examples
///
/// ```
/// use std::sync::{Mutex, mpsc};
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (end, ended) = mpsc::channel::<()>();
/// let (tx, rx) = mpsc::channel();
/// let end = Mutex::new(Some(end));
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(move |report| {
///         tx.send(report.clone()).unwrap();
///         end.lock().unwrap().take(); // ends the closure
///     })
///     .build()?;
/// rt.spawn_blocking(move || ended.recv());
/// drop(rt);
/// let Report::SlowShutdown(slow) = rx.recv().unwrap() else { panic!() };
/// assert!(slow.tasks()[0].is_closure());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SlowShutdown {
    waited: Duration,
    limit: Option<Duration>,
    is_over: bool,
    tasks: Vec<LateTask>,
    threads: Vec<LateThread>,
    stamp: Stamp,
}

/// A task or closure that a shutdown waits for.
///
/// Returned by [`SlowShutdown::tasks`]. The `Display` is one line with the task's state and spawn
/// site.
///
/// # Examples
///
/// ```
/// use std::sync::{Mutex, mpsc};
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (end, ended) = mpsc::channel::<()>();
/// let (tx, rx) = mpsc::channel();
/// let end = Mutex::new(Some(end));
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(move |report| {
///         let Report::SlowShutdown(slow) = report else { return };
///         tx.send(slow.tasks()[0].clone()).unwrap();
///         end.lock().unwrap().take(); // ends the closure
///     })
///     .build()?;
/// let closure = rt.spawn_blocking(move || ended.recv());
/// drop(rt);
/// let late = rx.recv().unwrap();
/// assert_eq!(late.task().id(), Some(closure.id()));
/// assert!(late.to_string().contains("closure"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LateTask {
    pub(crate) task: TaskInfo,
    pub(crate) is_closure: bool,
    pub(crate) is_queued: bool,
    pub(crate) waits: Vec<WaitDump>,
}

/// A thread that a shutdown waits for.
///
/// Returned by [`SlowShutdown::threads`].
///
/// # Examples
///
/// ```
/// use std::sync::{Mutex, mpsc};
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (end, ended) = mpsc::channel::<()>();
/// let end = Mutex::new(Some(end));
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(move |report| {
///         let Report::SlowShutdown(slow) = report else { return };
///         for thread in slow.threads() {
///             println!("{} {:?}: {:?}", thread.id(), thread.name(), thread.stack().first());
///         }
///         end.lock().unwrap().take(); // ends the closure
///     })
///     .build()?;
/// rt.spawn_blocking(move || ended.recv());
/// drop(rt);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LateThread {
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) call: Option<String>,
    pub(crate) stack: Vec<String>,
}

impl SlowShutdown {
    pub(crate) fn new(
        waited: Duration,
        limit: Option<Duration>,
        is_over: bool,
        tasks: Vec<LateTask>,
        threads: Vec<LateThread>,
    ) -> Self {
        Self { waited, limit, is_over, tasks, threads, stamp: Stamp::now() }
    }

    /// Returns how long the shutdown had waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the limit of the shutdown, or `None` for a drop, which has no limit.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Returns whether the shutdown has reached its limit and no longer waits.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the running polls, and the running or queued closures.
    pub fn tasks(&self) -> &[LateTask] {
        &self.tasks
    }

    /// Returns whether only reads of standard input are left, which no program can end.
    pub(crate) fn is_only_stdin(&self) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(LateTask::reads_stdin)
    }

    /// Returns the threads of the runtime that have not ended.
    pub fn threads(&self) -> &[LateThread] {
        &self.threads
    }
}

impl LateTask {
    fn reads_stdin(&self) -> bool {
        self.task.name() == Some("stdin") && is_stdio_source(self.task.spawned_at().file())
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns whether the task is a closure of [`spawn_blocking`](crate::task::spawn_blocking).
    pub fn is_closure(&self) -> bool {
        self.is_closure
    }

    /// Returns whether the task is a closure that waits for a thread of the blocking pool.
    pub fn is_queued(&self) -> bool {
        self.is_queued
    }

    /// Returns what the thread of the task waits for in a `blocking_…` method or in `block_on`.
    ///
    /// Returns `None` if the thread is in neither. Its [stack](LateThread::stack) then shows where
    /// it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use wakeful::runtime::Builder;
    /// use wakeful::sync::mpsc;
    ///
    /// let rt = Builder::new_current_thread().build()?;
    /// let (sender, mut receiver) = mpsc::channel::<()>(1);
    /// rt.spawn_blocking(move || receiver.blocking_recv());
    /// let report = rt.shutdown_with_report(Duration::from_millis(50));
    /// let late = &report.late().unwrap().tasks()[0];
    /// if let Some(wait) = late.waiting_on() {
    ///     println!("{} waits for {} at {}", late.task(), wait.phrase(), wait.site());
    /// }
    /// # drop(sender);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn waiting_on(&self) -> Option<&WaitDump> {
        self.waits.first()
    }
}

impl LateThread {
    /// Returns the kernel's thread id (TID).
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Returns the thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the system call that the thread is blocked in, with its descriptors.
    ///
    /// Returns `None` if the thread is running, or if the kernel does not expose the call.
    pub fn system_call(&self) -> Option<&str> {
        self.call.as_deref()
    }

    /// Returns the thread's stack as lines of text, innermost function first, or the reason why
    /// there is none.
    ///
    /// The stacks of all but the first 16 threads are empty.
    pub fn stack(&self) -> &[String] {
        &self.stack
    }
}

impl fmt::Display for LateTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.is_closure, self.is_queued) {
            (true, true) => "closure, queued",
            (true, false) => "closure, running",
            (false, _) => "task, in a poll",
        };
        write!(f, "{} ({what}), spawned at {}", self.task, self.task.spawned_at())
    }
}

/// The maximum number of tasks, and of threads, in the text.
pub(crate) const MAX_LISTED: usize = 16;

impl Content for SlowShutdown {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        self.tasks.iter().map(|late| &late.task).collect()
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        let waits = self.tasks.iter().flat_map(|late| late.waits.iter().map(move |it| (late, it)));
        waits
            .map(|(late, wait)| ReportSite { what: "waits", task: &late.task, at: wait.site() })
            .collect()
    }
}

impl fmt::Display for SlowShutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waited, alive) = (Short(self.waited), Alive(self));
        f.write_str("slow shutdown (suspected): ")?;
        match self.limit {
            None => writeln!(f, "the drop of the runtime has waited {waited} for {alive}")?,
            Some(limit) if self.is_over => {
                let limit = Short(limit);
                writeln!(f, "the runtime did not shut down within {limit}; still alive: {alive}")?;
            }
            Some(_) => writeln!(f, "the shutdown of the runtime has waited {waited} for {alive}")?,
        }
        for late in self.tasks.iter().take(MAX_LISTED) {
            writeln!(f, "    {late}")?;
            late.waits.iter().try_for_each(|wait| {
                let text = wait.to_string();
                field(f, "      ", "waiting", text.strip_prefix("waiting ").unwrap_or(&text))
            })?;
        }
        for thread in self.threads.iter().take(MAX_LISTED) {
            writeln!(f, "    thread {} {:?}", thread.id, thread.name)?;
            if let Some(call) = &thread.call {
                field(f, "      ", "system call", call)?;
            }
            for (nth, line) in thread.stack.iter().enumerate() {
                let name = if nth == 0 { "stack" } else { "" };
                field(f, "      ", name, line)?;
            }
        }
        let more = |all: usize| all.saturating_sub(MAX_LISTED);
        let (tasks, threads) = (more(self.tasks.len()), more(self.threads.len()));
        if tasks + threads > 0 {
            writeln!(f, "    and {tasks} more tasks and {threads} more threads")?;
        }
        f.write_str(match self.is_over {
            false => {
                "  why: a shutdown waits for polls that run and for closures of spawn_blocking that run or are queued.\n  \
                 fix: signal them to stop before the shutdown, with a flag or a closed channel. To wait less, call \
                 Runtime::shutdown_timeout or shutdown_background."
            }
            true => {
                "  why: a shutdown drops each task at its next .await. It cannot end a poll or a closure that runs: \
                 they continue until they return, or the process ends.\n  \
                 fix: signal them to stop before the shutdown, with a flag or a closed channel."
            }
        })
    }
}

/// Formats how much is still alive, for example `1 closure and 2 polls`.
struct Alive<'a>(&'a SlowShutdown);

impl fmt::Display for Alive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(slow) = self;
        let closures = slow.tasks.iter().filter(|task| task.is_closure).count() as u64;
        let polls = slow.tasks.len() as u64 - closures;
        match (closures, polls) {
            (0, 0) => write!(f, "{}", Count(slow.threads.len() as u64, "thread")),
            (0, polls) => write!(f, "{}", Count(polls, "poll")),
            (closures, 0) => write!(f, "{}", Count(closures, "closure")),
            (closures, polls) => {
                write!(f, "{} and {}", Count(closures, "closure"), Count(polls, "poll"))
            }
        }
    }
}
