//! The links between hosts: latencies, bandwidth and faults.

use super::state::NetworkOracle;
use crate::sim::oracle::{ChoiceKind, HostId};
use std::collections::{BTreeMap, BTreeSet};

/// The number of different latencies that a message can have.
const LATENCY_STEPS: u64 = 32;

/// The time until a lost TCP segment is retransmitted for the first time. It doubles with each
/// loss.
const RETRANSMISSION_NS: u64 = 200_000_000;

/// The number of losses after which a TCP segment always arrives.
const MAX_LOSSES: u32 = 8;

/// The settings of a link. A field that is not set is inherited from the rule for all links.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkRule {
    /// The lowest and the highest latency.
    pub(crate) latency_ns: Option<(u64, u64)>,
    /// Probabilities in millionths.
    pub(crate) loss: Option<u32>,
    pub(crate) duplicate: Option<u32>,
    pub(crate) reorder: Option<u32>,
    /// Bytes per second, or 0 for no limit.
    pub(crate) bandwidth: Option<u64>,
}

/// The latency between two hosts by default.
const DEFAULT_LATENCY_NS: (u64, u64) = (500_000, 2_000_000);

/// A sending host and a receiving host.
pub(crate) type Route = (HostId, HostId);

/// Why messages do not pass on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Messages are lost.
    Partition,
    /// Messages wait until the route is open.
    Hold,
}

/// The faults of chaos, in addition to the rules. They only affect links between different hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChaosFaults {
    /// Probabilities in millionths.
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    pub(crate) reorder: u32,
    /// The routes that are cut.
    pub(crate) partitions: BTreeSet<Route>,
    /// The additional latency of all messages from and to a host.
    pub(crate) late_ns: BTreeMap<HostId, u64>,
}

/// The rules and blocked routes of all links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    all: LinkRule,
    /// By pair of hosts, the lower id first.
    pairs: BTreeMap<Route, LinkRule>,
    partitions: BTreeSet<Route>,
    holds: BTreeSet<Route>,
    /// When the route has sent its queued messages, if it has a bandwidth.
    busy_until_ns: BTreeMap<Route, u64>,
    /// Without effect if no chaos is in progress.
    pub(crate) chaos: ChaosFaults,
    /// All faults are off, because the run is about to end.
    faults_disabled: bool,
}

fn pair((from, to): Route) -> Route {
    (from.min(to), from.max(to))
}

impl Links {
    /// Returns the rule of a pair of hosts, or the rule for all links, for changes.
    pub(crate) fn rule_mut(&mut self, route: Option<Route>) -> &mut LinkRule {
        match route {
            Some(route) => self.pairs.entry(pair(route)).or_default(),
            None => &mut self.all,
        }
    }

    /// Returns whether messages on this route arrive at once because they stay on the host.
    pub(crate) fn is_immediate(&self, route: Route) -> bool {
        route.0 == route.1 && !self.pairs.contains_key(&route) && self.blocked(route).is_none()
    }

    fn get<T>(&self, route: Route, field: impl Fn(&LinkRule) -> Option<T>) -> Option<T> {
        self.pairs.get(&pair(route)).and_then(&field).or_else(|| field(&self.all))
    }

    fn chance(&self, route: Route, kind: ChoiceKind, oracle: &mut dyn NetworkOracle) -> bool {
        let (probability, of_chaos) = match kind {
            ChoiceKind::Loss => (self.get(route, |rule| rule.loss), self.chaos.loss),
            ChoiceKind::Duplicate => (self.get(route, |rule| rule.duplicate), self.chaos.duplicate),
            _ => (self.get(route, |rule| rule.reorder), self.chaos.reorder),
        };
        let of_chaos = if route.0 == route.1 { 0 } else { of_chaos };
        let probability = probability.unwrap_or(0).max(of_chaos);
        let probability = if self.faults_disabled { 0 } else { probability };
        probability > 0 && oracle.chance(kind, route.0, probability)
    }

    /// Blocks or opens a route. Returns whether this changed it.
    pub(crate) fn set_blocked(&mut self, route: Route, how: Blocked, is_blocked: bool) -> bool {
        let routes = match how {
            Blocked::Partition => &mut self.partitions,
            Blocked::Hold => &mut self.holds,
        };
        if is_blocked { routes.insert(route) } else { routes.remove(&route) }
    }

    /// Opens all routes.
    pub(crate) fn open_all(&mut self) {
        self.partitions.clear();
        self.holds.clear();
        self.chaos.partitions.clear();
    }

