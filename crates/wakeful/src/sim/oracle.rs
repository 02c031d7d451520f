//! The oracle: makes, records and replays every choice of a simulated run.
//!
//! - [`ChoiceKind`] names the subject of a choice, and [`Choice`] has its range.
//! - A [`Strategy`] makes the choice. [`Fifo`] always takes the usual one, [`Random`] takes any.
//!   [`Replay`] repeats the choices of another run.
//! - [`Choices`] lists the unusual choices of a run. It is the recording of a run, the
//!   input of a replay, and the list that shrinking reduces.
//!
//! **Choice 0 is always the usual one**: the oldest task, the full budget, the lowest latency, no fault. So
//! the empty list of choices is the run with no unusual choice, and a shorter list is a simpler run.
//!
//! Each pair of kind and host has a *stream*, with its own generator and counter. A choice is
//! identified by its stream and its number in that stream. So adding or removing a choice in one stream
//! does not affect the choices of other streams.

use crate::sys::rng::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::str::FromStr;

/// The number of a host in its world, which restarts keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId(pub(crate) u32);

impl HostId {
    /// The world itself, for choices that belong to no host.
    pub(crate) const WORLD: HostId = HostId(0);
    /// The host whose `block_on` runs the simulation.
    pub(crate) const FIRST: HostId = HostId(1);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

macro_rules! choice_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// The subject of a choice.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub(crate) enum ChoiceKind {
            $($(#[$doc])* $kind,)+
        }

        impl ChoiceKind {
            pub(crate) const ALL: &[ChoiceKind] = &[$(ChoiceKind::$kind,)+];

            /// Returns the name in the text form of [`Choices`].
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(ChoiceKind::$kind => $name,)+
                }
            }
        }
    };
}

choice_kinds! {
    /// The host that runs next. 0 is the host that has been ready the longest.
    Host = "host",
    /// The task of a host that is polled next. 0 is the oldest in the queue.
    Task = "task",
    /// The budget of a poll. 0 is the full budget; `k` ends the poll at its `k`-th ready operation.
    Budget = "budget",
    /// A random number of the runtime, such as the first branch of `select!`.
    Pick = "pick",
    /// The latency of a message. 0 is the lowest.
    Latency = "latency",
    /// A message is lost.
    Loss = "loss",
    /// A message arrives twice.
    Duplicate = "duplicate",
    /// A datagram is overtaken by others.
    Reorder = "reorder",
    /// A read or write transfers less than it could. 0 is a full transfer.
    ShortIo = "short_io",
    /// Routes between hosts are cut for a while.
    Partition = "partition",
    /// A choice of the simulated program.
    User = "user",
    /// Messages of a host take longer for a while.
    LatencySpike = "latency_spike",
    /// A host is killed, and restarted later.
    Kill = "kill",
    /// A host is paused for a while.
    Pause = "pause",
    /// The wall clock of a host is moved.
    ClockStep = "clock_step",
    /// The clocks of a host run faster or slower.
    ClockDrift = "clock_drift",
}

const KINDS: usize = ChoiceKind::ALL.len();

/// One choice, as seen by a [`Strategy`].
pub(crate) struct Choice<'a> {
    pub(crate) kind: ChoiceKind,
    pub(crate) host: HostId,
    /// The number of the choice in its stream, from 0.
    pub(crate) number: u32,
    pub(crate) range: Range<'a>,
    /// The task for which the choice is made, or 0.
    pub(crate) task: u64,
}

/// The possible values of a choice.
#[derive(Clone, Copy)]
pub(crate) enum Range<'a> {
    /// The numbers below this one, with equal probabilities.
    Below(u64),
    /// 0 or 1, where 1 has this probability in millionths.
    Chance(u32),
    /// 0, or with this probability in millionths one of the other numbers below the second one.
    Rare(u32, u64),
    /// Candidates, oldest first. The function returns the identity of a candidate, a host or a task,
    /// which is stable during the run.
    Candidates(u64, &'a dyn Fn(u64) -> u64),
}

