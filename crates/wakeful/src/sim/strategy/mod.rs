//! Strategies: the order of tasks, the polls that are cut short, and the faults that happen.
//!
//! - An [`Order`] picks the next host or task: [`InOrder`], [`Uniform`], [`Pct`], [`Delay`], [`Urw`].
//! - [`Search`] makes all choices of a run with one order, one preemption rate and one set of faults.
//! - [`swarm`] draws these three from the seed. [`dfs`] enumerates all runs of a tiny program instead.
//! - [`profile`] measures the length of a run, which pct and urw need.
//!
//! Every order is *fair*: after the oldest candidate was passed over [`MAX_PASSED_OVER`] times in a row, it is
//! picked. Otherwise a task that yields in a loop until another task has run would starve that task, and a
//! correct program would seem to hang.

pub(crate) mod dfs;
pub(crate) mod profile;
pub(crate) mod swarm;

use super::oracle::{Choice, ChoiceKind, HostId, Range, Strategy, below, is_drawn, rare};
use crate::sys::rng::Rng;
use profile::Profile;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often the oldest candidate may be passed over in a row.
const MAX_PASSED_OVER: u32 = 128;

/// The probability 1, in millionths.
const ALWAYS: u32 = 1_000_000;

/// The identity of a host or task during a run: the host of the choice, and the candidate's identity.
type CandidateId = (HostId, u64);

/// Picks the next host, or the next task of a host.
pub(crate) trait Order: Send {
    /// Returns the name with its parameters.
    fn name(&self) -> String;

    /// Returns the index of one of at least two candidates, which are given oldest first.
    fn pick(&mut self, candidates: &[CandidateId], rng: &mut Rng) -> usize;

    /// Records a poll of this task, or of a task of this host.
    fn polled(&mut self, _candidate: CandidateId) {}
}

/// Returns the host and the task that are about to be polled, from the choice of the poll's budget.
fn candidates_of_poll(budget: &Choice<'_>) -> [CandidateId; 2] {
    [(HostId::WORLD, u64::from(budget.host.0)), (budget.host, budget.task)]
}

/// Picks the oldest candidate.
#[derive(Debug)]
pub(crate) struct InOrder;

impl Order for InOrder {
    fn name(&self) -> String {
        "fifo".to_owned()
    }

    fn pick(&mut self, _candidates: &[CandidateId], _rng: &mut Rng) -> usize {
        0
    }
}

/// Picks every candidate with the same probability.
#[derive(Debug)]
pub(crate) struct Uniform;

impl Order for Uniform {
    fn name(&self) -> String {
        "random".to_owned()
    }

    fn pick(&mut self, candidates: &[CandidateId], rng: &mut Rng) -> usize {
        below(rng, candidates.len() as u64) as usize
    }
}

/// Probabilistic concurrency testing: picks the candidate with the highest priority.
///
/// Priorities are random. At `depth - 1` random moments, the candidate that would run gets the lowest
/// priority. A bug that needs `depth` ordered steps among `n` tasks in a run of `k` picks is found with
/// a probability of at least `1 / (n * k^(depth - 1))`.
pub(crate) struct Pct {
    depth: u32,
    /// The picks before which a priority is lowered.
    changes: BTreeSet<u64>,
    picks: u64,
    priorities: BTreeMap<CandidateId, u64>,
}

/// Priorities below this one belong to candidates that were lowered.
const LOWERED: u64 = 1 << 32;

impl Pct {
    /// Creates the order for a run of about `picks` picks.
    pub(crate) fn new(depth: u32, picks: u64, rng: &mut Rng) -> Self {
        let changes = (1..depth).map(|_| below(rng, picks.max(1))).collect();
        Self { depth, changes, picks: 0, priorities: BTreeMap::new() }
    }

    fn highest(&mut self, candidates: &[CandidateId], rng: &mut Rng) -> usize {
        let priorities = candidates.iter().map(|candidate| {
            *self.priorities.entry(*candidate).or_insert_with(|| LOWERED | rng.next_u64() >> 1)
        });
        let highest = priorities.enumerate().max_by_key(|&(_, priority)| priority);
        highest.map_or(0, |(index, _)| index)
    }
}

