//! Findings, ranked for the first screen.

use super::values::{array, task_ref};
use super::view::RuntimeView;
use crate::inspect::dump::{WorkerDump, WorkerState, headline, millis};
use crate::inspect::json::Json;
use crate::inspect::report::{Certainty, Report, ReportSite};
use crate::inspect::task_info::TaskInfo;
use crate::sys::sort::sort_by_key;
use std::collections::BTreeSet;
use std::time::Duration;

/// The maximum number of orphans listed individually.
const MAX_ORPHANS: usize = 50;

/// A defect that a scan or a detector has found in a runtime.
pub(super) struct Finding<'v> {
    runtime: u64,
    kind: &'static str,
    pub(super) certainty: Certainty,
    /// The time since the report, or `None` for a finding of the current scan.
    age: Option<Duration>,
    headline: String,
    message: String,
    tasks: Vec<&'v TaskInfo>,
    sites: Vec<ReportSite<'v>>,
    /// The resources that the stuck tasks wait for, by kind and id.
    resources: Vec<(&'static str, u64)>,
}

/// Returns the findings of a runtime: proven ones first, then those of the current scan, then the
/// newest.
pub(super) fn findings(runtime: &RuntimeView) -> Vec<Finding<'_>> {
    let dump = runtime.snapshot.dump();
    let reported = dump.findings_with_age().map(|(age, report)| of_report(runtime, age, report));
    let mut findings: Vec<_> = reported.collect();
    findings.extend(orphans(runtime));
    findings.extend(dump.blocked_workers().filter_map(|worker| blocked(runtime, worker)));
    sort_by_key(&mut findings, |finding| (finding.certainty != Certainty::Proven, finding.age));
    findings
}

fn of_report<'v>(
    runtime: &'v RuntimeView,
    age: Option<Duration>,
    report: &'v Report,
) -> Finding<'v> {
    let edges = match report {
        Report::Deadlock(deadlock) => deadlock.edges(),
        Report::Futurelock(futurelock) => futurelock.edges(),
        _ => &[],
    };
    let resources = edges.iter().map(|edge| (edge.kind(), edge.resource_id()));
    Finding {
        runtime: runtime.id(),
        kind: report.kind(),
        certainty: report.certainty(),
        age,
        headline: headline(report),
        message: report.to_string(),
        tasks: report.tasks(),
        sites: report.sites(),
        resources: resources.filter(|(_, id)| *id != 0).collect(),
    }
}

fn orphans(runtime: &RuntimeView) -> impl Iterator<Item = Finding<'_>> {
    let orphans = runtime.tasks().iter().filter(|it| it.is_orphan() && !it.info().is_block_on());
    orphans.take(MAX_ORPHANS).map(|task| {
        let info = task.info();
        let headline = format!(
            "orphan (proven): {info} can never run again: it returned Pending, and no waker for it exists"
        );
        let message = format!(
            "{headline}\n    spawned     at {}\n  fix: store the waker of the last poll and call it when \
             the event happens. If the task is meant to wait until it is aborted, wrap its future in \
             wakeful::task::may_wait_forever.",
            info.spawned_at()
        );
        Finding {
            runtime: runtime.id(),
            kind: "orphan",
            certainty: Certainty::Proven,
            age: None,
            headline,
            message,
            tasks: vec![info],
            sites: Vec::new(),
            resources: Vec::new(),
        }
    })
}

fn blocked<'v>(runtime: &'v RuntimeView, worker: &'v WorkerDump) -> Option<Finding<'v>> {
    debug_assert_eq!(worker.state(), WorkerState::Polling);
    let (task, index) = (worker.task()?, worker.index());
    let duration = worker.duration()?;
    let headline = format!(
        "blocked (suspected): {task:#} has been inside one poll for {duration:.1?}, on worker {index}"
    );
    let message = format!(
        "{headline}\n    spawned     at {}\n  fix: use the async version of the blocking call, or move \
         it into wakeful::task::spawn_blocking. If the poll is CPU-bound, call \
         wakeful::task::yield_now().await at intervals. The report on standard error has the stack.",
        task.spawned_at()
    );
    Some(Finding {
        runtime: runtime.id(),
        kind: "blocked",
        certainty: Certainty::Suspected,
        age: None,
        headline,
        message,
        tasks: vec![task],
        sites: Vec::new(),
        resources: Vec::new(),
    })
}

impl Finding<'_> {
    /// Returns whether the finding is about the task with this id.
    pub(super) fn is_about(&self, task: u64) -> bool {
        self.tasks.iter().any(|info| info.id == task)
    }

    /// Returns the ids of the tasks that can make no progress, as far as this finding says.
    pub(super) fn stuck_tasks(&self) -> BTreeSet<u64> {
        let is_stuck = matches!(self.kind, "orphan" | "deadlock" | "futurelock" | "stuck_block_on");
        let ids = self.tasks.iter().map(|task| task.id);
        if is_stuck { ids.collect() } else { BTreeSet::new() }
    }

    pub(super) fn write(&self, json: &mut Json) {
        json.object(|json| {
            json.field("runtime", |json| json.plain(self.runtime));
            json.field("kind", |json| json.string(self.kind));
            json.field("certainty", |json| json.string(self.certainty.name()));
            json.field("age_ms", |json| json.option(self.age, millis));
            json.field("headline", |json| json.string(&self.headline));
            json.field("message", |json| json.string(&self.message));
            json.field("tasks", |json| {
                array(json, &self.tasks, |json, task| task_ref(json, self.runtime, task));
            });
            json.field("sites", |json| {
                array(json, &self.sites, |json, site| {
                    json.object(|json| {
                        json.field("what", |json| json.string(site.what));
                        json.field("task", |json| task_ref(json, self.runtime, site.task));
                        json.field("at", |json| json.string(&site.at.to_string()));
                    });
                });
            });
            json.field("resources", |json| {
                array(json, &self.resources, |json, (kind, id)| {
                    json.object(|json| {
                        json.field("id", |json| json.plain(id));
                        json.field("label", |json| json.string(&format!("#{id:x}")));
                        json.field("kind", |json| json.string(kind));
                    });
                });
            });
        });
    }
}
