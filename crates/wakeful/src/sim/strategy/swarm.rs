//! Swarm: the seed draws the order, the preemption rate and the faults of its run.
//!
//! Some bugs hide behind a fault that is always on, or appear only if nothing else happens. So a search
//! with many different settings finds more than one with all of them on.

use super::profile::Profile;
use super::{ALWAYS, Delay, FAULTS, InOrder, Kinds, Order, Pct, Search, Uniform, Urw};
use crate::sim::oracle::below;
use crate::sys::rng::Rng;
use std::str::FromStr;
use std::sync::Arc;

/// The probabilities of a cut poll, in millionths. Each run has one of them.
const PREEMPTION: [u32; 4] = [0, 20_000, 100_000, 500_000];

/// A run with fewer picks than this is short. Rare preemptions would leave most short runs unchanged,
/// and there are few places where a priority can change.
const SHORT_RUN: u64 = 200;

/// An order that a search sets for all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderKind {
    Fifo,
    Random,
    Pct(u32),
    Delay(u32),
    Urw,
    /// All runs with at most this number of unusual choices, instead of seeds.
    Dfs(usize),
}

impl FromStr for OrderKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = match text.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').and_then(|it| it.parse().ok())),
            None => (text, None),
        };
        Ok(match (name, number) {
            ("fifo", None) => Self::Fifo,
            ("random", None) => Self::Random,
            ("pct", Some(depth @ 1..)) => Self::Pct(depth),
            ("delay", Some(delays)) => Self::Delay(delays),
            ("urw", None) => Self::Urw,
            ("dfs", Some(bound)) => Self::Dfs(bound as usize),
            _ => {
                return Err(format!(
                    "{text:?} is not a strategy; expected swarm, fifo, random, pct(3), delay(2), urw \
                     or dfs(2)"
                ));
            }
        })
    }
}

/// Returns the strategy of a seed. If `order` is `None`, the seed draws the order.
pub(crate) fn swarm(seed: u64, order: Option<OrderKind>, profile: &Arc<Profile>) -> Search {
    // Different from the generators of the oracle's streams.
    let mut rng = Rng::from_seed(!seed.rotate_left(17));
    let picks = profile.picks();
    // A search without a fixed order has measured a profile.
    let is_short = order.is_none() && picks < SHORT_RUN;
    let few = below(&mut rng, 4) as u32;
    let drawn = match (below(&mut rng, 20), is_short) {
        (0, _) => OrderKind::Fifo,
        (1..7, _) => OrderKind::Random,
        (7..10, true) | (7..14, false) => OrderKind::Pct(2 + few),
        (10..14, true) | (14..17, false) => OrderKind::Delay(1 + few),
        _ => OrderKind::Urw,
    };
    let order: Box<dyn Order> = match order.unwrap_or(drawn) {
        // A depth-first search has no seeds.
        OrderKind::Fifo | OrderKind::Dfs(_) => Box::new(InOrder),
        OrderKind::Random => Box::new(Uniform),
        OrderKind::Pct(depth) => Box::new(Pct::new(depth, picks, &mut rng)),
        OrderKind::Delay(delays) => Box::new(Delay::new(delays, picks, &mut rng)),
        OrderKind::Urw => Box::new(Urw::new(profile.clone())),
    };
    // In half of the long runs and in most short ones, every poll is cut, as in the profile run.
    let preemption = match (below(&mut rng, 8), is_short) {
        (at @ 0..4, false) => PREEMPTION[at as usize],
        (at @ 0..2, true) => PREEMPTION[2 + at as usize],
        _ => ALWAYS,
    };
    let mut enabled = Kinds::ALL;
    for fault in FAULTS {
        if below(&mut rng, 2) == 0 {
            enabled.remove(fault);
        }
    }
    Search::new(order, preemption, enabled)
}
