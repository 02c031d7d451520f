//! A profile: the length of a run, and the number of polls of each host and task in it.
//!
//! It is measured by one run in order of age, before the first seed. The profile depends only on the
//! program, so a seed means the same run in every process.

use super::{CandidateId, candidates_of_poll};
use crate::sim::oracle::{Choice, ChoiceKind, Range, Strategy, below};
use crate::sys::rng::Rng;
use crate::sys::sync::ignore_poison;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The number of polls of each host and task in one run, and the number of picks among several
/// candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    polls: BTreeMap<CandidateId, u64>,
    picks: u64,
}

impl Profile {
    /// Returns how often the run picked one of several candidates.
    pub(crate) fn picks(&self) -> u64 {
        self.picks
    }

    /// Returns how many polls this host or task had.
    pub(crate) fn polls_of(&self, candidate: CandidateId) -> u64 {
        self.polls.get(&candidate).copied().unwrap_or(0)
    }
}

/// Measures a profile in a run without faults, in order of age. Each poll that can be cut ends at its
/// first or second ready operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profiler(Arc<Mutex<Profile>>);

impl Profiler {
    /// Returns the profile of the run so far.
    pub(crate) fn profile(&self) -> Profile {
        ignore_poison(self.0.lock()).clone()
    }
}

impl Strategy for Profiler {
    fn name(&self) -> String {
        "profile".to_owned()
    }

    fn choose(&mut self, choice: &Choice<'_>, rng: &mut Rng) -> u64 {
        let mut profile = ignore_poison(self.0.lock());
        match choice.range {
            Range::Candidates(..) => {
                profile.picks += 1;
                0
            }
            Range::Below(len) if choice.kind == ChoiceKind::Budget => {
                for candidate in candidates_of_poll(choice) {
                    *profile.polls.entry(candidate).or_insert(0) += 1;
                }
                // A poll that is always cut at its first operation may make no progress.
                (1 + below(rng, 2)).min(len - 1)
            }
            Range::Below(_) | Range::Chance(_) | Range::Rare(..) => 0,
        }
    }
}
