//! [`Schedule`]: the trait through which a task uses its scheduler.

use super::header::Header;
use super::runnable::{Runnable, TaskRef};
use std::any::Any;
use std::sync::Arc;

/// The interface of a scheduler that its tasks use.
pub(crate) trait Schedule: Send + Sync {
    /// Queues a task that was woken.
    fn schedule(&self, task: Runnable);

    /// Queues a task behind all others, because it woke itself or exhausted its budget.
    fn requeue(&self, task: Runnable);

    /// Reports a task that nothing can ever wake.
    fn orphaned(&self, task: &TaskRef);

    /// Reports that the task panicked. The payload goes to the JoinHandle, if any.
    fn panicked(&self, task: &Header, payload: &(dyn Any + Send));

    /// Reports a panic of a task whose JoinHandle was dropped without being awaited.
    fn unobserved_panic(&self, task: &Header, payload: &(dyn Any + Send));

    /// Notifies the scheduler that a task is about to complete, while ends are watched (`task::ended`).
    fn terminated(&self, task: &Header);

    /// Releases a closed arena after its last cell is freed.
    ///
    /// Returns the reference that kept the memory alive. The caller must drop it last, when it no
    /// longer refers to the arena, and not inside a method of the scheduler.
    ///
    /// # Safety
    ///
    /// Must be called once per arena, by the arena, after `close`.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>>;
}
