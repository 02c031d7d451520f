//! The hosts of a world: adds, starts, stops and pauses them.

use super::{HostId, State, World};
use crate::driver::clock::simulated::HostTime;
use crate::sim::hash::EventKind;
use std::cell::Cell;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A host of a world, as seen by its runtime.
#[derive(Clone)]
pub(crate) struct SimulatedHost {
    pub(crate) world: Arc<World>,
    pub(crate) id: HostId,
    pub(crate) time: Arc<HostTime>,
}

/// One running host, as seen by the world.
///
/// Only the simulation's thread calls these functions. They enter the runtime of the host.
pub(crate) trait HostRunner: Send + Sync {
    /// Returns the number of ready tasks. Index 0 is the oldest one.
    fn ready(&self) -> usize;

    /// Returns the id of the ready task at this index.
    fn task_id(&self, index: usize) -> u64;

    /// Returns the spawn site of the ready task at this index.
    fn task_site(&self, index: usize) -> &'static Location<'static>;

    /// Polls the ready task at this index.
    ///
    /// After `budget` ready operations, the task yields at the next one. `None` is the full budget.
    fn poll(&self, index: usize, budget: Option<u8>);

    /// Returns the world time at which the host's next timer may be due.
    fn next_timer_ns(&self) -> Option<u64>;

    /// Fires the timers that are due, and returns their number.
    fn fire_timers(&self) -> usize;

    /// Drops all tasks.
    fn shut_down(&self);
}

/// The future of a host's program. It stays on the thread of the simulation.
pub(crate) type ProgramFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A host's program and its call site.
#[derive(Clone)]
pub(crate) struct Program {
    /// Called for each start of the host.
    pub(crate) start: Arc<Mutex<dyn FnMut() -> ProgramFuture + Send>>,
    pub(crate) site: &'static Location<'static>,
    /// Whether each start runs the same program. The program of a client runs only once.
    pub(crate) is_restartable: bool,
}

/// The functions of `runtime` that the world needs.
pub(crate) trait WorldHooks: Send + Sync {
    /// Returns the host on which `block_on` runs.
    fn first_host(&self) -> Arc<dyn HostRunner>;

    /// Starts the runtime of a host, with the program as its first task.
    fn start_host(&self, host: SimulatedHost, name: &str, program: &Program)
    -> Arc<dyn HostRunner>;

    /// Returns the reports of deadlocks, or `None`. No task is ready when this is called.
    fn find_deadlock(&self, world: &World) -> Option<String>;

    /// Describes the waits of the tasks of all hosts.
    fn describe_waits(&self, world: &World) -> String;

    /// Explains why nothing can happen any more: returns reports of deadlocks, or a dump of each host.
    fn explain_stuck(&self, world: &World) -> (super::FailureKind, String);
}

pub(super) struct HostEntry {
    pub(super) name: Arc<str>,
    /// `None` while the host is down.
    pub(super) runner: Option<Arc<dyn HostRunner>>,
    /// `None` for the host of `block_on`, which cannot be restarted, and after the end of the run.
    pub(super) program: Option<Program>,
    /// The clock since the last start.
    pub(super) time: Option<Arc<HostTime>>,
    pub(super) drift_ppm: i32,
    is_listed: bool,
    /// Whether the host is in [`State::unchecked`].
    is_unchecked: bool,
    /// The time of its next timer, as in [`State::timers`].
    timer_ns: Option<u64>,
    pub(super) is_paused: bool,
    /// The number of pauses and stops so far, which invalidates earlier resume events.
    pauses: u64,
}

impl HostEntry {
    pub(super) fn new(name: &str, program: Option<Program>) -> Self {
        Self {
            name: name.into(),
            runner: None,
            program,
            time: None,
            drift_ppm: 0,
            is_listed: false,
            is_unchecked: false,
            timer_ns: None,
            is_paused: false,
            pauses: 0,
        }
    }
}

/// The payload of [`EventKind::Host`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum HostEvent {
    Down,
    Up,
    Resumed,
    Paused,
}

