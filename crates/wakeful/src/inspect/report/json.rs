//! A report as JSON.

use super::{Report, Utc};
use crate::inspect::dump::{task_data, task_id};
use crate::inspect::json::Json;
use crate::inspect::task_info::TaskInfo;
use std::panic::Location;

/// A site in the program that a report names.
pub(in crate::inspect) struct ReportSite<'r> {
    /// What happened at the site, in one word.
    pub(in crate::inspect) what: &'static str,
    /// The task to which it happened.
    pub(in crate::inspect) task: &'r TaskInfo,
    pub(in crate::inspect) at: &'static Location<'static>,
}

impl Report {
    /// Returns the report as a JSON object on one line.
    ///
    /// `time` is RFC 3339 in UTC, sites are `"file:line:column"`, and `message` is the text of the
    /// report. A task has the field `id`; the future of a `block_on` has the field `block_on`
    /// instead.
    ///
    /// ```text
    /// { "time": "2026-11-18T03:04:05.678Z", "kind": "deadlock", "certainty": "suspected",
    ///   "runtime": "database",
    ///   "tasks": [ { "id": 1, "block_on": null, "name": "twice", "data": null,
    ///                 "spawned_at": "src/main.rs:3:5" } ],
    ///   "sites": [ { "what": "waits", "id": 1, "block_on": null, "name": "twice",
    ///                 "at": "src/main.rs:6:14" },
    ///               { "what": "acquired", "id": 1, "block_on": null, "name": "twice",
    ///                 "at": "src/main.rs:5:14" } ],
    ///   "message": "deadlock (suspected): task 1 \"twice\" waits for a mutex …" }
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use wakeful::runtime::Builder;
    ///
    /// let (tx, rx) = mpsc::channel();
    /// let rt = Builder::new_current_thread()
    ///     .on_report(move |report| drop(tx.send(report.to_json())))
    ///     .build()?;
    /// rt.block_on(async {
    ///     wakeful::spawn(std::future::pending::<()>());
    ///     wakeful::task::yield_now().await;
    /// });
    /// let json = rx.recv().unwrap();
    /// assert!(json.contains(r#""kind":"orphan","certainty":"proven""#));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        self.to_json_with(|_| ())
    }

    /// Returns the report as JSON, beginning with the fields that `more` writes.
    pub(super) fn to_json_with(&self, more: impl FnOnce(&mut Json)) -> String {
        let mut json = Json::new();
        json.object(|json| {
            more(json);
            json.field("time", |json| json.string(&Utc(self.time()).to_string()));
            json.field("kind", |json| json.string(self.kind()));
            json.field("certainty", |json| json.string(self.certainty().name()));
            json.field("runtime", |json| json.option(self.runtime(), Json::string));
            json.field("tasks", |json| {
                json.array(|json| {
                    self.content().tasks().into_iter().for_each(|t| json.item(|json| task(json, t)))
                });
            });
            json.field("sites", |json| {
                json.array(|json| {
                    self.content().sites().iter().for_each(|p| json.item(|json| site(json, p)))
                });
            });
            json.field("message", |json| json.string(&self.to_string()));
        });
        json.into_text()
    }
}

fn task(json: &mut Json, task: &TaskInfo) {
    json.object(|json| {
        task_id(json, Some(task));
        task_data(json, task);
        json.field("spawned_at", |json| json.string(&task.spawned_at().to_string()));
    });
}

fn site(json: &mut Json, site: &ReportSite<'_>) {
    json.object(|json| {
        json.field("what", |json| json.string(site.what));
        task_id(json, Some(site.task));
        json.field("at", |json| json.string(&site.at.to_string()));
    });
}
