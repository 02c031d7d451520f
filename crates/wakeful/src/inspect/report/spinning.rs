//! Tasks that wait by polling.

use super::Content;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use std::fmt;
use std::time::Duration;

/// A task that is polled very often, nearly always because it woke itself.
///
/// The task is [suspected](super::Certainty::Suspected) of waiting by polling: the report assumes
/// that the polls do no work, which wakeful can only partly observe. Tasks that yield with
/// [`yield_now`](crate::task::yield_now) or have spent their budget are not reported. Neither are
/// tasks whose polls take more than 200 ns on average (2 µs in a debug build), or change the
/// variables of their future.
///
/// # Examples
///
/// ```
/// use std::future::poll_fn;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use std::sync::mpsc;
/// use std::task::Poll;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_multi_thread()
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// let flag = Arc::new(AtomicBool::new(false));
/// let set = flag.clone();
/// let spins = rt.spawn(poll_fn(move |cx| {
///     if flag.load(Relaxed) {
///         return Poll::Ready(());
///     }
///     cx.waker().wake_by_ref(); // instead of waiting for the flag
///     Poll::Pending
/// }));
/// let Report::Spinning(report) = rx.recv().unwrap() else { panic!() };
/// assert_eq!(report.task().id(), Some(spins.id()));
/// println!("{} polls in {:?}", report.polls(), report.within());
/// set.store(true, Relaxed);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Spinning {
    task: TaskInfo,
    polls: u32,
    within: Duration,
    stamp: Stamp,
}

impl Spinning {
    pub(crate) fn new(task: TaskInfo, polls: u32, within: Duration) -> Self {
        Self { task, polls, within, stamp: Stamp::now() }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the number of polls [within](Self::within) the measured time.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Returns the measured time.
    pub fn within(&self) -> Duration {
        self.within
    }
}

impl Content for Spinning {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }
}

impl fmt::Display for Spinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "spinning (suspected): {} was polled {} times in {}, nearly always because it woke itself",
            self.task,
            self.polls,
            Short(self.within)
        )?;
        field(f, "    ", self.task.verb(), format_args!("at {}", self.task.spawned_at()))?;
        f.write_str(
            "  why: of 100 polls, at most one followed a wake-up by another task or thread. The polls are short, and \
             leave the memory of the future in states that it had before.\n  \
             assumes: the polls do no other work. If each of them does, this is not a bug.\n  \
             likely cause: a future calls cx.waker().wake_by_ref() and returns Pending, instead of registering the \
             waker with the resource that it waits for.\n  \
             fix: wait on a wakeful::sync::Notify or a channel, or sleep between two checks. If the polls do work, \
             yield with wakeful::task::yield_now().await, which is never reported.",
        )
    }
}
