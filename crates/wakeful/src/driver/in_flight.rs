//! Station 7 for files: the operations that the kernel is working on.
//!
//! A submitted operation owns its buffers and paths. It stays in this table until the kernel has
//! completed it, even if the future that started it is dropped meanwhile.
//!
//! - RING-1. From submission until its completion has been read, an operation stays in the table,
//!   and no thread touches the memory that its submission entry points to.

use slab::Slab;
use std::sync::Arc;

/// The kind of thread that processes a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionContext {
    /// A thread that polls tasks. It must not block, so blocking work goes to the pool.
    DriverThread,
    /// A thread that may block, during shutdown. It finishes the operation itself.
    BlockingThread,
}

/// An operation that waits for the kernel.
pub(crate) trait Completion: Send + Sync {
    /// Processes the operation's completion.
    ///
    /// `result` is the value that the system call would have returned; errors are negative.
    fn complete(self: Arc<Self>, result: i32, context: CompletionContext);

    /// Returns whether the operation must run to completion even if no future waits for it.
    fn must_finish(&self) -> bool;
}

/// Identifies an operation of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpId(usize);

impl OpId {
    /// Returns the number that the kernel reports with the completion.
    pub(super) fn user_data(self) -> u64 {
        self.0 as u64
    }
}

/// All operations of one ring that the kernel has not completed (RING-1).
#[derive(Default)]
pub(super) struct InFlight(Slab<Arc<dyn Completion>>);

impl InFlight {
    pub(super) fn insert(&mut self, operation: Arc<dyn Completion>) -> OpId {
        OpId(self.0.insert(operation))
    }

    /// Removes an operation whose completion was read, or that was not submitted.
    pub(super) fn remove(&mut self, user_data: u64) -> Arc<dyn Completion> {
        self.0.remove(user_data as usize)
    }

    /// Returns whether `id` still belongs to the operation at the address `operation`.
    pub(super) fn contains(&self, id: OpId, operation: *const ()) -> bool {
        let is_same = |entry: &Arc<dyn Completion>| Arc::as_ptr(entry).cast::<()>() == operation;
        self.0.get(id.0).is_some_and(is_same)
    }

    /// Returns the operations that may be cancelled.
    pub(super) fn cancellable(&self) -> Vec<OpId> {
        let all = self.0.iter();
        all.filter(|(_, entry)| !entry.must_finish()).map(|(key, _)| OpId(key)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
