//! The world: the hosts of one simulation, their time, and the events that will happen to them.
//!
//! One thread runs a world. It calls [`World::step`] until the run has ended:
//!
//! 1. If a host has a ready task, the oracle chooses host, task and budget, and the host polls it.
//! 2. Otherwise the time moves to the next event or timer of all hosts, and everything that is due
//!    fires. That makes tasks ready.
//! 3. Without any of these, the run is *quiescent*: nothing can ever happen again.
//!
//! The world knows a host as a [`HostRunner`]. Timers stay in the wheel of their host; the world asks
//! for the earliest. Everything else that happens at a time is an entry of the one event heap. Entries
//! with equal times fire in the order of their insertion.
//!
//! # Locking
//!
//! - SIM-1. The lock of the state is not held while code of the program runs: polls, wakers, events,
//!   checks and deferred actions. So all of these may call the world.

use crate::driver::clock::simulated::WorldTime;
use crate::sim::hash::{Event, EventKind, RunHash};
use crate::sim::oracle::{ChoiceContext, ChoiceKind, Choices, HostId, Oracle, Range, Strategy};
use crate::sim::socket::Network;
use crate::sys::sync::ignore_poison;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// A poll that is cut ends at its `k`-th ready operation, where `k` is at most this.
pub(crate) const MAX_CUT: u64 = 32;

/// One host, as the world runs it.
///
/// Only the thread of the simulation calls these functions. They enter the runtime of the host.
pub(crate) trait HostRunner: Send + Sync {
    /// Returns how many tasks are ready, oldest first.
    fn ready(&self) -> usize;

    /// Returns the id of the ready task at this index.
    fn task_id(&self, index: usize) -> u64;

    /// Polls the ready task at this index. It gives way before its next ready operation once it has
    /// completed `budget` of them. `None` is the full budget.
    fn poll(&self, index: usize, budget: Option<u8>);

    /// Returns the time of the world at which the host's next timer may be due.
    fn next_timer_ns(&self) -> Option<u64>;

    /// Fires the timers that are due. Returns how many there were.
    fn fire_timers(&self) -> usize;
}

/// Something that happens at a time: a message arrives, for example.
pub(crate) trait EventTarget: Send + Sync {
    /// Lets it happen. `token` is the number that was given to [`World::schedule`].
    fn fire(self: Arc<Self>, world: &World, token: u64);
}

impl<F: Fn(&World, u64) + Send + Sync> EventTarget for F {
    fn fire(self: Arc<Self>, world: &World, token: u64) {
        (*self)(world, token);
    }
}

/// What the settings of a run decide.
pub(crate) struct WorldSettings {
    pub(crate) seed: u64,
    pub(crate) strategy: Box<dyn Strategy>,
    /// The events that are kept for a comparison with another run.
    pub(crate) window: Option<(u64, usize)>,
    /// A run fails after so many polls without a step of the time.
    pub(crate) max_polls_at_once: u64,
}

impl WorldSettings {
    pub(crate) const MAX_POLLS_AT_ONCE: u64 = 100_000;
}

/// Why a run has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A task panicked, or the future of `block_on`.
    Panic,
    /// A task can never be woken again.
    Orphan,
    /// Tasks wait for each other.
    Deadlock,
    /// There is no ready task, no timer and no event.
    Quiescent,
    /// Too many polls without a step of the time.
    Livelock,
    /// A poll does not return, in real time.
    BlockedPoll,
    /// An `always` check returned false.
    Always,
    /// An `eventually` check was still false at its end.
    Eventually,
    /// A thread outside of the simulation woke a task of it.
    ForeignThread,
}

/// The failure of a run.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) host: HostId,
    /// What happened, in sentences.
    pub(crate) text: String,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) strategy: String,
    pub(crate) failure: Option<Failure>,
    pub(crate) hash: RunHash,
    pub(crate) choices: Choices,
    /// How many choices were made, benign ones included.
    pub(crate) choice_count: u64,
    pub(crate) polls: u64,
    /// The simulated time.
    pub(crate) elapsed: Duration,
}

/// What [`World::step`] did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// A task was polled.
    Polled,
    /// The time moved, and what was due has fired.
    Advanced,
    /// Nothing can ever happen again.
    Quiescent,
    /// The run has failed before.
    Failed,
}

struct HostEntry {
    name: Arc<str>,
    /// `None` while the host is down.
    runner: Option<Arc<dyn HostRunner>>,
    is_listed: bool,
    is_paused: bool,
}

