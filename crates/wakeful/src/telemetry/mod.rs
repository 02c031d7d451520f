//! Measurements that threads write about themselves, for the watchdog and for diagnostics.
//!
//! - [`poll_watch`]: which task a thread polls, and since when.
//! - [`worker_metrics`]: counters of one worker: polls, parks, steals, busy time.
//! - [`latency_probe`]: samples the time from a wake-up to the poll that follows.
//! - [`histogram`]: logarithmic histograms with one writer.
//! - [`trace_buffer`]: a ring buffer of scheduling events, if tracing is on.
//! - [`starvation`]: how long threads of the process lacked a CPU.
//! - [`scan_gate`]: decides when the deadlock scanner may sleep.
//!
//! Each value has one writer, which uses plain stores: the thread that it describes, or the
//! watchdog. Other threads only read. Nothing in this module knows a scheduler.
#![allow(unsafe_code)]

pub(crate) mod histogram;
pub(crate) mod latency_probe;
pub(crate) mod poll_watch;
pub(crate) mod scan_gate;
pub(crate) mod starvation;
pub(crate) mod trace_buffer;
pub(crate) mod worker_metrics;

#[cfg(all(test, loom))]
mod models;
