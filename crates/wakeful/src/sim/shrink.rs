//! Shrinking: finds a short list of choices with which the run still fails in the same way.
//!
//! Shrinking is *zeroing*. A choice that a replay leaves out is the usual one, so every subset of the choices is a
//! run. The empty subset is the run with no unusual choice. A pass tries:
//!
//! 1. to leave out all choices of a kind, then all of a host;
//! 2. to leave out spans of the run: halves, quarters, down to single choices;
//! 3. to lower the values of the remaining choices.
//!
//! A choice is identified by its number in its stream. Without a cut poll, the host has one poll less, so
//! the numbers of its later choices are too high. If a run without some cuts does not fail, it is tried
//! with lower numbers too.
//!
//! After each success, the choices that the run really made replace the list. So choices that the shorter run
//! did not reach are removed as well. Passes are repeated until one of them changes nothing.

use super::oracle::{ChoiceKind, Choices, MadeChoice};
use std::ops::Range;

/// The result of one replay.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The run fails in the same way, and made these choices.
    Fails(Choices),
    /// The run does not fail, or fails in another way.
    Passes,
    /// The run was not made, because the limit of runs or of time is reached.
    OutOfRuns,
}

/// The limit of runs or of time is reached.
struct Stopped;

/// Returns the shortest list of choices found with which `replay` still fails.
pub(crate) fn shrink(choices: Choices, replay: &mut dyn FnMut(&Choices) -> Attempt) -> Choices {
    let mut shrinker = Shrinker { choices, replay };
    // `Stopped` ends the search early, with the best list so far.
    while let Ok(true) = shrinker.pass() {}
    shrinker.choices
}

struct Shrinker<'a> {
    /// The smallest list so far with which the run fails.
    choices: Choices,
    replay: &'a mut dyn FnMut(&Choices) -> Attempt,
}

impl Shrinker<'_> {
    /// Makes one pass. Returns whether it made the list smaller.
    fn pass(&mut self) -> Result<bool, Stopped> {
        let before = self.choices.clone();
        self.leave_out_groups(|choice| choice.kind as u64)?;
        self.leave_out_groups(|choice| u64::from(choice.host.0))?;
        self.leave_out_spans()?;
        self.lower_values()?;
        Ok(weight(&self.choices) < weight(&before))
    }

    /// Replays these choices. Returns whether the run still fails.
    fn attempt(&mut self, choices: Vec<MadeChoice>) -> Result<bool, Stopped> {
        match (self.replay)(&Choices(choices)) {
            Attempt::Fails(made) if weight(&made) < weight(&self.choices) => {
                self.choices = made;
                Ok(true)
            }
            Attempt::Fails(_) | Attempt::Passes => Ok(false),
            Attempt::OutOfRuns => Err(Stopped),
        }
    }

    /// Leaves out all choices with an equal key.
    fn leave_out_groups(&mut self, key: impl Fn(&MadeChoice) -> u64) -> Result<(), Stopped> {
        let mut keys: Vec<u64> = self.choices.0.iter().map(&key).collect();
        keys.sort_unstable();
        keys.dedup();
        for group in keys {
            let rest: Vec<MadeChoice> =
                self.choices.0.iter().filter(|choice| key(choice) != group).copied().collect();
            if rest.len() < self.choices.0.len() {
                self.attempt(rest)?;
            }
        }
        Ok(())
    }

    /// Leaves out spans, from the end of the run to its start, since events after the cause of the failure
    /// are mostly unnecessary.
    fn leave_out_spans(&mut self) -> Result<(), Stopped> {
        let mut len = self.choices.0.len();
        while len > 0 {
            let mut end = self.choices.0.len();
            while end > 0 {
                end = end.min(self.choices.0.len());
                let start = end.saturating_sub(len);
                if !self.attempt(self.without(start..end, &[]))? && self.has_cut(start..end) {
                    for shifted in SHIFTED {
                        if self.attempt(self.without(start..end, shifted))? {
                            break;
                        }
                    }
                }
                end = start;
            }
            len /= 2;
        }
        Ok(())
    }

    fn has_cut(&self, span: Range<usize>) -> bool {
        self.choices.0.get(span).is_some_and(|it| it.iter().any(is_cut))
    }

    /// Returns the choices without a span. Later choices of the kinds in `shifted` are renumbered as if
    /// each cut in the span had added a poll.
    fn without(&self, span: Range<usize>, shifted: &[ChoiceKind]) -> Vec<MadeChoice> {
        let choices = &self.choices.0;
        let end = span.end;
        let cuts: Vec<&MadeChoice> = choices[span.clone()].iter().filter(|it| is_cut(it)).collect();
        let shift = |choice: &MadeChoice| {
            let is_of_stream = |cut: &&&MadeChoice| match choice.kind {
                ChoiceKind::Host => true,
                _ => cut.host == choice.host,
            };
            let by = cuts.iter().filter(is_of_stream).count() as u32;
            MadeChoice { number: choice.number.saturating_sub(by), ..*choice }
        };
        let later = choices[end..]
            .iter()
            .map(|choice| if shifted.contains(&choice.kind) { shift(choice) } else { *choice });
        choices[..span.start].iter().copied().chain(later).collect()
    }

    /// Lowers each value by binary search, assuming that all values above a failing one fail too.
    fn lower_values(&mut self) -> Result<(), Stopped> {
        for at in 0.. {
            let Some(choice) = self.choices.0.get(at) else { break };
            let mut highest_passing = 0;
            let mut middle = 1;
            let mut lowest_failing = choice.value;
            while middle < lowest_failing {
                let mut choices = self.choices.0.clone();
                choices[at].value = middle;
                if !self.attempt(choices)? {
                    highest_passing = middle;
                } else if let Some(choice) = self.choices.0.get(at) {
                    lowest_failing = choice.value;
                } else {
                    break;
                }
                middle =
                    highest_passing + lowest_failing.saturating_sub(highest_passing).div_ceil(2);
            }
        }
        Ok(())
    }
}

