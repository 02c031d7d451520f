//! Measurements that threads write about themselves, for the watchdog and for diagnostics.
//!
//! - [`poll_watch`]: which task a thread polls, and since when.
//! - [`worker_metrics`]: counters of one worker: polls, parks, steals, busy time.
//! - [`latency_probe`]: samples the time from a wake-up to the poll that follows.
//! - [`histogram`]: histograms of durations with power-of-two buckets. [`exact_histogram`]: histograms
//!   of every event, in buckets that users choose ([`bucket_scale`], [`log_histogram`]).
//! - [`site_times`]: poll times and waits by spawn site, while the live page is served.
//! - [`trace_buffer`]: a ring buffer of scheduling events, if tracing is on.
//! - [`starvation`]: the time in which no thread of the process was starved of a CPU.
//! - [`scan_gate`]: decides when the watchdog may stop visiting a scheduler.
//!
//! Most values have one writer, which uses plain stores: the thread that they describe, or the
//! watchdog. Four values have several writers, as their documentation says: the scan gate, the mark
//! of an injected task, the trace of coreless threads, a histogram's maximum. Nothing in this
//! module depends on a scheduler.
#![allow(unsafe_code)]

pub(crate) mod bucket_scale;
pub(crate) mod exact_histogram;
pub(crate) mod histogram;
pub(crate) mod latency_probe;
pub(crate) mod log_histogram;
pub(crate) mod poll_watch;
pub(crate) mod scan_gate;
pub(crate) mod site_times;
pub(crate) mod starvation;
pub(crate) mod trace_buffer;
pub(crate) mod worker_metrics;

#[cfg(all(test, loom))]
mod models;
