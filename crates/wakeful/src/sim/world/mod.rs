//! The world: the hosts of one simulation, their time, and their future events.
//!
//! One thread runs a world. It repeats these steps until the run has ended:
//!
//! 1. [`World::poll_next`]: if a host has a ready task, the oracle chooses host, task and budget, and
//!    the host polls it.
//! 2. [`World::advance`]: otherwise the time moves to the next event or timer of all hosts, and everything due
//!    then fires. That makes tasks ready.
//! 3. Without a ready task, event or timer, the run is *stuck*: nothing can ever happen again.
//!
//! The world knows a host as a [`HostRunner`]. Timers stay in the timer wheel of their host; the world asks
//! each host for its earliest timer. Every other timed event is an entry of the event heap. Entries with equal
//! times fire in the order of their insertion.
//!
//! - `hosts`: starts, stops and pauses hosts. `run`: the steps. `events`: the event heap.
//! - `chaos`: faults that strike at random times. `chaos_faults`: their kinds and effects.
//! - `checks`: conditions of the program. `failure`: why a run failed, and its result.
//!
//! # Locking
//!
//! - SIM-1. The lock of the state is not held while code of the program runs: polls, wakers, events, checks and
//!   deferred actions. So all of these may call the world.

mod chaos;
mod chaos_faults;
mod checks;
mod events;
mod failure;
mod hosts;
mod run;

pub(crate) use chaos_faults::ChaosLimits;
pub(crate) use events::EventTarget;
pub use failure::FailureKind;
pub(crate) use failure::{Failure, RunResult};
pub(crate) use hosts::{
    HostRunner, Program, ProgramFuture, SimulatedHost, WorldHooks, host_event_name,
};
pub(crate) use run::Stepped;

use crate::driver::clock::simulated::WorldTime;
use crate::sim::hash::{Event, EventKind, RunHash};
use crate::sim::network::Network;
use crate::sim::oracle::{ChoiceContext, ChoiceKind, HostId, Oracle, Range, Strategy};
use crate::sys::sync::ignore_poison;
use crate::task::id::IdSource;
use chaos::Chaos;
use checks::Checks;
use events::{Deferred, Scheduled};
use hosts::{HostEntry, ThreadMark};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

/// The highest ready operation at which a poll can be cut.
pub(crate) const MAX_CUT: u64 = 32;

/// The time of the first deadlock scan. Each later scan has twice the time of the scan before, so a long run
/// scans seldom.
const FIRST_SCAN_NS: u64 = 1_000_000_000;

/// The settings of a run.
pub(crate) struct WorldSettings {
    pub(crate) seed: u64,
    pub(crate) strategy: Box<dyn Strategy>,
    /// The window of events that are kept for a comparison with another run.
    pub(crate) window: Option<(u64, usize)>,
    /// The number of polls at one time after which a run fails.
    pub(crate) max_polls_per_instant: u64,
    /// Whether a `Simulation` runs the world. If so, the panic of any task fails the run, and the failure is
    /// returned instead of printed as a panic of `block_on`.
    pub(crate) is_supervised: bool,
    /// In a supervised run, only unobserved panics are failures.
    pub(crate) allows_observed_panics: bool,
    /// A run fails when its time exceeds this limit.
    pub(crate) time_limit: Duration,
}

impl WorldSettings {
    pub(crate) const MAX_POLLS_PER_INSTANT: u64 = 100_000;

    pub(crate) fn new(seed: u64, strategy: Box<dyn Strategy>) -> Self {
        let max_polls_per_instant = Self::MAX_POLLS_PER_INSTANT;
        Self {
            seed,
            strategy,
            window: None,
            max_polls_per_instant,
            is_supervised: false,
            allows_observed_panics: false,
            time_limit: Duration::MAX,
        }
    }
}