impl Order for Pct {
    fn name(&self) -> String {
        format!("pct({})", self.depth)
    }

    fn pick(&mut self, candidates: &[CandidateId], rng: &mut Rng) -> usize {
        let index = self.highest(candidates, rng);
        self.picks += 1;
        if !self.changes.remove(&(self.picks - 1)) {
            return index;
        }
        // A candidate that is lowered later gets a lower priority.
        self.priorities.insert(candidates[index], self.changes.len() as u64);
        self.highest(candidates, rng)
    }
}

/// Delay-bounded: picks the oldest candidate, but at random moments delays it until no other candidate is
/// ready.
pub(crate) struct Delay {
    delays: u32,
    /// The picks at which a candidate is delayed.
    moments: BTreeSet<u64>,
    picks: u64,
    delayed: BTreeSet<CandidateId>,
}

impl Delay {
    /// Creates the order for a run of about `picks` picks.
    pub(crate) fn new(delays: u32, picks: u64, rng: &mut Rng) -> Self {
        let moments = (0..delays).map(|_| below(rng, picks.max(1))).collect();
        Self { delays, moments, picks: 0, delayed: BTreeSet::new() }
    }

    fn oldest(&self, candidates: &[CandidateId]) -> usize {
        candidates.iter().position(|candidate| !self.delayed.contains(candidate)).unwrap_or(0)
    }
}

impl Order for Delay {
    fn name(&self) -> String {
        format!("delay({})", self.delays)
    }

    fn pick(&mut self, candidates: &[CandidateId], _rng: &mut Rng) -> usize {
        let index = self.oldest(candidates);
        self.picks += 1;
        let index = if self.moments.remove(&(self.picks - 1)) {
            self.delayed.insert(candidates[index]);
            self.oldest(candidates)
        } else {
            index
        };
        self.delayed.remove(&candidates[index]);
        index
    }
}

/// Uniform random walk: prefers candidates with more polls ahead of them.
///
/// Each interleaving of the whole run is about as likely as any other. With [`Uniform`], a long task would
/// almost never be far behind a short one.
pub(crate) struct Urw {
    profile: Arc<Profile>,
    /// The number of polls that each candidate had.
    polls: BTreeMap<CandidateId, u64>,
}

impl Urw {
    pub(crate) fn new(profile: Arc<Profile>) -> Self {
        Self { profile, polls: BTreeMap::new() }
    }

    /// Returns the estimated number of polls that the candidate has ahead of it, at least 1.
    fn weight(&self, candidate: CandidateId) -> u64 {
        let polls = self.polls.get(&candidate).copied().unwrap_or(0);
        self.profile.polls_of(candidate).saturating_sub(polls).max(1)
    }
}

impl Order for Urw {
    fn name(&self) -> String {
        "urw".to_owned()
    }

    fn pick(&mut self, candidates: &[CandidateId], rng: &mut Rng) -> usize {
        let total = candidates.iter().map(|candidate| self.weight(*candidate)).sum();
        let mut drawn = below(rng, total);
        let is_drawn = |candidate: &CandidateId| {
            let weight = self.weight(*candidate);
            let is_here = drawn < weight;
            drawn = drawn.wrapping_sub(weight);
            is_here
        };
        candidates.iter().position(is_drawn).unwrap_or(0)
    }

    fn polled(&mut self, candidate: CandidateId) {
        *self.polls.entry(candidate).or_insert(0) += 1;
    }
}

/// The kinds of choices that are faults. A seed may disable each of them.
pub(crate) const FAULTS: [ChoiceKind; 10] = [
    ChoiceKind::Loss,
    ChoiceKind::Duplicate,
    ChoiceKind::Reorder,
    ChoiceKind::ShortIo,
    ChoiceKind::Partition,
    // The draws for the kinds above must not change, or existing seeds would mean other runs.
    ChoiceKind::LatencySpike,
    ChoiceKind::Kill,
    ChoiceKind::Pause,
    ChoiceKind::ClockStep,
    ChoiceKind::ClockDrift,
];

/// A set of kinds of choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u32);

