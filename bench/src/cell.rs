//! The child's side: measures one cell in this process and prints one line of JSON.

use std::io::{self, Write};
use std::process;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::rows::{Kind, Row, Work};
use crate::sockets::measure::figures;

/// A warm-up ends with the first run at least this long.
const WARM: Duration = Duration::from_millis(40);
/// How long the run that counts should take.
const MEASURED: Duration = Duration::from_millis(250);

/// Runs the cell and ends the process, so that a peer's clean-up (a million
/// tasks, threads that never stop) costs no time.
pub fn run(rows: &[Row], row: &str, peer: &str, batches: Option<u64>) -> Result<(), String> {
    let row = rows
        .iter()
        .find(|known| known.name == row)
        .ok_or_else(|| format!("no row is named {row}; see --list"))?;
    let cell = row
        .cells
        .iter()
        .find(|known| known.peer == peer)
        .ok_or_else(|| format!("{peer} takes no part in {}; see --list", row.name))?;
    let mut said = Map::new();
    said.insert("row".into(), row.name.into());
    said.insert("peer".into(), cell.peer.into());
    match cell.kind {
        Kind::Here(prepare) => {
            let figure = match (prepare(), batches) {
                (Work::Timed(mut work), Some(batches)) => per_op(row, batches, work(batches)),
                (Work::Timed(mut work), None) => measure(row, &mut work),
                (Work::Once(work), _) => work(),
            };
            said.insert(row.unit.key().into(), figure.into());
        }
        Kind::Served(setting) => said.extend(figures(setting, cell.peer)?),
    }
    println!("{}", Value::Object(said));
    io::stdout().flush().map_err(|error| format!("standard output: {error}"))?;
    process::exit(0)
}

/// Doubles the work until a run is long enough, then measures once.
fn measure(row: &Row, work: &mut dyn FnMut(u64) -> Duration) -> f64 {
    let mut batches = 1;
    let warm = loop {
        let took = work(batches);
        if took >= WARM {
            break took;
        }
        batches *= 2;
    };
    let batches = batches_for(MEASURED, batches, warm);
    per_op(row, batches, work(batches))
}

/// How many batches fill `goal` if `batches` took `took`.
fn batches_for(goal: Duration, batches: u64, took: Duration) -> u64 {
    let scaled = batches as f64 * goal.as_secs_f64() / took.as_secs_f64();
    (scaled.round() as u64).max(1)
}

fn per_op(row: &Row, batches: u64, took: Duration) -> f64 {
    took.as_nanos() as f64 / (batches * row.ops_per_batch) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_run_is_scaled_from_the_warm_up() {
        let ms = Duration::from_millis;
        assert_eq!(batches_for(ms(250), 100, ms(50)), 500);
        assert_eq!(batches_for(ms(250), 1, ms(900)), 1);
    }
}
