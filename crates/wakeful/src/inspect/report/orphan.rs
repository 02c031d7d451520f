//! A task that waits without a waker. The orphan check itself is in `task::state`.

use super::Content;
use super::json::ReportPlace;
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
/// It is always [proven](super::Certainty::Proven).
#[derive(Clone, Debug)]
pub struct Orphan {
    task: TaskInfo,
    polls: u32,
    last_wait: Option<Wait>,
    /// What the site of `last_wait` is.
    place: &'static str,
    /// `last_wait` is of an earlier poll than the last.
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
        let place = last_recorded.map_or("", |recorded| {
            recorded.wait.kind.place(recorded.wait.target.target(), recorded.at_resource)
        });
        let descriptor = socket.and_then(|wait| match wait.target.target() {
            WaitTarget::Number(number) => descriptor::describe(number),
            WaitTarget::Record(_) | WaitTarget::Task(_) => None,
        });
        Self {
            task: TaskInfo::of_task(header),
            polls: header.polls(),
            last_wait,
            place,
            is_earlier: !header.waiting.is_from_poll(header.poll_stamp()),
            descriptor,
            stamp: Stamp::now(),
        }
    }
}

impl Orphan {
    /// Returns the task's id.
    pub fn id(&self) -> Id {
        Id::from_u64(self.task.number)
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

    /// Returns the last wait in one of wakeful's own futures: the resource, and the place of the call.
    ///
    /// `None` if the task never waited in one.
    pub fn last_waited_for(&self) -> Option<(&'static str, &'static Location<'static>)> {
        self.last_wait.map(|wait| (wait.kind.phrase(), wait.site))
    }

    /// Returns the descriptor of that wait, with the local and remote address of a socket.
    pub fn last_waited_on(&self) -> Option<&str> {
        self.descriptor.as_deref()
    }

    /// Returns the deadline of that wait, measured from the start of the runtime, if it was for a timer.
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

    fn places(&self) -> Vec<ReportPlace<'_>> {
        let wait = self.last_wait.iter();
        wait.map(|wait| ReportPlace { what: "waited", task: &self.task, at: wait.site }).collect()
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
                text += &format!(", {} {site}", self.place);
                if self.is_earlier {
                    text += ", before its last poll";
                }
                field(f, "    ", "last wait", text)?;
            }
            None => field(f, "    ", "last wait", "in no future of wakeful's own")?,
        }
        f.write_str(
            "  likely cause: a future returned Pending without storing cx.waker().clone(), or stored the waker \
             of another task, or the owner of the waker was dropped without a wake-up.\n  \
             fix: store the waker of the last poll and call it when the event happens. If the task is meant to \
             wait until it is aborted, wrap its future in wakeful::task::may_wait_forever.",
        )
    }
}
