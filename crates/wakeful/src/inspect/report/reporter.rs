//! The way of a report to whoever is to know: counted, each finding told once in a
//! while, and not too many at once.

use super::{Certainty, KINDS, Report};
use crate::telemetry::trace_buffer::{Entry, Event, TraceBuffer};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The user's hook for reports.
pub(crate) type ReportHook = Arc<dyn Fn(&Report) + Send + Sync>;

/// The same finding is told again after this time at the earliest.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// So many reports of a kind may come at once,
const BURST: u64 = 1000;
/// and so many per second in the long run.
const PER_SECOND: u64 = 100;

/// Counts reports and passes them on: to the user's hook, or to stderr; and to the
/// file that `WAKEFUL_REPORTS` names.
pub(crate) struct Reporter {
    hook: Option<ReportHook>,
    counts: [AtomicU64; KINDS.len()],
    told: Mutex<Told>,
    /// Written under the lock of `told`.
    pub(crate) recorder: TraceBuffer,
}

/// What was told when, by the runtime's clock.
#[derive(Default)]
struct Told {
    /// By kind and finding: when, and how certain it was.
    findings: BTreeMap<(usize, Vec<u64>), (Duration, Certainty)>,
    levels: [Level; KINDS.len()],
}

/// Of one kind.
#[derive(Default)]
struct Level {
    /// How many have been told, less those that time has paid for until then.
    told: u64,
    since: Duration,
    /// How many were not told since the last that was.
    held_back: u64,
}

/// What is to be done with a report.
enum Verdict {
    /// Told, with how many were held back before it.
    Tell {
        held_back: u64,
    },
    /// It was told a moment ago.
    Known,
    HoldBack,
}

impl Told {
    fn admit(&mut self, report: &Report, now: Duration) -> Verdict {
        let kind = report.index();
        if let Some(finding) = report.finding() {
            self.findings.retain(|_, (told, _)| now.saturating_sub(*told) < TELL_AGAIN);
            let (key, certainty) = ((kind, finding), report.certainty());
            // What was suspected is told again once it is proven.
            if self.findings.get(&key).is_some_and(|(_, told)| *told >= certainty) {
                return Verdict::Known;
            }
            self.findings.insert(key, (now, certainty));
        }
        let level = &mut self.levels[kind];
        let paid = now.saturating_sub(level.since).as_secs() * PER_SECOND;
        if paid > 0 {
            (level.told, level.since) = (level.told.saturating_sub(paid), now);
        }
        // Only what is told counts: a flood does not silence what comes long after it.
        if level.told >= BURST {
            level.held_back += 1;
            return Verdict::HoldBack;
        }
        level.told += 1;
        Verdict::Tell { held_back: std::mem::take(&mut level.held_back) }
    }
}

impl Reporter {
    pub(crate) fn new(hook: Option<ReportHook>) -> Self {
        Self {
            hook,
            counts: Default::default(),
            told: Mutex::default(),
            recorder: TraceBuffer::new(),
        }
    }

    /// Tells it, unless it was told a moment ago. Answers whether it did.
    pub(crate) fn report(&self, report: &Report, now: Duration) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = told.admit(report, now);
        if let Verdict::Tell { .. } = verdict {
            let (took, task) = (Duration::ZERO, report.task());
            self.recorder.note(Entry { event: Event::Report, at: now, took, task });
        }
        drop(told);
        if let Verdict::Known = verdict {
            return false;
        }
        self.counts[report.index()].fetch_add(1, Relaxed);
        let Verdict::Tell { held_back } = verdict else { return false };
        record(report);
        // Whoever noticed may be a worker in the middle of its loop, or a user's
        // thread in the drop of a waker: neither must die of a hook that panics
        // (or of a stderr that is gone).
        let told = catch_unwind(AssertUnwindSafe(|| match &self.hook {
            Some(hook) => hook(report),
            None => {
                let before = match held_back {
                    0 => String::new(),
                    count => format!("wakeful: {count} more like the following were held back\n"),
                };
                // In one piece, or what others print gets in between.
                print(report, &format!("{before}wakeful: {report}\n"));
            }
        }));
        if let Err(payload) = told {
            std::mem::forget(payload); // its drop might panic again
        }
        true
    }

    /// How many there were, by kind.
    pub(crate) fn counts(&self) -> [(&'static str, u64); KINDS.len()] {
        std::array::from_fn(|kind| (KINDS[kind], self.counts[kind].load(Relaxed)))
    }

    pub(crate) fn orphans(&self) -> u64 {
        self.counts[0].load(Relaxed)
    }
}

/// Prints a report that nobody else wants.
fn print(report: &Report, text: &str) {
    match report {
        // Whoever runs tests holds back what they print until they have ended, and one that
        // hangs never does. This goes past that; also, the thread that has noticed may have been
        // started by another test.
        Report::Blocked(_) | Report::Spinning(_) | Report::Deadlock(_) | Report::Futurelock(_) => {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        // The panic that follows prints it.
        Report::StuckBlockOn(_) => {}
        Report::Orphan(_) | Report::UnobservedPanic(_) => eprint!("{text}"),
    }
}

/// Appends the report to the file that the environment names, as one line.
fn record(report: &Report) {
    static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("WAKEFUL_REPORTS")?;
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = &opened {
            eprintln!("wakeful: the file of WAKEFUL_REPORTS, {path:?}, cannot be opened: {error}");
        }
        opened.ok().map(Mutex::new)
    });
    if let Some(file) = file {
        let program = std::env::args_os().next().unwrap_or_default();
        let text = report.to_string().replace('\n', "\\n");
        let line = format!("{}\t{}\t{text}\n", report.kind(), program.display());
        // One write, so that several processes may share the file.
        let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