impl Kinds {
    pub(crate) const ALL: Kinds = Kinds(u32::MAX);

    pub(crate) fn has(self, kind: ChoiceKind) -> bool {
        self.0 >> kind as u32 & 1 == 1
    }

    fn add(&mut self, kind: ChoiceKind) {
        self.0 |= 1 << kind as u32;
    }

    fn remove(&mut self, kind: ChoiceKind) {
        self.0 &= !(1 << kind as u32);
    }
}

/// Makes all choices of a run: with one order, one preemption rate and one set of faults.
pub(crate) struct Search {
    order: Box<dyn Order>,
    /// The probability that a poll is cut short, in millionths.
    preemption: u32,
    enabled: Kinds,
    /// The kinds of choices that the hosts have requested.
    asked: Kinds,
    /// The candidates of the current choice.
    candidates: Vec<CandidateId>,
    /// The oldest candidate, and how often in a row it was passed over. Indexed by the host for its tasks,
    /// and by the world for the hosts.
    passed_over: Vec<(CandidateId, u32)>,
}

impl Search {
    /// Creates a search. `preemption` is a probability in millionths. Only the faults in `enabled` happen.
    pub(crate) fn new(order: Box<dyn Order>, preemption: u32, enabled: Kinds) -> Self {
        Self {
            order,
            preemption,
            enabled,
            asked: Kinds::default(),
            candidates: Vec::new(),
            passed_over: Vec::new(),
        }
    }

    fn pick(&mut self, host: HostId, rng: &mut Rng) -> u64 {
        let oldest = self.candidates[0];
        if self.passed_over.len() <= host.index() {
            self.passed_over.resize(host.index() + 1, (oldest, 0));
        }
        let passed = &mut self.passed_over[host.index()];
        if passed.0 != oldest {
            *passed = (oldest, 0);
        }
        if passed.1 == MAX_PASSED_OVER {
            passed.1 = 0;
            return 0;
        }
        let index = self.order.pick(&self.candidates, rng);
        passed.1 = if index == 0 { 0 } else { passed.1 + 1 };
        index as u64
    }

    /// Returns the ready operation at which a poll ends, or 0 for the full budget.
    fn cut(&self, len: u64, rng: &mut Rng) -> u64 {
        if !is_drawn(rng, self.preemption) {
            return 0;
        }
        match below(rng, 8) {
            0..4 => 1,
            4..6 => 2.min(len - 1),
            6 => 3.min(len - 1),
            _ => 1 + below(rng, len - 1),
        }
    }
}

impl Strategy for Search {
    fn name(&self) -> String {
        let percent = f64::from(self.preemption) / 10_000.0;
        let mut name = self.order.name();
        if self.preemption > 0 {
            name.push_str(&format!(", {percent} % of the polls cut short"));
        }
        name
    }

    fn faults(&self) -> Option<Vec<ChoiceKind>> {
        let asked = FAULTS.into_iter().filter(|kind| self.asked.has(*kind));
        let enabled = asked.clone().filter(|kind| self.enabled.has(*kind));
        (asked.count() > 0).then(|| enabled.collect())
    }

    fn choose(&mut self, choice: &Choice<'_>, rng: &mut Rng) -> u64 {
        let Choice { kind, host, range, .. } = *choice;
        // The world itself only draws the faults of chaos, which have their own names and rates.
        if host != HostId::WORLD {
            self.asked.add(kind);
        }
        if kind == ChoiceKind::Budget {
            for candidate in candidates_of_poll(choice) {
                self.order.polled(candidate);
            }
        }
        if !self.enabled.has(kind) {
            return 0;
        }
        match range {
            Range::Candidates(len, id) => {
                self.candidates.clear();
                self.candidates.extend((0..len).map(|index| (host, id(index))));
                self.pick(host, rng)
            }
            Range::Chance(probability) => u64::from(is_drawn(rng, probability)),
            Range::Rare(probability, len) => rare(rng, probability, len),
            Range::Below(len) if kind == ChoiceKind::Budget => self.cut(len, rng),
            Range::Below(len) => below(rng, len),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "strategy_tests.rs"]
mod tests;