impl Range<'_> {
    /// Returns the number of possible values.
    pub(crate) fn len(&self) -> u64 {
        match *self {
            Range::Below(len) | Range::Candidates(len, _) => len,
            Range::Chance(0) | Range::Rare(0, _) => 1,
            Range::Chance(_) => 2,
            Range::Rare(_, len) => len,
        }
    }
}

/// Makes the choices of a run.
///
/// Equal choices in an equal order must give equal values. So a strategy draws only from the generators
/// that it is given, and reads neither addresses nor the real time.
pub(crate) trait Strategy: Send {
    /// Returns the name with parameters, for the text of a failure.
    fn name(&self) -> String;

    /// Returns a value below `choice.range.len()`, which is at least 2.
    ///
    /// `rng` is the generator of the choice's stream.
    fn choose(&mut self, choice: &Choice<'_>, rng: &mut Rng) -> u64;

    /// Returns the kinds of faults that the hosts have asked for and that are on. Returns `None` if they
    /// have asked for none.
    fn faults(&self) -> Option<Vec<ChoiceKind>> {
        None
    }
}

/// Always makes the usual choice.
#[derive(Debug, Default)]
pub(crate) struct Fifo;

impl Strategy for Fifo {
    fn name(&self) -> String {
        "fifo".to_owned()
    }

    fn choose(&mut self, _choice: &Choice<'_>, _rng: &mut Rng) -> u64 {
        0
    }
}

/// Makes any choice, each with the same probability, but cuts the budget of only some polls.
#[derive(Debug)]
pub(crate) struct Random {
    /// The probability that the budget of a poll is cut, in millionths.
    pub(crate) preemption: u32,
}

impl Default for Random {
    fn default() -> Self {
        Self { preemption: 100_000 }
    }
}

impl Strategy for Random {
    fn name(&self) -> String {
        format!("random, preemption in {}.{} % of the polls", self.preemption / 10_000, {
            self.preemption % 10_000 / 1_000
        })
    }

    fn choose(&mut self, choice: &Choice<'_>, rng: &mut Rng) -> u64 {
        match choice.range {
            Range::Chance(probability) => u64::from(is_drawn(rng, probability)),
            Range::Rare(probability, len) => rare(rng, probability, len),
            Range::Below(len) if choice.kind == ChoiceKind::Budget => {
                if is_drawn(rng, self.preemption) { 1 + below(rng, len - 1) } else { 0 }
            }
            Range::Below(len) | Range::Candidates(len, _) => below(rng, len),
        }
    }
}

/// Parses the seed of a simulation: decimal, or hexadecimal after `0x`.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let seed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    seed.map_err(|_| format!("{text:?} is not a seed, such as 0x51e3"))
}

/// Returns true with this probability, in millionths.
pub(crate) fn is_drawn(rng: &mut Rng, probability: u32) -> bool {
    rng.below(1_000_000) < probability
}

/// Returns a random number below `len`, which must not be 0.
pub(crate) fn below(rng: &mut Rng, len: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(len)) >> 64) as u64
}

/// Returns a number above 0 and below `len` with this probability, in millionths. Otherwise returns 0.
pub(crate) fn rare(rng: &mut Rng, probability: u32, len: u64) -> u64 {
    if is_drawn(rng, probability) { 1 + below(rng, len - 1) } else { 0 }
}

/// Repeats the choices of another run. All other choices are usual.
#[derive(Debug)]
pub(crate) struct Replay {
    choices: BTreeMap<(ChoiceKind, HostId, u32), u64>,
}

impl Replay {
    pub(crate) fn new(choices: &Choices) -> Self {
        let key = |made: &MadeChoice| ((made.kind, made.host, made.number), made.value);
        Self { choices: choices.0.iter().map(key).collect() }
    }
}

impl Strategy for Replay {
    fn name(&self) -> String {
        format!("replay of {} choices", self.choices.len())
    }

