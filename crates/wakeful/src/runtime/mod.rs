//! The runtime: what runs tasks, made by a [`Builder`].
//!
//! - [`Runtime`] owns everything and shuts it down; [`LocalRuntime`] is one that
//!   may not leave its thread.
//! - [`Handle`] is a reference to it, for spawning from anywhere.
//! - [`EnterGuard`] makes it the current one of a thread.
//!
//! For readers of the source: schedulers, the blocking pool and the thread's context are put
//! together here. What spawns and awaits tasks needs a runtime, so it lives here as well, and
//! is seen from outside as part of `task`: `spawn`, `blocking`, `task_builder`,
//! `local_set`, `join_set` with its `join_slots` and `join_builder`.
#![allow(unsafe_code)]

mod builder;
pub(crate) mod context;
pub(crate) mod dump_signal;
pub(crate) mod file_backend;
mod handle;
mod id;
mod inner;
pub(crate) mod join_set;
mod local_runtime;
mod metrics;
pub(crate) mod poll_evented;
pub(crate) mod registration;
pub(crate) mod registry;
#[expect(clippy::module_inception, reason = "the room's main noun has the room's name")]
mod runtime;
pub(crate) mod shutdown_error;
pub(crate) mod task_api;
mod uring_keeper;

#[cfg(all(test, loom))]
mod models;

pub use crate::scheduler::config::{OrphanPolicy, UnhandledPanic};
pub use builder::{Builder, RngSeed};
pub use file_backend::FileBackend;
pub use handle::{EnterGuard, Handle, TryCurrentError};
pub use id::Id;
pub(crate) use inner::{Flavor, Shared};
pub use local_runtime::{LocalOptions, LocalRuntime};
pub use metrics::RuntimeMetrics;
pub use runtime::{Runtime, RuntimeFlavor};
pub use shutdown_error::is_rt_shutdown_err;

pub use task_api::spawn::worker_index;
