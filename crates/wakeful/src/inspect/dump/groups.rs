//! The short form of a large dump: one entry for all tasks with the same spawn site and waits.
//!
//! Outliers are listed individually, before the groups. A task is an outlier if it runs or is part of
//! a finding. It is also an outlier if it waits at another site than most tasks that were spawned at
//! its site.

use super::text::{Count, Short, write_holders, write_task};
use super::{Dump, TaskDump, TaskState, WaitDump};
use crate::sys::sort::sort_by_key;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::panic::Location;
use std::time::Duration;

/// A dump of at most this many tasks lists each task.
pub(super) const MAX_UNGROUPED: usize = 20;
/// The maximum number of outliers listed.
const MAX_OUTLIERS: usize = 6;
/// No further group is written after this number of lines.
const MAX_GROUP_LINES: usize = 24;
/// Tasks of a smaller group are listed individually, without a line for the group.
const MIN_GROUP: usize = 3;
/// A group is rare, and its tasks are outliers, if its spawn site has at least this multiple of other tasks.
const OUTLIER_RATIO: usize = 10;

type Site = &'static Location<'static>;

/// What the tasks of a group have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    spawned_at: Site,
    state: &'static str,
    /// Kind and site of each wait, sorted, and whether the wait is from an earlier poll.
    waits: Vec<(&'static str, Site, bool)>,
}

impl Key {
    fn of(task: &TaskDump) -> Self {
        let mut waits: Vec<_> =
            task.waits().iter().map(|it| (it.kind(), it.site(), it.is_earlier())).collect();
        sort_by_key(&mut waits, |wait| *wait);
        waits.dedup();
        Self { spawned_at: task.info().spawned_at(), state: task.state_in_words(), waits }
    }
}

/// Tasks with the same key, the oldest first.
struct Group<'a> {
    tasks: Vec<&'a TaskDump>,
}

/// A task that is listed individually, with the reason if its own line does not show it.
struct Outlier<'a> {
    task: &'a TaskDump,
    why: Option<String>,
}

/// The tasks of a dump: the futures of `block_on`, the outliers, and the groups, largest first.
pub(super) struct Summary<'a> {
    block_ons: Vec<&'a TaskDump>,
    outliers: Vec<Outlier<'a>>,
    groups: Vec<Group<'a>>,
}

impl<'a> Summary<'a> {
    pub(super) fn of(dump: &'a Dump) -> Self {
        let (block_ons, tasks): (Vec<_>, Vec<_>) =
            dump.tasks.iter().partition(|task| task.info().is_block_on());
        let mut groups: BTreeMap<Key, Vec<&TaskDump>> = BTreeMap::new();
        let mut at_site: BTreeMap<Site, usize> = BTreeMap::new();
        for task in tasks {
            *at_site.entry(task.info().spawned_at()).or_default() += 1;
            groups.entry(Key::of(task)).or_default().push(task);
        }
        let found = dump.tasks_of_findings();
        let (mut outliers, mut kept) = (Vec::new(), Vec::new());
        for (key, mut tasks) in groups {
            sort_by_key(&mut tasks, |task| std::cmp::Reverse(task.age()));
            let others = at_site[&key.spawned_at] - tasks.len();
            let is_rare = tasks.len() < MIN_GROUP && others >= OUTLIER_RATIO * tasks.len();
            tasks.retain(|task| match outlier_reason(task, is_rare.then_some(others), &found) {
                Some(why) => {
                    outliers.push(Outlier { task, why });
                    false
                }
                None => true,
            });
            if !tasks.is_empty() {
                kept.push(Group { tasks });
            }
        }
        sort_by_key(&mut kept, |group| std::cmp::Reverse(group.tasks.len()));
        sort_by_key(&mut outliers, |outlier| (outlier.why.is_none(), outlier.task.info().id));
        Self { block_ons, outliers, groups: kept }
    }

    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in &self.block_ons {
            write_task(f, "  ", task)?;
        }
        for Outlier { task, why } in self.outliers.iter().take(MAX_OUTLIERS) {
            write_task(f, "  ", task)?;
            if let Some(why) = why {
                writeln!(f, "      {why}")?;
            }
        }
        let mut left_out: usize = self.outliers.len().saturating_sub(MAX_OUTLIERS);
        let mut lines = 0;
        for group in &self.groups {
            if lines >= MAX_GROUP_LINES {
                left_out += group.tasks.len();
                continue;
            }
            let mut text = String::new();
            group.write(&mut text)?;
            lines += text.lines().count();
            f.write_str(&text)?;
        }
        if left_out > 0 {
            writeln!(f, "  and {} more", Count(left_out as u64, "task"))?;
        }
        f.write_str("  To list every task: WAKEFUL_DUMP=full, Dump::full() or Dump::to_json()\n")
    }
}

