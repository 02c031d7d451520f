//! Depth-first search: all runs of a tiny program, with a bound on the unusual choices in each.
//!
//! A [`Path`] lists the choices of one run. [`Path::next`] leads to the next run: it advances the last
//! choice that has another value, and drops the choices after it.

use crate::sim::oracle::{Choice, ChoiceKind, Range, Strategy};
use crate::sys::rng::Rng;
use crate::sys::sync::ignore_poison;
use std::sync::{Arc, Mutex};

/// The number of budgets that are tried: the full budget, and a cut at each of the first operations.
const CUTS: u64 = 3;

/// The number of values that are tried in a wide range.
const VALUES: u64 = 4;

/// The choices of one run: each value, and the number of possible values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<(u64, u64)>);

impl Path {
    /// Returns the path of the next run, with at most `bound` unusual choices. Returns `None`
    /// after the last run.
    pub(crate) fn next(mut self, bound: usize) -> Option<Path> {
        while let Some((value, len)) = self.0.pop() {
            let unusual = self.0.iter().filter(|(value, _)| *value > 0).count();
            if value + 1 < len && unusual < bound {
                self.0.push((value + 1, len));
                return Some(self);
            }
        }
        None
    }
}

/// Follows a path, then makes usual choices. Records the path of the whole run.
pub(crate) struct Dfs {
    bound: usize,
    start: Path,
    path: Arc<Mutex<Path>>,
}

impl Dfs {
    /// Creates the strategy of the run that starts with `start`. Returns it with the recorded path.
    pub(crate) fn new(bound: usize, start: Path) -> (Self, Arc<Mutex<Path>>) {
        let path = Arc::default();
        (Self { bound, start, path: Arc::clone(&path) }, path)
    }
}

impl Strategy for Dfs {
    fn name(&self) -> String {
        format!("dfs({})", self.bound)
    }

    fn choose(&mut self, choice: &Choice<'_>, _rng: &mut Rng) -> u64 {
        let len = match choice.range {
            Range::Below(len) if choice.kind == ChoiceKind::Budget => len.min(CUTS),
            Range::Below(len) | Range::Rare(_, len) => len.min(VALUES),
            range => range.len(),
        };
        let mut path = ignore_poison(self.path.lock());
        let value = self.start.0.get(path.0.len()).map_or(0, |(value, _)| (*value).min(len - 1));
        path.0.push((value, len));
        value
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sim::oracle::{ChoiceContext, HostId, Oracle};
    use std::collections::BTreeSet;

    /// Enumerates the runs of a program that makes `choices` choices with 3 values each.
    fn runs(choices: usize, bound: usize) -> Vec<Vec<u64>> {
        let mut runs = Vec::new();
        let mut next = Some(Path::default());
        while let Some(start) = next {
            let (dfs, path) = Dfs::new(bound, start);
            let mut oracle = Oracle::new(0, Box::new(dfs));
            let mut choose = || {
                let range = Range::Candidates(3, &|at| at);
                oracle.choose(ChoiceKind::Task, HostId::FIRST, range, ChoiceContext::default())
            };
            runs.push((0..choices).map(|_| choose()).collect());
            let path = path.lock().unwrap().clone();
            next = path.next(bound);
        }
        runs
    }

    #[test]
    fn every_run_is_made_once() {
        let all = runs(4, 4);
        assert_eq!(all.len(), 81);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 81);
        assert_eq!(all[0], [0; 4], "the run of usual choices is the first");
    }

    #[test]
    fn the_bound_limits_the_unusual_choices() {
        let bounded = runs(5, 2);
        // None, one of 5 positions with 2 values, two of 5 positions.
        assert_eq!(bounded.len(), 1 + 5 * 2 + 10 * 4);
        assert!(bounded.iter().all(|run| run.iter().filter(|value| **value > 0).count() <= 2));
    }

    #[test]
    fn budgets_and_wide_ranges_are_narrowed() {
        let (dfs, path) = Dfs::new(1, Path::default());
        let mut oracle = Oracle::new(0, Box::new(dfs));
        for kind in [ChoiceKind::Budget, ChoiceKind::Latency] {
            oracle.choose(kind, HostId::FIRST, Range::Below(1_000), ChoiceContext::default());
        }
        assert_eq!(*path.lock().unwrap(), Path(vec![(0, CUTS), (0, VALUES)]));
    }
}
