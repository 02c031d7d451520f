//! Loops that repeat a call whose result is final.

use super::Content;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use crate::sys::descriptor;
use crate::task::futile::{self, FutileKind};
use std::fmt;
use std::io;
use std::panic::Location;
use std::time::Duration;

/// A task that repeats a call whose result cannot change, and does nothing else.
///
/// For example, `recv` on a closed channel returns `None` at once, and so does each call after it. A
/// loop that continues then uses a whole CPU. The calls are counted exactly.
///
/// The report is [suspected](super::Certainty::Suspected): the loop may end for another reason. A
/// loop is not reported if the task waits in between, completes other operations, or computes.
///
/// # Examples
///
/// A loop that misses the end of its channel:
///
/// ```
/// use std::sync::mpsc as std_mpsc;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
/// use wakeful::sync::mpsc;
///
/// let (report_tx, report_rx) = std_mpsc::channel();
/// let rt = Builder::new_multi_thread()
///     .worker_threads(1)
///     .on_report(move |report| drop(report_tx.send(report.clone())))
///     .build()?;
/// let (tx, mut rx) = mpsc::channel::<u32>(1);
/// drop(tx);
/// let looping = rt.spawn(async move {
///     loop {
///         if let Some(number) = rx.recv().await {
///             println!("{number}");
///         }
///     }
/// });
/// let Ok(Report::FutileLoop(report)) = report_rx.recv() else { panic!("another report") };
/// assert_eq!(report.operation(), "mpsc::Receiver::recv");
/// assert!(report.count() >= 10_000);
/// looping.abort();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FutileLoop {
    task: TaskInfo,
    kind: FutileKind,
    resource: Option<String>,
    site: Option<&'static Location<'static>>,
    count: u32,
    duration: Duration,
    stamp: Stamp,
}

