//! Chaos: faults that strike hosts and the network at random times, until all is healed.
//!
//! ```text
//! diagram
//!   start_chaos() ──► a level for each kind, 0 is off ──► tick(), 128 times ──► end_chaos()
//!                                                           │
//!                                                           ▼ the oracle chooses: 0 is no strike
//!                                                        strike() ──► undo()
//! ```
//!
//! All choices are made in streams of the world. A stream has one choice for the level of its kind, then
//! one for each tick. The number of a strike says everything about it: moment, target, duration. So
//! shrinking leaves out a strike without changing any other.

use super::chaos_faults::{
    ChaosLimits, DrawnFaults, KINDS, LEVELS, Strike, TICKS, expected, percent, probability,
    probability_per_tick, rounded,
};
use super::{EventTarget, HostId, State, World};
use crate::sim::network::{ChaosFaults, Route};
use crate::sim::oracle::{ChoiceKind, Range};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The chaos in progress.
pub(super) struct Chaos {
    limits: ChaosLimits,
    /// Distinguishes this chaos from the earlier ones of the run.
    generation: u64,
    /// The time between two ticks.
    interval_ns: u64,
    /// The number of ticks so far.
    ticks: u64,
    /// The kinds that strike, with their probabilities per tick in millionths.
    striking: Vec<(ChoiceKind, u32)>,
    /// Strikes that are scheduled or in effect, by an id.
    strikes: BTreeMap<u64, Strike>,
    next_id: u64,
    /// The hosts that a strike has killed, with its id.
    down: BTreeMap<HostId, u64>,
    /// The hosts that a strike has paused, with its id and the number of the pause.
    paused: BTreeMap<HostId, (u64, u64)>,
    /// The routes that each strike cuts.
    partitions: BTreeMap<u64, Vec<Route>>,
    /// The host whose messages are late, and the additional latency, by strike.
    late: BTreeMap<u64, (HostId, u64)>,
    /// The drift of each host's clock before the first strike.
    drift_before: BTreeMap<HostId, i32>,
    /// How far the wall clock of each host was moved.
    stepped_ns: BTreeMap<HostId, i64>,
}

/// An event of the chaos with this generation.
struct ChaosEvent {
    generation: u64,
    call: fn(&World, u64),
}

impl EventTarget for ChaosEvent {
    fn fire(self: Arc<Self>, world: &World, token: u64) {
        if !self.is_cancelled(world, token) {
            (self.call)(world, token);
        }
    }

    fn is_cancelled(&self, world: &World, _token: u64) -> bool {
        let state = world.lock();
        state.chaos.as_ref().is_none_or(|chaos| chaos.generation != self.generation)
    }
}

impl World {
    /// Starts a chaos with these limits, and ends the one in progress. Does nothing while a host is
    /// stopped.
    pub(crate) fn start_chaos(&self, limits: ChaosLimits) {
        if self.is_stopping() {
            return;
        }
        self.end_chaos();
        let (faults, striking, drawn) = self.draw_levels(&limits);
        let until_ns = limits.until_ns();
        let generation = {
            let mut state = self.lock();
            state.chaos_count += 1;
            state.oracle.set_drawn_faults(drawn);
            let generation = state.chaos_count;
            state.chaos = Some(Box::new(Chaos {
                limits,
                generation,
                interval_ns: until_ns / TICKS,
                ticks: 0,
                striking,
                strikes: BTreeMap::new(),
                next_id: 0,
                down: BTreeMap::new(),
                paused: BTreeMap::new(),
                partitions: BTreeMap::new(),
                late: BTreeMap::new(),
                drift_before: BTreeMap::new(),
                stepped_ns: BTreeMap::new(),
            }));
            generation
        };
        self.change_chaos_faults(move |chaos| *chaos = faults);
        self.schedule_chaos(until_ns, generation, |world, _| world.end_chaos(), 0);
        self.schedule_tick(generation);
    }

