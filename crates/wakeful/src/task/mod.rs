//! Tasks: stations 1, 2, 5, 7, 8 and 9 of the walk.
//!
//! The nouns, and who holds whom:
//!
//! - A **cell** ([`header`] + `cell`) is the task's one allocation, cut from a
//!   [`heap`]. Its [`state`] word decides everything.
//! - A **runnable** (`runnable`) is the one queue entry of a task; queues and
//!   workers hold it.
//! - A **waker** (`waker`) lies with whatever the task waits for.
//! - A **JoinHandle** (`join`) is what the spawner holds.
//! - The **home** ([`heap::Home`]) is the scheduler, as the task sees it: the
//!   only way from this room to those that use it.
//! - The **context** (`context`) is what the thread knows while it polls.
//!
//! Control enters by `cell::fill` (spawn), `Runnable::run` (a worker), a waker
//! (anybody) or a JoinHandle; it leaves through the home.
#![allow(unsafe_code)]

pub(crate) mod cell;
pub(crate) mod context;
pub mod coop;
mod error;
pub(crate) mod header;
pub(crate) mod heap;
pub(crate) mod id;
mod join;
pub(crate) mod runnable;
pub(crate) mod stack;
pub(crate) mod state;
#[macro_use]
mod task_local;
mod wait_forever;
pub(crate) mod waker;
mod yield_now;

#[cfg(all(test, loom))]
mod loom_heap;
#[cfg(all(test, loom))]
pub(crate) mod loom_home;
#[cfg(all(test, loom))]
mod loom_join;
#[cfg(all(test, loom))]
mod loom_task;

pub use context::{id, try_id};
pub use coop::{Unconstrained, consume_budget, unconstrained};
pub use error::JoinError;

pub use id::Id;
pub use join::{AbortHandle, JoinHandle};
pub use task_local::LocalKey;
pub use wait_forever::{MayWaitForever, may_wait_forever};
pub use yield_now::{YieldNow, yield_now};

/// Futures that have a name because users hold them.
pub mod futures {
    pub use super::task_local::TaskLocalFuture;
    pub use crate::runtime::join_set::{JoinNext, JoinNextWithId};
    pub use crate::runtime::local_set::RunUntil;
}

/// Sets of tasks that are awaited together.
pub mod join_set {
    pub use crate::runtime::join_builder::Builder;
    pub use crate::runtime::join_set::JoinSet;
}

// The public face of the room: what spawns needs a runtime and lives there.
pub use crate::runtime::blocking::spawn_blocking;
pub use crate::runtime::local_set::{LocalEnterGuard, LocalSet, spawn_local};
pub use crate::runtime::spawn::{block_in_place, spawn};
pub use crate::runtime::task_builder::Builder;
pub use join_set::JoinSet;
