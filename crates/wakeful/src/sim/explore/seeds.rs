//! The runs that a search makes: one for each seed, or all of a tiny program.

use crate::sim::oracle::Strategy;
use crate::sim::strategy::dfs::{Dfs, Path};
use crate::sim::strategy::profile::Profile;
use crate::sim::strategy::swarm::{OrderKind, swarm};
use crate::sys::sync::ignore_poison;
use std::sync::{Arc, Mutex};

/// The runs of a search, one after the other.
pub(super) trait Seeds: Send {
    /// Returns the seed of the current run.
    fn seed(&self) -> u64;

    /// Returns the strategy of the current run.
    fn strategy(&mut self) -> Box<dyn Strategy>;

    /// Returns a strategy that repeats the current run.
    fn repetition(&self) -> Box<dyn Strategy>;

    /// Moves to the next run. Returns false at the end of the search.
    fn advance(&mut self) -> bool;

    /// Returns how many runs of the search precede this one. `None` for a run that only leads to the
    /// first one of the search.
    fn number(&self) -> Option<u64>;

    /// Returns whether all possible runs were made.
    fn is_exhausted(&self) -> bool {
        false
    }
}

/// One run for each seed.
pub(super) struct BySeed {
    pub(super) first: u64,
    pub(super) seeds: u64,
    pub(super) done: u64,
    pub(super) order: Option<OrderKind>,
    pub(super) profile: Arc<Profile>,
}

impl Seeds for BySeed {
    fn seed(&self) -> u64 {
        self.first.wrapping_add(self.done)
    }

    fn strategy(&mut self) -> Box<dyn Strategy> {
        self.repetition()
    }

    fn repetition(&self) -> Box<dyn Strategy> {
        Box::new(swarm(self.seed(), self.order, &self.profile))
    }

    fn advance(&mut self) -> bool {
        self.done += 1;
        self.done < self.seeds
    }

    fn number(&self) -> Option<u64> {
        Some(self.done)
    }
}

/// All runs of a tiny program. A seed is the number of a run.
pub(super) struct DepthFirst {
    bound: usize,
    seeds: std::ops::Range<u64>,
    seed: u64,
    /// The path with which the current run begins.
    start: Path,
    /// The choices of the current run.
    path: Arc<Mutex<Path>>,
    is_exhausted: bool,
}

impl DepthFirst {
    pub(super) fn new(bound: usize, seeds: std::ops::Range<u64>) -> Self {
        let (start, path) = (Path::default(), Arc::default());
        Self { bound, seeds, seed: 0, start, path, is_exhausted: false }
    }
}

impl Seeds for DepthFirst {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn strategy(&mut self) -> Box<dyn Strategy> {
        let (dfs, path) = Dfs::new(self.bound, self.start.clone());
        self.path = path;
        Box::new(dfs)
    }

    fn repetition(&self) -> Box<dyn Strategy> {
        Box::new(Dfs::new(self.bound, self.start.clone()).0)
    }

    fn advance(&mut self) -> bool {
        let path = ignore_poison(self.path.lock()).clone();
        match path.next(self.bound) {
            Some(start) => self.start = start,
            None => self.is_exhausted = true,
        }
        self.seed += 1;
        !self.is_exhausted && self.seed < self.seeds.end
    }

    fn number(&self) -> Option<u64> {
        self.seed.checked_sub(self.seeds.start)
    }

    fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }
}
