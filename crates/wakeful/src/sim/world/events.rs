//! The event heap: all timed events of hosts except their timers.

use super::{HostId, State, World};
use crate::sim::hash::EventKind;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;
use std::time::Duration;

/// A timed event, such as the arrival of a message.
pub(crate) trait EventTarget: Send + Sync {
    /// Executes the event. `token` is the number that was passed to [`World::schedule`].
    fn fire(self: Arc<Self>, world: &World, token: u64);

    /// Returns whether firing would have no effect. The world does not advance to a cancelled event.
    fn is_cancelled(&self, _world: &World, _token: u64) -> bool {
        false
    }
}

impl<F: Fn(&World, u64) + Send + Sync> EventTarget for F {
    fn fire(self: Arc<Self>, world: &World, token: u64) {
        (*self)(world, token);
    }
}

/// An entry of the event heap, ordered by time, then by insertion.
pub(super) struct Scheduled {
    pub(super) at_ns: u64,
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
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// An action passed to [`World::defer`].
pub(super) type Deferred = Box<dyn FnOnce(&World) + Send>;

impl State {
    fn push_event(&mut self, at_ns: u64, host: HostId, target: Arc<dyn EventTarget>, token: u64) {
        let number = self.scheduled;
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at_ns, number, host, target, token }));
    }

    /// Takes the first event that is due at `now_ns`, if it was scheduled before number `last`.
    fn pop_due(&mut self, now_ns: u64, last: u64) -> Option<Scheduled> {
        let Reverse(first) = self.events.peek()?;
        let is_due = first.at_ns <= now_ns && first.number < last;
        if is_due { self.events.pop().map(|Reverse(event)| event) } else { None }
    }
}

impl World {
    /// Schedules `target` to fire after this time, on behalf of `host`. `token` is passed to it.
    pub(crate) fn schedule(
        &self,
        after: Duration,
        host: HostId,
        target: Arc<dyn EventTarget>,
        token: u64,
    ) {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let at_ns = self.now_ns().saturating_add(after_ns);
        self.lock_from_sim_thread(host).push_event(at_ns, host, target, token);
    }

    /// Schedules messages, each after a delay and on behalf of a host, and records deliveries.
    pub(crate) fn post(
        &self,
        sent: impl Iterator<Item = (u64, HostId, u64)>,
        delivered: impl Iterator<Item = (HostId, u64)>,
        target: &Arc<dyn EventTarget>,
    ) {
        let now_ns = self.now_ns();
        let mut state = self.lock_from_sim_thread(HostId::WORLD);
        for (after_ns, host, token) in sent {
            state.push_event(now_ns.saturating_add(after_ns), host, target.clone(), token);
        }
        for (host, hash) in delivered {
            state.record(now_ns, host, EventKind::Delivery, hash, None);
        }
    }

    /// Calls `action` after the current poll, event or timer, outside of any task.
    ///
    /// For actions that must not happen in the middle of a poll, such as dropping the futures of the
    /// host that runs. Does nothing while a host is stopped: its destructors have no effect on others.
    pub(crate) fn defer(&self, action: impl FnOnce(&World) + Send + 'static) {
        let mut state = self.lock_from_sim_thread(HostId::WORLD);
        if state.stopping.is_none() {
            state.deferred.push(Box::new(action));
        }
    }

    /// Calls the deferred actions.
    pub(super) fn run_deferred(&self) {
        loop {
            let deferred = std::mem::take(&mut self.lock().deferred);
            if deferred.is_empty() {
                return;
            }
            for action in deferred {
                self.call_program(HostId::WORLD, || action(self));
            }
        }
    }

    /// Drops cancelled events from the front of the heap.
    pub(super) fn drop_cancelled_events(&self) {
        loop {
            let (target, token) = {
                let state = self.lock();
                let Some(Reverse(event)) = state.events.peek() else { return };
                (event.target.clone(), event.token)
            };
            // `is_cancelled` may take a lock that is acquired before that of the world.
            if !target.is_cancelled(self, token) {
                return;
            }
            self.lock().events.pop();
        }
    }

    /// Fires the events that are due and were scheduled before number `last`.
    pub(super) fn fire_events(&self, now_ns: u64, last: u64) {
        let mut state = self.lock();
        while let Some(event) = state.pop_due(now_ns, last) {
            state.current = event.host;
            state.record(now_ns, event.host, EventKind::Event, event.token, None);
            drop(state);
            self.call_program(event.host, || event.target.fire(self, event.token));
            state = self.lock();
            state.current = HostId::WORLD;
            if !state.deferred.is_empty() {
                drop(state);
                self.run_deferred();
                state = self.lock();
            }
        }
    }
}
