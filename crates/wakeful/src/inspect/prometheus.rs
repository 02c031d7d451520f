//! Metrics of a runtime, as text and in the Prometheus exposition format.

use super::Histogram;
use super::dump::text::Count;
use crate::watchdog::snapshot::WorkerSnapshot;
use std::fmt::{self, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The exponents of the exported buckets: from 2^10 ns, about 1 µs, to 2^34 ns, about 17 s. Each
/// bucket is twice as wide as the one before, so a quantile is off by a factor of two at most.
const EXPORTED: RangeInclusive<u32> = 10..=34;

/// All metrics of a runtime.
pub(crate) struct MetricsSnapshot {
    pub(crate) runtime: String,
    pub(crate) alive: u64,
    pub(crate) spawned: u64,
    pub(crate) panicked: u64,
    pub(crate) queued: u64,
    pub(crate) workers: Vec<WorkerSnapshot>,
    pub(crate) pool_threads: u64,
    pub(crate) pool_idle: u64,
    pub(crate) pool_queued: u64,
    pub(crate) spares: u64,
    pub(crate) spares_started: u64,
    pub(crate) spare_polls: u64,
    pub(crate) reports: Vec<(&'static str, u64)>,
}

impl MetricsSnapshot {
    fn orphaned(&self) -> u64 {
        self.reports.iter().find(|(kind, _)| *kind == "orphan").map_or(0, |(_, count)| *count)
    }

    fn finished(&self) -> u64 {
        self.spawned.saturating_sub(self.alive)
    }

    fn timers(&self) -> usize {
        self.workers.iter().map(|worker| worker.timers).sum()
    }

    fn sources(&self) -> usize {
        self.workers.iter().map(|worker| worker.sources).sum()
    }

    /// Returns the metrics of this runtime in the Prometheus text exposition format.
    pub(crate) fn prometheus(&self) -> String {
        prometheus(std::slice::from_ref(self))
    }
}

/// Returns the metrics of these runtimes in the Prometheus text exposition format.
///
/// The format requires all samples of a metric to be together, below one header.
pub(crate) fn prometheus(runtimes: &[MetricsSnapshot]) -> String {
    let mut page = ExpositionWriter::new("wakeful_", runtimes);
    page.gauge("tasks_alive", "Tasks that are alive.", |it| it.alive);
    page.counter("tasks_spawned", "Tasks and blocking closures spawned.", |it| it.spawned);
    page.counter("tasks_finished", "Tasks that have ended.", MetricsSnapshot::finished);
    page.counter("tasks_panicked", "Tasks that panicked.", |it| it.panicked);
    page.counter("tasks_orphaned", "Tasks that wait without a waker.", MetricsSnapshot::orphaned);
    page.gauge("queue_depth", "Tasks in the injector.", |it| it.queued);
    page.gauge("timers", "Timers that have not fired.", |it| it.timers() as u64);
    page.gauge("sources", "Registered descriptors.", |it| it.sources() as u64);
    page.gauge("blocking_threads", "Threads of the blocking pool.", |it| it.pool_threads);
    page.gauge("blocking_idle_threads", "Idle threads of the blocking pool.", |it| it.pool_idle);
    page.gauge("blocking_queue_depth", "Closures that wait for a thread.", |it| it.pool_queued);
    page.gauge("spare_threads", "Spare workers that replace stuck ones.", |it| it.spares);
    page.counter("spare_threads_started", "Spare workers started.", |it| it.spares_started);
    page.counter("spare_thread_polls", "Polls by spare workers.", |it| it.spare_polls);
    page.by_worker("worker_polls_total", "counter", "Polls of a worker.", |it| it.polls);
    page.by_worker("worker_steals_total", "counter", "Steals of a worker.", |it| it.steals);
    page.by_worker("worker_parks_total", "counter", "Parks of a worker.", |it| it.parks);
    page.by_worker("worker_busy_seconds_total", "counter", "Busy time of a worker.", |it| {
        it.busy.as_secs_f64()
    });
    page.by_worker("worker_queue_depth", "gauge", "Tasks in a worker's own queue.", |it| it.queued);
    page.by_kind("reports_total", "Reports, by kind.");
    let polls = |it: &MetricsSnapshot| Histogram::of_polls(&it.workers);
    page.histogram("poll_seconds", "Duration of polls, sampled.", polls);
    let wake_ups = |it: &MetricsSnapshot| Histogram::of_wake_ups(&it.workers);
    page.histogram("wake_to_poll_seconds", "Time from wake-up to poll, sampled.", wake_ups);
    page.into_text()
}

impl NamedRuntime for MetricsSnapshot {
    fn runtime(&self) -> &str {
        &self.runtime
    }
}

/// Metrics of one runtime, labelled with the runtime's name.
pub(super) trait NamedRuntime {
    /// Returns the value of the label `runtime`.
    fn runtime(&self) -> &str;
}

/// A writer for metrics of several runtimes in the Prometheus exposition format.
pub(super) struct ExpositionWriter<'a, R> {
    text: String,
    /// The prefix of every metric name.
    prefix: &'static str,
    runtimes: &'a [R],
}

impl<'a, R: NamedRuntime> ExpositionWriter<'a, R> {
    pub(super) fn new(prefix: &'static str, runtimes: &'a [R]) -> Self {
        Self { text: String::new(), prefix, runtimes }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes a metric with one sample for each runtime.
    pub(super) fn metric<V: fmt::Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&R) -> V,
    ) {
        self.head(name, kind, help);
        self.runtimes.iter().for_each(|runtime| self.line(runtime, name, "", value(runtime)));
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let name = format!("{}{name}", self.prefix);
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, runtime: &R, name: &str, labels: &str, value: impl fmt::Display) {
        let escaped = runtime.runtime().replace('\\', "\\\\").replace('"', "\\\"");
        let escaped = escaped.replace('\n', "\\n");
        let prefix = self.prefix;
        let _ = writeln!(self.text, "{prefix}{name}{{runtime=\"{escaped}\"{labels}}} {value}");
    }
}

