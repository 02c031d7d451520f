//! Writers of values that several responses share.

use super::view::{RuntimeView, key};
use crate::inspect::Histogram;
use crate::inspect::dump::{
    HolderDump, TaskDump, WaitDump, holder_fields, site, task_data, task_state, wait_fields,
};
use crate::inspect::json::Json;
use crate::inspect::task_info::TaskInfo;
use std::collections::BTreeMap;
use std::time::Duration;

/// Writes the fields that identify a task.
pub(super) fn identity(json: &mut Json, runtime: u64, task: &TaskInfo) {
    let block_on = task.is_block_on().then_some(task.id as u32);
    json.field("runtime", |json| json.plain(runtime));
    json.field("key", |json| json.string(&key(task.id)));
    json.field("id", |json| json.option(task.id(), Json::plain));
    json.field("block_on", |json| json.option(block_on, Json::plain));
    json.field("name", |json| json.option(task.name(), Json::string));
    json.field("spawned_at", |json| site(json, task.spawned_at()));
}

/// Writes a reference to a task.
pub(super) fn task_ref(json: &mut Json, runtime: u64, task: &TaskInfo) {
    json.object(|json| identity(json, runtime, task));
}

/// Writes a task, as tables and the task's own screen show it.
pub(super) fn task(json: &mut Json, runtime: &RuntimeView, task: &TaskDump) {
    let id = task.info().id;
    let parent = task.parent_id().and_then(|parent| runtime.task(parent));
    json.object(|json| {
        identity(json, runtime.id(), task.info());
        task_data(json, task.info());
        json.field("parent", |json| {
            json.option(parent, |json, parent| task_ref(json, runtime.id(), parent.info()));
        });
        task_state(json, task);
        json.field("children", |json| json.plain(runtime.children(id).len()));
        json.field("waits", |json| {
            array(json, task.waits(), |json, it| wait(json, runtime.id(), it));
        });
    });
}

fn wait(json: &mut Json, runtime: u64, wait: &WaitDump) {
    json.object(|json| {
        wait_fields(json, wait);
        json.field("phrase", |json| json.string(wait.phrase()));
        json.field("holders", |json| holders(json, runtime, wait.holders()));
        let has_others = wait.has_other_holders() || wait.holders().len() > MAX_HOLDERS;
        json.field("other_holders", |json| json.plain(has_others));
    });
}

/// The maximum number of holders written for a resource. A `JoinSet` may have any number of tasks.
pub(super) const MAX_HOLDERS: usize = 20;

pub(super) fn holders(json: &mut Json, runtime: u64, holders: &[HolderDump]) {
    array(json, holders.iter().take(MAX_HOLDERS), |json, holder| {
        json.object(|json| {
            json.field("task", |json| {
                json.option(holder.task(), |json, task| task_ref(json, runtime, task));
            });
            holder_fields(json, holder);
        });
    });
}

/// Writes an array with a value for each item.
pub(super) fn array<T>(
    json: &mut Json,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Json, T),
) {
    json.array(|json| items.into_iter().for_each(|item| json.item(|json| write(json, item))));
}

/// Writes a time in microseconds.
pub(super) fn micros(json: &mut Json, time: Duration) {
    json.plain(time.as_nanos() as f64 / 1000.0);
}

/// Writes a number with three decimals.
pub(super) fn fraction(json: &mut Json, value: f64) {
    json.plain((value * 1000.0).round() / 1000.0);
}

/// Returns an object as text.
pub(super) fn object(fields: impl FnOnce(&mut Json)) -> String {
    let mut json = Json::new();
    json.object(fields);
    json.into_text()
}

/// Writes the number of each kind.
pub(super) fn counts(json: &mut Json, kinds: &BTreeMap<&str, usize>) {
    array(json, kinds, |json, (kind, count)| {
        json.object(|json| {
            json.field("kind", |json| json.string(kind));
            json.field("count", |json| json.plain(count));
        });
    });
}

/// Writes a histogram, without its empty buckets.
pub(super) fn histogram(json: &mut Json, histogram: &Histogram) {
    json.object(|json| {
        json.field("count", |json| json.plain(histogram.count()));
        json.field("p50_us", |json| micros(json, histogram.p50()));
        json.field("p90_us", |json| micros(json, histogram.quantile(0.9)));
        json.field("p99_us", |json| micros(json, histogram.p99()));
        json.field("max_us", |json| micros(json, histogram.max()));
        json.field("buckets", |json| {
            let used = histogram.buckets().filter(|(_, count)| *count > 0);
            array(json, used, |json, (end, count)| {
                json.array(|json| {
                    json.item(|json| micros(json, end));
                    json.item(|json| json.plain(count));
                });
            });
        });
    });
}
