//! Tasks: futures that the runtime runs side by side.
//!
//! [`spawn`] starts one, [`JoinHandle`] awaits it, [`JoinSet`] awaits many;
//! [`spawn_blocking`] is for code that blocks, [`LocalSet`] for futures that may
//! not leave their thread. [`coop`] and [`yield_now`] are about taking turns.
//!
//! For readers of the source, this is the room of stations 1, 2, 5, 7, 8 and 9 of
//! the walk. Its nouns, and who holds whom:
//!
//! - A **cell** (`header` and `cell`) is the task's one allocation, cut from a
//!   `heap`. Its `state` word decides everything.
//! - A **runnable** is the one queue entry of a task; queues and workers hold it.
//! - A **waker** lies with whatever the task waits for.
//! - A **JoinHandle** (`join`) is what the spawner holds.
//! - The **home** (`arena::Schedule`) is the scheduler, as the task sees it: the only
//!   way from this room to those that use it.
//! - The **context** is what the thread knows while it polls.
//!
//! Control enters by `cell::fill` (spawn), `Runnable::run` (a worker), a waker
//! (anybody) or a JoinHandle; it leaves through the home.
#![allow(unsafe_code)]

pub(crate) mod arena;
pub(crate) mod block_on;
pub(crate) mod cell;
pub(crate) mod context;
pub mod coop;
mod duty;
pub(crate) mod enter_guard;
mod error;
pub(crate) mod header;
pub(crate) mod id;
mod join;
pub(crate) mod origin;
pub(crate) mod poll_stamp;
mod poll_time;
mod reexports;
pub(crate) mod runnable;
pub(crate) mod stack;
pub(crate) mod state;
#[macro_use]
mod task_local;
mod wait_forever;
pub(crate) mod wait_kind;
pub(crate) mod wait_record;
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