/// Returns `Some` for an outlier, with the reason if the task's own line does not show it.
///
/// For a task of a rare group, `rare` is the number of other tasks of the same spawn site.
fn outlier_reason(
    task: &TaskDump,
    rare: Option<usize>,
    found: &BTreeSet<u64>,
) -> Option<Option<String>> {
    if found.contains(&task.info().id) {
        return Some(Some("it is part of a finding above".to_owned()));
    }
    if let TaskState::Running(_) = task.state() {
        return Some(None);
    }
    let others = Count(rare? as u64, "other task");
    Some(Some(format!("unlike {others} spawned there")))
}

impl Group<'_> {
    fn write(&self, f: &mut String) -> fmt::Result {
        let (Some(oldest), Some(newest)) = (self.tasks.first(), self.tasks.last()) else {
            return Ok(());
        };
        if self.tasks.len() < MIN_GROUP {
            return self.tasks.iter().try_for_each(|task| write_task(f, "  ", task));
        }
        let polls: u64 = self.tasks.iter().map(|task| u64::from(task.polls())).sum();
        let busy: Duration = self.tasks.iter().map(|task| task.busy()).sum();
        writeln!(
            f,
            "  {} {}, spawned at {}: oldest {}, newest {}, {}, {} busy",
            Count(self.tasks.len() as u64, "task"),
            oldest.state_in_words(),
            oldest.info().spawned_at(),
            Short(oldest.age()),
            Short(newest.age()),
            Count(polls, "poll"),
            Short(busy),
        )?;
        for wait in oldest.waits() {
            self.write_wait(f, wait)?;
        }
        writeln!(f, "      the oldest: {oldest}")?;
        for wait in oldest.waits().iter().filter(|wait| !self.is_same_for_all(wait)) {
            writeln!(f, "          {wait}")?;
            write_holders(f, "          ", wait)?;
        }
        Ok(())
    }

    /// Writes a wait that all tasks share, with the resource if all wait for the same one.
    fn write_wait(&self, f: &mut String, wait: &WaitDump) -> fmt::Result {
        let phrase = wait.phrase();
        let site = format_args!("{} {}", wait.site_label(), wait.site());
        let longest = self.all_like(wait).map(WaitDump::duration).max().unwrap_or_default();
        let longest = Short(longest);
        if wait.is_earlier() {
            let unknown = "waiting in a future that is not wakeful's own, or was not polled again";
            return writeln!(
                f,
                "      {unknown}; before that for {phrase}, {site}, up to {longest} ago"
            );
        }
        if !self.is_same_for_all(wait) {
            return writeln!(f, "      waiting for {phrase}, {site}, for up to {longest}");
        }
        let resource = wait.resource();
        writeln!(f, "      all waiting for {phrase}: {resource}, {site}, for up to {longest}")?;
        write_holders(f, "      ", wait)
    }

    /// Returns the waits of all tasks with this kind and site.
    fn all_like<'s>(&'s self, wait: &'s WaitDump) -> impl Iterator<Item = &'s WaitDump> {
        let alike = |other: &&WaitDump| (other.kind(), other.site()) == (wait.kind(), wait.site());
        self.tasks.iter().flat_map(|task| task.waits()).filter(alike)
    }

    /// Returns whether all tasks wait there for the same resource, and it is not a timer.
    fn is_same_for_all(&self, wait: &WaitDump) -> bool {
        wait.has_shared_resource()
            && self.all_like(wait).all(|other| other.resource_id() == wait.resource_id())
    }
}
