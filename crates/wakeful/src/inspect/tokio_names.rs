//! Metrics under the names that exporters of the crate tokio-metrics use, for existing dashboards.
//!
//! tokio-metrics samples a runtime at intervals. Some of its metrics describe the last interval, and
//! its `max_` and `min_` counters add up one worker's share of each interval. So [`TokioIntervals`]
//! keeps the readings of the last interval, and each export ends one.

use super::prometheus::{ExpositionWriter, NamedRuntime};
use std::time::Duration;

/// The counters and the current state of a runtime.
pub(crate) struct TokioReadings {
    pub(crate) runtime: String,
    /// The runtime's clock, by which busy times are measured.
    pub(crate) now: Duration,
    pub(crate) workers: Vec<WorkerReadings>,
    pub(crate) live_tasks: usize,
    pub(crate) global_queue: usize,
    pub(crate) blocking_queue: usize,
    pub(crate) blocking_threads: usize,
    pub(crate) idle_blocking_threads: usize,
    pub(crate) remote_schedules: u64,
    pub(crate) forced_yields: u64,
    pub(crate) io_ready: u64,
}

/// The counters and the current state of a worker.
#[derive(Clone, Copy, Default)]
pub(crate) struct WorkerReadings {
    pub(crate) counters: WorkerCounters,
    pub(crate) queued: u64,
    pub(crate) mean_poll: Duration,
}

/// A value for each of [`COUNTED`].
pub(crate) type WorkerCounters = [u64; COUNTED.len()];

/// The counters of each worker: the suffix of the metric's name, and the help text.
const COUNTED: [(&str, &str); 8] = [
    ("park_count", "Parks in the last interval"),
    ("busy_duration", "Busy time in microseconds"),
    ("noop_count", "Wake-ups without a poll before the next park"),
    ("steal_count", "Tasks stolen"),
    ("steal_operations", "Steals"),
    ("local_schedule_count", "Tasks scheduled by a worker"),
    ("overflow_count", "Overflows of a worker's queue"),
    ("polls_count", "Polls"),
];

const PARKS: usize = 0;
const BUSY_US: usize = 1;
const NOOPS: usize = 2;
const POLLS: usize = 7;

/// The sum, maximum and minimum of one value over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spread {
    total: u64,
    max: u64,
    min: u64,
}

impl Spread {
    fn of(values: impl Iterator<Item = u64> + Clone) -> Self {
        Self {
            total: values.clone().sum(),
            max: values.clone().max().unwrap_or(0),
            min: values.min().unwrap_or(0),
        }
    }

    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.max += other.max;
        self.min += other.min;
    }
}

/// The last interval of a runtime. The first one begins with the runtime.
#[derive(Debug, Default)]
pub(crate) struct TokioIntervals {
    /// The end of the last interval.
    ended_at: Duration,
    /// The counters of each worker at that time.
    counters: Vec<WorkerCounters>,
    /// The sums of all intervals.
    sums: [Spread; COUNTED.len()],
}

impl TokioIntervals {
    /// Ends the current interval, and returns its metrics and the sums of all intervals.
    pub(crate) fn advance(&mut self, readings: TokioReadings) -> TokioMetrics {
        self.counters.resize(readings.workers.len(), WorkerCounters::default());
        let deltas: Vec<WorkerCounters> = readings
            .workers
            .iter()
            .zip(&self.counters)
            .map(|(now, before)| {
                std::array::from_fn(|index| now.counters[index].saturating_sub(before[index]))
            })
            .collect();
        let interval: [Spread; COUNTED.len()] =
            std::array::from_fn(|index| Spread::of(deltas.iter().map(|worker| worker[index])));
        self.sums.iter_mut().zip(interval).for_each(|(sum, spread)| sum.add(spread));
        let elapsed = readings.now.saturating_sub(self.ended_at);
        self.ended_at = readings.now;
        self.counters = readings.workers.iter().map(|worker| worker.counters).collect();
        let mut counters = self.sums;
        counters[PARKS] = interval[PARKS];
        let busy_parks = interval[PARKS].total.saturating_sub(interval[NOOPS].total);
        let polled = || readings.workers.iter().zip(&deltas).filter(|(_, delta)| delta[POLLS] > 0);
        let means = polled().map(|(worker, _)| worker.mean_poll.as_micros() as u64);
        let weighted: f64 = polled()
            .map(|(worker, delta)| worker.mean_poll.as_micros() as f64 * delta[POLLS] as f64)
            .sum();
        TokioMetrics {
            counters,
            busy_ratio: ratio(interval[BUSY_US].total as f64, elapsed.as_micros() as f64),
            polls_per_park: ratio(interval[POLLS].total as f64, busy_parks as f64),
            mean_poll_us: ratio(weighted, interval[POLLS].total as f64),
            worker_mean_poll_us: Spread::of(means),
            queued: Spread::of(readings.workers.iter().map(|worker| worker.queued)),
            readings,
        }
    }
}

