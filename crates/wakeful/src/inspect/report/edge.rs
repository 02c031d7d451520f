//! One edge of a cycle in the wait graph.

use super::Exit;
use super::json::ReportSite;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// One edge of a cycle in the wait graph: a waiting task and the task that holds the resource.
///
/// Returned by [`Deadlock::edges`](super::Deadlock::edges) and
/// [`Futurelock::edges`](super::Futurelock::edges).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use wakeful::inspect::Report;
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
///
/// let found = Handle::current().diagnose();
/// let Report::Deadlock(deadlock) = &found[0] else { panic!("{found:?}") };
/// let [edge] = deadlock.edges() else { panic!("{deadlock}") };
/// assert_eq!(edge.kind(), "Mutex::lock");
/// assert_eq!(edge.task(), edge.holder());
/// assert_eq!(edge.acquired_at().unwrap().line() + 1, edge.site().line());
/// assert!(edge.exits().is_empty() && !edge.is_queued_ahead() && !edge.is_unpolled());
/// # twice.abort();
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Edge {
    pub(crate) task: TaskInfo,
    pub(crate) runtime: Option<RuntimeName>,
    pub(crate) wait: WaitKind,
    pub(crate) resource_id: u64,
    pub(crate) site: &'static Location<'static>,
    pub(crate) waited: Duration,
    pub(crate) holder: TaskInfo,
    pub(crate) acquired_at: Option<&'static Location<'static>>,
    pub(crate) unpolled: bool,
    pub(crate) queued_ahead: bool,
    pub(crate) may_have_moved: bool,
    pub(crate) may_be_aborted: bool,
    pub(crate) exits: Vec<Exit>,
}

/// The name of the runtime of a task, in a cycle that may span several runtimes.
#[derive(Clone, Debug)]
pub(crate) enum RuntimeName {
    Runtime(String),
    /// The name of a host of a simulation.
    Host(String),
}

impl Edge {
    /// Returns the task that waits.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the [name](crate::runtime::Builder::name) of the task's runtime.
    ///
    /// Returns `None` if the cycle was found in one runtime alone, or if the runtime has no name. In a
    /// simulation, this is the name of the host.
    pub fn runtime(&self) -> Option<&str> {
        match self.runtime.as_ref()? {
            RuntimeName::Runtime(name) | RuntimeName::Host(name) => Some(name),
        }
    }

