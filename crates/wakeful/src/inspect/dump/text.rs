//! The `Display` of a dump: workers as a table, tasks as a tree.

use super::task::HolderKind;
use super::{Dump, HolderDump, TaskDump, TaskState, WaitDump, WorkerDump, WorkerState};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A duration with up to four digits.
pub(super) struct Short(pub(super) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let text = match ns {
            0 => "0".to_owned(),
            1..10_000 => format!("{ns} ns"),
            10_000..10_000_000 => format!("{} µs", ns / 1_000),
            10_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
            _ => format!("{} s", ns / 1_000_000_000),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.runtime().map_or(String::new(), |name| format!(" \"{name}\""));
        let tasks = self.tasks.iter().filter(|task| !task.info().is_block_on()).count();
        writeln!(
            f,
            "runtime{name} after {}: {tasks} tasks, {} in the injector",
            Short(self.taken_at),
            self.queued
        )?;
        for worker in &self.workers {
            writeln!(f, "  {worker}")?;
        }
        Tree::of(self).write(f)
    }
}

impl fmt::Display for WorkerDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut doing = self.state().name().to_owned();
        if self.state() == WorkerState::Polling {
            doing = self.task().map_or("polling a task that has ended".to_owned(), |task| {
                format!("polling {task:#}")
            });
        }
        if let Some(duration) = self.duration() {
            doing += &format!(" for {}", Short(duration));
        }
        write!(
            f,
            "worker {:<2} {doing:<40} {:>4} queued {:>4} timers {:>4} sources {:>9} polls {:>7} busy",
            self.index(),
            self.queued(),
            self.timers(),
            self.sources(),
            self.polls(),
            Short(self.busy()),
        )
    }
}

/// Tasks below their parents.
struct Tree<'a> {
    roots: Vec<&'a TaskDump>,
    children: BTreeMap<u64, Vec<&'a TaskDump>>,
}

impl<'a> Tree<'a> {
    fn of(dump: &'a Dump) -> Self {
        let mut tree = Self { roots: Vec::new(), children: BTreeMap::new() };
        for task in dump {
            match task.parent {
                Some(parent) => tree.children.entry(parent).or_default().push(task),
                None => tree.roots.push(task),
            }
        }
        tree
    }

    /// Writes the tree without recursion: a chain of tasks can be long.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next: Vec<(usize, &TaskDump)> =
            self.roots.iter().rev().map(|task| (0, *task)).collect();
        while let Some((depth, task)) = next.pop() {
            let indent = "  ".repeat(depth.min(16) + 1);
            writeln!(f, "{indent}{task}")?;
            if let Some(wait) = task.waiting_on() {
                writeln!(f, "{indent}    {wait}")?;
                if task.wakers() > 1 {
                    let wakers = task.wakers();
                    writeln!(
                        f,
                        "{indent}    it may also wait for other resources: it has {wakers} wakers"
                    )?;
                }
                for holder in wait.holders() {
                    writeln!(f, "{indent}    {holder}")?;
                }
                if wait.has_other_holders() {
                    writeln!(f, "{indent}    held by more tasks than are listed")?;
                }
            }
            let children = self.children.get(&task.info().number);
            next.extend(children.into_iter().flatten().rev().map(|task| (depth + 1, *task)));
        }
        Ok(())
    }
}

impl fmt::Display for TaskDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.info())?;
        match self.state() {
            TaskState::Running(Some(worker)) => write!(f, "running on worker {worker}")?,
            TaskState::Waiting if self.is_orphan() && !self.info().is_block_on() => {
                f.write_str("ORPHANED, waiting")?;
            }
            state => f.write_str(state.name())?,
        }
        let (polls, wakes, wakers) = (self.polls(), self.wakes(), self.wakers());
        write!(f, ", spawned at {}, ", self.info().spawned_at())?;
        if self.info().is_block_on() {
            // Its age and busy time are not measured.
            return write!(f, "{polls} polls, {wakes} wakes, {wakers} wakers");
        }
        let (age, busy) = (Short(self.age()), Short(self.busy()));
        write!(f, "{age} old, {polls} polls, {busy} busy, {wakes} wakes, {wakers} wakers")
    }
}

impl fmt::Display for WaitDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = match self.resource() {
            "" => String::new(),
            resource => format!(": {resource}"),
        };
        let (phrase, since) = (self.phrase(), Short(self.since()));
        let place = format_args!("{} {}", self.place(), self.site());
        if self.is_earlier() {
            let unknown = "waiting in a future that is not wakeful's own, or was not polled again";
            return write!(
                f,
                "{unknown}; before that for {phrase}{resource}, {place}, {since} ago"
            );
        }
        write!(f, "waiting for {phrase}{resource}, {place}, since {since}")
    }
}

impl fmt::Display for HolderDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, at, after) = match self.kind {
            HolderKind::Joined => ("joins", " at", ""),
            HolderKind::Holds => ("held by", ", acquired at", ""),
            HolderKind::MayHaveMoved => ("acquired by", " at", ", may have been moved since"),
            HolderKind::LastReceiver => ("last received by", " at", ""),
        };
        match self.task() {
            Some(task) => write!(f, "{before} {task:#}")?,
            None => write!(f, "{before} no task of this runtime")?,
        }
        if let Some(site) = self.acquired_at() {
            write!(f, "{at} {site}")?;
        }
        f.write_str(after)?;
        if self.is_unpolled() {
            f.write_str(", granted to a future that was not polled since")?;
        }
        Ok(())
    }
}
