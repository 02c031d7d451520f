//! The answers of the live page's API, as types.
//!
//! Every text comes from the inspected program, so [`clean`] removes control characters when it is read.
//! A field that is missing reads as zero or empty: the program may have another version of wakeful.

use super::clean;
use serde_json::Value;

/// The answer to `overview`.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub program: String,
    pub pid: u64,
    pub version: String,
    pub now: String,
    pub level: Level,
    pub verdict: String,
    pub findings: Vec<Finding>,
    pub runtimes: Vec<Runtime>,
    /// The largest groups of tasks.
    pub groups: Vec<Group>,
    pub groups_total: u64,
}

/// The state of the program, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    #[default]
    Ok,
    Warning,
    Stuck,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Stuck => "stuck",
        }
    }
}

/// A reference to a task from another object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRef {
    pub runtime: u64,
    /// The key in requests: `t7`, or `b1` for the future of a `block_on`.
    pub key: String,
    pub label: String,
    pub spawned_at: String,
}

/// A defect that wakeful has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    pub kind: String,
    pub headline: String,
    /// The lines of the report.
    pub message: Vec<String>,
    pub age_ms: Option<f64>,
    pub tasks: Vec<TaskRef>,
}

#[derive(Clone, Debug, Default)]
pub struct Runtime {
    pub id: u64,
    pub name: String,
    pub flavor: String,
    pub alive: u64,
    pub started: u64,
    pub finished: u64,
    pub queued: u64,
    pub timers: u64,
    pub sources: u64,
    pub blocking_threads: u64,
    pub blocking_queued: u64,
    pub workers: Vec<Worker>,
}

#[derive(Clone, Debug, Default)]
pub struct Worker {
    pub runtime: u64,
    pub index: u64,
    pub state: String,
    pub task: Option<TaskRef>,
    pub for_ms: Option<f64>,
    pub queued: u64,
    pub timers: u64,
    pub sources: u64,
    pub polls: u64,
    pub busy_share: Option<f64>,
}

/// The tasks of a spawn site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub runtime: u64,
    pub spawned_at: String,
    pub alive: u64,
    pub started: u64,
    pub orphans: u64,
    pub growth_per_min: Option<f64>,
    pub oldest_ms: f64,
    pub busy_ms: f64,
    pub poll_p99_us: Option<f64>,
    pub wait_p99_ms: Option<f64>,
    /// Kinds of waits, and how many tasks are in each.
    pub waits: Vec<(String, u64)>,
    /// The number of live tasks in each second of the last minute.
    pub history: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    pub task: TaskRef,
    pub parent: Option<TaskRef>,
    pub state: String,
    pub is_orphan: bool,
    pub is_closure: bool,
    pub age_ms: f64,
    pub polls: u64,
    pub busy_ms: f64,
    pub wakes: u64,
    pub wakers: u64,
    pub waits: Vec<Wait>,
}

/// What a task waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    pub kind: String,
    pub phrase: String,
    pub resource: String,
    /// The label of the site, such as `awaited at`.
    pub site_label: String,
    pub site: String,
    pub duration_ms: f64,
    /// Whether the wait has ended, and the task has not waited since.
    pub is_earlier: bool,
    pub holders: Vec<Holder>,
    pub has_other_holders: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holder {
    pub task: Option<TaskRef>,
    pub acquired_at: String,
}

/// The answer to `tasks` or `groups`: some rows of a list.
#[derive(Clone, Debug, Default)]
pub struct Rows<T> {
    /// The number of rows without the filter.
    pub total: usize,
    /// The number of rows that pass the filter.
    pub matched: usize,
    /// The position of the first of `rows`.
    pub offset: usize,
    pub rows: Vec<T>,
}

pub fn text(value: &Value) -> String {
    clean(value.as_str().unwrap_or_default())
}

pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

pub fn list<T>(value: &Value, read: impl FnMut(&Value) -> T) -> Vec<T> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(read).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn present<T>(value: &Value, read: impl FnOnce(&Value) -> T) -> Option<T> {
    (!value.is_null()).then(|| read(value))
}

impl Overview {
    pub fn read(value: &Value) -> Self {
        let process = &value["process"];
        Self {
            program: text(&process["program"]),
            pid: count(&process["pid"]),
            version: text(&process["version"]),
            now: text(&process["now"]),
            level: match value["verdict"]["level"].as_str() {
                Some("stuck") => Level::Stuck,
                Some("warning") => Level::Warning,
                _ => Level::Ok,
            },
            verdict: text(&value["verdict"]["text"]),
            findings: list(&value["findings"], Finding::read),
            runtimes: list(&value["runtimes"], Runtime::read),
            groups: list(&value["groups"], Group::read),
            groups_total: count(&value["groups_total"]),
        }
    }

    /// Returns the workers of all runtimes.
    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.runtimes.iter().flat_map(|runtime| &runtime.workers)
    }
}

