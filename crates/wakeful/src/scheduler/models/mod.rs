//! Loom models of the schedulers.

mod idle;
mod lost_workers;
mod shutdown;
