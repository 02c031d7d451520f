//! Resources that tasks wait for: locks, channels, timers, sockets, files.

use super::values::{self, array, counts, holders, object};
use super::view::View;
use super::{Slice, SortKey, sort_rows};
use crate::inspect::dump::{TaskDump, WaitDump, millis};
use crate::inspect::page::request::Request;
use std::collections::BTreeMap;
use std::panic::Location;
use std::time::Duration;

/// The maximum number of waiting tasks that a response names for each resource.
const FIRST_WAITERS: usize = 10;

/// A resource, and the tasks that wait for it.
struct Resource<'v> {
    runtime: u64,
    /// The wait of the task that has waited longest, which also names the owners.
    wait: &'v WaitDump,
    waiters: Vec<&'v TaskDump>,
}

impl Resource<'_> {
    fn longest(&self) -> Duration {
        self.wait.duration()
    }

    fn key(&self, column: &str) -> SortKey {
        match column {
            "longest" => SortKey::time(self.longest()),
            "kind" => SortKey::text(self.wait.kind()),
            _ => SortKey::number(self.waiters.len() as u64),
        }
    }
}

/// Returns the identity of a resource. Timers of one site count as one resource.
fn identity(wait: &WaitDump) -> (&'static str, u64, Option<&'static Location<'static>>) {
    if wait.is_timer() || wait.resource_id() == 0 {
        (wait.kind(), 0, Some(wait.site()))
    } else {
        (wait.kind(), wait.resource_id(), None)
    }
}

/// Answers `resources`.
pub(super) fn list(view: &View, request: &Request) -> String {
    let mut all: BTreeMap<_, Resource<'_>> = BTreeMap::new();
    for runtime in view.selected(request.parameter("runtime")) {
        for task in runtime.tasks() {
            for wait in task.waits().iter().filter(|wait| !wait.is_earlier()) {
                let key = (runtime.id(), identity(wait));
                let new = || Resource { runtime: runtime.id(), wait, waiters: Vec::new() };
                let resource = all.entry(key).or_insert_with(new);
                resource.waiters.push(task);
                if wait.duration() > resource.wait.duration() {
                    resource.wait = wait;
                }
            }
        }
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for resource in all.values() {
        *kinds.entry(resource.wait.kind()).or_default() += 1;
    }
    let mut rows: Vec<Resource<'_>> = all.into_values().collect();
    if let Some(kind) = request.parameter("kind") {
        rows.retain(|row| row.wait.kind() == kind);
    }
    if let Some(text) = request.parameter("q").map(str::to_lowercase) {
        rows.retain(|row| {
            let values = [row.wait.kind(), row.wait.resource(), &row.wait.site().to_string()];
            values.iter().any(|value| value.to_lowercase().contains(&text))
        });
    }
    if let Some(id) = request.parameter("id").and_then(|id| id.parse().ok()) {
        rows.retain(|row| row.wait.resource_id() == id);
    }
    sort_rows(&mut rows, request, Resource::key, "waiters");
    let slice = Slice::of(request);
    object(|json| {
        json.field("total", |json| json.plain(rows.len()));
        json.field("offset", |json| json.plain(slice.offset));
        json.field("rows", |json| {
            array(json, slice.get(&rows), |json, row| {
                let wait = row.wait;
                json.object(|json| {
                    json.field("runtime", |json| json.plain(row.runtime));
                    json.field("id", |json| json.plain(wait.resource_id()));
                    json.field("kind", |json| json.string(wait.kind()));
                    json.field("phrase", |json| json.string(wait.phrase()));
                    let label = if wait.is_timer() { "timers" } else { wait.resource() };
                    json.field("label", |json| json.string(label));
                    json.field("site", |json| json.string(&wait.site().to_string()));
                    json.field("site_label", |json| json.string(wait.site_label()));
                    json.field("holders", |json| holders(json, row.runtime, wait.holders()));
                    json.field("other_holders", |json| {
                        let is_cut = wait.holders().len() > values::MAX_HOLDERS;
                        json.plain(wait.has_other_holders() || is_cut);
                    });
                    json.field("waiters", |json| json.plain(row.waiters.len()));
                    json.field("longest_ms", |json| millis(json, row.longest()));
                    json.field("first_waiters", |json| {
                        let first = row.waiters.iter().take(FIRST_WAITERS);
                        array(json, first, |json, task| {
                            values::task_ref(json, row.runtime, task.info());
                        });
                    });
                });
            });
        });
        json.field("kinds", |json| counts(json, &kinds));
    })
}
