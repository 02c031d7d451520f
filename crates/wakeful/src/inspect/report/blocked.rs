//! Polls that block their thread.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::stack::{Stack, StackFrame, shows_all_frames};
use crate::inspect::task_info::TaskInfo;
use crate::scheduler::hooks::{BlockedPoll, PollingThread};
use crate::sys::backtrace::NoStack;
use crate::sys::system_call;
use std::fmt;
use std::time::Duration;

/// A task whose poll has not returned for a long time: it blocks its thread or computes.
///
/// The poll may return later, so the report is always [suspected](super::Certainty::Suspected).
/// Time in which any thread of the process was ready to run but had no CPU does not count, unless
/// the poll sleeps. A panicking poll is not reported while its panic hook computes, because the
/// panic is about to end the poll.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// # fn main() -> std::io::Result<()> {
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_multi_thread()
///     .report_blocked_after(Some(Duration::from_millis(30)))
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// rt.block_on(rt.spawn(async move {
///     // Blocks its worker until the report arrives.
///     let Ok(Report::Blocked(blocked)) = rx.recv() else { panic!("another report") };
///     assert_eq!(blocked.task().id(), Some(wakeful::task::id()));
///     assert!(blocked.worker().is_some() && blocked.duration() >= Duration::from_millis(30));
///     println!("{:?} in {:?}", blocked.system_call(), blocked.stack().first());
/// })).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Blocked {
    task: TaskInfo,
    role: PollingThread,
    duration: Duration,
    future: Option<&'static str>,
    /// The system call that the thread is blocked in, with its descriptors.
    system_call: Option<String>,
    stack: Stack,
    /// Whether the text shows every frame.
    shows_all: bool,
    stamp: Stamp,
}

impl Blocked {
    /// Captures the thread's stack, which takes several milliseconds.
    pub(crate) fn new(task: TaskInfo, poll: &BlockedPoll, future: Option<&'static str>) -> Self {
        let BlockedPoll { role, duration, thread, .. } = *poll;
        // Precedes the stack capture: a thread that walks its stack is not in the system call.
        let system_call = system_call::current(thread).map(|call| call.to_string());
        let stack = Stack::capture(thread, future);
        let shows_all = shows_all_frames();
        let stamp = Stamp::now();
        Self { task, role, duration, future, system_call, stack, shows_all, stamp }
    }

    /// Returns whether the thread computes inside the panic hook, which ends with the poll.
    ///
    /// With `RUST_BACKTRACE=1` the hook of std looks up the names of all frames. This takes more than
    /// 100 ms in a debug build.
    pub(crate) fn is_in_panic_hook(&self) -> bool {
        let is_hook = |name: &String| {
            let function = name.strip_prefix("std::panicking::");
            function.is_some_and(|it| it.contains("panic_with_hook") || it.contains("default_hook"))
        };
        self.system_call.is_none() && self.stack().iter().any(is_hook)
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the index of the worker that the poll blocks.
    ///
    /// The thread in `block_on` of a current-thread runtime is worker 0. Returns `None` for a spare
    /// worker, and for a thread in `block_on` that drives a `LocalSet`.
    pub fn worker(&self) -> Option<usize> {
        match self.role {
            PollingThread::Worker(index) => Some(index),
            PollingThread::OnlyWorker => Some(0),
            PollingThread::SpareWorker | PollingThread::BlockOn => None,
        }
    }

    /// Returns how long the poll had lasted when it was reported.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the type name of the task's future, or `None` for the future of a `block_on`.
    pub fn future(&self) -> Option<&'static str> {
        self.future
    }

    /// Returns the system call that the thread was blocked in, with the descriptors that it waits
    /// for.
    ///
    /// An example is `poll on descriptor 9 (127.0.0.1:40112 to 127.0.0.53:53)`. Returns `None` if
    /// the thread was computing, or if the kernel does not expose the call.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Builder;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_multi_thread()
    ///     .report_blocked_after(Some(Duration::from_millis(30)))
    ///     .on_report(move |report| drop(tx.send(report.clone())))
    ///     .build()?;
    /// rt.block_on(rt.spawn(async move {
    ///     let Ok(Report::Blocked(blocked)) = rx.recv() else { panic!("another report") };
    ///     println!("blocked in {}", blocked.system_call().unwrap_or("no system call")); // futex
    /// })).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn system_call(&self) -> Option<&str> {
        self.system_call.as_deref()
    }

    /// Returns the functions on the thread's stack, innermost first, up to the task's future.
    ///
    /// If no frame shows the future, because the compiler inlined it or there are no frames, the
    /// last entry is the name of its type. There are few or no frames if a capture would interrupt
    /// the thread's system call, or if the system does not allow a capture.
    pub fn stack(&self) -> &[String] {
        self.stack.names()
    }

    /// Returns the functions of [`stack`](Self::stack) with the sites in their source files.
    pub fn frames(&self) -> impl Iterator<Item = StackFrame<'_>> {
        self.stack.frames()
    }
}

impl Content for Blocked {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "blocked (suspected): {} has been inside one poll for {}, on ",
            self.task,
            Short(self.duration)
        )?;
        match self.role {
            PollingThread::OnlyWorker => f.write_str("the only thread of its runtime\n")?,
            PollingThread::Worker(worker) => writeln!(f, "worker {worker}")?,
            PollingThread::SpareWorker => f.write_str("a spare worker\n")?,
            PollingThread::BlockOn => f.write_str("the block_on thread of its LocalSet\n")?,
        }
        field(f, "    ", self.task.verb(), format_args!("at {}", self.task.spawned_at()))?;
        // The stack shows the call too, but not its descriptor.
        let is_news = |call: &&String| self.stack.missing().is_some() || call.contains(" on ");
        if let Some(call) = self.system_call.as_ref().filter(is_news) {
            field(f, "    ", "system call", call)?;
        }
        let mut label = "stack";
        if let Some(missing) = self.stack.missing() {
            field(f, "    ", label, missing)?;
            label = "";
        }
        for line in self.stack.lines(self.shows_all) {
            field(f, "    ", label, line)?;
            label = "";
        }
        f.write_str(match self.role {
            PollingThread::OnlyWorker => "  effect: no other task of the runtime runs.\n",
            PollingThread::BlockOn => {
                "  effect: the other tasks of this LocalSet wait. Tasks of the runtime run on its workers.\n"
            }
            PollingThread::Worker(_) | PollingThread::SpareWorker => {
                "  effect: other tasks run on other threads.\n"
            }
        })?;
        f.write_str(
            "  fix: use the async version of the blocking call (wakeful::time::sleep, wakeful::fs, \
             wakeful::sync), or move it into wakeful::task::spawn_blocking. If the poll is CPU-bound, call \
             wakeful::task::yield_now().await at intervals.",
        )
    }
}

impl fmt::Display for NoStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoStack::WouldInterrupt => {
                "not captured: the signal for it would end the system call with EINTR"
            }
            NoStack::NoAnswer => "not captured: the thread blocks SIGURG, or gets no CPU",
            NoStack::Unavailable => {
                "not captured: the program handles SIGURG, or the C library is not glibc 2.35 or later"
            }
        })
    }
}
