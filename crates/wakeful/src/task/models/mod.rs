//! Loom models of tasks, and the model scheduler that they run on.

mod arena;
mod join;
pub(crate) mod scheduler;
mod task;
mod wait_target;
