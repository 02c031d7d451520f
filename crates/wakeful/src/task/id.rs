//! Task ids, drawn in blocks so that a spawn accesses no shared counter.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// The id of a task, unique among the live tasks of the process.
///
/// The exception is a runtime with [`shuffle_tasks`](crate::runtime::Builder::shuffle_tasks), which
/// numbers its tasks from 1, so that a run can be repeated.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let handle = wakeful::spawn(async { wakeful::task::id() });
/// let id: wakeful::task::Id = handle.id();
/// assert_eq!(handle.await.unwrap(), id);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(NonZeroU64);

impl Id {
    pub(crate) fn as_u64(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn from_u64(id: u64) -> Self {
        Self(NonZeroU64::new(id).expect("task ids start at 1"))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const BLOCK: u64 = 64;

/// The sequence from which a runtime draws ids: the process's sequence, or its own.
#[derive(Clone, Debug)]
pub(crate) enum IdSource {
    Process,
    PerRuntime(Arc<RuntimeIds>),
}

/// A runtime's own sequence of ids, which other sequences also contain.
#[derive(Debug)]
pub(crate) struct RuntimeIds(AtomicU64);

/// The number of live [`RuntimeIds`].
static OWN_SEQUENCES: AtomicUsize = AtomicUsize::new(0);

impl Drop for RuntimeIds {
    fn drop(&mut self) {
        OWN_SEQUENCES.fetch_sub(1, Release);
    }
}

/// Returns whether ids are unique in the process, because no runtime has its own sequence.
pub(crate) fn are_unique() -> bool {
    // Acquire pairs with the Release in `drop`: a caller that finds no sequence sees that the tasks
    // of the last sequence have ended.
    OWN_SEQUENCES.load(Acquire) == 0
}

impl IdSource {
    /// Creates a source with its own sequence, starting at 1.
    pub(crate) fn per_runtime() -> Self {
        OWN_SEQUENCES.fetch_add(1, Relaxed);
        IdSource::PerRuntime(Arc::new(RuntimeIds(AtomicU64::new(1))))
    }

    fn block(&self) -> u64 {
        static PROCESS: AtomicU64 = AtomicU64::new(1);
        match self {
            IdSource::Process => PROCESS.fetch_add(BLOCK, Relaxed),
            IdSource::PerRuntime(ids) => ids.0.fetch_add(BLOCK, Relaxed),
        }
    }
}

/// The ids that one arena has drawn and not used yet.
#[derive(Debug, Default)]
pub(crate) struct IdBlock {
    next: u64,
    end: u64,
}

impl IdBlock {
    #[inline]
    pub(crate) fn draw(&mut self, source: &IdSource) -> u64 {
        if self.next == self.end {
            self.next = source.block();
            self.end = self.next + BLOCK;
        }
        let id = self.next;
        self.next += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::{IdBlock, IdSource};
    use std::collections::BTreeSet;

    #[test]
    fn blocks_of_one_source_never_overlap() {
        let source = IdSource::per_runtime();
        assert!(!super::are_unique(), "another runtime could draw the same ids");
        let (mut a, mut b) = (IdBlock::default(), IdBlock::default());
        let drawn: BTreeSet<u64> =
            (0..500).flat_map(|_| [a.draw(&source), b.draw(&source)]).collect();
        assert_eq!(drawn.len(), 1000);
        assert_eq!(drawn.first(), Some(&1));
    }
}