    fn choose(&mut self, choice: &Choice<'_>, _rng: &mut Rng) -> u64 {
        let value = self.choices.get(&(choice.kind, choice.host, choice.number));
        // A changed program may have fewer candidates.
        value.map_or(0, |value| (*value).min(choice.range.len() - 1))
    }
}

/// An unusual choice that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MadeChoice {
    pub(crate) kind: ChoiceKind,
    pub(crate) host: HostId,
    /// The number of the choice in its stream.
    pub(crate) number: u32,
    pub(crate) value: u64,
    /// The step of the run in which the choice was made, or 0 if it was parsed from text.
    pub(crate) step: u64,
    /// The chosen task or host, or the task for which the choice was made, or 0.
    pub(crate) task: u64,
    /// The site in the program that made the choice, if known.
    pub(crate) site: Option<&'static Location<'static>>,
}

/// The unusual choices of a run, in the order in which they were made.
///
/// As text, each choice is a line with its kind, host, number and value. Lines that start with `#` are
/// comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices(pub(crate) Vec<MadeChoice>);

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|made| {
            writeln!(f, "{} {} {} {}", made.kind.name(), made.host.0, made.number, made.value)
        })
    }
}

impl FromStr for Choices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parse = |(at, line): (usize, &str)| {
            parse_choice(line).ok_or_else(|| {
                format!(
                    "line {} is not a choice: {line:?}. A choice is a kind, a host, a number and a \
                     value, as in `task 1 4 2`",
                    at + 1
                )
            })
        };
        lines.map(parse).collect::<Result<_, _>>().map(Choices)
    }
}

fn parse_choice(line: &str) -> Option<MadeChoice> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let kind = *ChoiceKind::ALL.iter().find(|kind| kind.name() == name)?;
    let host = HostId(words.next()?.parse().ok()?);
    let number = words.next()?.parse().ok()?;
    let value = words.next()?.parse().ok()?;
    let made = MadeChoice { kind, host, number, value, step: 0, task: 0, site: None };
    words.next().is_none().then_some(made)
}

/// The choices of one kind on one host.
#[derive(Clone, Copy)]
struct Stream {
    rng: Rng,
    /// The number of choices that were made.
    made: u32,
}

/// Makes and records the choices of one run.
pub(crate) struct Oracle {
    seed: u64,
    strategy: Box<dyn Strategy>,
    /// The streams of each host, indexed by [`HostId`].
    streams: Vec<[Stream; KINDS]>,
    made: Choices,
    /// The number of choices that were made, including usual ones.
    count: u64,
    /// The kinds of faults that chaos has drawn, with their rates. `None` without chaos.
    drawn_faults: Option<BTreeMap<ChoiceKind, String>>,
}

impl Oracle {
    pub(crate) fn new(seed: u64, strategy: Box<dyn Strategy>) -> Self {
        let (streams, made) = (Vec::new(), Choices::default());
        Self { seed, strategy, streams, made, count: 0, drawn_faults: None }
    }

    /// Chooses a value from `range`, and records it with `context`. A choice without an alternative is
    /// not counted.
    pub(crate) fn choose(
        &mut self,
        kind: ChoiceKind,
        host: HostId,
        range: Range<'_>,
        context: ChoiceContext,
    ) -> u64 {
        let len = range.len();
        if len < 2 {
            return 0;
        }
        self.ensure_streams(host);
        let stream = &mut self.streams[host.index()][kind as usize];
        let number = stream.made;
        stream.made += 1;
        self.count += 1;
        let choice = Choice { kind, host, number, range, task: context.task };
        let value = self.strategy.choose(&choice, &mut stream.rng);
        assert!(value < len, "the strategy {:?} chose {value} of {len}", self.strategy.name());
        if value > 0 {
            let task = match range {
                Range::Candidates(_, id) => id(value),
                _ => context.task,
            };
            let ChoiceContext { step, site, .. } = context;
            self.made.0.push(MadeChoice { kind, host, number, value, step, task, site });
        }
        value
    }

