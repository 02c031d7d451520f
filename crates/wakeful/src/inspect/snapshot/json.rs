//! A snapshot as JSON.

use super::{RuntimeSnapshot, Snapshot, SpawnGroup, WaitGroup};
use crate::inspect::dump::{millis, site};
use crate::inspect::json::Json;

impl Snapshot {
    /// Returns the snapshot as JSON.
    ///
    /// Times are in milliseconds, and sites are `"file:line:column"`. The field `dump` has the
    /// format of [`Dump::to_json`](crate::inspect::Dump::to_json), with every task.
    ///
    /// ```text
    /// { "runtimes": [ { "id": 1, "name": null, "started": 300, "finished": 0,
    ///     "groups": [ { "spawned_at": "src/main.rs:3:5", "alive": 300, "started": 300,
    ///                   "finished": 0, "running": 0, "queued": 0, "waiting": 300, "orphans": 0,
    ///                   "oldest_ms": 1200, "newest_ms": 3, "polls": 310, "busy_ms": 0.7,
    ///                   "waits": [ { "kind": "read", "site_label": "awaited at",
    ///                                "site": "src/main.rs:4:9", "count": 300,
    ///                                "median_ms": 600, "p99_ms": 1190, "longest_ms": 1200 } ] } ],
    ///     "dump": { … } } ] }
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = Json::new();
        json.object(|json| {
            json.field("runtimes", |json| {
                json.array(|json| {
                    self.runtimes.iter().for_each(|it| json.item(|json| runtime(json, it)))
                });
            });
        });
        json.into_text()
    }
}

fn runtime(json: &mut Json, runtime: &RuntimeSnapshot) {
    json.object(|json| {
        json.field("id", |json| json.plain(runtime.id()));
        json.field("name", |json| json.option(runtime.name(), Json::string));
        json.field("started", |json| json.plain(runtime.started()));
        json.field("finished", |json| json.plain(runtime.finished()));
        json.field("groups", |json| {
            json.array(|json| {
                runtime.groups().iter().for_each(|it| json.item(|json| group(json, it)))
            });
        });
        json.field("dump", |json| runtime.dump().write_json(json));
    });
}

fn group(json: &mut Json, group: &SpawnGroup) {
    json.object(|json| group_fields(json, group));
}

/// Writes the fields of a group.
pub(in crate::inspect) fn group_fields(json: &mut Json, group: &SpawnGroup) {
    json.field("spawned_at", |json| site(json, group.spawned_at()));
    json.field("alive", |json| json.plain(group.alive()));
    json.field("started", |json| json.plain(group.started()));
    json.field("finished", |json| json.plain(group.finished()));
    json.field("running", |json| json.plain(group.running()));
    json.field("queued", |json| json.plain(group.queued()));
    json.field("waiting", |json| json.plain(group.waiting()));
    json.field("orphans", |json| json.plain(group.orphans()));
    json.field("oldest_ms", |json| millis(json, group.oldest()));
    json.field("newest_ms", |json| millis(json, group.newest()));
    json.field("polls", |json| json.plain(group.polls()));
    json.field("busy_ms", |json| millis(json, group.busy()));
    json.field("waits", |json| {
        json.array(|json| group.waits().iter().for_each(|it| json.item(|json| wait(json, it))));
    });
}

fn wait(json: &mut Json, wait: &WaitGroup) {
    json.object(|json| {
        json.field("kind", |json| json.string(wait.kind()));
        json.field("site_label", |json| json.string(wait.site_label()));
        json.field("site", |json| site(json, wait.site()));
        json.field("count", |json| json.plain(wait.count()));
        json.field("median_ms", |json| millis(json, wait.waited(0.5)));
        json.field("p99_ms", |json| millis(json, wait.waited(0.99)));
        json.field("longest_ms", |json| millis(json, wait.waited(1.0)));
    });
}