/// Returns the name of the host event with this payload.
pub(crate) fn host_event_name(payload: u64) -> &'static str {
    let events = [
        (HostEvent::Down, "down"),
        (HostEvent::Up, "up"),
        (HostEvent::Resumed, "resumed"),
        (HostEvent::Paused, "paused"),
    ];
    events.iter().find(|(event, _)| *event as u64 == payload).map_or("host", |(_, name)| name)
}

impl World {
    /// Adds a host that is down.
    pub(crate) fn add_host(&self, name: &str, program: Option<Program>) -> HostId {
        let mut state = self.lock();
        let id = HostId(state.hosts.len() as u32);
        state.hosts.push(HostEntry::new(name, program));
        drop(state);
        self.set_network_hosts(id.0);
        id
    }

    /// Creates a runtime's view of its host, with a clock that starts now.
    pub(crate) fn simulated_host(&self, id: HostId) -> SimulatedHost {
        let mut state = self.lock();
        let entry = &mut state.hosts[id.index()];
        // The wall clock continues across restarts.
        let ahead_ns = entry.time.as_ref().map_or(0, |time| time.wall_ahead_ns());
        let time = HostTime::new(self.time.clone(), entry.drift_ppm);
        time.step_wall(ahead_ns);
        entry.time = Some(time.clone());
        let world = self.me.upgrade().expect("the caller has a reference");
        SimulatedHost { world, id, time }
    }

    /// Starts a host that is down.
    pub(crate) fn start_host(&self, id: HostId) {
        let (name, program) = {
            let state = self.lock();
            let entry = &state.hosts[id.index()];
            let Some(program) = entry.program.clone().filter(|_| entry.runner.is_none()) else {
                return;
            };
            (entry.name.clone(), program)
        };
        let hooks = self.hooks.get().expect("set before a host is added");
        let runner = hooks.start_host(self.simulated_host(id), &name, &program);
        self.set_runner(id, Some(runner));
    }

    /// Takes a host down: drops its tasks. Must not be called during a poll of a task of the host.
    pub(crate) fn stop_host(&self, id: HostId) {
        let Some(runner) = self.set_runner(id, None) else { return };
        // Before the host's destructors run, which must not send.
        self.kill_sockets(id);
        let outer = {
            let mut state = self.lock();
            let entry = &mut state.hosts[id.index()];
            entry.pauses += 1;
            entry.is_paused = false;
            let stopping = state.stopping.replace(id);
            (std::mem::replace(&mut state.current, id), stopping)
        };
        self.call_program(id, || runner.shut_down());
        drop(runner);
        let mut state = self.lock();
        (state.current, state.stopping) = outer;
    }

    /// Takes down all hosts except the first, and drops their programs.
    pub(crate) fn stop_all(&self) {
        let mut index = HostId::FIRST.index() + 1;
        while index < self.lock().hosts.len() {
            self.stop_host(HostId(index as u32));
            let program = self.lock().hosts[index].program.take();
            self.call_program(HostId(index as u32), || drop(program));
            index += 1;
        }
    }

    /// Starts a host with this runner, or takes it down with `None`. Returns the former runner.
    pub(crate) fn set_runner(
        &self,
        host: HostId,
        runner: Option<Arc<dyn HostRunner>>,
    ) -> Option<Arc<dyn HostRunner>> {
        let event = if runner.is_some() { HostEvent::Up } else { HostEvent::Down };
        let before = {
            let mut state = self.lock();
            let before = std::mem::replace(&mut state.hosts[host.index()].runner, runner);
            state.update_timer(host);
            before
        };
        self.record_host(host, event);
        before
    }

    fn record_host(&self, host: HostId, event: HostEvent) {
        self.record(host, EventKind::Host, event as u64, None);
        self.mark_ready(host);
    }

    /// Returns the name of a host.
    pub(crate) fn host_name(&self, host: HostId) -> Arc<str> {
        self.lock().hosts[host.index()].name.clone()
    }