    fn ensure_streams(&mut self, host: HostId) {
        while self.streams.len() <= host.index() {
            let host = self.streams.len() as u64;
            self.streams.push(std::array::from_fn(|kind| {
                let mut rng =
                    Rng::from_seed(self.seed ^ host.rotate_left(32) ^ (kind as u64) << 56);
                // One more round gives the streams of neighbouring seeds unrelated starts.
                Stream { rng: Rng::from_seed(rng.next_u64()), made: 0 }
            }));
        }
    }

    /// Records the kinds of faults that chaos has drawn, each with its name and rate.
    pub(crate) fn set_drawn_faults(&mut self, drawn: BTreeMap<ChoiceKind, String>) {
        self.drawn_faults = Some(drawn);
    }

    /// Returns the name of the strategy, and the faults that are on.
    pub(crate) fn strategy_name(&self) -> String {
        let (name, enabled) = (self.strategy.name(), self.strategy.faults());
        if enabled.is_none() && self.drawn_faults.is_none() {
            return name;
        }
        let enabled = enabled.into_iter().flatten().map(|kind| (kind, kind.name().to_owned()));
        let mut faults: BTreeMap<ChoiceKind, String> = enabled.collect();
        faults.extend(self.drawn_faults.iter().flatten().map(|(kind, name)| (*kind, name.clone())));
        let faults: Vec<String> = faults.into_values().collect();
        format!("{name}; faults {{{}}}", faults.join(", "))
    }

    /// Returns the number of the last unusual choice in its stream.
    pub(crate) fn last_number(&self) -> Option<u32> {
        self.made.0.last().map(|made| made.number)
    }

    /// Returns the unusual choices so far.
    pub(crate) fn made(&self) -> &Choices {
        &self.made
    }

    /// Takes the unusual choices so far, for the result of the run.
    pub(crate) fn take_made(&mut self) -> Choices {
        std::mem::take(&mut self.made)
    }

    /// Returns the number of choices so far, including usual ones.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// The data that is recorded about a choice in addition to its value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChoiceContext {
    pub(crate) step: u64,
    pub(crate) task: u64,
    pub(crate) site: Option<&'static Location<'static>>,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const RANDOM: fn() -> Box<dyn Strategy> = || Box::new(Random::default());

    fn choose(oracle: &mut Oracle, kind: ChoiceKind, host: u32, len: u64) -> u64 {
        oracle.choose(kind, HostId(host), Range::Below(len), ChoiceContext::default())
    }

    fn drawn(oracle: &mut Oracle, kind: ChoiceKind, host: u32) -> Vec<u64> {
        (0..20).map(|_| choose(oracle, kind, host, 1_000_000)).collect()
    }

