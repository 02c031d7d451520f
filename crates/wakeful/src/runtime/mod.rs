//! The runtime: schedules tasks, drives timers and I/O, and runs blocking closures.
//!
//! - [`Builder`] configures and creates a runtime.
//! - [`Runtime`] owns a runtime and shuts it down when it is dropped. [`LocalRuntime`] stays on the
//!   thread that created it, and its tasks need not be `Send`.
//! - [`Handle`] is a reference to a runtime, for spawning from any thread.
//! - [`EnterGuard`] makes a runtime the thread's current one, so that [`spawn`](crate::spawn) finds
//!   it.
//! - [`RuntimeMetrics`] reads counters and histograms.
//!
//! Most programs use [`#[wakeful::main]`](macro@crate::main) and need none of these types.
//!
//! # Examples
//!
//! ```
//! use wakeful::runtime::Builder;
//!
//! let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
//! let sum = runtime.block_on(async {
//!     let tasks: Vec<_> = (1..=3).map(|n| wakeful::spawn(async move { n * n })).collect();
//!     let mut sum = 0;
//!     for task in tasks {
//!         sum += task.await.unwrap();
//!     }
//!     sum
//! });
//! assert_eq!(sum, 14);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # For readers of the source
//!
//! This module combines schedulers, drivers and the blocking pool:
//!
//! - `inner`: the state behind every handle. `hooks`: the schedulers' upcalls. `context`: the
//!   current runtime of a thread. `enter`: the guard that sets it. `registry`: all runtimes by id.
//! - `registration` and `poll_evented`: descriptors that a poller watches.
//! - `file_backend` and `uring_keeper`: file operations.
//! - `dump_signal`: dumps on SIGQUIT. `test_limit`: time limits of tests. `environment`: settings from
//!   environment variables.
//! - `simulated`: the hosts of a simulation.
//! - `task_api` and `join_set`: the functions of `wakeful::task` that need a runtime.
#![allow(unsafe_code)]

mod builder;
pub(crate) mod context;
pub(crate) mod dump_signal;
mod enter;
mod environment;
pub(crate) mod file_backend;
mod futile_loops;
mod handle;
mod hooks;
mod id;
mod inner;
mod inspected;
pub(crate) mod join_set;
mod local_runtime;
mod metrics;
mod panic_policy;
pub(crate) mod poll_evented;
pub(crate) mod registration;
pub(crate) mod registry;
mod rng_seed;
#[expect(clippy::module_inception, reason = "the type `Runtime` is the main one of the module")]
mod runtime;
pub(crate) mod shutdown_error;
mod shutdown_wait;
pub(crate) mod simulated;
pub(crate) mod task_api;
mod test_limit;
mod uring_keeper;

#[cfg(all(test, loom))]
mod models;

pub use crate::scheduler::config::OrphanPolicy;
pub use crate::task::data::TaskData;
pub use crate::task::meta::TaskMeta;
pub use crate::task::spawn_meta::SpawnMeta;
pub use crate::telemetry::bucket_scale::{HistogramConfiguration, HistogramScale};
pub use crate::telemetry::log_histogram::{
    InvalidHistogramConfiguration, LogHistogram, LogHistogramBuilder,
};
pub use builder::Builder;
pub use enter::{EnterGuard, TryCurrentError};
pub use file_backend::FileBackend;
pub use handle::Handle;
pub use id::Id;
pub(crate) use inner::{Flavor, RuntimeInner};
pub use local_runtime::{LocalOptions, LocalRuntime};
pub use metrics::RuntimeMetrics;
pub use panic_policy::{PanicHook, UnhandledPanic};
pub use rng_seed::RngSeed;
pub use runtime::{Runtime, RuntimeFlavor};
pub use shutdown_error::is_rt_shutdown_err;

pub use task_api::spawn::worker_index;