    /// Draws the level of each kind. Returns the faults of links, the kinds that strike, and the texts.
    fn draw_levels(
        &self,
        limits: &ChaosLimits,
    ) -> (ChaosFaults, Vec<(ChoiceKind, u32)>, DrawnFaults) {
        let mut faults = ChaosFaults::default();
        let (mut striking, mut drawn) = (Vec::new(), DrawnFaults::new());
        for kind in KINDS.into_iter().filter(|kind| limits.includes(*kind)) {
            let (level, number) = self.choose_fault(kind, Range::Below(LEVELS));
            if level == 0 {
                continue;
            }
            let set = |field: &mut u32, most| {
                *field = probability(most, level);
                percent(*field)
            };
            let name = kind.name();
            let (name, text) = match kind {
                ChoiceKind::Loss => {
                    let percent = set(&mut faults.loss, limits.loss);
                    (format!("loss {percent}"), format!("{percent} of the packets are lost"))
                }
                ChoiceKind::Duplicate => {
                    let percent = set(&mut faults.duplicate, limits.duplicate);
                    let text = format!("{percent} of the datagrams arrive twice");
                    (format!("duplicate {percent}"), text)
                }
                ChoiceKind::Reorder => {
                    let percent = set(&mut faults.reorder, limits.reorder);
                    let text = format!("{percent} of the datagrams are overtaken");
                    (format!("reorder {percent}"), text)
                }
                _ => {
                    striking.push((kind, probability_per_tick(level)));
                    let expected = expected(level);
                    let text = format!("the fault {name} is on (~{expected})");
                    (format!("{name} ~{expected}"), text)
                }
            };
            drawn.insert(kind, name);
            self.lock().fault_texts.insert((kind, number), text);
        }
        (faults, striking, drawn)
    }

    /// Makes a choice in a stream of the world. Returns the value, and its number in the stream if it is
    /// above 0.
    fn choose_fault(&self, kind: ChoiceKind, range: Range<'_>) -> (u64, u32) {
        let value = self.choose_in(kind, HostId::WORLD, range, None);
        let number = if value > 0 { self.lock().oracle.last_number() } else { None };
        (value, number.unwrap_or(0))
    }

    fn schedule_chaos(&self, after_ns: u64, generation: u64, call: fn(&World, u64), token: u64) {
        let event = Arc::new(ChaosEvent { generation, call });
        self.schedule(Duration::from_nanos(after_ns), HostId::WORLD, event, token);
    }

    /// Schedules the next tick, unless it was the last or no kind strikes.
    fn schedule_tick(&self, generation: u64) {
        let interval_ns = {
            let mut state = self.lock();
            let Some(chaos) = &mut state.chaos else { return };
            chaos.ticks += 1;
            if chaos.ticks == TICKS || chaos.striking.is_empty() || chaos.interval_ns == 0 {
                return;
            }
            chaos.interval_ns
        };
        self.schedule_chaos(interval_ns, generation, |world, _| world.tick(), 0);
    }

    /// Chooses the strikes of the interval that begins now.
    fn tick(&self) {
        let Some((striking, interval_ns, generation)) = ({
            let state = self.lock();
            let chaos = state.chaos.as_ref();
            chaos.map(|it| (it.striking.clone(), it.interval_ns, it.generation))
        }) else {
            return;
        };
        for (kind, probability) in striking {
            let range = Range::Rare(probability, Strike::VALUES);
            let (value, number) = self.choose_fault(kind, range);
            if value == 0 {
                continue;
            }
            let strike = Strike::new(kind, number, value);
            let Some(id) = self.lock().chaos.as_mut().map(|chaos| chaos.add(strike)) else {
                return;
            };
            let after_ns = strike.after_ns(interval_ns);
            self.schedule_chaos(after_ns, generation, |world, id| world.strike(id), id);
        }
        self.schedule_tick(generation);
    }

    /// Executes the strike with this id, and schedules its end.
    fn strike(&self, id: u64) {
        let (strike, limits, generation) = {
            let state = self.lock();
            let Some(chaos) = &state.chaos else { return };
            let Some(strike) = chaos.strikes.get(&id).copied() else { return };
            (strike, chaos.limits.clone(), chaos.generation)
        };
        let duration_ns = strike.duration_ns(limits.until_ns());
        let (what, has_end) = match strike.kind {
            ChoiceKind::Partition => (self.strike_partition(id, &strike, &limits), true),
            ChoiceKind::LatencySpike => (self.strike_latency(id, &strike, &limits), true),
            ChoiceKind::Kill => (self.strike_kill(id, &strike, &limits), true),
            ChoiceKind::Pause => (self.strike_pause(id, &strike, &limits), true),
            ChoiceKind::ClockStep => (self.strike_clock_step(&strike, &limits), false),
            _ => (self.strike_clock_drift(&strike, &limits), false),
        };
        // Without an effect, the choice keeps its general text.
        let Some(what) = what else { return };
        let (at, time) = (rounded(self.now_ns()), rounded(duration_ns));
        let time = if has_end { format!(" for {time:?}") } else { String::new() };
        let text = format!("at {at:?}, {what}{time}");
        self.lock().fault_texts.insert((strike.kind, strike.number), text);
        if has_end {
            self.schedule_chaos(duration_ns, generation, |world, id| world.undo(id), id);
        }
    }

