//! [`Schedule`]: the scheduler of a task, as the task sees it.

use super::header::Header;
use super::runnable::{Runnable, TaskRef};
use std::any::Any;
use std::sync::Arc;

/// The scheduler of a task, as the task sees it.
pub(crate) trait Schedule: Send + Sync {
    /// Queues a task that was woken.
    fn schedule(&self, task: Runnable);

    /// Queues a task behind all others: it woke itself, or its budget is spent.
    fn requeue(&self, task: Runnable);

    /// Reports a task that nothing can ever wake.
    fn orphaned(&self, task: &TaskRef);

    /// Reports that the task panicked. The payload goes to the JoinHandle, if there is one.
    fn panicked(&self, task: &Header, payload: &(dyn Any + Send));

    /// Reports a panic whose JoinHandle was dropped without awaiting it.
    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send));

    /// Tells that a task is about to complete, while ends are watched (`task::ended`).
    fn terminated(&self, task: &Header);

    /// Ends the life of a closed arena after its last cell is freed.
    ///
    /// Returns the reference that kept the memory alive. The caller drops it last, when it no
    /// longer refers to the arena, and not inside a method of the scheduler.
    ///
    /// # Safety
    ///
    /// Called once per arena, by the arena, after `close`.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>>;
}