impl TaskRef {
    pub fn read(value: &Value) -> Self {
        let name = present(&value["name"], text);
        let label = match (value["id"].as_u64(), name) {
            (Some(id), Some(name)) => format!("task {id} \"{name}\""),
            (Some(id), None) => format!("task {id}"),
            (None, Some(name)) => format!("block_on \"{name}\""),
            (None, None) => "block_on".to_owned(),
        };
        Self {
            runtime: count(&value["runtime"]),
            key: text(&value["key"]),
            label,
            spawned_at: text(&value["spawned_at"]),
        }
    }
}

impl Finding {
    pub fn read(value: &Value) -> Self {
        let message = value["message"].as_str().unwrap_or_default();
        Self {
            kind: text(&value["kind"]),
            headline: text(&value["headline"]),
            message: message.lines().map(clean).collect(),
            age_ms: value["age_ms"].as_f64(),
            tasks: list(&value["tasks"], TaskRef::read),
        }
    }

    /// Returns whether both findings describe the same problem of the same tasks, maybe at different times.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.tasks == other.tasks
    }
}

impl Runtime {
    fn read(value: &Value) -> Self {
        let id = count(&value["id"]);
        Self {
            id,
            name: text(&value["name"]),
            flavor: text(&value["flavor"]),
            alive: count(&value["alive"]),
            started: count(&value["started"]),
            finished: count(&value["finished"]),
            queued: count(&value["queued"]),
            timers: count(&value["timers"]),
            sources: count(&value["sources"]),
            blocking_threads: count(&value["blocking"]["threads"]),
            blocking_queued: count(&value["blocking"]["queued"]),
            workers: list(&value["workers"], |worker| Worker::read(id, worker)),
        }
    }
}

impl Worker {
    fn read(runtime: u64, value: &Value) -> Self {
        Self {
            runtime,
            index: count(&value["index"]),
            state: text(&value["state"]),
            task: present(&value["task"], TaskRef::read),
            for_ms: value["for_ms"].as_f64(),
            queued: count(&value["queued"]),
            timers: count(&value["timers"]),
            sources: count(&value["sources"]),
            polls: count(&value["polls"]),
            busy_share: value["busy_share"].as_f64(),
        }
    }
}

impl Group {
    pub fn read(value: &Value) -> Self {
        let mut waits = list(&value["waits"], |it| (text(&it["kind"]), count(&it["count"])));
        waits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self {
            runtime: count(&value["runtime"]),
            spawned_at: text(&value["spawned_at"]),
            alive: count(&value["alive"]),
            started: count(&value["started"]),
            orphans: count(&value["orphans"]),
            growth_per_min: value["growth_per_min"].as_f64(),
            oldest_ms: number(&value["oldest_ms"]),
            busy_ms: number(&value["busy_ms"]),
            poll_p99_us: value["poll_p99_us"].as_f64(),
            wait_p99_ms: value["wait_p99_ms"].as_f64(),
            waits,
            history: list(&value["history"], count),
        }
    }
}

impl Task {
    pub fn read(value: &Value) -> Self {
        Self {
            task: TaskRef::read(value),
            parent: present(&value["parent"], TaskRef::read),
            state: text(&value["state"]),
            is_orphan: value["orphan"] == true,
            is_closure: value["closure"] == true,
            age_ms: number(&value["age_ms"]),
            polls: count(&value["polls"]),
            busy_ms: number(&value["busy_ms"]),
            wakes: count(&value["wakes"]),
            wakers: count(&value["wakers"]),
            waits: list(&value["waits"], Wait::read),
        }
    }

    /// Returns the current wait of the task: the first if there are several.
    pub fn waiting_on(&self) -> Option<&Wait> {
        self.waits.iter().find(|wait| !wait.is_earlier)
    }
}

impl Wait {
    fn read(value: &Value) -> Self {
        Self {
            kind: text(&value["kind"]),
            phrase: text(&value["phrase"]),
            resource: text(&value["resource"]),
            site_label: text(&value["site_label"]),
            site: text(&value["site"]),
            duration_ms: number(&value["duration_ms"]),
            is_earlier: value["earlier"] == true,
            holders: list(&value["holders"], |holder| Holder {
                task: present(&holder["task"], TaskRef::read),
                acquired_at: text(&holder["acquired_at"]),
            }),
            has_other_holders: value["other_holders"] == true,
        }
    }
}

impl<T> Rows<T> {
    pub fn read(value: &Value, read: impl FnMut(&Value) -> T) -> Self {
        let total = count(&value["total"]) as usize;
        Self {
            total,
            matched: value["matched"].as_u64().map_or(total, |matched| matched as usize),
            offset: count(&value["offset"]) as usize,
            rows: list(&value["rows"], read),
        }
    }

    /// Returns the row at a position of the whole list, if it was requested.
    pub fn get(&self, position: usize) -> Option<&T> {
        self.rows.get(position.checked_sub(self.offset)?)
    }
}