    #[test]
    fn equal_seeds_choose_alike_and_others_do_not() {
        let stream = |seed| drawn(&mut Oracle::new(seed, RANDOM()), ChoiceKind::Task, 1);
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn a_stream_does_not_depend_on_the_others() {
        let mut alone = Oracle::new(7, RANDOM());
        let mut mixed = Oracle::new(7, RANDOM());
        let mut values = Vec::new();
        for _ in 0..20 {
            choose(&mut mixed, ChoiceKind::Task, 2, 10);
            values.push(choose(&mut mixed, ChoiceKind::Task, 1, 1_000_000));
            choose(&mut mixed, ChoiceKind::Loss, 1, 10);
        }
        assert_eq!(values, drawn(&mut alone, ChoiceKind::Task, 1));
        let others = [
            drawn(&mut mixed, ChoiceKind::Host, 1),
            drawn(&mut mixed, ChoiceKind::Host, 2),
            drawn(&mut mixed, ChoiceKind::Pick, 2),
        ];
        assert!(others.iter().all(|other| *other != values) && others[0] != others[1]);
    }

    #[test]
    fn fifo_is_usual_and_random_is_not() {
        let mut fifo = Oracle::new(1, Box::new(Fifo));
        assert_eq!(drawn(&mut fifo, ChoiceKind::Task, 1), [0; 20]);
        assert_eq!((fifo.count(), fifo.made().0.len()), (20, 0));
        let mut random = Oracle::new(1, RANDOM());
        let seen: Vec<u64> =
            (0..200).map(|_| choose(&mut random, ChoiceKind::Task, 1, 4)).collect();
        assert!((0..4).all(|value| seen.contains(&value)), "{seen:?}");
    }

    #[test]
    fn random_cuts_budgets_and_draws_chances_as_often_as_it_says() {
        let mut oracle = Oracle::new(3, RANDOM());
        let cut =
            (0..10_000).filter(|_| choose(&mut oracle, ChoiceKind::Budget, 1, 33) > 0).count();
        assert!((800..1_200).contains(&cut), "{cut} of 10,000");
        let mut chance = |probability| {
            let range = Range::Chance(probability);
            let host = HostId(1);
            let lost = (0..10_000).filter(|_| {
                oracle.choose(ChoiceKind::Loss, host, range, ChoiceContext::default()) > 0
            });
            lost.count()
        };
        assert_eq!((chance(0), chance(1_000_000)), (0, 10_000));
        let lost = chance(50_000);
        assert!((400..600).contains(&lost), "{lost} of 10,000");
    }

    #[test]
    fn a_replay_repeats_the_choices_from_their_text() {
        let mut recorded = Oracle::new(9, RANDOM());
        let run = |oracle: &mut Oracle| {
            let kinds = [(ChoiceKind::Task, 1), (ChoiceKind::Budget, 2), (ChoiceKind::Host, 0)];
            let kinds = kinds.iter().cycle().take(90);
            kinds.map(|&(kind, host)| choose(oracle, kind, host, 5)).collect::<Vec<_>>()
        };
        let values = run(&mut recorded);
        let text = format!("# a comment\n\n{}", recorded.made());
        let choices: Choices = text.parse().unwrap();
        assert_eq!(choices.0.len(), values.iter().filter(|value| **value > 0).count());
        let mut replayed = Oracle::new(1, Box::new(Replay::new(&choices)));
        assert_eq!(run(&mut replayed), values);
        let mut emptied = Oracle::new(9, Box::new(Replay::new(&Choices::default())));
        assert_eq!(run(&mut emptied), [0; 90], "no choices: all are usual");
    }

    #[test]
    fn a_replay_stays_in_a_range_that_became_smaller() {
        let choices: Choices = "task 1 0 9".parse().unwrap();
        let mut oracle = Oracle::new(1, Box::new(Replay::new(&choices)));
        assert_eq!(choose(&mut oracle, ChoiceKind::Task, 1, 3), 2);
    }

    #[test]
    fn a_text_that_is_not_a_choice_is_named() {
        for text in ["task 1 2", "task 1 2 3 4", "tusk 1 2 3", "task one 2 3"] {
            let error = format!("task 1 0 1\n{text}").parse::<Choices>().unwrap_err();
            assert!(error.contains("line 2") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_choice_without_an_alternative_is_not_counted() {
        let mut oracle = Oracle::new(1, RANDOM());
        assert_eq!([choose(&mut oracle, ChoiceKind::Task, 1, 1), oracle.count()], [0, 0]);
    }

    #[test]
    fn a_chosen_candidate_is_recorded_by_its_identity() {
        struct Last;
        impl Strategy for Last {
            fn name(&self) -> String {
                "last".to_owned()
            }
            fn choose(&mut self, choice: &Choice<'_>, _rng: &mut Rng) -> u64 {
                choice.range.len() - 1
            }
        }
        let mut oracle = Oracle::new(1, Box::new(Last));
        let tasks = [11, 12, 13];
        let range = Range::Candidates(3, &|at| tasks[at as usize]);
        let context = ChoiceContext { step: 5, ..ChoiceContext::default() };
        assert_eq!(oracle.choose(ChoiceKind::Task, HostId(1), range, context), 2);
        let made = oracle.made().0[0];
        assert_eq!((made.task, made.step, made.number), (13, 5, 0));
    }
}