    /// Permanently switches off all faults.
    pub(crate) fn disable_faults(&mut self) {
        self.open_all();
        self.faults_disabled = true;
    }

    pub(crate) fn blocked(&self, route: Route) -> Option<Blocked> {
        if self.partitions.contains(&route) || self.chaos.partitions.contains(&route) {
            Some(Blocked::Partition)
        } else {
            self.holds.contains(&route).then_some(Blocked::Hold)
        }
    }

    /// Returns whether any route is blocked.
    pub(crate) fn is_any_blocked(&self) -> bool {
        !(self.partitions.is_empty() && self.holds.is_empty() && self.chaos.partitions.is_empty())
    }

    /// Returns the lowest latency of a route.
    pub(crate) fn least_latency_ns(&self, route: Route) -> u64 {
        self.latency_range(route).0
    }

    fn latency_range(&self, route: Route) -> (u64, u64) {
        let default = if route.0 == route.1 { (0, 0) } else { DEFAULT_LATENCY_NS };
        self.get(route, |rule| rule.latency_ns).unwrap_or(default)
    }

    /// Chooses the latency of a message of `len` bytes.
    pub(crate) fn latency(
        &mut self,
        route: Route,
        len: usize,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> u64 {
        let (least, most) = self.latency_range(route);
        let step = if most > least {
            oracle.choose(ChoiceKind::Latency, route.0, LATENCY_STEPS)
        } else {
            0
        };
        let range = u128::from(most.saturating_sub(least));
        let above = (range * u128::from(step) / u128::from(LATENCY_STEPS - 1)) as u64;
        let queueing_ns = self.queueing_ns(route, len, now_ns);
        queueing_ns.saturating_add(least).saturating_add(above).saturating_add(self.spike_ns(route))
    }

    /// Returns the additional latency of a route while chaos makes one of its hosts late.
    fn spike_ns(&self, (from, to): Route) -> u64 {
        let late_ns = |host| self.chaos.late_ns.get(&host).copied().unwrap_or(0);
        if from == to { 0 } else { late_ns(from).max(late_ns(to)) }
    }

    /// Returns the time to send the message after the messages queued on the route.
    fn queueing_ns(&mut self, route: Route, len: usize, now_ns: u64) -> u64 {
        let bandwidth = self.get(route, |rule| rule.bandwidth).unwrap_or(0);
        if bandwidth == 0 {
            return 0;
        }
        let sending_ns = (len as u128 * 1_000_000_000 / u128::from(bandwidth)) as u64;
        let busy_until_ns = self.busy_until_ns.entry(route).or_insert(0);
        *busy_until_ns = (*busy_until_ns).max(now_ns).saturating_add(sending_ns);
        *busy_until_ns - now_ns
    }

    /// Chooses the delay of a TCP segment. Each loss adds the delay of a retransmission.
    pub(crate) fn segment_delay(
        &mut self,
        route: Route,
        len: usize,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> u64 {
        let mut delay = self.latency(route, len, now_ns, oracle);
        let mut losses = 0;
        while losses < MAX_LOSSES && self.chance(route, ChoiceKind::Loss, oracle) {
            delay = delay.saturating_add(RETRANSMISSION_NS << losses);
            losses += 1;
        }
        delay
    }

    /// Chooses the delays of a datagram's copies: none if it is lost, two if it is duplicated.
    ///
    /// It is sent as `fragments` packets, and lost if one of them is.
    pub(crate) fn datagram_delays(
        &mut self,
        route: Route,
        len: usize,
        fragments: usize,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Vec<u64> {
        // Not `any`, because a loss must not change the number of choices.
        let lost = (0..fragments).filter(|_| self.chance(route, ChoiceKind::Loss, oracle)).count();
        if lost > 0 {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.chance(route, ChoiceKind::Duplicate, oracle));
        let mut delays = Vec::with_capacity(copies);
        for _ in 0..copies {
            let mut delay = self.latency(route, len, now_ns, oracle);
            if self.chance(route, ChoiceKind::Reorder, oracle) {
                // Long enough that a datagram sent later can arrive earlier.
                let (_, most) = self.latency_range(route);
                let times = 1 + oracle.choose(ChoiceKind::Latency, route.0, 4);
                delay = delay.saturating_add(most.max(1).saturating_mul(times));
            }
            delays.push(delay);
        }
        delays
    }
}
