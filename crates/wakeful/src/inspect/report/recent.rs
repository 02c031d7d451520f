//! The reports of the last minute, for the first lines of a dump.

use super::Report;
use crate::sys::sync::ignore_poison;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The maximum number of reports kept.
const MAX_REPORTS: usize = 16;
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Reports and their delivery times on the runtime's clock, the oldest first.
#[derive(Default)]
pub(super) struct RecentReports {
    reports: Mutex<VecDeque<(Duration, Arc<Report>)>>,
}

/// Returns whether a dump shows the finding anyway, in its tasks, its workers or its own scan.
fn is_in_dumps(report: &Report) -> bool {
    matches!(
        report,
        Report::Orphan(_)
            | Report::Blocked(_)
            | Report::Deadlock(_)
            | Report::Futurelock(_)
            | Report::StuckBlockOn(_)
    )
}

impl RecentReports {
    pub(super) fn add(&self, report: &Arc<Report>, now: Duration) {
        if is_in_dumps(report) {
            return;
        }
        let mut reports = ignore_poison(self.reports.lock());
        let oldest = (reports.len() == MAX_REPORTS).then(|| reports.pop_front());
        reports.push_back((now, report.clone()));
        drop(reports);
        // Outside the lock: dropping the data of the report's tasks runs user code.
        drop(oldest);
    }

    /// Returns the reports of the last minute, each with its age.
    pub(super) fn get(&self, now: Duration) -> Vec<(Duration, Arc<Report>)> {
        let reports = ignore_poison(self.reports.lock());
        let with_age = reports.iter().map(|(at, report)| (now.saturating_sub(*at), report.clone()));
        with_age.filter(|(age, _)| *age < KEPT_FOR).collect()
    }
}