impl FutileLoop {
    pub(crate) fn new(task: TaskInfo, found: &futile::FutileLoop<'_>) -> Self {
        let futile::FutileLoop { kind, resource, site, count, duration, .. } = *found;
        let resource = match kind {
            FutileKind::StdinRead => Some("standard input".to_owned()),
            kind if kind.is_for_descriptor() => descriptor::describe(resource),
            _ => None,
        };
        Self { task, kind, resource, site, count, duration, stamp: Stamp::now() }
    }

    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the call, for example `"mpsc::Receiver::recv"`.
    pub fn operation(&self) -> &'static str {
        self.kind.operation()
    }

    /// Returns what each call returned, for example `"None"`.
    pub fn result(&self) -> String {
        match self.kind {
            FutileKind::None => "nothing".to_owned(),
            FutileKind::MpscRecv | FutileKind::JoinNext => "None".to_owned(),
            FutileKind::MpscRecvMany => "0".to_owned(),
            FutileKind::MpscTryRecv => "Err(Disconnected)".to_owned(),
            FutileKind::OneshotTryRecv
            | FutileKind::BroadcastRecv
            | FutileKind::BroadcastTryRecv => "Err(Closed)".to_owned(),
            FutileKind::WatchChanged | FutileKind::SemaphoreAcquire => "an error".to_owned(),
            FutileKind::Sleep => "Ready".to_owned(),
            FutileKind::StreamRead
            | FutileKind::StreamTryRead
            | FutileKind::MemoryRead
            | FutileKind::FileRead
            | FutileKind::StdinRead => "0 bytes, the end of the data".to_owned(),
            FutileKind::Accept(error) => {
                format!("the error {}", io::Error::from_raw_os_error(error))
            }
        }
    }

    /// Describes the descriptor of the call, if it has one.
    pub fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns the site of the call, if it is known. For a `Sleep`, this is where it was made.
    ///
    /// The site is unknown for a `poll_read` that a future of another crate calls.
    pub fn site(&self) -> Option<&'static Location<'static>> {
        self.site
    }

    /// Returns how many calls had this result [in the measured time](Self::duration).
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the measured time.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    pub(super) fn repeat_key(&self) -> Vec<u64> {
        let site = self.site.map_or(0, |site| std::ptr::from_ref(site).addr() as u64);
        vec![self.task.id, site]
    }

    /// Says why the result stays the same.
    fn why(&self) -> &'static str {
        match self.kind {
            FutileKind::None => "the result cannot change",
            FutileKind::MpscRecv | FutileKind::MpscRecvMany | FutileKind::MpscTryRecv => {
                "the channel is empty and closed: every sender was dropped, or the receiver closed it"
            }
            FutileKind::OneshotTryRecv => {
                "the value was received before, or the sender was dropped without sending"
            }
            FutileKind::BroadcastRecv | FutileKind::BroadcastTryRecv => {
                "every sender was dropped, and every message was received"
            }
            FutileKind::WatchChanged => "every sender was dropped, and the last value was seen",
            FutileKind::SemaphoreAcquire => "the semaphore is closed",
            FutileKind::JoinNext => "the set has no tasks, and none was added between the calls",
            FutileKind::Sleep => {
                "the deadline has passed, and the Sleep was not reset between the calls"
            }
            FutileKind::StreamRead | FutileKind::StreamTryRead => {
                "the peer has closed its end for writing"
            }
            FutileKind::MemoryRead => "the other end of the pipe was closed or dropped",
            FutileKind::FileRead => "the file has no data after this position",
            FutileKind::StdinRead => "standard input is closed",
            FutileKind::Accept(_) => {
                "the error stays until its cause is removed, and accept does not wait for that"
            }
        }
    }

    fn fix(&self) -> &'static str {
        match self.kind {
            FutileKind::MpscRecv => {
                "exit the loop on None, for example with `while let Some(message) = rx.recv().await`. In a select!, \
                 write `Some(message) = rx.recv() =>`, and end the loop in its `else` branch."
            }
            FutileKind::MpscRecvMany => "leave the loop when recv_many returns 0.",
            FutileKind::MpscTryRecv | FutileKind::OneshotTryRecv | FutileKind::BroadcastTryRecv => {
                "handle the two errors differently: after Empty, try again later; after the other error, leave the loop."
            }
            FutileKind::BroadcastRecv => {
                "exit the loop on RecvError::Closed; only RecvError::Lagged is worth another call."
            }
            FutileKind::WatchChanged => {
                "leave the loop when changed() fails, for example with `while rx.changed().await.is_ok()`."
            }
            FutileKind::SemaphoreAcquire => "leave the loop when acquire fails.",
            FutileKind::JoinNext => {
                "exit the loop on None. In a select!, write `Some(output) = set.join_next() =>`, or add the condition \
                 `if !set.is_empty()`."
            }
            FutileKind::Sleep => {
                "call Sleep::reset before the next round, leave the loop, or use wakeful::time::interval."
            }
            FutileKind::Accept(_) => {
                "sleep for some time after an error before the next accept, and limit the open connections with a \
                 Semaphore."
            }
            _ => "leave the loop when a read returns 0 bytes.",
        }
    }
}

impl Content for FutileLoop {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        let site = self.site.into_iter();
        site.map(|at| ReportSite { what: "calls", task: &self.task, at }).collect()
    }
}

impl fmt::Display for FutileLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, result) = (self.operation(), self.result());
        let (task, count, duration) = (&self.task, self.count, Short(self.duration));
        write!(f, "futile loop (suspected): {task} ")?;
        let label = match self.kind {
            FutileKind::Sleep => {
                writeln!(
                    f,
                    "polled the same Sleep {count} times in {duration} after its deadline"
                )?;
                "created"
            }
            _ => {
                writeln!(
                    f,
                    "called {operation} {count} times in {duration}, and each call returned {result}"
                )?;
                "called"
            }
        };
        if let Some(site) = self.site {
            field(f, "    ", label, format_args!("at {site}"))?;
        }
        if let Some(resource) = &self.resource {
            field(f, "    ", "on", resource)?;
        }
        field(f, "    ", self.task.verb(), format_args!("at {}", self.task.spawned_at()))?;
        writeln!(f, "  why: {}.", self.why())?;
        f.write_str(
            "  assumes: the task does nothing else. Of 100 calls, at most one was followed by a wait or by another \
             operation.\n",
        )?;
        f.write_str("  effect: the loop keeps a thread busy.\n")?;
        f.write_str("  likely cause: the loop ignores this result and tries again.\n")?;
        write!(f, "  fix: {}", self.fix())
    }
}
