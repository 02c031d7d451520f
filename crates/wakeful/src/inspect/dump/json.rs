//! A dump as JSON.

use super::findings::headline;
use super::{Dump, HolderDump, TaskDump, WaitDump, WorkerDump};
use crate::inspect::json::Json;
use crate::inspect::task_info::TaskInfo;
use std::panic::Location;

impl Dump {
    /// Returns the dump as JSON.
    ///
    /// Times are in milliseconds, and sites are `"file:line:column"`. A task has the field `id`;
    /// the future of a `block_on` has the field `block_on` instead.
    ///
    /// ```text
    /// { "runtime": null, "taken_at_ms": 12, "queued": 0,
    ///   "workers": [ { "index": 0, "state": "asleep", "task": null, "block_on": null,
    ///                  "for_ms": 3, "queued": 0, "timers": 1, "sources": 0, "polls": 17,
    ///                  "busy_ms": 0.4 } ],
    ///   "tasks":   [ { "id": 7, "block_on": null, "name": "reader", "data": null,
    ///                  "spawned_at": "src/main.rs:3:5", "parent": null, "parent_block_on": 4294967295, "state": "waiting",
    ///                  "worker": null, "closure": false, "orphan": false,
    ///                  "age_ms": 12, "polls": 1, "busy_ms": 0, "wakes": 0, "wakers": 1,
    ///                  "waiting_on": { "kind": "Mutex::lock", "resource_id": 4711,
    ///                                  "resource": "#1267", "site": "src/main.rs:4:9",
    ///                                  "site_label": "awaited at",
    ///                                  "duration_ms": 12, "earlier": false, "certain": true,
    ///                                  "holders": [ { "id": 6, "block_on": null, "name": null,
    ///                                                 "acquired_at": "src/main.rs:9:9",
    ///                                                 "unpolled": false,
    ///                                                 "may_have_moved": false } ],
    ///                                  "other_holders": false } } ],
    ///   "findings": [ "deadlock (suspected): 2 tasks wait for each other" ] }
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = Json::new();
        self.write_json(&mut json);
        json.into_text()
    }

    /// Writes the dump as a JSON object.
    pub(in crate::inspect) fn write_json(&self, json: &mut Json) {
        json.object(|json| {
            json.field("runtime", |json| json.option(self.runtime(), Json::string));
            json.field("taken_at_ms", |json| json.plain(self.taken_at.as_millis()));
            json.field("queued", |json| json.plain(self.queued));
            json.field("workers", |json| {
                json.array(|json| {
                    self.workers.iter().for_each(|w| json.item(|json| worker(json, w)))
                });
            });
            json.field("tasks", |json| {
                json.array(|json| self.tasks.iter().for_each(|t| json.item(|json| task(json, t))));
            });
            json.field("findings", |json| {
                json.array(|json| {
                    self.findings().for_each(|it| json.item(|json| json.string(&headline(it))))
                });
            });
        });
    }
}

pub(in crate::inspect) fn site(json: &mut Json, site: &Location<'_>) {
    json.string(&site.to_string());
}

pub(in crate::inspect) fn millis(json: &mut Json, time: std::time::Duration) {
    json.plain(time.as_micros() as f64 / 1000.0);
}

/// Returns the id of the future of a `block_on`.
fn block_on(task: &TaskInfo) -> Option<u32> {
    task.is_block_on().then_some(task.id as u32)
}

/// Writes the fields that identify a task.
pub(in crate::inspect) fn id(json: &mut Json, task: Option<&TaskInfo>) {
    json.field("id", |json| json.option(task.and_then(TaskInfo::id), Json::plain));
    json.field("block_on", |json| json.option(task.and_then(block_on), Json::plain));
    json.field("name", |json| json.option(task.and_then(TaskInfo::name), Json::string));
}

/// Writes the text of the data that a spawn hook has attached to the task.
pub(in crate::inspect) fn data(json: &mut Json, task: &TaskInfo) {
    json.field("data", |json| json.option(task.data_text(), Json::string));
}

