//! Reads records: `DATE-KIND.json`, of which the newest of each kind counts.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bars::Bar;
use crate::stats::spread;

/// Bytes of `DATE-`, as in `2026-11-17-idle.json`.
const DATE: usize = 11;

/// One file of records.
pub struct Record {
    pub name: String,
    json: Value,
}

impl Record {
    pub fn new(name: &str, json: Value) -> Self {
        Self { name: name.to_owned(), json }
    }

    /// What the record is about: the name without date and ending.
    pub fn kind(&self) -> &str {
        self.name.get(DATE..).and_then(|rest| rest.strip_suffix(".json")).unwrap_or("")
    }

    /// Machine, date and file, for the foot of a chart.
    pub fn source(&self) -> String {
        let machine = &self.json["machine"];
        let text = |key: &str| machine[key].as_str().unwrap_or("unknown");
        let date = text("date").split('T').next().unwrap_or_default();
        let rounds = self.json["rounds"].as_u64().unwrap_or(0);
        let noun = if rounds == 1 { "round" } else { "rounds" };
        let pinned = if self.json["pinned"] == true { ", pinned" } else { "" };
        format!(
            "{}, {} cores, {}; {date}; {rounds} {noun}{pinned}; bench/records/{}",
            text("cpu"),
            machine["cores"],
            text("kernel"),
            self.name
        )
    }

    fn cells(&self) -> impl Iterator<Item = &Value> {
        self.json["cells"].as_array().into_iter().flatten()
    }

    /// Names of the rows that wakeful and tokio have both, in order.
    pub fn rows(&self) -> Vec<&str> {
        let mut rows = Vec::new();
        for cell in self.cells().filter(|cell| is_peer(cell, "wakeful")) {
            let row = cell["row"].as_str().unwrap_or_default();
            if !rows.contains(&row)
                && self.cells().any(|cell| cell["row"] == row && is_peer(cell, "tokio"))
            {
                rows.push(row);
            }
        }
        rows
    }

    /// What a row is, if the record says it.
    pub fn what(&self, row: &str) -> Option<&str> {
        self.cells().find(|cell| cell["row"] == row)?["what"].as_str()
    }

    /// The cell of a runtime (`tokio` or `wakeful`) in a flavor (`mt` or `ct`), at a share of the peak or without.
    pub fn cell(
        &self,
        row: &str,
        runtime: &str,
        flavor: &str,
        load: Option<f64>,
    ) -> Option<&Value> {
        let peer = format!("{runtime}-{flavor}");
        self.cells().find(|cell| {
            cell["row"] == row && cell["peer"] == peer.as_str() && cell["load"].as_f64() == load
        })
    }

    /// A figure of wakeful as a ratio to tokio's, with the range over the rounds.
    pub fn bar(
        &self,
        row: &str,
        flavor: &str,
        load: Option<f64>,
        figure: Figure<'_>,
    ) -> Option<Bar> {
        let ours = self.cell(row, "wakeful", flavor, load)?;
        let tokios = self.cell(row, "tokio", flavor, load)?;
        let recorded = match figure {
            Figure::Main => ours["ratio_to_tokio"].as_f64(),
            Figure::Named(_) => None,
        };
        let (ours, tokios) = (samples(ours, figure)?, samples(tokios, figure)?);
        let of_medians = spread(&ours)?.median / spread(&tokios)?.median;
        let ratio = recorded.unwrap_or(of_medians);
        let ratios: Vec<f64> =
            ours.iter().zip(&tokios).map(|(ours, tokios)| ours / tokios).collect();
        let range = spread(&ratios).filter(|_| ratios.len() > 1);
        let range = range.map(|range| (range.min, range.max));
        ratio.is_finite().then_some(Bar { ratio, range })
    }
}

/// Which samples of a cell are meant.
#[derive(Clone, Copy)]
pub enum Figure<'a> {
    /// The figure that the row is about.
    Main,
    /// A figure by its name.
    Named(&'a str),
}

fn samples(cell: &Value, figure: Figure<'_>) -> Option<Vec<f64>> {
    let samples = match figure {
        Figure::Main => &cell["samples"],
        // The row's own figure has its samples under that name only.
        Figure::Named(key) if cell["figure"] == key => &cell["samples"],
        Figure::Named(key) => &cell[format!("{key}_samples")],
    };
    samples.as_array()?.iter().map(Value::as_f64).collect()
}

fn is_peer(cell: &Value, runtime: &str) -> bool {
    let peer = cell["peer"].as_str().unwrap_or_default();
    peer.strip_prefix(runtime).is_some_and(|flavor| flavor.starts_with('-'))
}

/// Reads all records of a folder, sorted by name and so by date.
pub fn read_all(folder: &Path) -> Result<Vec<Record>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            let json = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
            records.push(Record::new(&name, json));
        }
    }
    records.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(records)
}

/// The newest record of a kind.
pub fn newest<'r>(records: &'r [Record], kind: &str) -> Option<&'r Record> {
    records.iter().rfind(|record| record.kind() == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_record_of_a_kind_counts() {
        let names = ["2026-11-16-idle.json", "2026-11-17-idle.json", "2026-11-18-not-idle.json"];
        let records = names.map(|name| Record::new(name, json!({})));
        assert_eq!(newest(&records, "idle").map(|record| record.name.as_str()), Some(names[1]));
        assert!(newest(&records, "apps").is_none());
    }

    #[test]
    fn ratios_come_from_medians_and_ranges_from_rounds() {
        let cells = json!([
            { "row": "a", "peer": "tokio-mt", "samples": [10.0, 20.0, 30.0], "p99_us_samples": [1.0, 1.0] },
            { "row": "a", "peer": "wakeful-mt", "samples": [10.0, 10.0, 10.0], "p99_us_samples": [2.0, 3.0] },
            { "row": "a", "peer": "wakeful-mt", "load": 0.5, "samples": [99.0] },
            { "row": "b", "peer": "wakeful-mt", "samples": [1.0] },
        ]);
        let record = Record::new("2026-11-17-idle.json", json!({ "cells": cells }));
        let bar = record.bar("a", "mt", None, Figure::Main).expect("both have samples");
        assert_eq!(bar, Bar { ratio: 0.5, range: Some((1.0 / 3.0, 1.0)) });
        let p99 = record.bar("a", "mt", None, Figure::Named("p99_us")).expect("both have it");
        assert_eq!(p99.ratio, 2.5);
        assert_eq!(record.bar("a", "ct", None, Figure::Main), None);
        assert_eq!(record.bar("a", "mt", Some(0.5), Figure::Main), None, "tokio has no such load");
        assert_eq!(record.rows(), ["a"]);
    }
}
