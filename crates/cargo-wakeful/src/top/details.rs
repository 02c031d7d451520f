//! The details of one task or one finding, as lines. Some lines link to a task.

use super::format::{count, duration};
use super::model::{self, Finding, Group, Task, TaskRef, list, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The answer to `task`.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// The task; `None` if it has ended.
    pub task: Option<Task>,
    /// How the task has ended, if it is not found.
    ended: String,
    children: Vec<TaskRef>,
    findings: Vec<Finding>,
    group: Option<Group>,
    graph: Graph,
}

/// A line of the details.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    pub text: String,
    /// The task that this line links to.
    pub link: Option<TaskRef>,
    pub is_heading: bool,
}

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    fn heading(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_heading: true, ..Self::default() }
    }

    fn link(text: impl Into<String>, task: &TaskRef) -> Self {
        Self { text: text.into(), link: Some(task.clone()), ..Self::default() }
    }
}

impl Details {
    pub fn read(value: &Value) -> Self {
        let is_found = value["found"] == true;
        let ended = &value["ended"];
        Self {
            task: is_found.then(|| Task::read(&value["task"])),
            ended: match ended.is_null() {
                true => "It is not alive, and its end is not recorded.".to_owned(),
                false => format!(
                    "It {} {} ago, after {}.",
                    match ended["outcome"].as_str() {
                        Some("panicked") => "panicked",
                        Some("aborted") => "was aborted",
                        Some("orphaned") => "was dropped as an orphan",
                        _ => "finished",
                    },
                    duration(ended["ended_ms_ago"].as_f64().unwrap_or_default()),
                    counted(model::count(&ended["polls"]), "poll"),
                ),
            },
            children: list(&value["children"], TaskRef::read),
            findings: list(&value["findings"], Finding::read),
            group: (!value["group"].is_null()).then(|| Group::read(&value["group"])),
            graph: Graph::read(&value["graph"]),
        }
    }

    /// Returns the lines for this task.
    pub fn lines(&self) -> Vec<Line> {
        let Some(task) = &self.task else { return vec![Line::plain(self.ended.clone())] };
        let mut lines = facts(task);
        waits(task, &mut lines);
        self.graph.chain(&task.task, &mut lines);
        let waiters = self.graph.waiters(&task.task);
        section(
            &mut lines,
            "tasks that wait for it",
            waiters.iter().map(|it| Line::link(&it.label, it)),
        );
        for finding in &self.findings {
            section(&mut lines, "finding", finding.message.iter().map(Line::plain));
        }
        section(&mut lines, "children", self.children.iter().map(|it| Line::link(&it.label, it)));
        if let Some(group) = &self.group {
            section(&mut lines, "group of its spawn site", group_lines(group));
        }
        lines
    }
}

/// Returns the lines for a finding: its report and its tasks.
pub fn finding_lines(finding: &Finding) -> Vec<Line> {
    let mut lines: Vec<Line> = finding.message.iter().map(Line::plain).collect();
    if let Some(age) = finding.age_ms {
        lines.push(Line::plain(format!("  reported {} ago", duration(age))));
    }
    let task = |task: &TaskRef| {
        Line::link(format!("{}, spawned at {}", task.label, task.spawned_at), task)
    };
    section(&mut lines, "tasks", finding.tasks.iter().map(task));
    lines
}

/// Adds a heading and lines, if there are lines.
fn section(lines: &mut Vec<Line>, heading: &str, content: impl IntoIterator<Item = Line>) {
    let mut content = content.into_iter().peekable();
    if content.peek().is_some() {
        lines.extend([Line::default(), Line::heading(heading)]);
        lines.extend(content);
    }
}

/// Returns a number with its noun.
fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

fn facts(task: &Task) -> Vec<Line> {
    let mut state = task.state.clone();
    if task.is_orphan {
        state.push_str(", orphan: no waker for it exists");
    }
    if task.is_closure {
        state.push_str(", a closure on the blocking pool");
    }
    let mut lines = vec![
        Line::plain(format!("state       {state}")),
        Line::plain(format!("spawned     at {}", task.task.spawned_at)),
    ];
    if let Some(parent) = &task.parent {
        lines.push(Line::link(format!("spawned by  {}", parent.label), parent));
    }
    lines.push(Line::plain(format!(
        "so far      {} old, {}, {} busy, {}, {}",
        duration(task.age_ms),
        counted(task.polls, "poll"),
        duration(task.busy_ms),
        counted(task.wakes, "wake"),
        counted(task.wakers, "waker"),
    )));
    lines
}