fn worker(json: &mut Json, worker: &WorkerDump) {
    json.object(|json| {
        json.field("index", |json| json.plain(worker.index()));
        json.field("state", |json| json.string(worker.state().name()));
        json.field("task", |json| json.option(worker.task().and_then(TaskInfo::id), Json::plain));
        json.field("block_on", |json| json.option(worker.task().and_then(block_on), Json::plain));
        worker_counts(json, worker);
    });
}

/// Writes the counters of a worker.
pub(in crate::inspect) fn worker_counts(json: &mut Json, worker: &WorkerDump) {
    json.field("for_ms", |json| json.option(worker.duration(), millis));
    json.field("queued", |json| json.plain(worker.queued()));
    json.field("timers", |json| json.plain(worker.timers()));
    json.field("sources", |json| json.plain(worker.sources()));
    json.field("polls", |json| json.plain(worker.polls()));
    json.field("busy_ms", |json| millis(json, worker.busy()));
}

fn task(json: &mut Json, task: &TaskDump) {
    json.object(|json| {
        id(json, Some(task.info()));
        data(json, task.info());
        json.field("spawned_at", |json| site(json, task.info().spawned_at()));
        json.field("parent", |json| json.option(task.parent(), Json::plain));
        let parent = task.parent.filter(|_| task.spawned_by_block_on()).map(|id| id as u32);
        json.field("parent_block_on", |json| json.option(parent, Json::plain));
        task_state(json, task);
        json.field("waiting_on", |json| json.option(task.waiting_on(), wait));
    });
}

/// Writes the state and the counters of a task.
pub(in crate::inspect) fn task_state(json: &mut Json, task: &TaskDump) {
    let worker = match task.state() {
        super::TaskState::Running(worker) => worker,
        _ => None,
    };
    json.field("state", |json| json.string(task.state().name()));
    json.field("worker", |json| json.option(worker, Json::plain));
    json.field("closure", |json| json.plain(task.is_closure()));
    json.field("orphan", |json| json.plain(task.is_orphan()));
    json.field("age_ms", |json| millis(json, task.age()));
    json.field("polls", |json| json.plain(task.polls()));
    json.field("busy_ms", |json| millis(json, task.busy()));
    json.field("wakes", |json| json.plain(task.wakes()));
    json.field("wakers", |json| json.plain(task.wakers()));
}

fn wait(json: &mut Json, wait: &WaitDump) {
    json.object(|json| {
        wait_fields(json, wait);
        json.field("holders", |json| {
            json.array(|json| {
                wait.holders().iter().for_each(|h| json.item(|json| holder(json, h)))
            });
        });
        json.field("other_holders", |json| json.plain(wait.has_other_holders()));
    });
}

/// Writes the fields of a wait, without the tasks that hold the resource.
pub(in crate::inspect) fn wait_fields(json: &mut Json, wait: &WaitDump) {
    json.field("kind", |json| json.string(wait.kind()));
    json.field("resource_id", |json| json.plain(wait.resource_id()));
    json.field("resource", |json| json.string(wait.resource()));
    json.field("site", |json| site(json, wait.site()));
    json.field("site_label", |json| json.string(wait.site_label()));
    json.field("duration_ms", |json| millis(json, wait.duration()));
    json.field("earlier", |json| json.plain(wait.is_earlier()));
    json.field("certain", |json| json.plain(wait.is_certain()));
}

fn holder(json: &mut Json, holder: &HolderDump) {
    json.object(|json| {
        id(json, holder.task());
        holder_fields(json, holder);
    });
}

/// Writes the fields of a holder, without the task.
pub(in crate::inspect) fn holder_fields(json: &mut Json, holder: &HolderDump) {
    json.field("acquired_at", |json| json.option(holder.acquired_at(), site));
    json.field("unpolled", |json| json.plain(holder.is_unpolled()));
    json.field("may_have_moved", |json| json.plain(holder.may_have_moved()));
}
