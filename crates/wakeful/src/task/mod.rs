//! Asynchronous tasks: futures that the runtime runs concurrently.
//!
//! [`spawn`] starts a task, [`JoinHandle`] awaits its output, and [`JoinSet`] awaits many tasks.
//! [`spawn_blocking`] runs code that blocks, [`LocalSet`] runs futures that are not `Send`.
//! [`coop`] and [`yield_now`] help tasks to share a worker fairly.
//!
//! # Examples
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let handles: Vec<_> = (0..3).map(|n| wakeful::task::spawn(async move { n * n })).collect();
//! let mut sum = 0;
//! for handle in handles {
//!     sum += handle.await.unwrap();
//! }
//! assert_eq!(sum, 5);
//! # }
//! ```
//!
//! # For readers of the source
//!
//! This module serves stations 1, 2, 5, 7, 8 and 9. Its main types:
//!
//! - A **cell** is the single allocation of a task, in an `arena`. Its fixed part is the `header`;
//!   the part that depends on the future's type is in `cell`. The `state` word makes all decisions.
//! - A **Runnable** is the one queue entry of a task, owned by queues and workers.
//! - A **waker** is stored by the resource that the task waits for.
//! - A **JoinHandle** (`join`) is owned by the spawner.
//! - A task accesses its **scheduler** through the trait `Schedule` (`schedule`).
//! - The **context** is thread-local state of the current poll.
//! - The **wait record** describes what the task waits for, for dumps and reports.
//!
//! Control enters through `cell::fill` (a spawn), `Runnable::run` (a worker), a waker (any thread)
//! or a JoinHandle. It leaves through `Schedule`. For a loop that `futile` finds, it leaves through
//! the runtime's reporter.
#![allow(unsafe_code)]

pub(crate) mod arena;
pub(crate) mod block_on;
pub(crate) mod cell;
pub(crate) mod context;
pub mod coop;
pub(crate) mod data;
mod duty;
pub(crate) mod ended;
pub(crate) mod enter_guard;
mod error;
pub(crate) mod futile;
pub(crate) mod header;
pub(crate) mod id;
mod join;
pub(crate) mod meta;
pub(crate) mod origin;
pub(crate) mod poll_stamp;
mod poll_time;
mod reexports;
pub(crate) mod runnable;
pub(crate) mod schedule;
mod size_class;
mod spawn_counts;
pub(crate) mod spawn_meta;
pub(crate) mod stack;
pub(crate) mod state;
#[macro_use]
mod task_local;
mod wait_forever;
pub(crate) mod wait_kind;
pub(crate) mod wait_record;
mod wait_set;
pub(crate) mod wait_target;
pub(crate) mod waker;
mod yield_now;

#[cfg(all(test, loom))]
pub(crate) mod models;

pub use context::{id, try_id};
pub use coop::{Unconstrained, consume_budget, unconstrained};
pub use error::JoinError;
pub use id::Id;
pub use join::{AbortHandle, JoinHandle};
pub use reexports::*;
pub use task_local::LocalKey;
pub use wait_forever::{MayWaitForever, may_wait_forever};
pub use yield_now::{YieldNow, yield_now};
