//! The `Display` of a dump: findings, workers as a table, then tasks as a tree or in groups.

use super::findings;
use super::groups::{self, Summary};
use super::holder::HolderKind;
use super::{
    Dump, FullDump, HolderDump, TaskDump, TaskState, TaskTrace, WaitDump, WorkerDump, WorkerState,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
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

/// A number with its noun: `1 poll`, `2 polls`.
pub(in crate::inspect) struct Count(
    pub(in crate::inspect) u64,
    pub(in crate::inspect) &'static str,
);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(number, noun) = self;
        write!(f, "{number} {noun}{}", if *number == 1 { "" } else { "s" })
    }
}

/// A number and its noun in a column, with the numbers aligned right and the nouns aligned left.
struct Column(usize, u64, &'static str);

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Column(width, number, noun) = self;
        write!(f, "{number:>width$} {noun}{}", if *number == 1 { " " } else { "s" })
    }
}

/// Returns whether `WAKEFUL_DUMP=full` is set, so that every dump lists every task.
fn is_full_by_environment() -> bool {
    static IS_FULL: OnceLock<bool> = OnceLock::new();
    *IS_FULL.get_or_init(|| match std::env::var("WAKEFUL_DUMP") {
        Ok(value) if value == "full" => true,
        Ok(value) => {
            eprintln!("wakeful: WAKEFUL_DUMP must be full or unset, but it is {value:?}");
            false
        }
        Err(_) => false,
    })
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tasks.len() <= groups::MAX_UNGROUPED || is_full_by_environment() {
            return self.full().fmt(f);
        }
        write_head(f, self)?;
        Summary::of(self).write(f)
    }
}

impl fmt::Display for FullDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_head(f, self.dump)?;
        Tree::of(self.dump).write(f)
    }
}

/// Writes the part before the tasks: the runtime, the findings and the workers.
fn write_head(f: &mut fmt::Formatter<'_>, dump: &Dump) -> fmt::Result {
    let name = dump.runtime().map_or(String::new(), |name| format!(" \"{name}\""));
    let tasks = dump.tasks.iter().filter(|task| !task.info().is_block_on()).count();
    let (after, tasks) = (Short(dump.taken_at), Count(tasks as u64, "task"));
    writeln!(f, "runtime{name} after {after}: {tasks}, {} in the injector", dump.queued)?;
    findings::write(f, dump)?;
    dump.workers.iter().try_for_each(|worker| writeln!(f, "  {worker}"))
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
            "worker {:<2} {doing:<40} {:>4} queued {} {} {} {:>7} busy",
            self.index(),
            self.queued(),
            Column(4, self.timers() as u64, "timer"),
            Column(4, self.sources() as u64, "source"),
            Column(9, self.polls(), "poll"),
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
            write_task(f, &"  ".repeat(depth.min(16) + 1), task)?;
            let children = self.children.get(&task.info().id);
            next.extend(children.into_iter().flatten().rev().map(|task| (depth + 1, *task)));
        }
        Ok(())
    }
}

/// Writes a task, what it waits for, and the holders.
pub(super) fn write_task(f: &mut dyn fmt::Write, indent: &str, task: &TaskDump) -> fmt::Result {
    writeln!(f, "{indent}{task}")?;
    write_waits(f, &format!("{indent}    "), task)
}

pub(super) fn write_waits(f: &mut dyn fmt::Write, indent: &str, task: &TaskDump) -> fmt::Result {
    let waits = task.waits();
    for wait in waits {
        writeln!(f, "{indent}{wait}")?;
        write_holders(f, indent, wait)?;
    }
    let (known, wakers) = (waits.len() as u64, Count(task.wakers(), "waker"));
    if known > 0 && task.wakers() > known {
        writeln!(f, "{indent}it may also wait for other resources: it has {wakers}")?;
    } else if task.wakers() > 0 && task.wakers() < known {
        writeln!(f, "{indent}some of these waits may be over: it has {wakers}")?;
    }
    Ok(())
}

pub(super) fn write_holders(f: &mut dyn fmt::Write, indent: &str, wait: &WaitDump) -> fmt::Result {
    for holder in wait.holders() {
        writeln!(f, "{indent}{holder}")?;
    }
    if wait.has_other_holders() {
        writeln!(f, "{indent}held by more tasks than are listed")?;
    }
    Ok(())
}

impl fmt::Display for TaskDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.info())?;
        match self.state() {
            TaskState::Running(Some(worker)) => write!(f, "running on worker {worker}")?,
            _ => f.write_str(self.state_in_words())?,
        }
        write!(f, ", {} at {}, ", self.info().verb(), self.info().spawned_at())?;
        // The age and busy time of a `block_on` are not measured.
        let is_measured = !self.info().is_block_on();
        if is_measured {
            write!(f, "{} old, ", Short(self.age()))?;
        }
        write!(f, "{}, ", Count(self.polls().into(), "poll"))?;
        if is_measured {
            write!(f, "{} busy, ", Short(self.busy()))?;
        }
        let (wakes, wakers) = (Count(self.wakes().into(), "wake"), Count(self.wakers(), "waker"));
        write!(f, "{wakes}, {wakers}")
    }
}

impl fmt::Display for TaskTrace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_task(f, "", self.task)
    }
}

impl TaskDump {
    /// Returns the state without the worker. Orphans have a state of their own.
    pub(super) fn state_in_words(&self) -> &'static str {
        if self.is_orphan() && !self.info().is_block_on() {
            return "ORPHANED, waiting";
        }
        self.state().name()
    }
}

impl fmt::Display for WaitDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = match self.resource() {
            "" => String::new(),
            resource => format!(": {resource}"),
        };
        let (phrase, duration) = (self.phrase(), Short(self.duration()));
        let site = format_args!("{} {}", self.site_label(), self.site());
        if self.is_earlier() {
            let unknown = "waiting in a future that is not wakeful's own, or was not polled again";
            return write!(
                f,
                "{unknown}; before that for {phrase}{resource}, {site}, {duration} ago"
            );
        }
        write!(f, "waiting for {phrase}{resource}, {site}, for {duration}")
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
            f.write_str(", granted to a future that has not been polled since")?;
        }
        Ok(())
    }
}
