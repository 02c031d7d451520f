//! Task ids: unique in the process, drawn in blocks so that a spawn needs no
//! shared counter. A runtime with `Builder::shuffle_tasks` draws from a sequence of its own.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// Names a task, uniquely among all tasks of the process that are alive.
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

/// Where a runtime takes ids from: the process-wide sequence, or its own.
#[derive(Debug)]
pub(crate) enum IdSource {
    Process,
    Own(OwnIds),
}

/// A sequence of ids that other sequences use as well.
#[derive(Debug)]
pub(crate) struct OwnIds(AtomicU64);

/// How many of these there are.
static OWN_SEQUENCES: AtomicUsize = AtomicUsize::new(0);

impl Drop for OwnIds {
    fn drop(&mut self) {
        OWN_SEQUENCES.fetch_sub(1, Release);
    }
}

/// Whether an id names one task of the process, and not one task of each runtime.
pub(crate) fn are_unique() -> bool {
    // Acquire: whoever finds no sequence knows that the tasks of the last one have ended.
    OWN_SEQUENCES.load(Acquire) == 0
}

impl IdSource {
    /// A sequence of its own, from 1 on.
    pub(crate) fn own() -> Self {
        OWN_SEQUENCES.fetch_add(1, Relaxed);
        IdSource::Own(OwnIds(AtomicU64::new(1)))
    }

    fn block(&self) -> u64 {
        static PROCESS: AtomicU64 = AtomicU64::new(1);
        match self {
            IdSource::Process => PROCESS.fetch_add(BLOCK, Relaxed),
            IdSource::Own(OwnIds(next)) => next.fetch_add(BLOCK, Relaxed),
        }
    }
}

/// The ids that one heap still has in hand.
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
        let source = IdSource::own();
        assert!(!super::are_unique(), "another runtime could have the same");
        let (mut a, mut b) = (IdBlock::default(), IdBlock::default());
        let drawn: BTreeSet<u64> =
            (0..500).flat_map(|_| [a.draw(&source), b.draw(&source)]).collect();
        assert_eq!(drawn.len(), 1000);
        assert_eq!(drawn.first(), Some(&1));
    }
}