/// Divides, and returns 0 if the divisor is 0.
fn ratio(of: f64, by: f64) -> f64 {
    if by == 0.0 { 0.0 } else { of / by }
}

/// The metrics of a runtime at the end of an interval.
pub(crate) struct TokioMetrics {
    readings: TokioReadings,
    counters: [Spread; COUNTED.len()],
    busy_ratio: f64,
    polls_per_park: f64,
    mean_poll_us: f64,
    worker_mean_poll_us: Spread,
    queued: Spread,
}

impl NamedRuntime for TokioMetrics {
    fn runtime(&self) -> &str {
        &self.readings.runtime
    }
}

/// Returns the metrics in the Prometheus text exposition format, under the names of tokio-metrics.
pub(crate) fn prometheus(runtimes: &[TokioMetrics]) -> String {
    let mut page = ExpositionWriter::new("tokio_", runtimes);
    let mut gauge = |name: &str, help: &str, value: fn(&TokioMetrics) -> f64| {
        page.metric(name, "gauge", help, value);
    };
    gauge("workers_count", "Workers.", |it| it.readings.workers.len() as f64);
    gauge("live_tasks_count", "Tasks that are alive.", |it| it.readings.live_tasks as f64);
    gauge("global_queue_depth", "Tasks in the injector.", |it| it.readings.global_queue as f64);
    gauge("total_local_queue_depth", "Tasks in the queues of workers.", |it| {
        it.queued.total as f64
    });
    gauge("max_local_queue_depth", "Tasks in the longest queue of a worker.", |it| {
        it.queued.max as f64
    });
    gauge("min_local_queue_depth", "Tasks in the shortest queue of a worker.", |it| {
        it.queued.min as f64
    });
    gauge("blocking_queue_depth", "Closures that wait for a thread.", |it| {
        it.readings.blocking_queue as f64
    });
    gauge("blocking_threads_count", "Threads of the blocking pool.", |it| {
        it.readings.blocking_threads as f64
    });
    gauge("idle_blocking_threads_count", "Idle threads of the blocking pool.", |it| {
        it.readings.idle_blocking_threads as f64
    });
    gauge("busy_ratio", "Busy time of all workers by time, in the last interval.", |it| {
        it.busy_ratio
    });
    gauge("mean_poll_duration", "Mean duration of a poll in microseconds.", |it| it.mean_poll_us);
    gauge("mean_poll_duration_worker_min", "The smallest such mean of a worker.", |it| {
        it.worker_mean_poll_us.min as f64
    });
    gauge("mean_poll_duration_worker_max", "The largest such mean of a worker.", |it| {
        it.worker_mean_poll_us.max as f64
    });
    gauge("mean_polls_per_park", "Polls for each park, in the last interval.", |it| {
        it.polls_per_park
    });
    let mut counter = |name: &str, help: &str, value: fn(&TokioMetrics) -> u64| {
        page.metric(name, "counter", help, value);
    };
    counter("num_remote_schedules", "Tasks scheduled by other threads.", |it| {
        it.readings.remote_schedules
    });
    counter("budget_forced_yield_count", "Yields because a task's budget was used up.", |it| {
        it.readings.forced_yields
    });
    counter("io_driver_ready_count", "Ready events of the poller.", |it| it.readings.io_ready);
    for (index, (name, help)) in COUNTED.into_iter().enumerate() {
        let kind = if index == PARKS { "gauge" } else { "counter" };
        let mut one = |which: &str, whose: &str, value: fn(&Spread) -> u64| {
            let help = format!("{help}{whose}.");
            page.metric(&format!("{which}_{name}"), kind, &help, |it| value(&it.counters[index]));
        };
        one("total", "", |it| it.total);
        one("max", ", of the worker with the most", |it| it.max);
        one("min", ", of the worker with the fewest", |it| it.min);
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings at `seconds`, of workers with these parks, busy seconds, noops and polls.
    fn readings(seconds: u64, workers: &[(u64, u64, u64, u64, u64)]) -> TokioReadings {
        let worker = |&(parks, busy, noops, polls, mean): &(u64, u64, u64, u64, u64)| {
            let mut counters = WorkerCounters::default();
            counters[PARKS] = parks;
            counters[BUSY_US] = busy * 1_000_000;
            counters[NOOPS] = noops;
            counters[POLLS] = polls;
            WorkerReadings { counters, queued: polls / 10, mean_poll: Duration::from_micros(mean) }
        };
        TokioReadings {
            runtime: "shop".to_owned(),
            now: Duration::from_secs(seconds),
            workers: workers.iter().map(worker).collect(),
            live_tasks: 3,
            global_queue: 4,
            blocking_queue: 5,
            blocking_threads: 6,
            idle_blocking_threads: 7,
            remote_schedules: 8,
            forced_yields: 9,
            io_ready: 10,
        }
    }

    fn value(page: &str, name: &str) -> f64 {
        let start = format!("tokio_{name}{{runtime=\"shop\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&start));
        value.unwrap_or_else(|| panic!("{name}\n{page}")).parse().unwrap()
    }

    #[test]
    fn gauges_are_of_the_interval_and_counters_are_sums() {
        let mut intervals = TokioIntervals::default();
        let first = intervals.advance(readings(10, &[(2, 5, 0, 20, 10), (4, 1, 2, 60, 20)]));
        let page = prometheus(&[first]);
        let expected = [
            ("workers_count", 2.0),
            ("total_park_count", 6.0),
            ("max_park_count", 4.0),
            ("min_park_count", 2.0),
            ("busy_ratio", 0.6),
            ("total_busy_duration", 6e6),
            ("mean_polls_per_park", 20.0),
            ("mean_poll_duration", 17.5),
            ("mean_poll_duration_worker_min", 10.0),
            ("mean_poll_duration_worker_max", 20.0),
            ("max_local_queue_depth", 6.0),
        ];
        for (name, expected) in expected {
            assert_eq!(value(&page, name), expected, "{name}");
        }

        // The second worker did nothing in the second interval, which took five seconds.
        let second = intervals.advance(readings(15, &[(3, 6, 0, 25, 10), (4, 1, 2, 60, 20)]));
        let page = prometheus(&[second]);
        let expected = [
            ("total_park_count", 1.0),
            ("min_park_count", 0.0),
            ("busy_ratio", 0.2),
            ("total_busy_duration", 7e6),
            ("total_polls_count", 85.0),
            ("max_polls_count", 65.0),
            ("min_polls_count", 20.0),
            ("mean_polls_per_park", 5.0),
            ("mean_poll_duration", 10.0),
            ("mean_poll_duration_worker_min", 10.0),
        ];
        for (name, expected) in expected {
            assert_eq!(value(&page, name), expected, "{name}");
        }
    }

    #[test]
    fn an_interval_without_time_or_polls_has_zeros() {
        let mut intervals = TokioIntervals::default();
        let page = prometheus(&[intervals.advance(readings(0, &[(0, 0, 0, 0, 7)]))]);
        for name in ["busy_ratio", "mean_polls_per_park", "mean_poll_duration"] {
            assert_eq!(value(&page, name), 0.0, "{name}");
        }
        assert_eq!(value(&page, "mean_poll_duration_worker_max"), 0.0);
    }
}
