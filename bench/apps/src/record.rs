//! The table and the record of a run.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use figures::machine;
use figures::stats::{Latency, three_decimals};
use serde_json::{Map, Value};

use crate::options::Options;
use crate::programs::Peer;
use crate::rows::{Row, Work};
use crate::runner::{Cell, Run};

/// Crates whose versions a record names.
const PACKAGES: [&str; 8] =
    ["axum", "hyper", "mini-redis", "tokio", "tokio-postgres", "tokio-rustls", "tonic", "wakeful"];
/// Figures of the table.
const COLUMNS: [&str; 6] = ["cpu_ns_per_op", "per_s", "p50_us", "p99_us", "p999_us", "rss_mib"];
/// Latencies, which must not be above tokio's.
const LATENCIES: [&str; 2] = ["p99_us", "p999_us"];

/// Prints the table, writes the record, and fails if a cell failed.
pub fn publish(run: &Run, options: &Options) -> Result<(), String> {
    print!("{}", table(run));
    if let Some(file) = record_file(options) {
        fs::write(&file, to_json(run))
            .map_err(|error| format!("can't write {}: {error}", file.display()))?;
        eprintln!("written to {}", file.display());
    }
    match run.cells.iter().filter(|cell| cell.failure.is_some()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} cells failed", run.cells.len())),
    }
}

/// Where the record goes: nowhere, if only some rows ran and no file was named.
fn record_file(options: &Options) -> Option<PathBuf> {
    if options.record.is_some() || !options.rows.is_empty() {
        return options.record.clone();
    }
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../records");
    Some(records.join(format!("{}-apps.json", machine::today())))
}

/// Lists the rows.
pub fn list(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let loops = match row.work {
            Work::Requests(_) => {
                "closed loop, and open loops at 25, 50, 75 and 90 % of tokio's peak"
            }
            Work::Paced { .. } => "open loop",
            Work::Idle { .. } | Work::Sleepers { .. } => "memory",
        };
        let _ = writeln!(text, "{:<12} {} ({loops})", row.name, row.what);
    }
    text
}

fn table(run: &Run) -> String {
    let mut text = format!("\n{:<12} {:>5} {:<8}", "row", "load", "peer");
    for column in COLUMNS {
        let _ = write!(text, " {column:>14}       ");
    }
    text = text.trim_end().to_owned() + "\n";
    for cell in &run.cells {
        let load = cell.share.map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
        let mut line = format!("{:<12} {load:>5} {:<8}", cell.row.name, cell.peer.name());
        for column in COLUMNS {
            let median = cell.median(column).map_or("-".into(), |median| format!("{median:.1}"));
            let ratio =
                ratio(run, cell, column).map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let _ = write!(line, " {median:>14} {ratio:>6}");
        }
        // Rows about memory are about a figure that has no column.
        if let (false, Some(median)) =
            (COLUMNS.contains(&cell.row.figure()), cell.median(cell.row.figure()))
        {
            let ratio = ratio(run, cell, cell.row.figure()).unwrap_or(1.0);
            let _ = write!(line, "  {} {median:.1} {ratio:.2}", cell.row.figure());
        }
        if let Some(reason) = &cell.failure {
            let _ = write!(line, "  FAILED: {reason}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for (row, reason) in &run.skipped {
        let _ = writeln!(text, "{row:<12} left out: {reason}");
    }
    text
}

/// tokio's cell of the same row and load.
fn tokio_like<'r>(run: &'r Run, cell: &Cell) -> Option<&'r Cell> {
    let is_wanted = |other: &&Cell| {
        other.row.name == cell.row.name && other.share == cell.share && other.peer == Peer::Tokio
    };
    run.cells.iter().find(is_wanted)
}

/// A median of wakeful's as a multiple of tokio's.
fn ratio(run: &Run, cell: &Cell, key: &str) -> Option<f64> {
    if cell.peer == Peer::Tokio {
        return None;
    }
    Some(cell.median(key)? / tokio_like(run, cell)?.median(key)?)
}

/// JSON with one cell a line, so that two records compare line by line.
fn to_json(run: &Run) -> String {
    let cells: Vec<_> =
        run.cells.iter().map(|cell| format!("    {}", cell_json(run, cell))).collect();
    let skipped: Map<_, _> = run
        .skipped
        .iter()
        .map(|(row, reason)| ((*row).to_owned(), reason.as_str().into()))
        .collect();
    format!(
        "{{\n  \"machine\": {},\n  \"rounds\": {},\n  \"seconds\": {},\n  \"pinned\": {},\n  \
         \"load_average\": {},\n  \"skipped\": {},\n  \"cells\": [\n{}\n  ]\n}}\n",
        machine::describe(include_str!("../on-wakeful/Cargo.lock"), &PACKAGES),
        run.rounds,
        run.seconds,
        run.pinned,
        Value::from(run.load_average),
        Value::Object(skipped),
        cells.join(",\n")
    )
}