/// The kinds of choices to renumber after a cut is left out, since the host has one poll less. The host
/// chose among tasks only if several were ready, and the world among hosts likewise.
const SHIFTED: [&[ChoiceKind]; 3] = [
    &[ChoiceKind::Budget],
    &[ChoiceKind::Budget, ChoiceKind::Task],
    &[ChoiceKind::Budget, ChoiceKind::Task, ChoiceKind::Host],
];

fn is_cut(choice: &MadeChoice) -> bool {
    choice.kind == ChoiceKind::Budget
}

/// The measure that shrinking reduces: the number of choices, then the sum of their values.
fn weight(choices: &Choices) -> (usize, u128) {
    (choices.0.len(), choices.0.iter().map(|choice| u128::from(choice.value)).sum())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sim::oracle::{ChoiceContext, HostId, Oracle, Range, Replay};
    use crate::sim::strategy::{Kinds, Search, Uniform};

    const KINDS: [ChoiceKind; 4] =
        [ChoiceKind::Task, ChoiceKind::Budget, ChoiceKind::Loss, ChoiceKind::Latency];

    /// A toy program: 400 choices on two hosts. Returns the values, by kind, host and number.
    fn program(oracle: &mut Oracle) -> Vec<(ChoiceKind, HostId, u64)> {
        let mut values = Vec::new();
        for step in 0..50 {
            for kind in KINDS {
                for host in [HostId(1), HostId(2)] {
                    let context = ChoiceContext { step, ..ChoiceContext::default() };
                    let value = oracle.choose(kind, host, Range::Below(1_000), context);
                    values.push((kind, host, value));
                }
            }
        }
        values
    }

    /// Shrinks the first failing seed. Returns the original number of choices, the result as text, and the
    /// number of runs.
    fn shrunk(
        fails: impl Fn(&[(ChoiceKind, HostId, u64)]) -> bool,
        limit: u32,
    ) -> (usize, String, u32) {
        let search = || Box::new(Search::new(Box::new(Uniform), 1_000_000, Kinds::ALL));
        let failing = (0..).find_map(|seed| {
            let mut oracle = Oracle::new(seed, search());
            fails(&program(&mut oracle)).then(|| oracle.made().clone())
        });
        let (choices, mut runs) = (failing.unwrap(), 0);
        let len = choices.0.len();
        let shrunk = shrink(choices, &mut |choices| {
            if runs == limit {
                return Attempt::OutOfRuns;
            }
            runs += 1;
            let mut oracle = Oracle::new(0, Box::new(Replay::new(choices)));
            if fails(&program(&mut oracle)) {
                Attempt::Fails(oracle.made().clone())
            } else {
                Attempt::Passes
            }
        });
        (len, shrunk.to_string(), runs)
    }

    /// Fails if the tenth latency on host 2 is at least 500, and the third loss on host 1 is not 0.
    fn needs_two(values: &[(ChoiceKind, HostId, u64)]) -> bool {
        let nth = |kind, host, n: usize| {
            let of_stream = values.iter().filter(|(k, h, _)| (*k, *h) == (kind, host));
            of_stream.map(|(.., value)| *value).nth(n).unwrap()
        };
        nth(ChoiceKind::Latency, HostId(2), 10) >= 500 && nth(ChoiceKind::Loss, HostId(1), 3) > 0
    }

    #[test]
    fn the_two_choices_that_matter_are_left_with_their_least_values() {
        let (before, text, runs) = shrunk(needs_two, u32::MAX);
        assert!(before > 350, "{before}");
        assert_eq!(text, "loss 1 3 1\nlatency 2 10 500\n");
        assert!(runs < 150, "{runs} runs");
    }

    #[test]
    fn a_failure_without_a_cause_needs_no_choice() {
        assert_eq!(shrunk(|_| true, u32::MAX).1, "");
    }

    #[test]
    fn choices_that_only_count_together_are_kept() {
        let all = |values: &[(ChoiceKind, HostId, u64)]| {
            let of_host = values.iter().filter(|(kind, host, value)| {
                *kind == ChoiceKind::Task && host.0 == 1 && *value > 0
            });
            of_host.count() >= 40
        };
        let (_, text, _) = shrunk(all, u32::MAX);
        assert_eq!(text.lines().count(), 40);
        assert!(text.lines().all(|line| line.starts_with("task 1 ") && line.ends_with(" 1")));
    }

    #[test]
    fn the_limit_of_runs_ends_the_search_with_a_failing_list() {
        let (before, text, runs) = shrunk(needs_two, 10);
        assert_eq!(runs, 10);
        let choices: Choices = text.parse().unwrap();
        assert!(choices.0.len() < before);
        assert!(needs_two(&program(&mut Oracle::new(0, Box::new(Replay::new(&choices))))));
    }

    #[test]
    fn a_choice_keeps_its_place_when_an_earlier_cut_is_left_out() {
        // Each cut adds a poll. The fourth poll that does some work must be cut.
        let program = |oracle: &mut Oracle| {
            let mut work = 0;
            let mut has_failed = false;
            while work < 6 {
                let range = Range::Below(33);
                let context = ChoiceContext::default();
                let cut = oracle.choose(ChoiceKind::Budget, HostId(1), range, context);
                has_failed |= work == 3 && cut > 0;
                work += u32::from(cut == 0);
            }
            has_failed
        };
        let choices: Choices = "budget 1 0 1\nbudget 1 2 1\nbudget 1 5 1\n".parse().unwrap();
        let shrunk = shrink(choices, &mut |choices| {
            let mut oracle = Oracle::new(0, Box::new(Replay::new(choices)));
            if program(&mut oracle) {
                Attempt::Fails(oracle.made().clone())
            } else {
                Attempt::Passes
            }
        });
        assert_eq!(shrunk.to_string(), "budget 1 3 1\n");
    }

    #[test]
    fn what_the_shorter_run_did_not_choose_is_gone() {
        // The program makes its other choices only if the first is unusual.
        let program = |oracle: &mut Oracle| {
            let mut choose = |host| {
                let context = ChoiceContext::default();
                oracle.choose(ChoiceKind::Task, HostId(host), Range::Below(9), context)
            };
            let first = choose(1);
            if first > 0 {
                (0..20).for_each(|_| assert!(choose(2) < 9));
            }
            choose(3) > 0
        };
        let line = |text: String| text + "task 3 0 4\n";
        let choices = line((0..20).map(|n| format!("task 2 {n} 1\n")).collect());
        let choices: Choices = format!("task 1 0 1\n{choices}").parse().unwrap();
        let shrunk = shrink(choices, &mut |choices| {
            let mut oracle = Oracle::new(0, Box::new(Replay::new(choices)));
            if program(&mut oracle) {
                Attempt::Fails(oracle.made().clone())
            } else {
                Attempt::Passes
            }
        });
        assert_eq!(shrunk.to_string(), "task 3 0 1\n");
    }
}
