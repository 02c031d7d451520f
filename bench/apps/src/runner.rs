//! Runs all cells, rounds interleaved. The closed loops come first, then open loops at shares of tokio's peak, then the
//! rows of a fixed rate and those about memory.
//!
//! Within a row the peers run directly one after the other, and each round starts with the other one.

use std::collections::BTreeMap;

use figures::machine;
use figures::stats::spread;

use crate::load::idle;
use crate::measure::{Bench, Figures, WARM_S};
use crate::options::Options;
use crate::pinning::Pinning;
use crate::postgres::Database;
use crate::programs::{Peer, Programs, Scratch};
use crate::rows::{Role, Row, Work};

/// Shares of tokio's peak at which the open loops run.
pub const SHARES: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
/// Rounds of rows about memory, which varies little.
const MEMORY_ROUNDS: usize = 3;

/// All that came out.
pub struct Run {
    pub rounds: usize,
    pub seconds: f64,
    pub pinned: bool,
    /// The machine's load of the last minute, before the first measurement.
    pub load_average: Option<f64>,
    pub cells: Vec<Cell>,
    /// Rows that could not run on this machine, with the reason.
    pub skipped: Vec<(&'static str, String)>,
}

/// A row under a load on a peer, over all rounds.
pub struct Cell {
    pub row: Row,
    /// The share of tokio's peak at which an open loop ran.
    pub share: Option<f64>,
    pub peer: Peer,
    /// Each figure's samples, in order of the rounds.
    pub samples: BTreeMap<&'static str, Vec<f64>>,
    /// Why it failed; it was left out of later rounds then.
    pub failure: Option<String>,
}

impl Cell {
    pub fn median(&self, key: &str) -> Option<f64> {
        Some(spread(self.samples.get(key)?)?.median)
    }
}

/// Builds the programs and measures the rows.
pub fn compare(rows: &[Row], options: &Options) -> Result<Run, String> {
    let programs = Programs::build()?;
    let load_average = machine::load_average();
    let scratch = Scratch::new().map_err(|error| format!("temporary files: {error}"))?;
    let mut skipped = Vec::new();
    let mut rows = rows.to_vec();
    rows.retain(|row| {
        let Work::Idle { count, .. } = row.work else { return true };
        let allowed = idle::allow(count);
        if let Err(reason) = &allowed {
            eprintln!("{} is left out: {reason}", row.name);
            skipped.push((row.name, reason.clone()));
        }
        allowed.is_ok()
    });
    let mut database = None;
    if rows.iter().any(|row| row.role == Role::Postgres) {
        match Database::start(scratch.path()) {
            Ok(started) => database = Some(started),
            Err(reason) => {
                eprintln!("postgres is left out: {reason}");
                rows.retain(|row| row.role != Role::Postgres);
                skipped.push(("postgres", reason));
            }
        }
    }
    let pinning = if options.pin { Some(Pinning::new()?) } else { None };
    let bench = Bench { programs, scratch, database, pinning, seconds: options.seconds };
    let mut runner = Runner { bench, rounds: options.rounds, cells: Vec::new() };
    runner.tell_duration(&rows);
    runner.closed_loops(&rows);
    runner.open_loops(&rows);
    runner.others(&rows);
    Ok(Run {
        rounds: options.rounds,
        seconds: options.seconds,
        pinned: options.pin,
        load_average,
        cells: runner.cells,
        skipped,
    })
}

struct Runner {
    bench: Bench,
    rounds: usize,
    cells: Vec<Cell>,
}

impl Runner {
    fn tell_duration(&self, rows: &[Row]) {
        // Starts of servers and connections included, as measured.
        let load_s = self.bench.seconds + WARM_S + 0.3;
        let of_row = |row: &Row| {
            let memory_rounds = self.rounds.min(MEMORY_ROUNDS) as f64;
            match row.work {
                Work::Requests(_) => (1 + SHARES.len()) as f64 * load_s * self.rounds as f64,
                Work::Paced { .. } => load_s * self.rounds as f64,
                Work::Idle { count, .. } => count as f64 * 150e-6 * memory_rounds,
                Work::Sleepers { .. } => 15.0 * memory_rounds,
            }
        };
        let seconds = rows.iter().map(of_row).sum::<f64>() * Peer::ALL.len() as f64;
        let minutes = (seconds / 60.0).ceil();
        eprintln!("{} rows, about {minutes:.0} min", rows.len());
    }