fn waits(task: &Task, lines: &mut Vec<Line>) {
    for wait in &task.waits {
        let what = format!("{} {}", wait.phrase, wait.resource);
        let heading = if wait.is_earlier { "waited before for" } else { "waits for" };
        let mut content = vec![Line::plain(format!(
            "{}, for {}, {} {}",
            what.trim_end(),
            duration(wait.duration_ms),
            wait.site_label,
            wait.site
        ))];
        for holder in &wait.holders {
            let acquired = match holder.acquired_at.as_str() {
                "" => String::new(),
                site => format!(", acquired at {site}"),
            };
            content.push(match &holder.task {
                Some(task) => Line::link(format!("held by {}{acquired}", task.label), task),
                None => Line::plain(format!("held by code outside tasks{acquired}")),
            });
        }
        if wait.has_other_holders {
            content.push(Line::plain("and by holders that were not recorded"));
        }
        section(lines, heading, content);
    }
}

fn group_lines(group: &Group) -> Vec<Line> {
    let time = |ms: Option<f64>| ms.map_or("none timed".to_owned(), duration);
    vec![Line::plain(format!(
        "{} alive, {} started, poll p99 {}, wait p99 {}",
        count(group.alive),
        count(group.started),
        time(group.poll_p99_us.map(|us| us / 1000.0)),
        time(group.wait_p99_ms),
    ))]
}

/// The graph of tasks, the resources that they wait for, and the tasks that hold those.
#[derive(Clone, Debug, Default)]
struct Graph {
    /// The label of each node, and its task.
    nodes: BTreeMap<String, (String, Option<TaskRef>)>,
    edges: Vec<Edge>,
    has_cycle: bool,
}

#[derive(Clone, Debug)]
struct Edge {
    from: String,
    to: String,
    what: String,
    at: String,
    duration_ms: Option<f64>,
}

impl Graph {
    fn read(value: &Value) -> Self {
        let node = |node: &Value| {
            let task = (node["kind"] == "task").then(|| TaskRef::read(&node["task"]));
            let label = task.as_ref().map_or_else(|| text(&node["label"]), |it| it.label.clone());
            (text(&node["key"]), (label, task))
        };
        Self {
            nodes: list(&value["nodes"], node).into_iter().collect(),
            edges: list(&value["edges"], |edge| Edge {
                from: text(&edge["from"]),
                to: text(&edge["to"]),
                what: text(&edge["what"]),
                at: text(&edge["at"]),
                duration_ms: edge["duration_ms"].as_f64(),
            }),
            has_cycle: value["cycle"].as_array().is_some_and(|cycle| !cycle.is_empty()),
        }
    }

    /// Adds the chain of waits that begins at a task, if a task holds what it waits for.
    fn chain(&self, task: &TaskRef, lines: &mut Vec<Line>) {
        let start = node_key(task);
        let mut chain = vec![Line::link(&task.label, task)];
        let mut visited = BTreeSet::new();
        self.follow(&start, 1, &mut visited, &mut chain);
        let heading = match self.has_cycle {
            true => "chain of waits: it contains a cycle",
            false => "chain of waits",
        };
        // The task itself and its wait are shown above.
        if chain.iter().filter(|line| line.link.is_some()).count() > 1 {
            section(lines, heading, chain);
        }
    }

    fn follow<'g>(
        &'g self,
        node: &'g str,
        depth: usize,
        visited: &mut BTreeSet<&'g str>,
        chain: &mut Vec<Line>,
    ) {
        visited.insert(node);
        for edge in self.edges.iter().filter(|edge| edge.from == node) {
            let Some((label, task)) = self.nodes.get(&edge.to) else { continue };
            // A chain of many tasks stays on the screen.
            let indent = "  ".repeat(depth.min(12));
            let mut text = format!("{indent}{} {label}", edge.what);
            if !edge.at.is_empty() {
                let what = if task.is_some() { "acquired at" } else { "at" };
                text.push_str(&format!(", {what} {}", edge.at));
            }
            if let Some(waited) = edge.duration_ms {
                text.push_str(&format!(", for {}", duration(waited)));
            }
            let is_known = visited.contains(edge.to.as_str());
            if is_known {
                text.push_str(" (see above)");
            }
            chain.push(Line { text, link: task.clone(), is_heading: false });
            if !is_known {
                self.follow(&edge.to, depth + 1, visited, chain);
            }
        }
    }

    /// Returns the tasks that wait for a resource that the task holds.
    fn waiters(&self, task: &TaskRef) -> Vec<&TaskRef> {
        let own = node_key(task);
        let held = self.edges.iter().filter(|edge| edge.to == own).map(|edge| &edge.from);
        let waits = held.flat_map(|held| self.edges.iter().filter(move |edge| edge.to == *held));
        waits.filter_map(|edge| self.nodes.get(&edge.from)?.1.as_ref()).collect()
    }
}

/// Returns the key of a task in a graph.
fn node_key(task: &TaskRef) -> String {
    format!("{}/{}", task.runtime, task.key)
}
