//! The first lines of a dump: what is wrong with the runtime, one line for each finding.

use super::text::{Count, Short};
use super::{Dump, TaskDump};
use crate::inspect::report::Report;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// The maximum number of findings written.
const MAX_FINDINGS: usize = 6;
/// The maximum number of waits of a deadlock written.
const MAX_EDGES: usize = 4;

impl Dump {
    /// Returns the ids of the tasks that the findings are about.
    pub(super) fn tasks_of_findings(&self) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        for report in self.findings() {
            match report {
                Report::Deadlock(deadlock) => {
                    found.extend(deadlock.edges().iter().map(|edge| edge.task().id));
                }
                Report::Futurelock(futurelock) => {
                    found.extend(futurelock.edges().iter().map(|edge| edge.task().id));
                }
                Report::Spinning(spinning) => {
                    found.insert(spinning.task().id);
                }
                Report::FutileLoop(futile) => {
                    found.insert(futile.task().id);
                }
                _ => {}
            }
        }
        found
    }
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, dump: &Dump) -> fmt::Result {
    let mut lines = Vec::new();
    for (age, report) in &dump.findings {
        let mut text = headline(report);
        if let Some(age) = age {
            write!(text, " (reported {} ago)", Short(*age))?;
        }
        write_edges(&mut text, report)?;
        lines.push(text);
    }
    lines.extend(orphans(dump));
    lines.extend(blocked(dump));
    for line in lines.iter().take(MAX_FINDINGS) {
        writeln!(f, "  FOUND {line}")?;
    }
    if let Some(more) = lines.len().checked_sub(MAX_FINDINGS).filter(|more| *more > 0) {
        writeln!(f, "  FOUND {} more", Count(more as u64, "bug"))?;
    }
    Ok(())
}

/// Returns the first line of a report.
pub(in crate::inspect) fn headline(report: &Report) -> String {
    /// Keeps the first line, then returns an error to end the formatting.
    struct FirstLine(String);
    impl fmt::Write for FirstLine {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let (line, is_whole) = text.split_once('\n').map_or((text, true), |it| (it.0, false));
            self.0.push_str(line);
            if is_whole { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut first = FirstLine(String::new());
    // An error means that the line is complete.
    let _ = write!(first, "{report}");
    first.0
}

/// Adds a line for each wait of a deadlock.
fn write_edges(text: &mut String, report: &Report) -> fmt::Result {
    let edges = match report {
        Report::Deadlock(deadlock) => deadlock.edges(),
        Report::Futurelock(futurelock) => futurelock.edges(),
        _ => return Ok(()),
    };
    for edge in edges.iter().take(MAX_EDGES) {
        let (task, kind, holder) = (edge.task(), edge.kind(), edge.holder());
        write!(text, "\n          {task:#} waits for {holder} in {kind}")?;
    }
    if let Some(more) = edges.len().checked_sub(MAX_EDGES).filter(|more| *more > 0) {
        write!(text, "\n          and {} more", Count(more as u64, "wait"))?;
    }
    Ok(())
}

fn orphans(dump: &Dump) -> Option<String> {
    let is_orphan = |task: &&TaskDump| task.is_orphan() && !task.info().is_block_on();
    let mut orphans = dump.tasks.iter().filter(is_orphan);
    let first = orphans.next()?.info();
    let text = "can never run again: it returned Pending, and no waker for it exists";
    Some(match orphans.count() {
        0 => format!("orphan (proven): {first} {text}"),
        others => {
            let others = Count(others as u64, "other task");
            format!("orphan (proven): {first} {text}; the same applies to {others}")
        }
    })
}

fn blocked(dump: &Dump) -> Vec<String> {
    let blocked = dump.blocked_workers().filter_map(|worker| {
        let (task, index, duration) = (worker.task()?, worker.index(), Short(worker.duration()?));
        Some(format!(
            "blocked (suspected): {task:#} has been inside one poll for {duration}, on worker {index}"
        ))
    });
    blocked.collect()
}
