//! Tasks by spawn site.

use super::values::{array, fraction, histogram, micros, object};
use super::view::{RuntimeView, View};
use super::{Slice, SortKey, sort_rows};
use crate::inspect::Histogram;
use crate::inspect::dump::millis;
use crate::inspect::json::Json;
use crate::inspect::page::history::History;
use crate::inspect::page::request::Request;
use crate::inspect::snapshot::{SpawnGroup, group_fields};
use std::time::Duration;

/// The tasks of a spawn site, with their history.
pub(super) struct Group<'v> {
    runtime: &'v RuntimeView,
    pub(super) group: &'v SpawnGroup,
    /// The numbers of living tasks in the last minute, each with its time.
    history: Vec<(Duration, usize)>,
}

impl<'v> Group<'v> {
    pub(super) fn new(runtime: &'v RuntimeView, group: &'v SpawnGroup, history: &History) -> Self {
        Self { runtime, group, history: history.group((runtime.id(), group.spawned_at())) }
    }

    /// Returns the growth of the group in tasks per minute, over the last minute. Returns `None`
    /// until the group has been observed for some seconds.
    fn growth_per_minute(&self) -> Option<f64> {
        growth_per_minute(&self.history)
    }

    /// Returns the poll times of the tasks, including ended ones, once a poll has been timed.
    fn polls(&self) -> Option<&Histogram> {
        let polls = self.runtime.times(self.group.spawned_at()).map(|(polls, _)| polls);
        polls.filter(|polls| polls.count() > 0)
    }

    /// Returns the wait times of the tasks, once a wait has ended.
    fn waits(&self) -> Option<&Histogram> {
        let waits = self.runtime.times(self.group.spawned_at()).map(|(_, waits)| waits);
        waits.filter(|waits| waits.count() > 0)
    }

    fn key(&self, column: &str) -> SortKey {
        let group = self.group;
        match column {
            "started" => SortKey::number(group.started()),
            "growth" => SortKey::number((self.growth_per_minute().unwrap_or(0.0) * 1000.0) as i64),
            "busy" => SortKey::time(group.busy()),
            "poll_p99" => SortKey::time(self.polls().map_or(Duration::ZERO, Histogram::p99)),
            "wait_p99" => SortKey::time(self.waits().map_or(Duration::ZERO, Histogram::p99)),
            "oldest" => SortKey::time(group.oldest()),
            "spawned" => SortKey::text(group.spawned_at()),
            _ => SortKey::number(group.alive() as u64),
        }
    }

    pub(super) fn write(&self, json: &mut Json) {
        json.object(|json| self.write_fields(json));
    }

    /// Writes the group with the histogram of its poll times.
    pub(super) fn write_in_full(&self, json: &mut Json) {
        json.object(|json| {
            self.write_fields(json);
            json.field("poll", |json| json.option(self.polls(), histogram));
        });
    }

    fn write_fields(&self, json: &mut Json) {
        json.field("runtime", |json| json.plain(self.runtime.id()));
        group_fields(json, self.group);
        json.field("growth_per_min", |json| json.option(self.growth_per_minute(), fraction));
        let (polls, waits) = (self.polls(), self.waits());
        json.field("poll_p50_us", |json| json.option(polls.map(Histogram::p50), micros));
        json.field("poll_p99_us", |json| json.option(polls.map(Histogram::p99), micros));
        json.field("wait_p50_ms", |json| json.option(waits.map(Histogram::p50), millis));
        json.field("wait_p99_ms", |json| json.option(waits.map(Histogram::p99), millis));
        json.field("history", |json| {
            array(json, &self.history, |json, (_, count)| json.plain(count))
        });
    }
}

/// Returns the groups of these runtimes.
pub(super) fn groups<'v>(
    view: &'v View,
    history: &History,
    runtime: Option<&str>,
) -> Vec<Group<'v>> {
    let of_runtime = view
        .selected(runtime)
        .flat_map(|runtime| runtime.snapshot.groups().iter().map(move |group| (runtime, group)));
    of_runtime.map(|(runtime, group)| Group::new(runtime, group, history)).collect()
}

/// Answers `groups`.
pub(super) fn list(view: &View, history: &History, request: &Request) -> String {
    let mut rows = groups(view, history, request.parameter("runtime"));
    if let Some(wanted) = request.parameter("q").map(str::to_lowercase) {
        rows.retain(|row| row.group.spawned_at().to_string().to_lowercase().contains(&wanted));
    }
    sort_rows(&mut rows, request, Group::key, "alive");
    object(|json| {
        json.field("total", |json| json.plain(rows.len()));
        json.field("rows", |json| {
            array(json, Slice::of(request).get(&rows), |json, group| group.write(json));
        });
    })
}

fn growth_per_minute(history: &[(Duration, usize)]) -> Option<f64> {
    const SHORTEST: Duration = Duration::from_secs(10);
    let ((start, first), (end, last)) = (history.first()?, history.last()?);
    let time = end.checked_sub(*start).filter(|time| *time >= SHORTEST)?;
    Some((*last as f64 - *first as f64) * 60.0 / time.as_secs_f64())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::growth_per_minute;
    use std::time::Duration;

    #[test]
    fn growth_is_by_the_time_that_passed() {
        let at = Duration::from_secs;
        assert_eq!(growth_per_minute(&[]), None);
        assert_eq!(growth_per_minute(&[(at(0), 0), (at(1), 100)]), None, "too short to tell");
        // One walk in four seconds.
        let walks = [(at(0), 10), (at(4), 11), (at(8), 12), (at(12), 16)];
        assert_eq!(growth_per_minute(&walks), Some(30.0));
    }
}
