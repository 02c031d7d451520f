//! Compares the metrics that tokio-metrics gives to an exporter with those of `prometheus_tokio`.

use std::collections::BTreeMap;

use metrics::Unit;
use metrics_util::MetricKind;
use metrics_util::debugging::DebuggingRecorder;
use tokio::runtime::{Builder, Handle};
use tokio_metrics::RuntimeMetricsReporterBuilder;

const DOCUMENT: &str = include_str!("../../../docs/METRICS.md");

/// The type and the unit of a metric.
type Metrics = BTreeMap<String, (String, String)>;

/// Returns all metrics that tokio-metrics exports of a runtime.
fn exported_by_tokio_metrics() -> Metrics {
    let recorder = DebuggingRecorder::new();
    let builder = RuntimeMetricsReporterBuilder::default();
    let mut reporter = metrics::with_local_recorder(&recorder, || builder.describe().build());
    reporter.run_once();
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let metrics = snapshot.into_iter().map(|(key, unit, _, _)| {
        let kind = match key.kind() {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let unit = match unit.expect("tokio-metrics describes every metric") {
            Unit::Count => "count",
            Unit::Microseconds => "microseconds",
            // A part of 1, although the unit is called so.
            Unit::Percent => "ratio",
            other => panic!("{other:?}"),
        };
        (key.key().name().to_owned(), (kind.to_owned(), unit.to_owned()))
    });
    metrics.collect()
}

/// Returns the types that the document names, with its units.
fn documented() -> Metrics {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `tokio_"));
    let metrics = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        (name, (cells[1].to_owned(), cells[2].to_owned()))
    });
    metrics.collect()
}

#[test]
fn names_types_and_units_are_those_of_tokio_metrics() {
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for rt in [current, multi] {
        let (mut theirs, page) = rt.block_on(async {
            tokio::spawn(async {}).await.unwrap();
            (exported_by_tokio_metrics(), Handle::current().metrics().prometheus_tokio())
        });
        // The document says that this metric is missing.
        assert!(theirs.remove("tokio_poll_time_histogram").is_some());
        assert_eq!(theirs, documented());
        let heads = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let printed: Vec<(&str, &str)> = heads.filter_map(|head| head.split_once(' ')).collect();
        let mut printed = printed;
        printed.sort_unstable();
        let expected: Vec<(&str, &str)> =
            theirs.iter().map(|(name, (kind, _))| (name.as_str(), kind.as_str())).collect();
        assert_eq!(printed, expected);
    }
}