struct State {
    oracle: Oracle,
    hash: RunHash,
    /// Indexed by [`HostId`]. The first entry is the world itself, which has no runner.
    hosts: Vec<HostEntry>,
    /// Hosts that may have ready tasks, in the order in which they became ready.
    ready: VecDeque<HostId>,
    /// Listed hosts that may have no ready task, or may be paused or down.
    unchecked: Vec<HostId>,
    /// The time of each host's next timer. Hosts without a timer, or that cannot run, are not listed.
    timers: BTreeSet<(u64, HostId)>,
    events: BinaryHeap<Reverse<Scheduled>>,
    /// The number of events that were scheduled.
    scheduled: u64,
    deferred: Vec<Deferred>,
    checks: Checks,
    /// When the last partition or hold of the network ended, or 0 if there was none.
    healed_at_ns: u64,
    /// `None` unless the program has requested faults that strike at random times, until they end.
    chaos: Option<Box<Chaos>>,
    /// The number of times that the program has requested them.
    chaos_count: u64,
    /// Describes the choices of chaos, by kind and number in its stream.
    fault_texts: BTreeMap<(ChoiceKind, u32), String>,
    /// Each `eventually` whose deadline came while the network was blocked, with its time.
    postponed: Vec<(u64, Duration)>,
    /// The host that runs, or [`HostId::WORLD`].
    current: HostId,
    /// The task that runs, or 0.
    current_task: u64,
    /// The spawn sites of the tasks that a choice was about.
    task_sites: BTreeMap<u64, &'static Location<'static>>,
    /// The thread that runs the world.
    thread: Option<ThreadMark>,
    steps: u64,
    polls: u64,
    polls_at_this_instant: u64,
    max_polls_per_instant: u64,
    time_limit_ns: u64,
    /// The host that is being shut down. Its destructors have no effect on other hosts.
    stopping: Option<HostId>,
    failure: Option<Failure>,
    /// The time of the next deadlock scan.
    next_scan_ns: u64,
}

/// The hosts of one simulation, and their shared state.
pub(crate) struct World {
    me: Weak<World>,
    pub(crate) seed: u64,
    pub(crate) time: Arc<WorldTime>,
    /// The ids of the tasks of all hosts.
    pub(crate) ids: IdSource,
    pub(crate) is_supervised: bool,
    pub(crate) allows_observed_panics: bool,
    /// Set before the first host is added.
    pub(crate) hooks: OnceLock<Arc<dyn WorldHooks>>,
    pub(crate) network: Network,
    state: Mutex<State>,
}

