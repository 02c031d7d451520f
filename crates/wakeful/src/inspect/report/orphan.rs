//! A task that can never run again.

use crate::driver::clock::time_of;
use crate::sys::descriptor;
use crate::task::Id;
use crate::task::runnable::TaskRef;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::WaitTarget;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// A task that waits although no waker for it exists any more, so that nothing
/// can ever wake it.
#[derive(Clone, Debug)]
pub struct Orphan {
    id: Id,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    polls: u32,
    last_wait: Option<Wait>,
    /// That was in an earlier poll.
    is_earlier: bool,
    /// What that was for, if for a socket or the like.
    descriptor: Option<String>,
}

impl Orphan {
    pub(crate) fn new(task: &TaskRef) -> Self {
        let header = task.header();
        let origin = header.origin.get();
        let last_wait = header.waiting.read();
        let socket = last_wait.filter(|wait| wait.kind.is_for_descriptor());
        let descriptor = socket.and_then(|wait| match wait.target.target() {
            WaitTarget::Number(number) => descriptor::describe(number),
            WaitTarget::Record(_) | WaitTarget::Task(_) => None,
        });
        Self {
            id: header.id(),
            name: origin.name().map(str::to_owned),
            spawned_at: origin.spawned_at(),
            polls: header.polls(),
            last_wait,
            is_earlier: !header.waiting.is_from_poll(header.poll_stamp()),
            descriptor,
        }
    }
}

impl Orphan {
    /// The task.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The task's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where it was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// How often it was polled; after two thousand million times it begins anew.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// The last future of wakeful's own that it waited in, in words, and where
    /// that future was made; `None` if it never waited in one.
    pub fn last_waited_for(&self) -> Option<(&'static str, &'static Location<'static>)> {
        self.last_wait.map(|wait| (wait.kind.phrase(), wait.site))
    }

    /// If that future waited for a socket or the like: its descriptor and, for a
    /// socket, the addresses of this side and the other.
    pub fn last_waited_on(&self) -> Option<&str> {
        self.descriptor.as_deref()
    }

    /// If that future waited for a moment (`sleep`, `interval`, `timeout`): how
    /// long after the start of the runtime this was to come, on its clock.
    pub fn last_waited_until(&self) -> Option<Duration> {
        let wait = self.last_wait.filter(|wait| wait.kind == WaitKind::Sleep)?;
        match wait.target.target() {
            WaitTarget::Number(tick) => Some(time_of(tick)),
            WaitTarget::Record(_) | WaitTarget::Task(_) => None,
        }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(
            f,
            " can never run again: it returned Pending and no waker for it is left.\n  \
             spawned at {}, polled {} time{}\n  ",
            self.spawned_at,
            self.polls,
            if self.polls == 1 { "" } else { "s" }
        )?;
        match self.last_waited_for() {
            Some((what, site)) => {
                write!(f, "last seen waiting for {what}")?;
                if let Some(descriptor) = self.last_waited_on() {
                    write!(f, " on {descriptor}")?;
                }
                if let Some(until) = self.last_waited_until() {
                    write!(f, ", {until:?} after the runtime started")?;
                }
                write!(f, ", made at {site}")?;
                if self.is_earlier {
                    f.write_str(", which was before its last poll")?;
                }
            }
            None => f.write_str("it has not waited in any future of wakeful's own")?,
        }
        f.write_str(
            "\n  likely cause: a future returned Pending without keeping cx.waker().clone(), kept \
             the waker of another task, or whatever held the waker was dropped without waking it.\n  \
             If the task is meant to wait until it is aborted, wrap its future in \
             wakeful::task::may_wait_forever.",
        )
    }
}
