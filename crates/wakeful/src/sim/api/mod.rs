//! The public types and functions of one simulated run.
//!
//! Unlike the modules below it, `api` uses the runtime.

mod chaos;
mod functions;
mod host;
#[cfg(feature = "net")]
mod network;
mod outcome;
mod sim_handle;
mod simulation;
mod supervisor;
pub(in crate::sim) mod timeline;

pub use chaos::Chaos;
pub use functions::{choose, maybe, system_time};
pub use host::{Host, HostClock};
#[cfg(feature = "net")]
pub use network::{Link, NamedHost, Network};
pub use outcome::Outcome;
pub use sim_handle::{ProgramOutput, Sim};
pub use simulation::Simulation;
pub(in crate::sim) use supervisor::{Supervision, ThreadResult, run_supervised};

use crate::runtime::context;
use crate::sim::world::SimulatedHost;

/// Calls `f` with the simulated host that the calling code runs on. Returns `None` outside a
/// simulation.
fn with_current_host<R>(f: impl FnOnce(&SimulatedHost) -> R) -> Option<R> {
    context::with_current(|shared| shared.config().env.simulated.as_ref().map(f)).flatten()
}

/// Converts a probability to millionths.
#[track_caller]
fn millionths(probability: f64) -> u32 {
    assert!((0.0..=1.0).contains(&probability), "{probability} is not a probability");
    (probability * 1e6).round() as u32
}