    fn closed_loops(&mut self, rows: &[Row]) {
        for round in 0..self.rounds {
            for row in rows {
                if let Work::Requests(requests) = row.work {
                    self.step("closed loop", round, row, None, |bench, peer| {
                        bench.closed(row, &requests, peer)
                    });
                }
            }
        }
    }

    fn open_loops(&mut self, rows: &[Row]) {
        for round in 0..self.rounds {
            for row in rows {
                let Work::Requests(requests) = row.work else { continue };
                let Some(peak_per_s) = self.peak(row) else { continue };
                for share in SHARES {
                    let size = (requests.connections, requests.depth);
                    self.step("open loop", round, row, Some(share), |bench, peer| {
                        bench.open(row, requests.protocol, size, peak_per_s * share, peer)
                    });
                }
            }
        }
    }

    fn others(&mut self, rows: &[Row]) {
        for round in 0..self.rounds {
            for row in rows {
                let rounds = match row.work {
                    Work::Requests(_) => 0,
                    Work::Paced { .. } => self.rounds,
                    Work::Idle { .. } | Work::Sleepers { .. } => MEMORY_ROUNDS,
                };
                if round < rounds {
                    self.step("other", round, row, None, |bench, peer| bench.other(row, peer));
                }
            }
        }
    }

    /// The highest rate of tokio in a row.
    fn peak(&self, row: &Row) -> Option<f64> {
        let is_wanted = |cell: &&Cell| {
            cell.row.name == row.name && cell.share.is_none() && cell.peer == Peer::Tokio
        };
        self.cells.iter().find(is_wanted)?.median("per_s")
    }

    /// Measures one row under one load, on both peers.
    fn step(
        &mut self,
        phase: &str,
        round: usize,
        row: &Row,
        share: Option<f64>,
        measure: impl Fn(&Bench, Peer) -> Result<Figures, String>,
    ) {
        for turn in 0..Peer::ALL.len() {
            let peer = Peer::ALL[(turn + round) % Peer::ALL.len()];
            let place = self.place_of(row, share, peer);
            if self.cells[place].failure.is_some() {
                continue;
            }
            let load = share.map_or(String::new(), |share| format!(" at {:.0} %", share * 100.0));
            let what = format!("{phase}, round {} of {}", round + 1, self.rounds);
            let name = format!("{}{load}, {}", row.name, peer.name());
            match measure(&self.bench, peer) {
                Ok(figures) => {
                    eprintln!("{what}: {name}: {}", brief(row, &figures));
                    for (key, figure) in figures {
                        self.cells[place].samples.entry(key).or_default().push(figure);
                    }
                }
                Err(reason) => {
                    eprintln!("{what}: {name}: FAILED: {reason}");
                    self.cells[place].failure = Some(reason);
                }
            }
        }
    }

    /// The place of a cell, which is made if it is new.
    fn place_of(&mut self, row: &Row, share: Option<f64>, peer: Peer) -> usize {
        let is_wanted =
            |cell: &Cell| cell.row.name == row.name && cell.share == share && cell.peer == peer;
        self.cells.iter().position(is_wanted).unwrap_or_else(|| {
            let samples = BTreeMap::new();
            self.cells.push(Cell { row: *row, share, peer, samples, failure: None });
            self.cells.len() - 1
        })
    }
}

/// The row's own figure and the latencies, for the progress.
fn brief(row: &Row, figures: &Figures) -> String {
    let wanted = [row.figure(), "per_s", "p50_us", "p99_us"];
    let mut parts: Vec<String> = Vec::new();
    for key in wanted {
        let found = figures.iter().find(|(name, _)| *name == key);
        let text = found.map(|(_, value)| format!("{key} {value:.1}"));
        parts.extend(text.filter(|text| !parts.contains(text)));
    }
    parts.join(", ")
}