fn cell_json(run: &Run, cell: &Cell) -> Value {
    let mut json = Map::new();
    json.insert("row".into(), cell.row.name.into());
    json.insert("what".into(), cell.row.what.into());
    json.insert("peer".into(), format!("{}-mt", cell.peer.name()).into());
    json.insert("flavor".into(), "mt".into());
    json.insert("figure".into(), cell.row.figure().into());
    if let Some(share) = cell.share {
        json.insert("load".into(), share.into());
    } else if let Work::Requests(requests) = cell.row.work {
        let driver = requests.driver.filter(|driver| driver.is_installed());
        json.insert("driver".into(), driver.map_or("own", |driver| driver.program()).into());
    }
    for (key, samples) in &cell.samples {
        if let Some(median) = cell.median(key) {
            json.insert((*key).into(), three_decimals(median));
        }
        let samples: Vec<Value> = samples.iter().copied().map(three_decimals).collect();
        match *key == cell.row.figure() {
            true => json.insert("samples".into(), samples.into()),
            false => json.insert(format!("{key}_samples"), samples.into()),
        };
    }
    if let Some(ratio) = ratio(run, cell, cell.row.figure()) {
        json.insert("ratio_to_tokio".into(), three_decimals(ratio));
    }
    for key in LATENCIES.into_iter().filter(|_| cell.peer == Peer::Wakeful) {
        let verdict = tokio_like(run, cell)
            .and_then(|tokio| Latency::of(cell.samples.get(key)?, tokio.samples.get(key)?));
        if let Some(verdict) = verdict {
            json.insert(format!("{key}_verdict"), verdict.word().into());
        }
    }
    if let Some(reason) = &cell.failure {
        json.insert("failure".into(), reason.as_str().into());
    }
    json.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;
    use std::collections::BTreeMap;

    fn cell(peer: Peer, share: Option<f64>, cpu_ns: f64) -> Cell {
        let samples =
            BTreeMap::from([("cpu_ns_per_op", vec![cpu_ns; 3]), ("p99_us", vec![cpu_ns / 2.0; 3])]);
        Cell { row: rows::all()[0], share, peer, samples, failure: None }
    }

    fn run() -> Run {
        let cells = vec![
            cell(Peer::Tokio, None, 100.0),
            cell(Peer::Wakeful, None, 80.0),
            cell(Peer::Tokio, Some(0.5), 40.0),
            cell(Peer::Wakeful, Some(0.5), 60.0),
        ];
        let skipped = vec![("postgres", "no \"server\"".to_owned())];
        Run { rounds: 3, seconds: 2.0, pinned: false, load_average: Some(0.5), cells, skipped }
    }

    #[test]
    fn a_record_has_the_ratios_of_each_load() {
        let record: Value = serde_json::from_str(&to_json(&run())).expect("it is JSON");
        assert_eq!(record["load_average"], 0.5);
        assert_eq!(record["skipped"]["postgres"], "no \"server\"");
        let cells = record["cells"].as_array().expect("it has cells");
        assert_eq!(cells[0].get("ratio_to_tokio"), None);
        assert_eq!(cells[1]["ratio_to_tokio"], 0.8);
        assert_eq!(cells[1]["peer"], "wakeful-mt");
        assert_eq!(cells[1]["p99_us_verdict"], "met");
        assert_eq!((&cells[3]["load"], &cells[3]["ratio_to_tokio"]), (&0.5.into(), &1.5.into()));
        assert_eq!(cells[3]["p99_us_verdict"], "above");
        assert_eq!(cells[3]["samples"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn the_table_names_what_was_left_out() {
        let table = table(&run());
        assert!(table.contains("left out: no"), "{table}");
        assert!(table.contains("0.80"), "{table}");
    }

    #[test]
    fn only_a_whole_run_replaces_the_record_of_the_day() {
        assert!(
            record_file(&Options::default())
                .is_some_and(|file| file.ends_with(format!("{}-apps.json", machine::today())))
        );
        let some = Options { rows: vec!["hello".into()], ..Options::default() };
        assert_eq!(record_file(&some), None);
        let named = Options { record: Some("x.json".into()), ..some };
        assert_eq!(record_file(&named), Some("x.json".into()));
    }
}
