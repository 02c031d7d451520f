//! The table and the tree of tasks.

use super::values::{self, array, object};
use super::view::{RuntimeView, View};
use super::{Slice, SortKey, sort_rows};
use crate::inspect::dump::{TaskDump, TaskState};
use crate::inspect::page::request::Request;
use std::collections::BTreeMap;
use std::time::Duration;

/// A task with its runtime.
type Row<'v> = (&'v RuntimeView, &'v TaskDump);

/// The filter in the parameters of a request.
struct Filter<'r> {
    text: Option<String>,
    state: Option<&'r str>,
    wait: Option<&'r str>,
    site: Option<&'r str>,
}

impl<'r> Filter<'r> {
    fn of(request: &'r Request) -> Self {
        Self {
            text: request.parameter("q").map(str::to_lowercase),
            state: request.parameter("state"),
            wait: request.parameter("wait"),
            site: request.parameter("site"),
        }
    }

    fn matches(&self, task: &TaskDump) -> bool {
        let is_state = |state: &str| match state {
            "orphan" => task.is_orphan(),
            "closure" => task.is_closure(),
            state => task.state().name() == state,
        };
        let waits_in = |kind: &str| task.waits().iter().any(|wait| wait.kind() == kind);
        let is_at = |site: &str| task.info().spawned_at().to_string() == site;
        self.state.is_none_or(is_state)
            && self.wait.is_none_or(waits_in)
            && self.site.is_none_or(is_at)
            && self.text.as_deref().is_none_or(|text| contains(task, text))
    }
}

/// Returns whether a text of the task contains `text`, which is in lower case.
fn contains(task: &TaskDump, text: &str) -> bool {
    let is_in = |value: &str| value.to_lowercase().contains(text);
    is_in(&task.info().to_string())
        || is_in(&task.info().spawned_at().to_string())
        || task.waits().iter().any(|wait| {
            is_in(wait.kind()) || is_in(wait.resource()) || is_in(&wait.site().to_string())
        })
}

fn key((_, task): &Row<'_>, column: &str) -> SortKey {
    match column {
        "busy" => SortKey::time(task.busy()),
        "polls" => SortKey::number(task.polls()),
        "wakes" => SortKey::number(task.wakes()),
        "wait" => SortKey::time(task.waiting_on().map_or(Duration::ZERO, |wait| wait.duration())),
        "name" => SortKey::text(task.info().name().unwrap_or("")),
        "id" => SortKey::number(task.info().id),
        "state" => SortKey::number(match task.state() {
            TaskState::Running(_) => 3,
            TaskState::Queued => 2,
            TaskState::Waiting => 1,
            TaskState::Done => 0,
        }),
        "spawned" => SortKey::text(task.info().spawned_at()),
        _ => SortKey::time(task.age()),
    }
}

/// Answers `tasks`.
pub(super) fn list(view: &View, request: &Request) -> String {
    let filter = Filter::of(request);
    let all = || {
        let runtimes = view.selected(request.parameter("runtime"));
        runtimes.flat_map(|runtime| runtime.tasks().iter().map(move |task| (runtime, task)))
    };
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for wait in all().filter_map(|(_, task)| task.waiting_on()) {
        *kinds.entry(wait.kind()).or_default() += 1;
    }
    let mut rows: Vec<Row<'_>> = all().filter(|(_, task)| filter.matches(task)).collect();
    sort_rows(&mut rows, request, key, "age");
    let slice = Slice::of(request);
    object(|json| {
        json.field("total", |json| json.plain(all().count()));
        json.field("matched", |json| json.plain(rows.len()));
        let block_ons = rows.iter().filter(|(_, task)| task.info().is_block_on()).count();
        json.field("block_ons", |json| json.plain(block_ons));
        json.field("offset", |json| json.plain(slice.offset));
        json.field("rows", |json| {
            array(json, slice.get(&rows), |json, (runtime, task)| {
                values::task(json, runtime, task)
            });
        });
        json.field("kinds", |json| values::counts(json, &kinds));
    })
}

/// Answers `tree`: the tasks that a task has spawned, or those whose parent is not alive.
pub(super) fn tree(view: &View, request: &Request) -> String {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for runtime in view.selected(request.parameter("runtime")) {
        match request.parameter("parent") {
            None => rows.extend(runtime.roots().map(|task| (runtime, task))),
            Some(parent) => {
                if let Some((runtime, parent)) = view.find(runtime.id(), parent) {
                    let children = runtime.children(parent.info().id);
                    rows.extend(children.map(|task| (runtime, task)));
                }
            }
        }
    }
    let slice = Slice::of(request);
    object(|json| {
        json.field("total", |json| json.plain(rows.len()));
        json.field("offset", |json| json.plain(slice.offset));
        json.field("rows", |json| {
            array(json, slice.get(&rows), |json, (runtime, task)| {
                values::task(json, runtime, task)
            });
        });
    })
}
