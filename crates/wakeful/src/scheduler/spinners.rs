//! Tasks that the monitor finds in a poll again and again: those that are polled very
//! often, and by nobody's wish but their own, spin.

use crate::task::header::WaitKind;
use crate::task::runnable::TaskRef;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// For how long a task is watched.
const WATCH: Duration = Duration::from_secs(1);
/// How many polls in a second are very many.
const POLLS_PER_SECOND: u32 = 20_000;
/// Of so many polls, one may be for a wake-up by another.
const POLLS_PER_WAKE: u32 = 100;

/// A task that spins.
pub(super) struct Spin {
    pub(super) polls: u32,
    pub(super) within: Duration,
}

struct Seen {
    first: Duration,
    last: Duration,
    polls: u32,
    wakes: u32,
    /// It was seen to give way on purpose.
    yields: bool,
}

/// The tasks that are being watched, by id.
pub(super) struct Spinners(BTreeMap<u64, Seen>);

impl Spinners {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The task is being polled at this moment.
    pub(super) fn saw(&mut self, task: &TaskRef, now: Duration) -> Option<Spin> {
        let header = task.header();
        let (polls, wakes) = (header.polls.load(Relaxed), header.wakes.load(Relaxed));
        // Who yields, or has spent its budget, means to be polled again.
        let yields = header.waiting.read().is_some_and(|wait| wait.kind == WaitKind::Turn);
        self.0.retain(|_, seen| now.saturating_sub(seen.last) < WATCH / 2);
        let new = Seen { first: now, last: now, polls, wakes, yields: false };
        let seen = self.0.entry(header.id.get()).or_insert(new);
        seen.last = now;
        seen.yields |= yields;
        let within = now.saturating_sub(seen.first);
        if within < WATCH {
            return None;
        }
        let (polls, wakes) = (polls.wrapping_sub(seen.polls), wakes.wrapping_sub(seen.wakes));
        let spins = !seen.yields
            && u64::from(polls) * 1000 >= u64::from(POLLS_PER_SECOND) * within.as_millis() as u64
            && wakes < polls / POLLS_PER_WAKE;
        self.0.remove(&header.id.get());
        spins.then_some(Spin { polls, within })
    }
}
