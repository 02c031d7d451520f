//! Stations 4, 6 and 8: a scheduler decides which task runs next, and on which thread.
//!
//! - [`multi_thread`]: the work-stealing scheduler. Its tasks run on worker threads.
//! - [`current_thread`]: runs every task on the thread that calls `block_on`.
//! - [`local_set`]: tasks that stay on one thread, polled by a task or a `block_on` there.
//! - [`base`]: state that both schedulers share.
//! - [`thread_core`]: the part that the cores of both schedulers share: rounds, samples, spinning.
//! - [`poll_estimator`]: estimates how long a poll takes, from recent polls.
//! - [`block_on`]: the future of `block_on`, which is not a task; its own thread polls it.
//! - [`external_block_on`]: `block_on` on a thread that runs no tasks.
//! - [`blocking_pool`]: threads for closures that block.
//! - `post_shutdown`: the arena of tasks that are spawned on a runtime that has shut down.
//! - [`config`]: the builder's settings.
//! - [`hooks`]: the upcalls to the modules above.
//!
//! Tasks reach their scheduler through [`Schedule`](crate::task::schedule::Schedule). Control enters
//! by `spawn`, by `schedule` from a waker, and by `block_on`. It leaves into `Runnable::run`.
#![allow(unsafe_code)]

pub(crate) mod base;
pub(crate) mod block_on;
pub(crate) mod blocking_pool;
pub(crate) mod config;
pub(crate) mod current_thread;
pub(crate) mod external_block_on;
pub(crate) mod hooks;
pub(crate) mod local_set;
pub(crate) mod multi_thread;
pub(crate) mod poll_estimator;
mod post_shutdown;
pub(crate) mod schedule_times;
pub(crate) mod task_hooks;
pub(crate) mod thread_core;

#[cfg(all(test, loom))]
mod models;
