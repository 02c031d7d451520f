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

#[cfg(target_os = "linux")]
mod attendance;
#[cfg(target_os = "linux")]
mod attendant;
pub(crate) mod blocking;
mod builder;
pub(crate) mod context;
pub(crate) mod evented;
pub(crate) mod files;
mod handle;
mod id;
pub(crate) mod join_builder;
pub(crate) mod join_set;
mod join_slots;
mod local_runtime;
pub(crate) mod local_set;
#[cfg(all(test, loom, target_os = "linux"))]
mod loom_attendance;
mod metrics;
pub(crate) mod on_quit;
pub(crate) mod registration;
pub(crate) mod registry;
#[expect(clippy::module_inception, reason = "the room's main noun has the room's name")]
mod runtime;
mod shared;
pub(crate) mod shutting_down;
pub(crate) mod spawn;
pub(crate) mod task_builder;

pub use crate::scheduler::config::{OrphanPolicy, UnhandledPanic};
pub use builder::{Builder, RngSeed};
pub use files::FileBackend;
pub use handle::{EnterGuard, Handle, TryCurrentError};
pub use id::Id;
pub use local_runtime::{LocalOptions, LocalRuntime};
pub use metrics::RuntimeMetrics;
pub use runtime::{Runtime, RuntimeFlavor};
pub(crate) use shared::{Flavor, Shared};
pub use shutting_down::is_rt_shutdown_err;

pub use spawn::worker_index;
