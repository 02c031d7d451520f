//! The rows: what is measured, the targets, and the peers that take part.
//!
//! A [`Row`] has one [`Cell`] per peer. A cell is prepared in a process of its
//! own and returns [`Work`], which is timed in batches or done once.
//!
//! | file | rows |
//! | --- | --- |
//! | `tasks.rs` | spawning, joining, yielding, tasks that talk to each other |
//! | `wakes.rs` | wakes that come from another thread |
//! | `blocking.rs` | the pool for closures that block |
//! | `files.rs` | reading, appending, opening and copying files; their limits are in `raw_files.rs` |
//! | `runtime.rs` | `block_on`, starting and stopping |
//! | `channels.rs` | channels of all kinds |
//! | `locks.rs` | locks, permits and notifications |
//! | `time.rs` | timeouts, the cost of sleeps, and how late they are |
//! | `sockets.rs` | echo and HTTP servers under load |
//! | `memory.rs` | the bytes of an idle task |
//!
//! A new family is a new file with a `rows()` and one line in [`all`].

mod blocking;
mod channels;
mod files;
mod locks;
mod memory;
mod raw_files;
mod runtime;
pub mod sockets;
mod tasks;
mod time;
mod wakes;

use std::time::{Duration, Instant};

use crate::peers::{Flavor, Peer};
use crate::sockets::measure::Setting;

/// One line of the benchmark.
pub struct Row {
    pub name: &'static str,
    /// What one operation is.
    pub what: &'static str,
    pub unit: Unit,
    /// Operations in one batch, the smallest amount of work a cell can do.
    pub ops_per_batch: u64,
    pub target: Target,
    /// Batches for `--instructions`: a few, then more. The difference counts.
    /// `None` where instructions say nothing: spinning threads, kernel work.
    pub counted: Option<(u64, u64)>,
    pub cells: Vec<Cell>,
}

/// The unit of a row's figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Bytes,
    /// CPU time of all threads.
    CpuMilliseconds,
    /// How late a timer fires.
    MicrosecondsLate,
    /// CPU time of a server, per request.
    CpuNanoseconds,
    /// The 99th percentile of the time from a request to its answer.
    MicrosecondsP99,
}

impl Unit {
    /// Returns the name of the figure in a cell's output and in a record.
    pub fn key(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns_per_op",
            Unit::Bytes => "bytes_per_op",
            Unit::CpuMilliseconds => "cpu_ms",
            Unit::MicrosecondsLate => "late_us",
            Unit::CpuNanoseconds => "cpu_ns_per_op",
            Unit::MicrosecondsP99 => "p99_us",
        }
    }

    /// Returns the symbol of the unit in the table.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Nanoseconds | Unit::CpuNanoseconds => "ns",
            Unit::Bytes => "B",
            Unit::CpuMilliseconds => "ms",
            Unit::MicrosecondsLate | Unit::MicrosecondsP99 => "us",
        }
    }
}

/// The target of wakeful, as a multiple of tokio in the same flavor.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub multi: f64,
    pub single: f64,
    /// The largest figure in the row's own unit, independent of tokio.
    pub at_most: Option<f64>,
    /// On one thread, the largest multiple of the server without a runtime.
    pub of_raw: Option<f64>,
}

impl Target {
    /// One ratio for each flavor, multi-thread and single-thread.
    const fn each(multi: f64, single: f64) -> Self {
        Self { multi, single, at_most: None, of_raw: None }
    }

    /// One ratio for both flavors.
    const fn both(ratio: f64) -> Self {
        Self::each(ratio, ratio)
    }

    const fn at_most(self, limit: f64) -> Self {
        Self { at_most: Some(limit), ..self }
    }

    const fn of_raw(self, ratio: f64) -> Self {
        Self { of_raw: Some(ratio), ..self }
    }

    pub fn of(&self, flavor: Flavor) -> f64 {
        match flavor {
            Flavor::Multi => self.multi,
            Flavor::Single => self.single,
        }
    }
}

/// A row on one peer.
#[derive(Clone, Copy)]
pub struct Cell {
    pub peer: &'static str,
    pub flavor: Flavor,
    pub kind: Kind,
}

/// What a cell does.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Builds the peer and what the row needs, before the measurement.
    Here(fn() -> Work),
    /// The peer serves in another process.
    Served(Setting),
}

impl Cell {
    pub fn of<P: Peer>(prepare: fn() -> Work) -> Self {
        Self { peer: P::NAME, flavor: P::FLAVOR, kind: Kind::Here(prepare) }
    }
}

/// A prepared cell.
pub enum Work {
    /// Runs this number of batches, and returns how long they took.
    Timed(Box<dyn FnMut(u64) -> Duration>),
    /// Does the work once, and returns the figure in the row's unit.
    Once(Box<dyn FnOnce() -> f64>),
}

impl Work {
    fn timed(run: impl FnMut(u64) -> Duration + 'static) -> Self {
        Work::Timed(Box::new(run))
    }

    fn once(run: impl FnOnce() -> f64 + 'static) -> Self {
        Work::Once(Box::new(run))
    }
}

/// All rows, in the order of the table.
pub fn all() -> Vec<Row> {
    let families = [
        tasks::rows(),
        wakes::rows(),
        blocking::rows(),
        time::rows(),
        channels::rows(),
        locks::rows(),
        files::rows(),
        runtime::rows(),
        memory::rows(),
        sockets::rows(),
    ];
    families.into_iter().flatten().collect()
}

/// Times `driver(batches)` on a worker of `peer`.
fn on_worker<P, D, F>(peer: P, driver: D) -> Work
where
    P: Peer,
    D: Fn(u64) -> F + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    Work::timed(move |batches| {
        let driver = driver(batches);
        peer.run(async move {
            let start = Instant::now();
            driver.await;
            start.elapsed()
        })
    })
}
