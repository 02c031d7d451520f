//! The arena of tasks that are spawned on a runtime that has shut down.
//!
//! Such a task is cancelled at once, but its JoinHandle needs a cell.

use crate::sys::sync::Mutex;
use crate::task::JoinHandle;
use crate::task::arena::{Allocator, Arena};
use crate::task::cell::{self, CellLayout, SpawnOptions};
use crate::task::header::Header;
use crate::task::id::IdSource;
use crate::task::runnable::{Runnable, TaskRef};
use crate::task::schedule::Schedule;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The scheduler of tasks spawned after shutdown, which runs none of them.
struct PostShutdown;

impl Schedule for PostShutdown {
    fn schedule(&self, task: Runnable) {
        task.discard();
    }
    fn requeue(&self, task: Runnable) {
        task.cancel();
    }
    fn orphaned(&self, _task: &TaskRef) {}
    fn panicked(&self, _task: &Header, _payload: &(dyn Any + Send)) {}
    fn unobserved_panic(&self, _task: &Header, _payload: &(dyn Any + Send)) {}
    fn terminated(&self, _task: &Header) {}
    // SAFETY: never called.
    unsafe fn last_cell_freed(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        unreachable!("post_shutdown is never closed")
    }
}

static POST_SHUTDOWN: PostShutdown = PostShutdown;

/// Creates a task in the post-shutdown arena.
///
/// # Safety
///
/// The contract of [`cell::fill`] must hold.
pub(crate) unsafe fn fill<F: Future>(
    ids: &IdSource,
    future: F,
    options: SpawnOptions,
) -> (Runnable, JoinHandle<F::Output>) {
    static ALLOCATOR: OnceLock<Mutex<Allocator>> = OnceLock::new();
    let allocator = ALLOCATOR.get_or_init(|| {
        let arena: &'static Arena = Box::leak(Box::new(Arena::new()));
        // SAFETY: not shared yet; arena and scheduler are never dropped.
        Mutex::new(unsafe { arena.open(NonNull::from(&POST_SHUTDOWN)) })
    });
    let (cell, id) = allocator.lock().allocate(CellLayout::<F>::CLASS, ids, options.origin);
    // SAFETY: the cell is freshly allocated; the rest is the caller's contract.
    unsafe { cell::fill(cell, id, future, options) }
}