impl ExpositionWriter<'_, MetricsSnapshot> {
    fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&MetricsSnapshot) -> u64) {
        self.metric(name, "gauge", help, value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Fn(&MetricsSnapshot) -> u64) {
        self.metric(&format!("{name}_total"), "counter", help, value);
    }

    fn by_kind(&mut self, name: &str, help: &str) {
        self.head(name, "counter", help);
        for runtime in self.runtimes {
            for (kind, count) in &runtime.reports {
                self.line(runtime, name, &format!(",kind=\"{kind}\""), count);
            }
        }
    }

    fn by_worker<V: fmt::Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&WorkerSnapshot) -> V,
    ) {
        self.head(name, kind, help);
        for runtime in self.runtimes {
            for (index, worker) in runtime.workers.iter().enumerate() {
                self.line(runtime, name, &format!(",worker=\"{index}\""), value(worker));
            }
        }
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        histogram: impl Fn(&MetricsSnapshot) -> Histogram,
    ) {
        self.head(name, "histogram", help);
        for runtime in self.runtimes {
            let histogram = histogram(runtime);
            let mut cumulative = 0;
            for (end, count) in histogram.buckets() {
                cumulative += count;
                if EXPORTED.contains(&end.as_nanos().trailing_zeros()) {
                    let labels = format!(",le=\"{}\"", end.as_secs_f64());
                    self.line(runtime, &format!("{name}_bucket"), &labels, cumulative);
                }
            }
            self.line(runtime, &format!("{name}_bucket"), ",le=\"+Inf\"", cumulative);
            self.line(runtime, &format!("{name}_sum"), "", histogram.sum().as_secs_f64());
            self.line(runtime, &format!("{name}_count"), "", histogram.count());
        }
    }
}

/// Formats a duration with one decimal.
fn short(time: Duration) -> String {
    format!("{time:.1?}")
}

impl fmt::Display for MetricsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tasks: {} alive, {} spawned, {} finished, {} panicked, {} orphaned; {} in the injector",
            self.alive,
            self.spawned,
            self.finished(),
            self.panicked,
            self.orphaned(),
            self.queued
        )?;
        for (index, worker) in self.workers.iter().enumerate() {
            writeln!(
                f,
                "worker {index}: {}, {}, {}, {} busy, {} queued, {}, {}",
                Count(worker.polls, "poll"),
                Count(worker.steals, "steal"),
                Count(worker.parks, "park"),
                short(worker.busy),
                worker.queued,
                Count(worker.timers as u64, "timer"),
                Count(worker.sources as u64, "source")
            )?;
        }
        for (name, histogram) in [
            ("polls", Histogram::of_polls(&self.workers)),
            ("wake to poll", Histogram::of_wake_ups(&self.workers)),
        ] {
            writeln!(
                f,
                "{name}: {} sampled, p50 {}, p99 {}, max {}",
                histogram.count(),
                short(histogram.p50()),
                short(histogram.p99()),
                short(histogram.max())
            )?;
        }
        writeln!(
            f,
            "blocking pool: {}, {} idle, {} queued; spare workers: {} of {} started, {}",
            Count(self.pool_threads, "thread"),
            self.pool_idle,
            Count(self.pool_queued, "closure"),
            self.spares,
            self.spares_started,
            Count(self.spare_polls, "poll")
        )?;
        f.write_str("reports:")?;
        for (kind, count) in &self.reports {
            write!(f, " {kind} {count}")?;
        }
        Ok(())
    }
}
