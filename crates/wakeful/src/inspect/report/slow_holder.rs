//! Locks and permits that are held for seconds while other tasks wait for them.

use super::Content;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::WaitDump;
use crate::inspect::task_info::TaskInfo;
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// A lock or permit that has been held for seconds while other tasks wait for it.
///
/// The holder is itself waiting, or is a running closure of the blocking pool.
///
/// The report is [suspected](super::Certainty::Suspected): it assumes that the guard or permit is
/// still held by the task that acquired it, and the holder may still release it. Set the time with
/// [`Builder::report_lasting_after`](crate::runtime::Builder::report_lasting_after).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Mutex;
/// use wakeful::task::yield_now;
///
/// let rt = Builder::new_current_thread()
///     .enable_time()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(|_| {})
///     .build()?;
/// rt.block_on(async {
///     let lock = Arc::new(Mutex::new(()));
///     for _ in 0..3 {
///         let lock = lock.clone();
///         wakeful::spawn(async move {
///             let _guard = lock.lock().await;
///             wakeful::time::sleep(Duration::from_secs(60)).await;
///         });
///     }
///     yield_now().await;
///     let found = Handle::current().diagnose();
///     let Report::SlowHolder(slow) = &found[0] else { panic!("{found:?}") };
///     assert_eq!(slow.waiters(), 2);
///     assert_eq!(slow.holders()[0].waiting_on().unwrap().kind(), "sleep");
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SlowHolder {
    wait: WaitKind,
    resource_id: u64,
    /// Never empty.
    holders: Vec<LastingHolder>,
    /// See [`has_other_holders`](Self::has_other_holders).
    has_others: bool,
    held: Duration,
    waiters: usize,
    oldest: OldestWaiter,
    stamp: Stamp,
}

/// The task that has waited longest, with the site of its wait.
#[derive(Clone, Debug)]
pub(crate) struct OldestWaiter {
    pub(crate) task: TaskInfo,
    pub(crate) site: &'static Location<'static>,
    pub(crate) waited: Duration,
}

/// A task that acquired a lock or permit and has not released it for seconds.
///
/// Returned by [`SlowHolder::holders`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Semaphore;
///
/// let rt = Builder::new_current_thread()
///     .enable_time()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(|_| {})
///     .build()?;
/// rt.block_on(async {
///     let permits = Arc::new(Semaphore::new(1));
///     for _ in 0..2 {
///         let permits = permits.clone();
///         wakeful::spawn(async move {
///             let _permit = permits.acquire_owned().await;
///             wakeful::time::sleep(Duration::from_secs(60)).await;
///         });
///     }
///     wakeful::task::yield_now().await;
///     let found = Handle::current().diagnose();
///     let Report::SlowHolder(slow) = &found[0] else { panic!("{found:?}") };
///     let holder = &slow.holders()[0];
///     assert_ne!(holder.task(), slow.oldest_waiter());
///     assert!(holder.may_have_moved(), "the permit is owned");
///     assert_eq!(holder.waiting_on().unwrap().kind(), "sleep");
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LastingHolder {
    pub(crate) task: TaskInfo,
    pub(crate) acquired_at: Option<&'static Location<'static>>,
    pub(crate) may_have_moved: bool,
    pub(crate) is_unpolled: bool,
    pub(crate) waiting: Option<WaitDump>,
}

impl LastingHolder {
    /// Returns the task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns where the task acquired the lock or permit, if that is known.
    pub fn acquired_at(&self) -> Option<&'static Location<'static>> {
        self.acquired_at
    }

    /// Returns whether the guard or permit is an owned one, so that another task or thread may hold
    /// it.
    pub fn may_have_moved(&self) -> bool {
        self.may_have_moved
    }

    /// Returns whether the lock or permit was granted to a future that has not been polled since.
    pub fn is_unpolled(&self) -> bool {
        self.is_unpolled
    }

    /// Returns what the holder waits for, or `None` for a running closure of the blocking pool.
    pub fn waiting_on(&self) -> Option<&WaitDump> {
        self.waiting.as_ref()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        if let Some(site) = self.acquired_at {
            let not_polled =
                if self.is_unpolled { ", by a future that has not been polled since" } else { "" };
            field(f, indent, "acquired", format_args!("at {site}{not_polled}"))?;
        }
        match &self.waiting {
            Some(wait) => field(f, indent, "waiting", LongWait(wait))?,
            None => field(f, indent, "running", "a closure of the blocking pool")?,
        }
        field(f, indent, self.task.verb(), format_args!("at {}", self.task.spawned_at()))
    }
}

/// Formats a wait: resource, site and duration.
struct LongWait<'a>(&'a WaitDump);

impl fmt::Display for LongWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wait, duration) = (self.0, Short(self.0.duration()));
        write!(f, "for {}", wait.phrase())?;
        if !wait.resource().is_empty() {
            write!(f, ": {}", wait.resource())?;
        }
        write!(f, ", {} {}, for {duration}", wait.site_label(), wait.site())
    }
}

