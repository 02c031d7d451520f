//! [`Network`]: the lock around [`Net`], which also wakes tasks and schedules messages.

use super::connection::Closing;
use super::links::{Blocked, ChaosFaults, LinkRule, Route};
use super::log::LoggedMessage;
use super::state::{Net, NetworkOracle, Outbox, SocketId};
use crate::driver::io_readiness::IoReadiness;
use crate::sim::hash::EventKind;
use crate::sim::oracle::{ChoiceKind, HostId};
use crate::sim::world::{EventTarget, World};
use crate::sys::sync::ignore_poison;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

/// The network of a world.
///
/// - NET-1. Its lock is not held while wakers run. The lock of the world is acquired while this
///   lock is held, never the other way round.
pub(crate) struct Network {
    state: Mutex<NetworkState>,
    arrivals: Arc<dyn EventTarget>,
}

impl Default for Network {
    fn default() -> Self {
        Self { state: Mutex::default(), arrivals: Arc::new(Arrivals) }
    }
}

#[derive(Default)]
struct NetworkState {
    net: Net,
    /// The readiness of the sockets on which tasks may wait.
    sources: BTreeMap<SocketId, Arc<IoReadiness>>,
    log: Vec<LoggedMessage>,
}

/// Makes the choices of the network with the oracle of its world.
struct WorldOracle<'a>(&'a World);

impl NetworkOracle for WorldOracle<'_> {
    fn choose(&mut self, kind: ChoiceKind, host: HostId, len: u64) -> u64 {
        self.0.choose(kind, host, len, None)
    }

    fn chance(&mut self, kind: ChoiceKind, host: HostId, probability: u32) -> bool {
        self.0.chance(kind, host, probability, None)
    }
}

/// Delivers messages when they are due.
struct Arrivals;

impl EventTarget for Arrivals {
    fn fire(self: Arc<Self>, world: &World, number: u64) {
        world.with_net(|net, now_ns, oracle| net.arrive(number, now_ns, oracle));
    }

    fn is_cancelled(&self, world: &World, number: u64) -> bool {
        !world.network.lock().net.is_under_way(number)
    }
}

impl Network {
    /// Keeps a log of all messages from now on.
    pub(crate) fn keep_log(&self) {
        self.lock().net.is_logged = true;
    }

    /// Takes the log of messages.
    pub(crate) fn take_log(&self) -> Vec<LoggedMessage> {
        std::mem::take(&mut self.lock().log)
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        ignore_poison(self.state.lock())
    }
}

