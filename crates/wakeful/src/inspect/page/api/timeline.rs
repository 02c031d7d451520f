//! The last recording, for the timeline and for Perfetto.

use super::recording::{Recording, Row};
use super::values::{array, micros, object};
use crate::inspect::dump::millis;
use crate::inspect::json::Json;
use crate::inspect::runtimes;
use crate::inspect::trace::{chrome_trace, event_name};
use crate::sys::sort::sort_by_key;
use crate::task::ended;
use crate::telemetry::trace_buffer::Entry;
use std::collections::{BTreeSet, HashMap};
use std::panic::Location;
use std::time::Duration;

/// The known data of a recorded task.
struct RecordedTask {
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    /// The title of the task in a file for Perfetto.
    title: String,
}

/// Starts a recording, and answers `record`.
pub(super) fn record(recording: &Recording, seconds: Option<u64>) -> String {
    recording.start(seconds);
    object(|json| write_state(json, recording.left()))
}

/// Answers `trace`.
pub(super) fn trace(recording: &Recording) -> String {
    let (left, rows) = (recording.left(), recording.rows());
    let tasks = recorded_tasks(&rows);
    let entries =
        || rows.iter().enumerate().flat_map(|(row, it)| it.entries.iter().map(move |it| (row, it)));
    let mut sites: Vec<&'static Location<'static>> =
        entries().filter_map(|(_, entry)| entry.spawned_at).collect();
    sort_by_key(&mut sites, |site| *site);
    sites.dedup();
    object(|json| {
        write_state(json, left);
        json.field("dropped", |json| json.plain(rows.iter().map(|row| row.dropped).sum::<u64>()));
        json.field("rows", |json| {
            array(json, &rows, |json, row| {
                json.object(|json| {
                    json.field("runtime", |json| json.plain(row.runtime));
                    json.field("name", |json| json.string(&row.name));
                    json.field("dropped", |json| json.plain(row.dropped));
                });
            });
        });
        json.field("sites", |json| {
            array(json, &sites, |json, site| json.string(&site.to_string()));
        });
        json.field("events", |json| {
            array(json, entries(), |json, (row, entry)| {
                let site = entry.spawned_at.and_then(|site| sites.binary_search(&site).ok());
                event(json, row, entry, site);
            });
        });
        json.field("tasks", |json| {
            json.object(|json| {
                for (id, task) in &tasks {
                    json.field(&id.to_string(), |json| {
                        json.object(|json| {
                            json.field("name", |json| {
                                json.option(task.name.as_deref(), Json::string)
                            });
                            let site = task.spawned_at.to_string();
                            json.field("spawned_at", |json| json.string(&site));
                        });
                    });
                }
            });
        });
    })
}

fn event(json: &mut Json, row: usize, entry: &Entry, site: Option<usize>) {
    json.array(|json| {
        json.item(|json| json.plain(row));
        json.item(|json| json.string(event_name(entry.event)));
        json.item(|json| micros(json, entry.at));
        json.item(|json| micros(json, entry.took));
        json.item(|json| json.plain(entry.task));
        json.item(|json| json.option(site, Json::plain));
    });
}

fn write_state(json: &mut Json, left: Option<Duration>) {
    json.field("recording", |json| json.plain(left.is_some()));
    json.field("ends_in_ms", |json| json.option(left, millis));
}

/// Returns the tasks of a recording that are alive or ended recently.
fn recorded_tasks(rows: &[Row]) -> HashMap<u64, RecordedTask> {
    let used: BTreeSet<u64> =
        rows.iter().flat_map(|row| row.entries.iter().map(|it| it.task)).collect();
    let mut tasks = HashMap::new();
    for task in ended::last().into_iter().filter(|task| used.contains(&task.id)) {
        let name = task.name.as_ref().map_or(String::new(), |name| format!(" {name:?}"));
        let title = format!("task {}{name}", task.id);
        tasks.insert(task.id, RecordedTask { name: task.name, spawned_at: task.spawned_at, title });
    }
    for runtime in runtimes::all() {
        for task in runtime.dump().tasks().iter().filter(|it| used.contains(&it.info().id)) {
            let (info, name) = (task.info(), task.info().name().map(str::to_owned));
            let (spawned_at, title) = (info.spawned_at(), info.to_string());
            tasks.insert(info.id, RecordedTask { name, spawned_at, title });
        }
    }
    tasks
}

/// Returns the recorded events of all runtimes for Perfetto.
pub(super) fn perfetto(recording: &Recording) -> String {
    let rows = recording.rows();
    let names = recorded_tasks(&rows).into_iter().map(|(id, task)| (id, task.title)).collect();
    let has_runtimes = rows.windows(2).any(|pair| pair[0].runtime != pair[1].runtime);
    let title = |row: &Row| match has_runtimes {
        true => format!("runtime {}: {}", row.runtime, row.name),
        false => row.name.clone(),
    };
    let rows: Vec<_> = rows.into_iter().map(|row| (title(&row), Vec::from(row.entries))).collect();
    chrome_trace(&rows, &names)
}