    fn strike_partition(&self, id: u64, strike: &Strike, limits: &ChaosLimits) -> Option<String> {
        let (text, routes) = {
            let mut state = self.lock();
            let (group, others) = strike.groups(&state.hosts_of_network());
            let names: Vec<&str> =
                group.iter().map(|host| &*state.hosts[host.index()].name).collect();
            let names = names.join(", ");
            let (from, to) = strike.directions();
            let text = match (from, to) {
                (true, true) => format!("{names} cannot reach the other hosts, nor they {names},"),
                (true, false) => format!("{names} cannot reach the other hosts"),
                _ => format!("the other hosts cannot reach {names}"),
            };
            let chaos = state.chaos.as_mut()?;
            if group.is_empty() || chaos.partitions.len() >= limits.partitions {
                return None;
            }
            let mut routes = Vec::new();
            for one in &group {
                for other in &others {
                    routes.extend(from.then_some((*one, *other)));
                    routes.extend(to.then_some((*other, *one)));
                }
            }
            chaos.partitions.insert(id, routes);
            (text, chaos.partitions.values().flatten().copied().collect())
        };
        self.change_chaos_faults(|faults| faults.partitions = routes);
        Some(text)
    }

    fn strike_latency(&self, id: u64, strike: &Strike, limits: &ChaosLimits) -> Option<String> {
        let (name, late_ns, late) = {
            let mut state = self.lock();
            let host = strike.host(&state.hosts_of_network())?;
            let name = state.hosts[host.index()].name.clone();
            let chaos = state.chaos.as_mut()?;
            let late_ns = strike.amount(limits.latency_ns);
            chaos.late.insert(id, (host, late_ns));
            (name, late_ns, chaos.late.values().copied().collect())
        };
        self.change_chaos_faults(|faults| faults.late_ns = late);
        let late = rounded(late_ns);
        Some(format!("the messages from and to {name} take {late:?} longer"))
    }

    fn strike_kill(&self, id: u64, strike: &Strike, limits: &ChaosLimits) -> Option<String> {
        let (host, name) = {
            let mut state = self.lock();
            let (host, name) = state.struck_host(strike, limits)?;
            let chaos = state.chaos.as_mut()?;
            if chaos.down.len() >= limits.kills {
                return None;
            }
            chaos.down.insert(host, id);
            (host, name)
        };
        self.stop_host(host);
        Some(format!("{name} is killed, and stays down"))
    }

    fn strike_pause(&self, id: u64, strike: &Strike, limits: &ChaosLimits) -> Option<String> {
        let (host, name) = {
            let state = self.lock();
            let (host, name) = state.struck_host(strike, limits)?;
            let is_paused = state.hosts[host.index()].is_paused;
            if is_paused || state.chaos.as_ref()?.paused.len() >= limits.pauses {
                return None;
            }
            (host, name)
        };
        let pause = self.pause(host);
        self.lock().chaos.as_mut()?.paused.insert(host, (id, pause));
        Some(format!("{name} is paused"))
    }

    fn strike_clock_step(&self, strike: &Strike, limits: &ChaosLimits) -> Option<String> {
        let ns = strike.signed_amount(limits.clock_step_ns);
        let (host, name) = {
            let mut state = self.lock();
            let (host, name) = state.struck_host(strike, limits)?;
            let stepped = state.chaos.as_mut()?.stepped_ns.entry(host).or_insert(0);
            *stepped = stepped.saturating_add(ns);
            (host, name)
        };
        self.step_wall(host, ns);
        let by = rounded(ns.unsigned_abs());
        let direction = if ns < 0 { "back" } else { "forward" };
        Some(format!("the wall clock of {name} moves {direction} by {by:?}"))
    }

    fn strike_clock_drift(&self, strike: &Strike, limits: &ChaosLimits) -> Option<String> {
        let drift_ppm = strike.signed_amount(limits.drift_ppm.into()) as i32;
        let (host, name) = {
            let mut state = self.lock();
            let (host, name) = state.struck_host(strike, limits)?;
            let before = state.hosts[host.index()].drift_ppm;
            state.chaos.as_mut()?.drift_before.entry(host).or_insert(before);
            (host, name)
        };
        self.set_drift(host, drift_ppm);
        Some(format!("the clocks of {name} drift by {drift_ppm} ppm"))
    }

