//! The first screen, the history and the metrics.

use super::findings::{Finding, findings};
use super::groups::groups;
use super::values::{array, fraction, histogram, micros, object, task_ref};
use super::view::{RuntimeView, View};
use crate::inspect::Histogram;
use crate::inspect::dump::{millis, worker_counts};
use crate::inspect::json::Json;
use crate::inspect::page::history::History;
use crate::inspect::report::{Certainty, now_text};
use crate::inspect::runtimes;
use crate::sys::sort::sort_by_key;
use std::collections::BTreeSet;

/// The number of groups on the first screen.
const SHOWN_GROUPS: usize = 12;

pub(super) fn overview(view: &View, history: &History, allow_abort: bool) -> String {
    let mut found: Vec<Finding<'_>> = view.runtimes.iter().flat_map(findings).collect();
    sort_by_key(&mut found, |finding| finding.certainty != Certainty::Proven);
    let mut groups = groups(view, history, None);
    sort_by_key(&mut groups, |group| std::cmp::Reverse(group.group.alive()));
    let shown = &groups[..groups.len().min(SHOWN_GROUPS)];
    object(|json| {
        json.field("process", |json| process(json, history, allow_abort));
        json.field("verdict", |json| verdict(json, view, history, &found));
        json.field("findings", |json| array(json, &found, |json, finding| finding.write(json)));
        json.field("runtimes", |json| {
            array(json, &view.runtimes, |json, it| {
                runtime(json, it, &history.busy_shares(it.id()))
            });
        });
        json.field("groups", |json| array(json, shown, |json, group| group.write(json)));
        json.field("groups_total", |json| json.plain(groups.len()));
    })
}

fn process(json: &mut Json, history: &History, allow_abort: bool) {
    let program = std::env::current_exe().ok();
    let program =
        program.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    json.object(|json| {
        json.field("pid", |json| json.plain(std::process::id()));
        json.field("program", |json| json.string(program.as_deref().unwrap_or("program")));
        json.field("page_uptime_ms", |json| millis(json, history.began().elapsed()));
        json.field("version", |json| json.string(env!("CARGO_PKG_VERSION")));
        json.field("abort_enabled", |json| json.plain(allow_abort));
        json.field("now", |json| json.string(&now_text()));
    });
}

/// Writes the state of the process in one line.
fn verdict(json: &mut Json, view: &View, history: &History, found: &[Finding<'_>]) {
    let proven = || found.iter().filter(|finding| finding.certainty == Certainty::Proven);
    let mut stuck: BTreeSet<u64> = proven().flat_map(Finding::stuck_tasks).collect();
    // If there are many orphans, some have no finding of their own.
    let all = view.runtimes.iter().flat_map(|runtime| runtime.tasks());
    let orphans = all.filter(|task| task.is_orphan() && !task.info().is_block_on());
    stuck.extend(orphans.map(|task| task.info().id));
    let suspected = found.len() - proven().count();
    let s = |count: usize| if count == 1 { "" } else { "s" };
    let (level, text) = match (stuck.len(), proven().count(), suspected) {
        (0, 0, 0) => ("ok", all_well_text(view, history)),
        (0, 0, count) => ("warning", format!("{count} suspected finding{}", s(count))),
        (0, count, _) => ("warning", format!("{count} proven finding{}", s(count))),
        (1, ..) => ("stuck", "1 task can never run again".to_owned()),
        (tasks, ..) => ("stuck", format!("{tasks} tasks can never run again")),
    };
    json.object(|json| {
        json.field("level", |json| json.string(level));
        json.field("text", |json| json.string(&text));
    });
}

fn all_well_text(view: &View, history: &History) -> String {
    let tasks: usize = view.runtimes.iter().map(RuntimeView::alive).sum();
    let shares: Vec<f64> =
        view.runtimes.iter().flat_map(|runtime| history.busy_shares(runtime.id())).collect();
    let workers: usize = view.runtimes.iter().map(|it| it.snapshot.dump().workers().len()).sum();
    let busy = shares.iter().sum::<f64>() / shares.len().max(1) as f64 * 100.0;
    let s = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "All well: {} task{}, {workers} worker{} {busy:.0} % busy",
        grouped(tasks),
        s(tasks),
        s(workers)
    )
}

