//! Loom models of tasks, and the model scheduler that they run on.

mod arena;
mod join;
mod model_task;
pub(crate) mod scheduler;
mod task;
mod wait_target;
