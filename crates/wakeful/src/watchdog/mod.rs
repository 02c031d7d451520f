//! Threads that find workers stuck in a poll, tasks that spin, and deadlocks.
//!
//! - [`multi_thread`]: the watchdog of one multi-thread runtime.
//! - [`current_thread`]: the watchdog of all current-thread runtimes.
//! - [`spin_detector`]: finds tasks that are polled again and again without progress.
//! - [`snapshot`]: a read-only view of a scheduler, for dumps and metrics.
#![allow(unsafe_code)]

pub(crate) mod current_thread;
pub(crate) mod multi_thread;
pub(crate) mod snapshot;
pub(crate) mod spin_detector;
