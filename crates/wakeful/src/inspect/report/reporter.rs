//! Delivers reports: counts them, suppresses repetitions, limits their rate and filters them.

use super::recent::RecentReports;
use super::{Certainty, Delivery, KINDS, Report, ReportFormat, Stamped, Utc};
use crate::sys::sync::ignore_poison;
use crate::sys::unwind::catch_and_forget;
use crate::telemetry::trace_buffer::{Entry, Event, TraceBuffer};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The user's hook for reports.
pub(crate) type ReportHook = Arc<dyn Fn(&Report) + Send + Sync>;

/// The minimum time between two reports of one situation.
const REPEAT_AFTER: Duration = Duration::from_secs(10);
/// The maximum number of reports of one kind in a burst.
const BURST: u64 = 1000;
/// The sustained rate of reports of one kind.
const PER_SECOND: u64 = 100;

/// Counts reports and delivers them to the user's hook, or to stderr, and to the file that
/// `WAKEFUL_REPORTS` names.
pub(crate) struct Reporter {
    hook: Option<ReportHook>,
    delivery: Delivery,
    counts: [AtomicU64; KINDS.len()],
    /// Allocated with the first report. Most runtimes report nothing, and start and stop faster
    /// without it.
    limits: Mutex<Option<Box<ReportLimits>>>,
    recent: RecentReports,
    /// Written under the lock of `limits`.
    pub(crate) trace: TraceBuffer,
}

/// Past reports and their times on the runtime's clock.
#[derive(Default)]
struct ReportLimits {
    /// By kind and repeat key: the time of the last report, and its certainty.
    recent: HashMap<(usize, Vec<u64>), (Duration, Certainty)>,
    limits: [RateLimit; KINDS.len()],
}

/// The rate limit of one kind: a leaky bucket.
#[derive(Default)]
struct RateLimit {
    /// Reports in the bucket at `since`.
    count: u64,
    since: Duration,
    /// Reports suppressed since the last one that was delivered.
    suppressed: u64,
}

/// What to do with a report.
enum Admission {
    /// Deliver it. `suppressed` reports were dropped before it.
    Deliver {
        suppressed: u64,
    },
    /// Suppress it: its situation was reported less than [`REPEAT_AFTER`] ago.
    Repeated,
    Suppress,
}

impl ReportLimits {
    fn admit(&mut self, report: &Report, now: Duration) -> Admission {
        let kind = report.index();
        if let Some(repeat_key) = report.repeat_key() {
            self.recent.retain(|_, (at, _)| now.saturating_sub(*at) < REPEAT_AFTER);
            let (key, certainty) = ((kind, repeat_key), report.certainty());
            // A suspected situation is reported again once it is proven.
            if self.recent.get(&key).is_some_and(|(_, known)| *known >= certainty) {
                return Admission::Repeated;
            }
            self.recent.insert(key, (now, certainty));
        }
        let limit = &mut self.limits[kind];
        let drained = now.saturating_sub(limit.since).as_secs() * PER_SECOND;
        if drained > 0 {
            (limit.count, limit.since) = (limit.count.saturating_sub(drained), now);
        }
        // Suppressed reports don't fill the bucket: a flood does not silence later reports.
        if limit.count >= BURST {
            limit.suppressed += 1;
            return Admission::Suppress;
        }
        limit.count += 1;
        Admission::Deliver { suppressed: std::mem::take(&mut limit.suppressed) }
    }
}

impl Reporter {
    pub(crate) fn new(hook: Option<ReportHook>, delivery: Delivery) -> Self {
        Self {
            hook,
            delivery,
            counts: Default::default(),
            limits: Mutex::default(),
            recent: RecentReports::default(),
            trace: TraceBuffer::new(),
        }
    }