impl World {
    pub(crate) fn new(settings: WorldSettings) -> Arc<Self> {
        let WorldSettings {
            seed,
            strategy,
            window,
            max_polls_per_instant,
            is_supervised,
            allows_observed_panics,
            time_limit,
        } = settings;
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            seed,
            time: WorldTime::new(),
            ids: IdSource::per_runtime(),
            is_supervised,
            allows_observed_panics,
            hooks: OnceLock::new(),
            network: Network::default(),
            state: Mutex::new(State {
                oracle: Oracle::new(seed, strategy),
                hash: RunHash::new(window),
                hosts: vec![HostEntry::new("world", None)],
                ready: VecDeque::new(),
                unchecked: Vec::new(),
                timers: BTreeSet::new(),
                events: BinaryHeap::new(),
                scheduled: 0,
                deferred: Vec::new(),
                checks: Checks::default(),
                healed_at_ns: 0,
                chaos: None,
                chaos_count: 0,
                fault_texts: BTreeMap::new(),
                postponed: Vec::new(),
                current: HostId::WORLD,
                current_task: 0,
                task_sites: BTreeMap::new(),
                thread: None,
                steps: 0,
                polls: 0,
                polls_at_this_instant: 0,
                max_polls_per_instant,
                time_limit_ns: u64::try_from(time_limit.as_nanos()).unwrap_or(u64::MAX),
                stopping: None,
                failure: None,
                next_scan_ns: FIRST_SCAN_NS,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    /// Returns the nanoseconds since the world began.
    pub(crate) fn now_ns(&self) -> u64 {
        self.time.now_ns()
    }

    /// Returns the number of steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Returns the host and the task that run: [`HostId::WORLD`] and 0 if none does.
    pub(crate) fn running(&self) -> (HostId, u64) {
        let state = self.lock();
        (state.current, state.current_task)
    }

    /// Returns whether a host is being shut down.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().stopping.is_some()
    }

    /// Returns the time since the world began.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    /// Returns the result of the run so far.
    pub(crate) fn result(&self) -> RunResult {
        let state = self.lock();
        RunResult {
            seed: self.seed,
            strategy: state.oracle.strategy_name(),
            failure: state.failure.clone(),
            hash: state.hash.clone(),
            choices: state.oracle.made().clone(),
            choice_count: state.oracle.count(),
            polls: state.polls,
            hosts: state.hosts.iter().map(|host| host.name.clone()).collect(),
            task_sites: state.task_sites.clone(),
            fault_texts: state.fault_texts.clone(),
            elapsed: self.elapsed(),
            messages: Vec::new(),
        }
    }

    /// Takes the result of the ended run. The world keeps only its failure.
    pub(crate) fn take_result(&self) -> RunResult {
        let mut state = self.lock();
        RunResult {
            seed: self.seed,
            strategy: state.oracle.strategy_name(),
            failure: state.failure.clone(),
            choice_count: state.oracle.count(),
            choices: state.oracle.take_made(),
            hash: std::mem::replace(&mut state.hash, RunHash::new(None)),
            polls: state.polls,
            hosts: state.hosts.iter().map(|host| host.name.clone()).collect(),
            task_sites: std::mem::take(&mut state.task_sites),
            fault_texts: std::mem::take(&mut state.fault_texts),
            elapsed: self.elapsed(),
            messages: Vec::new(),
        }
    }

    /// Fails the run. Later failures are ignored.
    pub(crate) fn fail(&self, kind: FailureKind, host: HostId, text: String) {
        let at = self.elapsed();
        self.lock().fail(kind, host, at, text);
    }

    /// Returns whether the run has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Returns the failure of the run as a panic prints it, or an empty text.
    pub(crate) fn failure_text(&self) -> String {
        let state = self.lock();
        let Some(Failure { kind, host, host_name, at, text }) = &state.failure else {
            return String::new();
        };
        let strategy = state.oracle.strategy_name();
        let place =
            if *host == HostId::WORLD { String::new() } else { format!(" on host {host_name:?}") };
        format!(
            "the simulation failed{place} after {at:?}, seed {:#x}, {strategy}: {kind}\n  {text}",
            self.seed
        )
    }
}

/// Choices, and the recorded events of the run.
impl World {
    /// Chooses a number below `len`. 0 is the usual choice.
    pub(crate) fn choose(
        &self,
        kind: ChoiceKind,
        host: HostId,
        len: u64,
        site: Option<&'static Location<'static>>,
    ) -> u64 {
        self.choose_in(kind, host, Range::Below(len), site)
    }

    /// Returns true with this probability, in millionths. False is the usual choice.
    pub(crate) fn chance(
        &self,
        kind: ChoiceKind,
        host: HostId,
        probability: u32,
        site: Option<&'static Location<'static>>,
    ) -> bool {
        self.choose_in(kind, host, Range::Chance(probability), site) > 0
    }

    fn choose_in(
        &self,
        kind: ChoiceKind,
        host: HostId,
        range: Range<'_>,
        site: Option<&'static Location<'static>>,
    ) -> u64 {
        let mut state = self.lock_from_sim_thread(host);
        if state.stopping.is_some() {
            return 0; // in a destructor of a host that is killed, whose work has no consequences
        }
        let context = ChoiceContext { step: state.steps, task: state.current_task, site };
        let value = state.oracle.choose(kind, host, range, context);
        let payload = value << 8 | kind as u64;
        state.record(self.now_ns(), host, EventKind::Choice, payload, site);
        value
    }

    /// Adds an event to the hash of the run, such as data that was sent.
    pub(crate) fn record(
        &self,
        host: HostId,
        kind: EventKind,
        payload: u64,
        site: Option<&'static Location<'static>>,
    ) {
        self.lock().record(self.now_ns(), host, kind, payload, site);
    }
}

impl State {
    fn record(
        &mut self,
        at_ns: u64,
        host: HostId,
        kind: EventKind,
        payload: u64,
        site: Option<&'static Location<'static>>,
    ) {
        let (step, task) = (self.steps, self.current_task);
        self.hash.record(Event { step, at_ns, host, task, kind, payload, site });
    }

    fn fail(&mut self, kind: FailureKind, host: HostId, at: Duration, text: String) {
        let host_name = self.hosts[host.index()].name.clone();
        self.failure.get_or_insert(Failure { kind, host, host_name, at, text });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
