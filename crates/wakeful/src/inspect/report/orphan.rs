//! Tasks that wait without a waker. The orphan check itself is in `task::state`.

use super::Content;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::text::field;
use crate::driver::clock::time_of;
use crate::inspect::dump::text::Count;
use crate::inspect::task_info::TaskInfo;
use crate::sys::descriptor;
use crate::task::Id;
use crate::task::runnable::TaskRef;
use crate::task::wait_record::Wait;
use crate::task::wait_target::WaitTarget;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// A task that waits although no waker for it exists, so it can never run again.
///
/// An orphan is always [proven](super::Certainty::Proven).
///
/// # Examples
///
/// A future that keeps no waker:
///
/// ```
/// use std::future::poll_fn;
/// use std::sync::mpsc;
/// use std::task::Poll;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::Builder;
///
/// let (tx, rx) = mpsc::channel();
/// let rt = Builder::new_current_thread()
///     .on_report(move |report| drop(tx.send(report.clone())))
///     .build()?;
/// let task = rt.spawn(poll_fn(|_| Poll::<()>::Pending));
/// rt.block_on(wakeful::task::yield_now());
/// let Report::Orphan(orphan) = rx.recv().unwrap() else { panic!() };
/// assert_eq!((orphan.id(), orphan.name(), orphan.polls()), (task.id(), None, 1));
/// assert!(orphan.last_waited_for().is_none());
/// assert!(orphan.spawned_at().file().ends_with(".rs"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Orphan {
    task: TaskInfo,
    polls: u32,
    last_wait: Option<Wait>,
    /// The words that say what the site of `last_wait` is.
    site_label: &'static str,
    /// Whether `last_wait` is from a poll before the last one.
    is_earlier: bool,
    /// The descriptor of `last_wait`, in words.
    descriptor: Option<String>,
    stamp: Stamp,
}

impl Orphan {
    pub(crate) fn new(task: &TaskRef) -> Self {
        let header = task.header();
        let last_recorded = header.waiting.waits().0.first().copied();
        let last_wait = last_recorded.map(|recorded| recorded.wait);
        let socket = last_wait.filter(|wait| wait.kind.is_for_descriptor());
        let site_label = last_recorded.map_or("", |recorded| {
            recorded.wait.kind.site_label(recorded.wait.target.target(), recorded.at_resource)
        });
        let descriptor = socket.and_then(|wait| match wait.target.target() {
            WaitTarget::Number(number) => descriptor::describe(number),
            WaitTarget::Record(_) | WaitTarget::Task(_) => None,
        });
        Self {
            task: TaskInfo::of_task(header),
            polls: header.polls(),
            last_wait,
            site_label,
            is_earlier: !header.waiting.is_from_poll(header.poll_stamp()),
            descriptor,
            stamp: Stamp::now(),
        }
    }
}

impl Orphan {
    /// Returns the task's id.
    pub fn id(&self) -> Id {
        Id::from_u64(self.task.id)
    }

    /// Returns the task's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.task.name()
    }

    /// Returns where the task was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.task.spawned_at()
    }

    /// Returns how often the task was polled. The count wraps after 2^31 polls.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Returns the task's last wait in one of wakeful's own futures: the call and its site.
    ///
    /// Returns `None` if the task never waited in one.
    ///
    /// # Examples
    ///
    /// A task that slept and then waits in a future that keeps no waker:
    ///
    /// ```
    /// use std::future::pending;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wakeful::inspect::Report;
    /// use wakeful::runtime::Builder;
    /// use wakeful::time::sleep;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .enable_time()
    ///     .start_paused(true)
    ///     .on_report(move |report| drop(tx.send(report.clone())))
    ///     .build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(async {
    ///         sleep(Duration::from_secs(1)).await;
    ///         pending::<()>().await
    ///     });
    ///     sleep(Duration::from_secs(2)).await;
    /// });
    /// let Report::Orphan(orphan) = rx.recv().unwrap() else { panic!() };
    /// let (resource, _site) = orphan.last_waited_for().unwrap();
    /// assert_eq!(resource, "a timer (sleep or interval)");
    /// assert!(orphan.last_waited_until().unwrap() >= Duration::from_secs(1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn last_waited_for(&self) -> Option<(&'static str, &'static Location<'static>)> {
        self.last_wait.map(|wait| (wait.kind.phrase(), wait.site))
    }

    /// Returns the descriptor of the [last wait](Self::last_waited_for), with the addresses of a
    /// socket.
    pub fn last_waited_on(&self) -> Option<&str> {
        self.descriptor.as_deref()
    }

    /// Returns the deadline of the [last wait](Self::last_waited_for), if it was for a timer.
    ///
    /// The deadline is measured from the start of the runtime.
    pub fn last_waited_until(&self) -> Option<Duration> {
        let wait = self.last_wait.filter(|wait| wait.kind.is_for_timer())?;
        match wait.target.target() {
            WaitTarget::Number(tick) => Some(time_of(tick)),
            WaitTarget::Record(_) | WaitTarget::Task(_) => None,
        }
    }
}

impl Content for Orphan {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        vec![&self.task]
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        let wait = self.last_wait.iter();
        wait.map(|wait| ReportSite { what: "waited", task: &self.task, at: wait.site }).collect()
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "orphan (proven): {} can never run again: it returned Pending, and no waker for it exists",
            self.task
        )?;
        let polls = Count(u64::from(self.polls), "poll");
        let spawned = format_args!("at {}, {polls}", self.spawned_at());
        field(f, "    ", "spawned", spawned)?;
        match self.last_waited_for() {
            Some((what, site)) => {
                let mut text = what.to_owned();
                if let Some(descriptor) = self.last_waited_on() {
                    text += &format!(" on {descriptor}");
                }
                if let Some(until) = self.last_waited_until() {
                    text += &format!(", {until:?} after the runtime started");
                }
                text += &format!(", {} {site}", self.site_label);
                if self.is_earlier {
                    text += ", before its last poll";
                }
                field(f, "    ", "last wait", text)?;
            }
            None => field(f, "    ", "last wait", "in a future that is not wakeful's own")?,
        }
        f.write_str(
            "  likely cause: a future returned Pending without storing cx.waker().clone(), or stored the waker \
             of another task, or the owner of the waker was dropped without a wake-up.\n  \
             fix: store the waker of the last poll and call it when the event happens. If the task is meant to \
             wait until it is aborted, wrap its future in wakeful::task::may_wait_forever.",
        )
    }
}