    /// Delivers a report. Returns whether it did.
    ///
    /// Repeated reports, reports over the rate limit, and reports that the filter rejects are not
    /// delivered.
    ///
    /// Calls `before_hook` before any step that may block.
    pub(crate) fn report(
        &self,
        report: &Arc<Report>,
        now: Duration,
        before_hook: impl FnOnce(),
    ) -> bool {
        let mut limits = ignore_poison(self.limits.lock());
        let admission = limits.get_or_insert_default().admit(report, now);
        if let Admission::Deliver { .. } = admission {
            let (took, task) = (Duration::ZERO, report.task());
            let (event, at) = (Event::Report, now);
            self.trace.record(Entry { event, at, took, task, spawned_at: None });
        }
        drop(limits);
        if let Admission::Repeated = admission {
            return false;
        }
        self.counts[report.index()].fetch_add(1, Relaxed);
        let Admission::Deliver { suppressed } = admission else { return false };
        // From here on user code runs: the data of tasks is formatted, and an older report may drop
        // its data.
        before_hook();
        report.write_data();
        self.recent.add(report, now);
        if !self.delivery.filter.admits(report) {
            return false;
        }
        record(report, self.delivery.format);
        // The caller may be a worker in the middle of its loop, or a user's thread that drops a
        // waker. A hook that panics, or a closed stderr, must not unwind into it.
        catch_and_forget(|| match &self.hook {
            Some(hook) => hook(report),
            None => self.print(report, suppressed),
        });
        true
    }

    /// Delivers a report after which the process aborts.
    ///
    /// The report is printed first, since the hook may block. A test harness does not capture it.
    pub(crate) fn report_last(&self, report: &Report) {
        self.counts[report.index()].fetch_add(1, Relaxed);
        let text = match self.delivery.format {
            ReportFormat::Text => format!("{}\n", Stamped(report)),
            ReportFormat::Json => format!("{}\n", report.to_json()),
        };
        let _ = std::io::stderr().write_all(text.as_bytes());
        record(report, self.delivery.format);
        if let Some(hook) = &self.hook {
            catch_and_forget(|| hook(report));
        }
    }

    /// Prints a report to stderr in one write, so that output of other threads can't interleave.
    fn print(&self, report: &Report, suppressed: u64) {
        let text = match (self.delivery.format, suppressed) {
            // The panic that ends the `block_on` prints the report.
            (ReportFormat::Text, _) if matches!(report, Report::StuckBlockOn(_)) => return,
            (ReportFormat::Text, 0) => format!("{}\n", Stamped(report)),
            (ReportFormat::Text, count) => format!(
                "wakeful: {count} reports like the next one were suppressed\n{}\n",
                Stamped(report)
            ),
            (ReportFormat::Json, 0) => format!("{}\n", report.to_json()),
            (ReportFormat::Json, count) => {
                let json = report
                    .to_json_with(|json| json.field("suppressed_before", |json| json.plain(count)));
                format!("{json}\n")
            }
        };
        match report {
            Report::Orphan(_) | Report::UnobservedPanic(_) | Report::NeverPolled(_) => {
                eprint!("{text}");
            }
            // The test harness captures `eprint!` until the test ends, and a test that hangs never
            // does. This write bypasses the capture.
            _ => _ = std::io::stderr().write_all(text.as_bytes()),
        }
    }

    /// Returns the reports of the last minute that a dump does not show anyway, each with its age.
    pub(crate) fn recent(&self, now: Duration) -> Vec<(Duration, Arc<Report>)> {
        self.recent.get(now)
    }

    /// Returns the number of reports of each kind.
    pub(crate) fn counts(&self) -> [(&'static str, u64); KINDS.len()] {
        std::array::from_fn(|kind| (KINDS[kind], self.counts[kind].load(Relaxed)))
    }

    pub(crate) fn orphans(&self) -> u64 {
        self.counts[0].load(Relaxed)
    }
}

/// Appends the report as one line to the file that `WAKEFUL_REPORTS` names.
///
/// The text has the columns kind, program, time and text.
fn record(report: &Report, format: ReportFormat) {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("WAKEFUL_REPORTS")?;
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = &opened {
            eprintln!(
                "wakeful: cannot open {path:?}, the file that WAKEFUL_REPORTS names: {error}"
            );
        }
        opened.ok().map(Mutex::new)
    });
    if let Some(file) = file {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = program.display();
        let line = match format {
            ReportFormat::Text => {
                let text = report.to_string().replace('\n', "\\n");
                format!("{}\t{program}\t{}\t{text}\n", report.kind(), Utc(report.time()))
            }
            ReportFormat::Json => {
                let program = program.to_string();
                let json =
                    report.to_json_with(|json| json.field("program", |json| json.string(&program)));
                format!("{json}\n")
            }
        };
        // One write, so that several processes can share the file.
        let _ = ignore_poison(file.lock()).write_all(line.as_bytes());
    }
}
