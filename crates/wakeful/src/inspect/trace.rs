//! Writes the trace buffers as a Chrome trace.

use super::json::Json;
use crate::telemetry::trace_buffer::{Entry, Event};
use std::collections::HashMap;
use std::time::Duration;

/// An event in a row of a trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceEvent {
    pub(crate) name: String,
    pub(crate) category: &'static str,
    pub(crate) at: Duration,
    /// The duration, or `None` for an instant.
    pub(crate) took: Option<Duration>,
}

/// Writes a trace for `chrome://tracing` and Perfetto.
///
/// Each row is a thread. Polls and parks are slices; other events are instants. `names` maps task ids
/// to names.
pub(crate) fn chrome_trace(rows: &[(String, Vec<Entry>)], names: &HashMap<u64, String>) -> String {
    write_trace(rows, |entry| describe(entry, names))
}

/// Writes a trace for `chrome://tracing` and Perfetto, with a thread for each row.
pub(crate) fn write_trace<T>(
    rows: &[(String, Vec<T>)],
    describe: impl Fn(&T) -> TraceEvent,
) -> String {
    let mut json = Json::new();
    json.object(|json| {
        json.field("displayTimeUnit", |json| json.string("ns"));
        json.field("traceEvents", |json| {
            json.array(|json| {
                for (row, (name, entries)) in rows.iter().enumerate() {
                    json.item(|json| name_row(json, row, name));
                    for entry in entries {
                        json.item(|json| write_event(json, row, &describe(entry)));
                    }
                }
            });
        });
    });
    json.into_text()
}

fn name_row(json: &mut Json, row: usize, name: &str) {
    json.object(|json| {
        json.field("ph", |json| json.string("M"));
        json.field("name", |json| json.string("thread_name"));
        json.field("pid", |json| json.plain(1));
        json.field("tid", |json| json.plain(row));
        json.field("args", |json| {
            json.object(|json| json.field("name", |json| json.string(name)));
        });
    });
}

/// Returns the name of an event in a trace.
pub(in crate::inspect) fn event_name(event: Event) -> &'static str {
    match event {
        Event::Poll => "poll",
        Event::Spawn => "spawn",
        Event::Wake => "wake",
        Event::Park => "park",
        Event::Steal => "steal",
        Event::Report => "report",
    }
}

fn describe(entry: &Entry, names: &HashMap<u64, String>) -> TraceEvent {
    let category = event_name(entry.event);
    let is_slice = matches!(entry.event, Event::Poll | Event::Park);
    let task = match (entry.task, names.get(&entry.task)) {
        (0, _) => None,
        (_, Some(name)) => Some(name.clone()),
        (id, None) => Some(format!("task {id}")),
    };
    let name = match (task, entry.event) {
        (Some(task), Event::Poll) => task,
        (Some(task), _) => format!("{category} {task}"),
        (None, _) => category.to_owned(),
    };
    TraceEvent { name, category, at: entry.at, took: is_slice.then_some(entry.took) }
}

fn write_event(json: &mut Json, row: usize, event: &TraceEvent) {
    let micros = |time: Duration| time.as_nanos() as f64 / 1000.0;
    json.object(|json| {
        json.field("name", |json| json.string(&event.name));
        json.field("cat", |json| json.string(event.category));
        json.field("ph", |json| json.string(if event.took.is_some() { "X" } else { "i" }));
        json.field("ts", |json| json.plain(micros(event.at)));
        match event.took {
            Some(took) => json.field("dur", |json| json.plain(micros(took))),
            None => json.field("s", |json| json.string("t")),
        }
        json.field("pid", |json| json.plain(1));
        json.field("tid", |json| json.plain(row));
    });
}