/// An entry of the event heap. The order is that of time, then of insertion.
struct Scheduled {
    at_ns: u64,
    number: u64,
    host: HostId,
    target: Arc<dyn EventTarget>,
    token: u64,
}

impl Scheduled {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

type Deferred = Box<dyn FnOnce() + Send>;

struct State {
    oracle: Oracle,
    hash: RunHash,
    /// By the number of the host. The first is the world itself, which has no runner.
    hosts: Vec<HostEntry>,
    /// Hosts that may have ready tasks, in the order in which they became ready.
    ready: VecDeque<HostId>,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    deferred: Vec<Deferred>,
    /// The host that runs, or the world.
    current: HostId,
    /// The task that runs; 0 for none.
    current_task: u64,
    steps: u64,
    polls: u64,
    polls_at_once: u64,
    max_polls_at_once: u64,
    failure: Option<Failure>,
}

/// The hosts of one simulation, and everything that they share.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) time: Arc<WorldTime>,
    /// Set before the first step, if hosts have sockets.
    pub(crate) network: OnceLock<Arc<dyn Network>>,
    state: Mutex<State>,
}

/// What is due next, and when.
enum Next {
    Nothing,
    /// The hosts whose timers fire are the ones with timers that are due at that time.
    At(u64),
}

impl World {
    pub(crate) fn new(settings: WorldSettings) -> Arc<Self> {
        let WorldSettings { seed, strategy, window, max_polls_at_once } = settings;
        let world =
            HostEntry { name: "world".into(), runner: None, is_listed: false, is_paused: false };
        Arc::new(Self {
            seed,
            time: WorldTime::new(),
            network: OnceLock::new(),
            state: Mutex::new(State {
                oracle: Oracle::new(seed, strategy),
                hash: RunHash::new(window),
                hosts: vec![world],
                ready: VecDeque::new(),
                events: BinaryHeap::new(),
                scheduled: 0,
                deferred: Vec::new(),
                current: HostId::WORLD,
                current_task: 0,
                steps: 0,
                polls: 0,
                polls_at_once: 0,
                max_polls_at_once,
                failure: None,
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

    /// Returns the result of the run so far.
    pub(crate) fn outcome(&self) -> Outcome {
        let state = self.lock();
        Outcome {
            seed: self.seed,
            strategy: state.oracle.strategy_name(),
            failure: state.failure.clone(),
            hash: state.hash.clone(),
            choices: state.oracle.made().clone(),
            choice_count: state.oracle.count(),
            polls: state.polls,
            elapsed: Duration::from_nanos(self.now_ns()),
        }
    }

    /// Fails the run. The first failure stays.
    pub(crate) fn fail(&self, failure: Failure) {
        self.lock().failure.get_or_insert(failure);
    }

    /// Returns whether the run has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().failure.is_some()
    }
}

/// Hosts.
impl World {
    /// Adds a host, which is down until it is given a runner.
    pub(crate) fn add_host(&self, name: &str) -> HostId {
        let mut state = self.lock();
        let id = HostId(state.hosts.len() as u32);
        let name = name.into();
        state.hosts.push(HostEntry { name, runner: None, is_listed: false, is_paused: false });
        id
    }

    /// Brings a host up with this runner, or takes it down with `None`. Returns the former runner.
    pub(crate) fn set_runner(
        &self,
        host: HostId,
        runner: Option<Arc<dyn HostRunner>>,
    ) -> Option<Arc<dyn HostRunner>> {
        let is_up = runner.is_some();
        let before = std::mem::replace(&mut self.lock().hosts[host.index()].runner, runner);
        self.record(host, EventKind::Host, u64::from(is_up), None);
        self.mark_ready(host);
        before
    }

    /// Returns the name of a host.
    pub(crate) fn host_name(&self, host: HostId) -> Arc<str> {
        self.lock().hosts[host.index()].name.clone()
    }

    /// Returns the first host of this name.
    pub(crate) fn host_of_name(&self, name: &str) -> Option<HostId> {
        let state = self.lock();
        let index = state.hosts.iter().skip(1).position(|host| &*host.name == name)?;
        Some(HostId(index as u32 + 1))
    }

    /// Returns whether a host is up.
    pub(crate) fn is_up(&self, host: HostId) -> bool {
        self.lock().hosts[host.index()].runner.is_some()
    }

    /// Stops a host, or lets it run again. A paused host runs no tasks, and its timers do not fire.
    pub(crate) fn set_paused(&self, host: HostId, is_paused: bool) {
        self.lock().hosts[host.index()].is_paused = is_paused;
        self.record(host, EventKind::Host, 2 + u64::from(is_paused), None);
        self.mark_ready(host);
    }

    /// Returns the host whose task, timer or event runs now, or the world.
    pub(crate) fn current_host(&self) -> HostId {
        self.lock().current
    }

    /// Lists a host among those that may have ready tasks.
    ///
    /// The host's scheduler calls it for each task that is queued while the world runs another host.
    pub(crate) fn mark_ready(&self, host: HostId) {
        self.lock().list(host);
    }
}

/// Choices and the record of the run.
impl World {
    /// Chooses a number below `len`. 0 is the benign choice.
    pub(crate) fn choose(
        &self,
        kind: ChoiceKind,
        host: HostId,
        len: u64,
        site: Option<&'static Location<'static>>,
    ) -> u64 {
        self.choose_in(kind, host, Range::Below(len), site)
    }

    /// Chooses whether something happens that has this probability, in millionths. Not to happen is the
    /// benign choice.
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
        let mut state = self.lock();
        let context = ChoiceContext { step: state.steps, task: state.current_task, site };
        let value = state.oracle.choose(kind, host, range, context);
        let payload = value << 8 | kind as u64;
        let now_ns = self.now_ns();
        state.record(now_ns, host, EventKind::Choice, payload, site);
        value
    }

    /// Adds an event to the hash of the run: data that was sent, for example.
    pub(crate) fn record(
        &self,
        host: HostId,
        kind: EventKind,
        payload: u64,
        site: Option<&'static Location<'static>>,
    ) {
        let now_ns = self.now_ns();
        self.lock().record(now_ns, host, kind, payload, site);
    }
}

/// Events.
impl World {
    /// Lets `target` happen in `after`, on behalf of `host`. `token` tells it what.
    pub(crate) fn schedule(
        &self,
        after: Duration,
        host: HostId,
        target: Arc<dyn EventTarget>,
        token: u64,
    ) {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let at_ns = self.now_ns().saturating_add(after_ns);
        let mut state = self.lock();
        let number = state.scheduled;
        state.scheduled += 1;
        state.events.push(Reverse(Scheduled { at_ns, number, host, target, token }));
    }

    /// Calls `action` after the current poll, event or check, outside of any task.
    ///
    /// For what must not happen in the middle of a poll: to drop the futures of the host that runs.
    pub(crate) fn defer(&self, action: impl FnOnce() + Send + 'static) {
        self.lock().deferred.push(Box::new(action));
    }

    /// Calls the deferred actions.
    fn run_deferred(&self) {
        loop {
            let deferred = std::mem::take(&mut self.lock().deferred);
            if deferred.is_empty() {
                return;
            }
            deferred.into_iter().for_each(|action| action());
        }
    }
}

/// Running.
impl World {
    /// Makes one step of the run.
    pub(crate) fn step(&self) -> Stepped {
        let mut state = self.lock();
        if state.failure.is_some() {
            return Stepped::Failed;
        }
        let Some((host, runner)) = state.choose_host(self.now_ns()) else {
            drop(state);
            return self.advance();
        };
        let (index, budget) = state.choose_task(self.now_ns(), host, &*runner);
        drop(state);
        runner.poll(index, budget);
        let mut state = self.lock();
        (state.current, state.current_task) = (HostId::WORLD, 0);
        if runner.ready() > 0 {
            state.list(host);
        }
        let is_calm = state.deferred.is_empty();
        drop(state);
        if !is_calm {
            self.run_deferred();
        }
        Stepped::Polled
    }

    /// Moves the time to the next event or timer, and fires all that are due then.
    fn advance(&self) -> Stepped {
        let at_ns = match self.next_due() {
            Next::Nothing => return Stepped::Quiescent,
            Next::At(at_ns) => at_ns,
        };
        self.time.advance_to(at_ns);
        let now_ns = self.now_ns();
        let last = {
            let mut state = self.lock();
            state.steps += 1;
            state.polls_at_once = 0;
            state.record(now_ns, HostId::WORLD, EventKind::Advance, 0, None);
            state.scheduled
        };
        self.fire_events(now_ns, last);
        self.fire_timers(now_ns);
        Stepped::Advanced
    }

    fn next_due(&self) -> Next {
        let state = self.lock();
        let event = state.events.peek().map(|Reverse(event)| event.at_ns);
        let runners = state.hosts.iter().filter(|host| !host.is_paused);
        let timers = runners.filter_map(|host| host.runner.as_ref()?.next_timer_ns());
        timers.chain(event).min().map_or(Next::Nothing, Next::At)
    }

    /// Fires the events that are due and were scheduled before `last`.
    fn fire_events(&self, now_ns: u64, last: u64) {
        loop {
            let mut state = self.lock();
            let is_due = state
                .events
                .peek()
                .is_some_and(|Reverse(event)| event.at_ns <= now_ns && event.number < last);
            let Some(Reverse(event)) = is_due.then(|| state.events.pop()).flatten() else { return };
            state.current = event.host;
            state.record(now_ns, event.host, EventKind::Event, event.token, None);
            drop(state);
            event.target.fire(self, event.token);
            self.lock().current = HostId::WORLD;
            self.run_deferred();
        }
    }

    /// Fires the timers of all hosts that are due.
    fn fire_timers(&self, now_ns: u64) {
        let len = self.lock().hosts.len();
        for index in 1..len {
            let mut state = self.lock();
            let host = HostId(index as u32);
            let entry = &state.hosts[index];
            let is_due = |runner: &Arc<dyn HostRunner>| {
                !entry.is_paused && runner.next_timer_ns().is_some_and(|at_ns| at_ns <= now_ns)
            };
            let Some(runner) = entry.runner.clone().filter(is_due) else { continue };
            state.current = host;
            drop(state);
            let fired = runner.fire_timers();
            let mut state = self.lock();
            state.current = HostId::WORLD;
            state.record(now_ns, host, EventKind::Timers, fired as u64, None);
            if runner.ready() > 0 {
                state.list(host);
            }
            drop(state);
            self.run_deferred();
        }
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

    /// Lists a host that may be ready, unless it is listed, paused or down.
    fn list(&mut self, host: HostId) {
        let entry = &mut self.hosts[host.index()];
        if !entry.is_paused
            && entry.runner.is_some()
            && !std::mem::replace(&mut entry.is_listed, true)
        {
            self.ready.push_back(host);
        }
    }

    /// Chooses among the hosts with ready tasks. Takes the host from the list.
    fn choose_host(&mut self, now_ns: u64) -> Option<(HostId, Arc<dyn HostRunner>)> {
        let hosts = &mut self.hosts;
        self.ready.retain(|host| {
            let entry = &mut hosts[host.index()];
            let runner = entry.runner.as_ref().filter(|_| !entry.is_paused);
            entry.is_listed = runner.is_some_and(|runner| runner.ready() > 0);
            entry.is_listed
        });
        let ready = &self.ready;
        let id = |index: u64| u64::from(ready[index as usize].0);
        let range = Range::Candidates(ready.len() as u64, &id);
        let context = ChoiceContext { step: self.steps, ..ChoiceContext::default() };
        let index = self.oracle.choose(ChoiceKind::Host, HostId::WORLD, range, context);
        let host = self.ready.remove(index as usize)?;
        if index > 0 {
            self.record(
                now_ns,
                host,
                EventKind::Choice,
                index << 8 | ChoiceKind::Host as u64,
                None,
            );
        }
        let entry = &mut self.hosts[host.index()];
        entry.is_listed = false;
        let runner = entry.runner.clone()?;
        self.current = host;
        Some((host, runner))
    }

    /// Chooses a ready task of the host, and the budget of its poll.
    fn choose_task(
        &mut self,
        now_ns: u64,
        host: HostId,
        runner: &dyn HostRunner,
    ) -> (usize, Option<u8>) {
        self.steps += 1;
        self.polls += 1;
        self.polls_at_once += 1;
        if self.polls_at_once == self.max_polls_at_once {
            let text = format!(
                "{} polls without a step of the time: the tasks wake each other, or themselves, and \
                 none of them waits for a timer or a message",
                self.max_polls_at_once
            );
            self.failure.get_or_insert(Failure { kind: FailureKind::Livelock, host, text });
        }
        let id = |index: u64| runner.task_id(index as usize);
        let range = Range::Candidates(runner.ready() as u64, &id);
        let context = ChoiceContext { step: self.steps, ..ChoiceContext::default() };
        let index = self.oracle.choose(ChoiceKind::Task, host, range, context);
        self.current_task = id(index);
        let context = ChoiceContext { task: self.current_task, ..context };
        let range = Range::Below(1 + MAX_CUT);
        let cut = self.oracle.choose(ChoiceKind::Budget, host, range, context);
        self.record(now_ns, host, EventKind::Poll, cut, None);
        (index as usize, cut.checked_sub(1).map(|budget| budget as u8))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "world_tests.rs"]
mod tests;