    /// Ends the effect of the strike with this id.
    fn undo(&self, id: u64) {
        let mut state = self.lock();
        let Some(chaos) = &mut state.chaos else { return };
        let Some(strike) = chaos.strikes.remove(&id) else { return };
        match strike.kind {
            ChoiceKind::Partition => {
                chaos.partitions.remove(&id);
                let routes = chaos.partitions.values().flatten().copied().collect();
                drop(state);
                self.change_chaos_faults(|faults| faults.partitions = routes);
            }
            ChoiceKind::LatencySpike => {
                chaos.late.remove(&id);
                let late = chaos.late.values().copied().collect();
                drop(state);
                self.change_chaos_faults(|faults| faults.late_ns = late);
            }
            ChoiceKind::Kill => {
                let host = chaos.down.iter().find(|(_, by)| **by == id).map(|(host, _)| *host);
                let Some(host) = host else { return };
                chaos.down.remove(&host);
                drop(state);
                self.start_host(host);
            }
            ChoiceKind::Pause => {
                let paused = chaos.paused.iter().find(|(_, (by, _))| *by == id);
                let Some((&host, &(_, pause))) = paused else { return };
                chaos.paused.remove(&host);
                drop(state);
                self.resume(host, pause);
            }
            _ => {}
        }
    }

    /// Ends the chaos in progress, and heals all of its faults.
    pub(crate) fn end_chaos(&self) {
        let Some(chaos) = self.lock().chaos.take() else { return };
        self.change_chaos_faults(|faults| *faults = ChaosFaults::default());
        for (&host, &ns) in &chaos.stepped_ns {
            self.step_wall(host, ns.saturating_neg());
        }
        for (&host, &drift_ppm) in &chaos.drift_before {
            self.set_drift(host, drift_ppm);
        }
        for (&host, &(_, pause)) in &chaos.paused {
            self.resume(host, pause);
        }
        for &host in chaos.down.keys() {
            self.start_host(host);
        }
        if !self.is_network_blocked() {
            self.record_healed();
        }
    }

    /// Drops the chaos at the end of a run. All hosts are down.
    pub(super) fn abandon_chaos(&self) {
        if self.lock().chaos.take().is_some() {
            self.change_chaos_faults(|faults| *faults = ChaosFaults::default());
        }
    }

    /// Returns whether a chaos is in progress.
    pub(crate) fn is_in_chaos(&self) -> bool {
        self.lock().chaos.is_some()
    }

    /// Forgets that a strike has killed this host: the program itself decides whether it is up.
    pub(crate) fn forget_chaos_kill(&self, host: HostId) {
        if let Some(chaos) = &mut self.lock().chaos {
            chaos.down.remove(&host);
        }
    }

    /// Forgets the partitions of strikes, because the program opens all routes.
    pub(crate) fn forget_chaos_partitions(&self) {
        let mut state = self.lock();
        let is_stopping = state.stopping.is_some();
        if let Some(chaos) = state.chaos.as_mut().filter(|_| !is_stopping) {
            chaos.partitions.clear();
        }
    }
}

impl Chaos {
    /// Adds a strike, and returns its id.
    fn add(&mut self, strike: Strike) -> u64 {
        self.next_id += 1;
        self.strikes.insert(self.next_id, strike);
        self.next_id
    }
}

impl State {
    /// Returns the hosts that messages can be sent to.
    fn hosts_of_network(&self) -> Vec<HostId> {
        let is_there =
            |id: &HostId| *id == HostId::FIRST || self.hosts[id.index()].program.is_some();
        (1..self.hosts.len() as u32).map(HostId).filter(is_there).collect()
    }

    /// Returns the host that a strike kills or pauses, or whose clock it changes. Returns `None` if the
    /// host is down, or there is none.
    fn struck_host(&self, strike: &Strike, limits: &ChaosLimits) -> Option<(HostId, Arc<str>)> {
        let may_be_struck = |id: &HostId| {
            let host = &self.hosts[id.index()];
            let is_restartable = host.program.as_ref().is_some_and(|it| it.is_restartable);
            is_restartable && !limits.exempt.iter().any(|name| **name == *host.name)
        };
        let hosts: Vec<HostId> =
            (1..self.hosts.len() as u32).map(HostId).filter(may_be_struck).collect();
        let host = strike.host(&hosts)?;
        let entry = &self.hosts[host.index()];
        entry.runner.is_some().then(|| (host, entry.name.clone()))
    }
}