    /// Returns the call in which the task waits, for example `"Mutex::lock"`.
    pub fn kind(&self) -> &'static str {
        self.wait.name()
    }

    /// Returns an id that is equal for all tasks that wait for the same resource.
    pub fn resource_id(&self) -> u64 {
        self.resource_id
    }

    /// Returns the site of the call in which the task waits.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// Returns the task that holds the resource, or the joined task.
    pub fn holder(&self) -> &TaskInfo {
        &self.holder
    }

    /// Returns where the holder acquired the resource, or `None` for a joined task.
    ///
    /// If the holder is only [queued ahead](Self::is_queued_ahead), this is where it waits.
    pub fn acquired_at(&self) -> Option<&'static Location<'static>> {
        self.acquired_at
    }

    /// Returns whether the holder does not hold the resource, but is queued ahead of the task.
    ///
    /// Free permits are reserved for the waiter at the head of the queue. For example, a writer
    /// that waits for readers to finish blocks readers that arrive later.
    ///
    /// # Examples
    ///
    /// A task that reads twice, with a writer queued in between:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::{Builder, Handle};
    /// use wakeful::sync::RwLock;
    /// use wakeful::task::yield_now;
    ///
    /// # Builder::new_current_thread().on_report(|_| {}).build()?.block_on(async {
    /// let lock = Arc::new(RwLock::new(0));
    /// let (reads, writes) = (lock.clone(), lock.clone());
    /// let reader = wakeful::spawn(async move {
    ///     let first = reads.read().await;
    ///     yield_now().await;
    ///     *first + *reads.read().await
    /// });
    /// let writer = wakeful::spawn(async move { *writes.write().await += 1 });
    /// yield_now().await;
    /// yield_now().await;
    ///
    /// let found = Handle::current().diagnose();
    /// let Report::Deadlock(deadlock) = &found[0] else { panic!("{found:?}") };
    /// assert!(deadlock.edges().iter().any(|edge| edge.is_queued_ahead()));
    /// # reader.abort();
    /// # writer.await.unwrap();
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_queued_ahead(&self) -> bool {
        self.queued_ahead
    }

    /// Returns whether the resource has given out owned guards or permits, which can be moved freely.
    ///
    /// If true, the holder acquired the resource, but another task or thread may hold it now.
    pub fn may_have_moved(&self) -> bool {
        self.may_have_moved
    }

    /// Returns whether the resource was granted to a future that has not been polled since.
    pub fn is_unpolled(&self) -> bool {
        self.unpolled
    }

    /// Returns the other events that the task waits for, each of which can end the deadlock.
    ///
    /// Empty if nothing but the resource can wake the task. See [`Exit`] for an example.
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// Returns the sites of the wait, of the holder's acquisition and of the exits.
    pub(super) fn sites(&self) -> impl Iterator<Item = ReportSite<'_>> {
        let acquired = if self.queued_ahead { "queued" } else { "acquired" };
        let waits = ReportSite { what: "waits", task: &self.task, at: self.site };
        let at = self.acquired_at.into_iter();
        let held = at.map(move |at| ReportSite { what: acquired, task: &self.holder, at });
        let exits = self.exits.iter().filter_map(Exit::site);
        let exits = exits.map(|at| ReportSite { what: "exit", task: &self.task, at });
        std::iter::once(waits).chain(held).chain(exits)
    }

    /// Returns whether the task waits for a stream of a simulation.
    pub(super) fn is_for_stream(&self) -> bool {
        matches!(self.wait, WaitKind::IoRead | WaitKind::IoWrite | WaitKind::IoReady)
    }

    pub(super) fn is_for(&self, kind: WaitKind) -> bool {
        self.wait == kind
    }

    /// Writes the wait and the holder of the resource. The spawn site of a holder in `listed` is
    /// left out: its own entry has it.
    pub(super) fn write_wait(
        &self,
        f: &mut fmt::Formatter<'_>,
        indent: &str,
        listed: &[Edge],
    ) -> fmt::Result {
        let (kind, site, waited) = (self.kind(), self.site, Short(self.waited));
        // A `JoinHandle` records only where its task was spawned.
        let at = if self.is_for(WaitKind::Join) { ", spawned at" } else { " at" };
        field(f, indent, "waiting", format_args!("{kind}{at} {site}, for {waited}"))?;
        let is_listed = listed.iter().any(|edge| edge.task == self.holder);
        let holder = if is_listed { self.holder.to_string() } else { format!("{:#}", self.holder) };
        let at = self.acquired_at.map_or(String::new(), |site| format!(" at {site}"));
        // The site of a receiver that never had to wait is unknown.
        let holder_with_site = |how: &str| match self.acquired_at {
            Some(site) => format!("{holder}, {how}at {site}"),
            None => holder.clone(),
        };
        match self.wait {
            _ if self.queued_ahead => {
                field(f, indent, "behind", format_args!("{holder}, which waits{at}"))?
            }
            _ if self.unpolled => {
                let future = format_args!("{holder}, whose future{at} has not been polled since");
                field(f, indent, "granted to", future)?;
            }
            WaitKind::Join => field(f, indent, "joins", format_args!("{holder}"))?,
            WaitKind::PoolThread => {
                let behind =
                    format_args!("{holder}: all threads of the blocking pool are occupied");
                field(f, indent, "behind", behind)?;
            }
            WaitKind::BlockOn => {
                field(
                    f,
                    indent,
                    "blocked",
                    format_args!("inside its poll, until the future of that block_on completes"),
                )?;
            }
            WaitKind::MpscSend => {
                let receiver = holder_with_site("");
                field(f, indent, "receiver", format_args!("last used by {receiver}"))?;
            }
            WaitKind::OnceCell => {
                field(f, indent, "computed by", format_args!("{}", holder_with_site("started ")))?;
            }
            WaitKind::IoRead | WaitKind::IoWrite | WaitKind::IoReady => {
                field(f, indent, "other end", format_args!("used by {holder}"))?;
            }
            _ if self.may_have_moved => {
                let what = if self.is_for(WaitKind::Semaphore) { "permit" } else { "guard" };
                field(f, indent, "acquired by", format_args!("{}", holder_with_site("")))?;
                field(
                    f,
                    indent,
                    "",
                    format_args!("perhaps as an owned {what}, which may have been moved"),
                )?;
            }
            _ => field(f, indent, "held by", format_args!("{}", holder_with_site("acquired ")))?,
        }
        Ok(())
    }

    /// Writes the task's runtime, and where the task was spawned or its `block_on` was called.
    pub(super) fn write_origin(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        match &self.runtime {
            Some(RuntimeName::Runtime(name)) => {
                field(f, indent, "runtime", format_args!("{name:?}"))?
            }
            Some(RuntimeName::Host(name)) => field(f, indent, "host", name)?,
            None => {}
        }
        field(f, indent, self.task.verb(), format_args!("at {}", self.task.spawned_at()))
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.task)?;
        self.write_wait(f, "    ", &[])?;
        self.write_origin(f, "    ")
    }
}
