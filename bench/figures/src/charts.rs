//! Which charts there are, and from which records.

use crate::bars::{BarRow, Bars};
use crate::curves::{Curve, Curves, Panel, Quantile};
use crate::records::{Figure, Record, newest};

/// Shares of the peak in records of applications.
pub const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
/// The load at which a chart of bars compares latencies.
const BUSY: f64 = 0.75;

const FLAVORS: [(&str, &str); 2] = [("mt", "multi-thread"), ("ct", "current-thread")];
const LESS: &str =
    "Ratio to tokio (the line at 1.0), less is better. Thin lines: lowest and highest round.";
const MORE: &str =
    "Ratio to tokio (the line at 1.0), more is better. Thin lines: lowest and highest round.";

/// Rows of the summary: the kind of record, the row, and its label.
const SUMMARY: [(&str, &str, &str); 8] = [
    ("idle", "spawn_join", "spawn 1,000 tasks, then join all"),
    ("idle", "blocking_seq", "spawn_blocking, one after the other"),
    ("idle", "mpsc_1", "bounded mpsc, 1 sender"),
    ("idle", "mutex_contended", "Mutex, 100 tasks"),
    ("idle", "timeout_never", "timeout that does not fire"),
    ("idle", "mem0", "memory of an idle task"),
    ("sockets-one-core", "echo_c64", "TCP echo, CPU time per request"),
    ("sockets-one-core", "http_c64", "HTTP (hyper), CPU time per request"),
];

/// A chart and its file's name.
pub struct Chart {
    pub file: &'static str,
    pub title: String,
    pub svg: String,
}

/// Draws all charts that the records have figures for.
pub fn draw_all(records: &[Record]) -> Vec<Chart> {
    let by_flavor = [
        ("operations.svg", "Operations", "idle"),
        ("files.svg", "Files", "files"),
        (
            "servers-one-core.svg",
            "Servers and load on one core: CPU time per request",
            "sockets-one-core",
        ),
        (
            "servers-two-cores.svg",
            "Servers and load on two cores: CPU time per request",
            "sockets-two-cores",
        ),
    ];
    let mut charts: Vec<Chart> = summary(records).into_iter().collect();
    for (file, title, kind) in by_flavor {
        charts.extend(newest(records, kind).map(|record| flavors(file, title, record)));
    }
    if let Some(record) = newest(records, "apps") {
        charts.extend([
            applications(record),
            throughput(record),
            latency(record),
            standing(record),
        ]);
    }
    charts
}

fn summary(records: &[Record]) -> Option<Chart> {
    let mut rows = Vec::new();
    for (kind, row, label) in SUMMARY {
        let record = newest(records, kind)?;
        let bars = FLAVORS.map(|(flavor, _)| record.bar(row, flavor, None, Figure::Main)).to_vec();
        rows.push(BarRow { label: label.into(), bars });
    }
    let series = FLAVORS.map(|(_, name)| name.to_owned()).to_vec();
    let mut sources: Vec<_> =
        SUMMARY.iter().filter_map(|(kind, ..)| newest(records, kind)).map(Record::source).collect();
    sources.dedup();
    Some(bars_chart("summary.svg", "wakeful beside tokio", LESS, sources, series, rows))
}

/// A row's own figure, in both flavors.
fn flavors(file: &'static str, title: &str, record: &Record) -> Chart {
    let row = |row: &str| {
        let bars = FLAVORS.map(|(flavor, _)| record.bar(row, flavor, None, Figure::Main)).to_vec();
        BarRow { label: row.into(), bars }
    };
    let rows = record.rows().into_iter().map(row).collect();
    let series = FLAVORS.map(|(_, name)| name.to_owned()).to_vec();
    bars_chart(file, title, LESS, vec![record.source()], series, rows)
}

/// Rows with open loops.
pub fn application_rows(record: &Record) -> Vec<&str> {
    let has_loads = |row: &&str| record.cell(row, "wakeful", "mt", Some(LOADS[0])).is_some();
    record.rows().into_iter().filter(has_loads).collect()
}

/// Rows without open loops.
fn standing_rows(record: &Record) -> Vec<&str> {
    let applications = application_rows(record);
    record.rows().into_iter().filter(|row| !applications.contains(row)).collect()
}

fn label(record: &Record, row: &str) -> String {
    record.what(row).unwrap_or(row).to_owned()
}

fn applications(record: &Record) -> Chart {
    let row = |row: &str| {
        let cpu = record.bar(row, "mt", None, Figure::Named("cpu_ns_per_op"));
        let p99 = record.bar(row, "mt", Some(BUSY), Figure::Named("p99_us"));
        BarRow { label: label(record, row), bars: vec![cpu, p99] }
    };
    let rows = application_rows(record).into_iter().map(row).collect();
    let series = vec!["CPU time per request".into(), "p99 at 75 % of tokio's peak".into()];
    bars_chart(
        "applications.svg",
        "Applications: CPU time and latency",
        LESS,
        vec![record.source()],
        series,
        rows,
    )
}

