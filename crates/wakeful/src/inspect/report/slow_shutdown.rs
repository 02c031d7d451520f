//! What a shutdown of a runtime waits for.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A drop of a runtime that has waited for some seconds, with what is still alive.
///
/// A drop waits for polls that run, and for the closures of the blocking pool. It is
/// [suspected](super::Certainty::Suspected): they may end.
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
/// let (tell, told) = mpsc::channel();
/// let end = Mutex::new(Some(end));
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(move |report| {
///         tell.send(report.clone()).unwrap();
///         end.lock().unwrap().take(); // ends the closure
///     })
///     .build()?;
/// rt.spawn_blocking(move || ended.recv());
/// drop(rt);
/// let Report::SlowShutdown(slow) = told.recv().unwrap() else { panic!() };
/// assert!(slow.tasks()[0].is_closure());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SlowShutdown {
    waited: Duration,
    tasks: Vec<LateTask>,
    threads: Vec<LateThread>,
    stamp: Stamp,
}

/// A task or closure that a shutdown waits for.
///
/// [`SlowShutdown::tasks`] returns it. Its `Display` is one line with the task's state and spawn
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
/// let (tell, told) = mpsc::channel();
/// let end = Mutex::new(Some(end));
/// let rt = Builder::new_current_thread()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(move |report| {
///         let Report::SlowShutdown(slow) = report else { return };
///         tell.send(slow.tasks()[0].clone()).unwrap();
///         end.lock().unwrap().take(); // ends the closure
///     })
///     .build()?;
/// let closure = rt.spawn_blocking(move || ended.recv());
/// drop(rt);
/// let late = told.recv().unwrap();
/// assert_eq!(late.task().id(), Some(closure.id()));
/// assert!(late.to_string().contains("closure"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LateTask {
    pub(crate) task: TaskInfo,
    pub(crate) is_closure: bool,
    pub(crate) is_queued: bool,
}

/// A thread that a shutdown waits for.
///
/// [`SlowShutdown::threads`] returns it.
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
    pub(crate) stack: Vec<String>,
}

impl SlowShutdown {
    pub(crate) fn new(waited: Duration, tasks: Vec<LateTask>, threads: Vec<LateThread>) -> Self {
        Self { waited, tasks, threads, stamp: Stamp::now() }
    }

    /// Returns how long the shutdown had waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the polls that run, and the closures that run or are queued.
    pub fn tasks(&self) -> &[LateTask] {
        &self.tasks
    }

    /// Returns the threads of the runtime that have not ended.
    pub fn threads(&self) -> &[LateThread] {
        &self.threads
    }
}

impl LateTask {
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
}

impl LateThread {
    /// Returns the kernel's id of the thread.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Returns the thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns lines about the thread's stack, innermost function first, or why there is none.
    ///
    /// Empty after the first 16 threads.
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

/// The most tasks, and the most threads, in the text.
pub(crate) const SHOWN: usize = 16;

impl Content for SlowShutdown {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        self.tasks.iter().map(|late| &late.task).collect()
    }
}

impl fmt::Display for SlowShutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closures = self.tasks.iter().filter(|task| task.is_closure).count();
        let polls = self.tasks.len() - closures;
        write!(
            f,
            "slow shutdown (suspected): the drop of the runtime has waited {} for ",
            Short(self.waited)
        )?;
        match (closures, polls) {
            (0, 0) => writeln!(f, "{}", Count(self.threads.len(), "thread"))?,
            (0, polls) => writeln!(f, "{}", Count(polls, "poll"))?,
            (closures, 0) => writeln!(f, "{}", Count(closures, "closure"))?,
            (closures, polls) => {
                writeln!(f, "{} and {}", Count(closures, "closure"), Count(polls, "poll"))?;
            }
        }
        for task in self.tasks.iter().take(SHOWN) {
            writeln!(f, "    {task}")?;
        }
        for thread in self.threads.iter().take(SHOWN) {
            writeln!(f, "    thread {} {:?}", thread.id, thread.name)?;
            for (nth, line) in thread.stack.iter().enumerate() {
                let name = if nth == 0 { "stack" } else { "" };
                field(f, "      ", name, line)?;
            }
        }
        let more = |all: usize| all.saturating_sub(SHOWN);
        let (tasks, threads) = (more(self.tasks.len()), more(self.threads.len()));
        if tasks + threads > 0 {
            writeln!(f, "    and {tasks} more tasks and {threads} more threads")?;
        }
        f.write_str(
            "  why: a drop waits for polls that run and for closures of spawn_blocking that run or are queued.\n  \
             fix: tell them to end before the drop, with a flag or a closed channel. To wait less, call \
             Runtime::shutdown_timeout or shutdown_background.",
        )
    }
}

/// A number with its noun: `1 closure`, `2 closures`.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == 1 { "" } else { "s" })
    }
}