    /// Returns the host with this name.
    pub(crate) fn host_named(&self, name: &str) -> Option<HostId> {
        let state = self.lock();
        // The hosts of an earlier `block_on` no longer have a program.
        let is_named = |&(index, host): &(usize, &HostEntry)| {
            let is_there = index == HostId::FIRST.index() || host.program.is_some();
            is_there && &*host.name == name
        };
        let (index, _) = state.hosts.iter().enumerate().skip(1).find(is_named)?;
        Some(HostId(index as u32))
    }

    /// Returns whether a host is up.
    pub(crate) fn is_up(&self, host: HostId) -> bool {
        self.lock().hosts[host.index()].runner.is_some()
    }

    /// Pauses or resumes a host. A paused host runs no tasks, and its timers do not fire.
    pub(crate) fn set_paused(&self, host: HostId, is_paused: bool) {
        {
            let mut state = self.lock();
            state.hosts[host.index()].is_paused = is_paused;
            state.update_timer(host);
        }
        self.record_host(host, if is_paused { HostEvent::Paused } else { HostEvent::Resumed });
    }

    /// Pauses a host for `duration`. A later call overrides this one.
    pub(crate) fn pause_for(&self, host: HostId, duration: Duration) {
        let pause = self.pause(host);
        let resume = move |world: &World, pause: u64| world.resume(host, pause);
        self.schedule(duration, host, Arc::new(resume), pause);
    }

    /// Pauses a host, and returns the number of this pause, for [`World::resume`].
    pub(super) fn pause(&self, host: HostId) -> u64 {
        self.set_paused(host, true);
        let pauses = &mut self.lock().hosts[host.index()].pauses;
        *pauses += 1;
        *pauses
    }

    /// Ends the pause with this number, unless a later pause or a stop has ended it.
    pub(super) fn resume(&self, host: HostId, pause: u64) {
        let pauses = self.lock().hosts[host.index()].pauses;
        if pauses == pause {
            self.set_paused(host, false);
        }
    }

    /// Sets the drift of a host's clock, which restarts keep.
    pub(crate) fn set_drift(&self, host: HostId, drift_ppm: i32) {
        let mut state = self.lock();
        let entry = &mut state.hosts[host.index()];
        entry.drift_ppm = drift_ppm;
        if let Some(time) = &entry.time {
            time.set_drift(drift_ppm);
        }
        state.update_timer(host);
    }

    /// Moves the wall clock of a host. The monotonic clock does not change.
    pub(crate) fn step_wall(&self, host: HostId, ns: i64) {
        let mut state = self.lock();
        let entry = &mut state.hosts[host.index()];
        // A host that has not started yet gets a clock now, whose wall time its start inherits.
        let new = || HostTime::new(self.time.clone(), entry.drift_ppm);
        entry.time.get_or_insert_with(new).step_wall(ns);
    }

    /// Returns the host whose task, timer or event runs now, or [`HostId::WORLD`].
    pub(crate) fn current_host(&self) -> HostId {
        self.lock().current
    }

    /// Lists a host as one that may have ready tasks.
    pub(crate) fn mark_ready(&self, host: HostId) {
        self.lock().list(host);
    }

    /// Lists a host after code outside of it woke or spawned one of its tasks.
    ///
    /// That code runs on another host or in an event. A call from a thread outside the simulation fails
    /// the run, since the seed does not decide the time of the wake-up.
    pub(crate) fn mark_ready_from_outside(&self, host: HostId) {
        self.lock_from_sim_thread(host).list(host);
    }

    /// Updates the next timer of a host after code outside of it set an earlier timer, in a poll of
    /// another host.
    pub(crate) fn record_first_timer(&self, host: HostId) {
        self.lock_from_sim_thread(host).update_timer(host);
    }

    /// Fails the run if the calling thread is not the simulation's thread.
    pub(crate) fn check_sim_thread(&self, host: HostId) {
        drop(self.lock_from_sim_thread(host));
    }

    /// Locks the state. Fails the run if the calling thread is not the simulation's thread.
    pub(super) fn lock_from_sim_thread(&self, host: HostId) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.thread.is_some_and(|thread| thread != ThreadMark::current()) {
            state.fail_foreign(host, self.elapsed());
        }
        state
    }
}