impl SlowHolder {
    /// Makes a report about a non-empty list of holders, with whether there are others. They have
    /// not released the resource for `held`.
    pub(crate) fn new(
        (wait, resource_id): (WaitKind, u64),
        (holders, has_others): (Vec<LastingHolder>, bool),
        held: Duration,
        (waiters, oldest): (usize, OldestWaiter),
    ) -> Self {
        let stamp = Stamp::now();
        Self { wait, resource_id, holders, has_others, held, waiters, oldest, stamp }
    }

    /// Returns the call in which other tasks wait, for example `"Mutex::lock"`.
    pub fn kind(&self) -> &'static str {
        self.wait.name()
    }

    /// Returns an id that is equal for all tasks that wait for the same resource.
    pub fn resource_id(&self) -> u64 {
        self.resource_id
    }

    /// Returns the tasks that acquired the lock or permit. There is at least one.
    pub fn holders(&self) -> &[LastingHolder] {
        &self.holders
    }

    /// Returns whether there are holders beyond the at most four that [`holders`](Self::holders)
    /// lists.
    ///
    /// If true, each listed holder waits for the same lock or semaphore again.
    pub fn has_other_holders(&self) -> bool {
        self.has_others
    }

    /// Returns the minimum time for which no holder has released the lock or permit.
    pub fn held(&self) -> Duration {
        self.held
    }

    /// Returns how many tasks wait for the lock or permit.
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    /// Returns the task that has waited longest.
    pub fn oldest_waiter(&self) -> &TaskInfo {
        &self.oldest.task
    }

    /// Returns how long the [oldest waiter](Self::oldest_waiter) has waited.
    pub fn oldest_waited(&self) -> Duration {
        self.oldest.waited
    }

    fn resource(&self) -> &'static str {
        match self.wait {
            WaitKind::Mutex => "a mutex",
            WaitKind::Semaphore => "permits",
            _ => "a lock",
        }
    }

    /// Returns the likely cause and the fix.
    fn advice(&self) -> [&'static str; 2] {
        match (self.wait, self.has_others) {
            (WaitKind::Semaphore, true) => [
                "tasks that hold a permit wait for another one. If such tasks hold all permits, none can proceed.",
                "acquire all permits that a task needs in one call (acquire_many), or release the first one before \
                 waiting for the next.",
            ],
            (_, true) => [
                "tasks that hold the lock wait for it again. If all holders do, none can proceed.",
                "drop the first guard before waiting again.",
            ],
            (WaitKind::Semaphore, false) => [
                "a permit is held while its task or closure does something slow.",
                "release the permit before the slow wait, or add permits.",
            ],
            (_, false) => [
                "a guard is held while its task or closure does something slow.",
                "drop the guard before the slow wait: copy what the task needs, end the guard's block, then wait.",
            ],
        }
    }

    fn write_oldest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OldestWaiter { task: oldest, site, waited } = &self.oldest;
        let (kind, waited) = (self.kind(), Short(*waited));
        let text = format!("{}, the oldest {oldest} for {waited}: {kind} at {site}", self.waiters);
        field(f, "    ", "waiters", text)
    }
}

impl Content for SlowHolder {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        self.holders.iter().map(|holder| &holder.task).collect()
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        let oldest = &self.oldest;
        let mut sites = Vec::new();
        for LastingHolder { task, acquired_at, waiting, .. } in &self.holders {
            let acquired = acquired_at.map(|at| ReportSite { what: "acquired", task, at });
            let waits =
                waiting.as_ref().map(|it| ReportSite { what: "waits", task, at: it.site() });
            sites.extend(acquired.into_iter().chain(waits));
        }
        sites.push(ReportSite { what: "waits", task: &oldest.task, at: oldest.site });
        sites
    }
}

impl fmt::Display for SlowHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, held) = (self.resource(), Short(self.held));
        let waiters = match self.waiters {
            1 => "1 task waits".to_owned(),
            count => format!("{count} tasks wait"),
        };
        f.write_str("slow holder (suspected): ")?;
        match &*self.holders {
            [holder] => {
                writeln!(
                    f,
                    "{} acquired {resource} and has released nothing for {held}; {waiters}",
                    holder.task
                )?;
                holder.write(f, "    ")?;
            }
            holders => {
                writeln!(
                    f,
                    "{} tasks acquired {resource} and have released nothing for {held}; {waiters}",
                    holders.len()
                )?;
                for holder in holders {
                    writeln!(f, "    {}", holder.task)?;
                    holder.write(f, "      ")?;
                }
            }
        }
        if self.has_others {
            field(f, "    ", "others", "there are more holders that were not recorded")?;
        }
        self.write_oldest(f)?;
        let one = if self.wait == WaitKind::Semaphore { "permit" } else { "guard" };
        let kept = match self.holders.iter().any(|holder| holder.may_have_moved) {
            true => format!(", although an owned {one} can be moved to another task"),
            false => String::new(),
        };
        writeln!(f, "  assumes: the {one} is still held by the task that acquired it{kept}.")?;
        let [cause, fix] = self.advice();
        writeln!(f, "  likely cause: {cause}")?;
        write!(f, "  fix: {fix} Builder::report_lasting_after sets the threshold.")
    }
}
