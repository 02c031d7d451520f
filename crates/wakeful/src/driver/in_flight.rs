//! Station 7 for files: what the kernel works on. An operation that was handed
//! over owns its buffers and names; it lies here until the kernel says that it is
//! done with them, whoever lost interest meanwhile.
//!
//! - F1. From the moment the kernel is told of an operation until its completion
//!   was read, the operation stays in its slot, and nobody touches the memory
//!   that its entry points to.

use slab::Slab;
use std::sync::Arc;

/// Where a completion is taken notice of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionContext {
    /// On a thread that drives tasks: what has to block goes elsewhere.
    Driving,
    /// On a thread that may block, at the end of the runtime: what is left to do
    /// is done here.
    Blocking,
}

/// An operation in its slot.
pub(crate) trait Completion: Send + Sync {
    /// The kernel is done with it: `result` is what the system call would have
    /// given, errors as negative numbers.
    fn land(self: Arc<Self>, result: i32, place: CompletionContext);

    /// Whether it must come to its end although nobody waits for it.
    fn must_finish(&self) -> bool;
}

/// One operation's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Slot {
    /// The number that the kernel keeps with the operation.
    pub(super) fn number(self) -> u64 {
        self.0 as u64
    }
}

/// All operations that the kernel has from one ring (F1).
#[derive(Default)]
pub(super) struct InFlight(Slab<Arc<dyn Completion>>);

impl InFlight {
    pub(super) fn put(&mut self, operation: Arc<dyn Completion>) -> Slot {
        Slot(self.0.insert(operation))
    }

    /// Its completion was read, or the kernel was never told of it.
    pub(super) fn take(&mut self, number: u64) -> Arc<dyn Completion> {
        self.0.remove(number as usize)
    }

    /// Whether this operation still lies in its slot.
    pub(super) fn holds(&self, slot: Slot, operation: *const ()) -> bool {
        let lies_there = |kept: &Arc<dyn Completion>| Arc::as_ptr(kept).cast::<()>() == operation;
        self.0.get(slot.0).is_some_and(lies_there)
    }

    /// Those that nobody minds being cancelled.
    pub(super) fn dispensable(&self) -> Vec<Slot> {
        let all = self.0.iter();
        all.filter(|(_, kept)| !kept.must_finish()).map(|(key, _)| Slot(key)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