impl World {
    /// Calls `f` with the network, the time and the oracle. Then wakes tasks and schedules
    /// messages.
    pub(crate) fn with_net<R>(
        &self,
        f: impl FnOnce(&mut Net, u64, &mut dyn NetworkOracle) -> R,
    ) -> R {
        self.check_sim_thread(HostId::WORLD);
        let mut locked = self.network.lock();
        let state = &mut *locked;
        let result = f(&mut state.net, self.now_ns(), &mut WorldOracle(self));
        let Outbox { ready, sent, delivered, logged } = &mut state.net.out;
        if !(sent.is_empty() && delivered.is_empty()) {
            self.post(sent.drain(..), delivered.drain(..), &self.network.arrivals);
        }
        if !logged.is_empty() {
            let (at_ns, step) = (self.now_ns(), self.steps());
            let at_now = |(fate, route, text)| LoggedMessage { at_ns, step, fate, route, text };
            state.log.extend(logged.drain(..).map(at_now));
        }
        let find = |(id, ready)| Some((state.sources.get(&id)?.clone(), ready));
        let mut ready = ready.drain(..).filter_map(find);
        // Usually there is at most one socket.
        let (first, more) = (ready.next(), ready.collect::<Vec<_>>());
        drop(locked);
        let mut panicked = None;
        for (source, ready) in first.into_iter().chain(more) {
            // Readiness is reported once, so a foreign waker that panics must not keep the other
            // tasks asleep.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| source.add(ready))) {
                source.wake_remaining(ready);
                if let Some(later) = panicked.replace(payload) {
                    std::mem::forget(later);
                }
            }
        }
        if let Some(payload) = panicked {
            resume_unwind(payload);
        }
        result
    }

    /// Attaches `source`, through which tasks wait for the socket.
    pub(super) fn attach_source(&self, id: SocketId, source: &Arc<IoReadiness>) {
        let ready = {
            let mut state = self.network.lock();
            state.sources.insert(id, source.clone());
            state.net.readiness(id)
        };
        source.add(ready);
    }

    /// Closes a socket that no task waits for.
    pub(super) fn close_socket(&self, id: SocketId, how: Closing) {
        let source = self.network.lock().sources.remove(&id);
        drop(source);
        self.with_net(|net, now_ns, oracle| net.close(id, how, now_ns, oracle));
    }

    /// Ends all connections between the first host and others, which are stopped permanently.
    ///
    /// Prepares a later run of the world, whose events were dropped.
    pub(crate) fn disconnect_other_hosts(&self) {
        self.with_net(|net, now_ns, oracle| net.disconnect_other_hosts(now_ns, oracle));
    }

    /// Sets the number of hosts.
    pub(crate) fn set_network_hosts(&self, hosts: u32) {
        self.network.lock().net.hosts = hosts;
    }

    /// Resets the connections of a host that is killed. Its sockets become unusable.
    pub(crate) fn kill_sockets(&self, host: HostId) {
        let dead = self.sources_of(host);
        self.with_net(|net, now_ns, oracle| net.kill_host(host, now_ns, oracle));
        dead.iter().for_each(|source| source.shut_down());
    }

    /// Ends all waits for sockets of a host whose runtime has shut down.
    pub(crate) fn shut_down_sources(&self, host: HostId) {
        self.sources_of(host).iter().for_each(|source| source.shut_down());
    }

    fn sources_of(&self, host: HostId) -> Vec<Arc<IoReadiness>> {
        let state = self.network.lock();
        let of_host = |id: &SocketId| state.net.sockets.get(id).map(|it| it.host) == Some(host);
        state.sources.iter().filter(|(id, _)| of_host(id)).map(|(_, it)| it.clone()).collect()
    }

    /// Changes the rule of a link, or of all links.
    pub(crate) fn change_link(&self, route: Option<Route>, change: impl FnOnce(&mut LinkRule)) {
        if !self.is_stopping() {
            self.with_net(|net, _, _| change(net.links.rule_mut(route)));
        }
    }

    /// Blocks or opens routes.
    pub(crate) fn set_blocked(&self, routes: &[Route], how: Blocked, is_blocked: bool) {
        self.change_routes(|net| {
            for route in routes {
                net.links.set_blocked(*route, how, is_blocked);
            }
        });
    }

    /// Opens all routes.
    pub(crate) fn heal_all(&self) {
        self.forget_chaos_partitions();
        self.change_routes(|net| net.links.open_all());
    }

    /// Changes the faults of chaos. `change` may open or cut routes.
    pub(crate) fn change_chaos_faults(&self, change: impl FnOnce(&mut ChaosFaults)) {
        self.change_routes(|net| change(&mut net.links.chaos));
    }

    /// Opens all routes, and permanently switches off loss, duplication and reordering.
    pub(crate) fn disable_network_faults(&self) {
        self.change_routes(|net| net.links.disable_faults());
    }

    fn change_routes(&self, change: impl FnOnce(&mut Net)) {
        if self.is_stopping() {
            return; // in a destructor of a host that is killed
        }
        let (was_blocked, is_blocked) = self.with_net(|net, now_ns, oracle| {
            let was_blocked = net.links.is_any_blocked();
            change(net);
            net.resume(now_ns, oracle);
            (was_blocked, net.links.is_any_blocked())
        });
        self.record(HostId::WORLD, EventKind::Network, u64::from(is_blocked), None);
        if was_blocked && !is_blocked && !self.is_in_chaos() {
            self.record_healed();
        }
    }

    /// Returns whether a partition or a hold is in effect.
    pub(crate) fn is_network_blocked(&self) -> bool {
        self.network.lock().net.links.is_any_blocked()
    }
}