thread_local! {
    static MARKED: Cell<u8> = const { Cell::new(0) };
}

/// A mark that is unique among live threads. Cheaper than a thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadMark(usize);

impl ThreadMark {
    pub(super) fn current() -> Self {
        MARKED.with(|marked| Self(std::ptr::from_ref(marked).addr()))
    }
}

impl State {
    /// Lists a host that may be ready, unless it is listed, paused or down.
    pub(super) fn list(&mut self, host: HostId) {
        let entry = &mut self.hosts[host.index()];
        let can_run = !entry.is_paused && entry.runner.is_some();
        if can_run && !std::mem::replace(&mut entry.is_listed, true) {
            self.ready.push_back(host);
        }
        if entry.is_listed && !std::mem::replace(&mut entry.is_unchecked, true) {
            self.unchecked.push(host);
        }
    }

    /// Lists a host that can run and has a ready task, unless it is listed.
    pub(super) fn list_ready(&mut self, host: HostId) {
        let entry = &mut self.hosts[host.index()];
        let can_run = !entry.is_paused && entry.runner.is_some();
        if can_run && !std::mem::replace(&mut entry.is_listed, true) {
            self.ready.push_back(host);
        }
    }

    /// Updates the time of a host's next timer. Called after each change: a poll of the host, its timers,
    /// its clock, its start, end and pauses.
    pub(super) fn update_timer(&mut self, host: HostId) {
        let entry = &mut self.hosts[host.index()];
        let runner = entry.runner.as_ref().filter(|_| !entry.is_paused);
        let next_ns = runner.and_then(|runner| runner.next_timer_ns());
        let before_ns = std::mem::replace(&mut entry.timer_ns, next_ns);
        if before_ns == next_ns {
            return;
        }
        if let Some(at_ns) = before_ns {
            self.timers.remove(&(at_ns, host));
        }
        if let Some(at_ns) = next_ns {
            self.timers.insert((at_ns, host));
        }
    }

    /// Returns the first host from `from` on that has a due timer.
    pub(super) fn next_host_with_due_timer(&self, now_ns: u64, from: HostId) -> Option<HostId> {
        const LAST: HostId = HostId(u32::MAX);
        let is_earlier = |(at_ns, _): &(u64, HostId)| *at_ns < now_ns;
        if self.timers.first().is_some_and(is_earlier) {
            let due = self.timers.range(..=(now_ns, LAST)).map(|(_, host)| *host);
            return due.filter(|host| *host >= from).min();
        }
        self.timers.range((now_ns, from)..=(now_ns, LAST)).map(|(_, host)| *host).next()
    }

    #[cold]
    fn fail_foreign(&mut self, host: HostId, at: Duration) {
        let text =
            "a thread outside of the simulation woke or spawned one of its tasks, used one of its \
             sockets, or made a choice for it. The seed does not decide when that happens, so the \
             run could not be repeated. Use `spawn_blocking`, whose closures run inside the \
             simulation, or let the thread end before the simulation begins."
                .to_owned();
        self.fail(super::FailureKind::ForeignThread, host, at, text);
    }

    /// Removes hosts without a ready task from the list.
    pub(super) fn unlist_idle(&mut self) {
        let hosts = &mut self.hosts;
        let mut is_any_idle = false;
        for host in self.unchecked.drain(..) {
            let entry = &mut hosts[host.index()];
            entry.is_unchecked = false;
            let runner = entry.runner.as_ref().filter(|_| !entry.is_paused);
            let is_ready = runner.is_some_and(|runner| runner.ready() > 0);
            if entry.is_listed && !is_ready {
                entry.is_listed = false;
                is_any_idle = true;
            }
        }
        if is_any_idle {
            self.ready.retain(|host| hosts[host.index()].is_listed);
        }
    }

    /// Removes the host at this index from the list, and returns it.
    pub(super) fn take_listed(&mut self, index: usize) -> Option<(HostId, Arc<dyn HostRunner>)> {
        let host = self.ready.remove(index)?;
        let entry = &mut self.hosts[host.index()];
        entry.is_listed = false;
        Some((host, entry.runner.clone()?))
    }
}