/// Returns a number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn runtime(json: &mut Json, runtime: &RuntimeView, shares: &[f64]) {
    let (snapshot, dump) = (&runtime.snapshot, runtime.snapshot.dump());
    json.object(|json| {
        json.field("id", |json| json.plain(runtime.id()));
        json.field("name", |json| json.option(snapshot.name(), Json::string));
        json.field("flavor", |json| json.string(runtime.flavor));
        json.field("uptime_ms", |json| millis(json, runtime.uptime()));
        json.field("alive", |json| json.plain(runtime.alive()));
        json.field("started", |json| json.plain(snapshot.started()));
        json.field("finished", |json| json.plain(snapshot.finished()));
        json.field("queued", |json| json.plain(dump.queued()));
        let (timers, sources) = (
            dump.workers().iter().map(|it| it.timers()),
            dump.workers().iter().map(|it| it.sources()),
        );
        json.field("timers", |json| json.plain(timers.sum::<usize>()));
        json.field("sources", |json| json.plain(sources.sum::<usize>()));
        json.field("blocking", |json| {
            json.object(|json| {
                json.field("threads", |json| json.plain(runtime.pool.threads));
                json.field("idle", |json| json.plain(runtime.pool.idle));
                json.field("queued", |json| json.plain(runtime.pool.queued));
            });
        });
        json.field("spares", |json| json.plain(runtime.spares));
        json.field("workers", |json| {
            array(json, dump.workers(), |json, worker| {
                let share = shares.get(worker.index()).copied();
                json.object(|json| {
                    json.field("index", |json| json.plain(worker.index()));
                    json.field("state", |json| json.string(worker.state().name()));
                    json.field("task", |json| {
                        json.option(worker.task(), |json, it| task_ref(json, runtime.id(), it));
                    });
                    worker_counts(json, worker);
                    json.field("busy_share", |json| json.option(share, fraction));
                });
            });
        });
    });
}

/// Answers `history`.
///
/// `since` is the time, in seconds, of the last sample that the client has.
pub(super) fn history(history: &History, since: f64) -> String {
    object(|json| {
        json.field("step_ms", |json| json.plain(1000));
        json.field("runtimes", |json| {
            json.array(|json| {
                history.each_runtime(|id, samples| {
                    json.item(|json| {
                        json.object(|json| {
                            json.field("id", |json| json.plain(id));
                            let new = samples.iter().filter(|it| it.at.as_secs_f64() > since);
                            json.field("samples", |json| array(json, new, sample));
                        });
                    });
                });
            });
        });
    })
}

fn sample(json: &mut Json, sample: &crate::inspect::page::history::Sample) {
    json.object(|json| {
        json.field("t", |json| fraction(json, sample.at.as_secs_f64()));
        json.field("alive", |json| json.plain(sample.alive));
        json.field("spawned", |json| json.plain(sample.spawned));
        json.field("polls", |json| json.plain(sample.polls));
        json.field("queued", |json| json.plain(sample.queued));
        json.field("blocking", |json| json.plain(sample.blocking));
        json.field("busy", |json| array(json, &sample.busy, |json, share| fraction(json, *share)));
        json.field("poll_p99_us", |json| micros(json, sample.poll_p99));
        json.field("wake_p99_us", |json| micros(json, sample.wake_p99));
    });
}

/// Answers `metrics`.
pub(super) fn metrics() -> String {
    object(|json| {
        json.field("runtimes", |json| {
            array(json, runtimes::all(), |json, runtime| {
                let metrics = runtime.clone().metrics();
                let polls = Histogram::of_polls(&metrics.workers);
                let wakes = Histogram::of_wake_ups(&metrics.workers);
                json.object(|json| {
                    json.field("id", |json| json.plain(runtime.id()));
                    json.field("name", |json| json.string(&metrics.runtime));
                    json.field("poll", |json| histogram(json, &polls));
                    json.field("wake", |json| histogram(json, &wakes));
                    json.field("reports", |json| {
                        array(json, &metrics.reports, |json, (kind, count)| {
                            json.object(|json| {
                                json.field("kind", |json| json.string(kind));
                                json.field("count", |json| json.plain(count));
                            });
                        });
                    });
                    json.field("panicked", |json| json.plain(metrics.panicked));
                    let sum = |count: fn(&crate::watchdog::snapshot::WorkerSnapshot) -> u64| {
                        metrics.workers.iter().map(count).sum::<u64>()
                    };
                    json.field("steals", |json| json.plain(sum(|worker| worker.steals)));
                    json.field("parks", |json| json.plain(sum(|worker| worker.parks)));
                });
            });
        });
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_have_commas() {
        let numbers = [0, 7, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }
}