fn throughput(record: &Record) -> Chart {
    let row = |row: &str| {
        let per_s = record.bar(row, "mt", None, Figure::Named("per_s"));
        BarRow { label: label(record, row), bars: vec![per_s] }
    };
    let rows = application_rows(record).into_iter().map(row).collect();
    let series = vec!["requests per second, closed loop".into()];
    bars_chart(
        "throughput.svg",
        "Applications: throughput",
        MORE,
        vec![record.source()],
        series,
        rows,
    )
}

fn standing(record: &Record) -> Chart {
    let row = |row: &str| {
        let bars = vec![record.bar(row, "mt", None, Figure::Main)];
        BarRow { label: label(record, row), bars }
    };
    let rows = standing_rows(record).into_iter().map(row).collect();
    let series = vec!["CPU time, p99 or memory, as the row says".into()];
    bars_chart("standing.svg", "Standing costs", LESS, vec![record.source()], series, rows)
}

fn latency(record: &Record) -> Chart {
    let curve = |row: &str, is_ours: bool, quantile: Quantile| {
        let runtime = if is_ours { "wakeful" } else { "tokio" };
        let point = |load: f64| {
            let cell = record.cell(row, runtime, "mt", Some(load))?;
            Some((load, cell[quantile.key()].as_f64()?))
        };
        Curve { is_ours, quantile, points: LOADS.into_iter().filter_map(point).collect() }
    };
    let panel = |row: &str| {
        let sides = [false, true].into_iter();
        let curves =
            sides.flat_map(|is_ours| Quantile::ALL.map(|quantile| curve(row, is_ours, quantile)));
        Panel { label: row.into(), curves: curves.collect() }
    };
    let chart = Curves {
        title: "Latency by load (open loop)".into(),
        subtitle: "From the time a request is due to its answer, at shares of tokio's peak rate."
            .into(),
        source: record.source(),
        panels: application_rows(record).into_iter().map(panel).collect(),
    };
    Chart { file: "latency.svg", title: chart.title.clone(), svg: chart.draw() }
}

fn bars_chart(
    file: &'static str,
    title: &str,
    subtitle: &str,
    sources: Vec<String>,
    series: Vec<String>,
    rows: Vec<BarRow>,
) -> Chart {
    let chart = Bars { title: title.into(), subtitle: subtitle.into(), sources, series, rows };
    Chart { file, title: chart.title.clone(), svg: chart.draw() }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::svg::expect_balanced;
    use serde_json::{Value, json};

    /// A record of applications with one row of each kind.
    pub fn apps_record() -> Record {
        let cell = |row: &str, peer: &str, load: Option<f64>, value: f64| {
            let mut cell = json!({
                "row": row, "what": format!("axum: {row}"), "peer": peer, "figure": "cpu_ns_per_op",
                "samples": [value, value], "cpu_ns_per_op": value,
                "per_s": value, "per_s_samples": [value, value],
                "p50_us": value, "p99_us": value, "p999_us": value, "p99_us_samples": [value, value],
                "rss_mib": value, "rss_mib_samples": [value, value],
            });
            if let Some(load) = load {
                cell["load"] = load.into();
            }
            cell
        };
        let mut cells: Vec<Value> = Vec::new();
        for (peer, value) in [("tokio-mt", 100.0), ("wakeful-mt", 50.0)] {
            cells.push(cell("hello", peer, None, value));
            cells.extend(LOADS.map(|load| cell("hello", peer, Some(load), value * load)));
            cells.push(cell("idle_10k", peer, None, value));
        }
        let machine = json!({ "cpu": "A & B", "cores": 2, "kernel": "Linux", "date": "2026-11-18T01:02:03Z" });
        Record::new(
            "2026-11-18-apps.json",
            json!({ "machine": machine, "rounds": 2, "cells": cells }),
        )
    }

    #[test]
    fn applications_have_bars_and_curves() {
        let charts = draw_all(&[apps_record()]);
        let files: Vec<_> = charts.iter().map(|chart| chart.file).collect();
        assert_eq!(files, ["applications.svg", "throughput.svg", "latency.svg", "standing.svg"]);
        for chart in &charts {
            expect_balanced(&chart.svg);
            assert!(chart.svg.contains("A &amp; B, 2 cores"), "machine and date: {}", chart.svg);
            assert!(chart.svg.contains("2026-11-18; 2 rounds"), "{}", chart.svg);
        }
        assert!(charts[0].svg.contains("axum: hello"));
        assert!(!charts[0].svg.contains("idle_10k"));
        assert!(charts[3].svg.contains("axum: idle_10k"));
        // Three curves of each runtime, and the legend.
        assert_eq!(charts[2].svg.matches("class=\"ours").count(), 6);
    }

    #[test]
    fn charts_without_a_record_are_left_out() {
        assert!(draw_all(&[]).is_empty());
    }
}
