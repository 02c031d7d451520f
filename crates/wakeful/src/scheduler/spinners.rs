//! Tasks that the monitor finds in a poll again and again: those that are polled very
//! often, and by nobody's wish but their own, spin.

use super::root::Root;
use crate::task::header::{WaitKind, WaitingOn};
use crate::task::heap;
use crate::task::runnable::TaskRef;
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long a task is watched.
const WATCH: Duration = Duration::from_secs(1);
/// How many polls in a second are very many.
const POLLS_PER_SECOND: u32 = 20_000;
/// Of so many polls, one may be for a wake-up by another.
const POLLS_PER_WAKE: u32 = 100;
/// A task whose polls take longer in the mean does something in them.
const WORK: Duration = Duration::from_micros(2);

/// As far as polls are counted before they begin anew.
const COUNTED: u32 = u32::MAX >> 1;

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
    busy: Duration,
    /// It was seen to give way on purpose.
    yields: bool,
}

/// What is seen of a task, or a root, at one look.
pub(super) struct Look {
    number: u64,
    polls: u32,
    /// By others.
    wakes: u32,
    /// How long its polls took, all together; nothing is known of a root.
    busy: Duration,
    yields: bool,
}

/// Who yields, or has spent its budget, means to be polled again.
fn yields(waiting: &WaitingOn) -> bool {
    waiting.read().is_some_and(|wait| wait.kind == WaitKind::Turn)
}

impl Look {
    pub(super) fn at_task(task: &TaskRef) -> Self {
        let header = task.header();
        Self {
            number: header.id.get(),
            polls: header.polls(),
            wakes: header.wakes(),
            busy: heap::spent(task),
            yields: yields(&header.waiting),
        }
    }

    pub(super) fn at_root(root: &Root) -> Self {
        let polls = root.note.poll() / 2;
        Self {
            number: root.note.id,
            polls,
            wakes: polls.wrapping_sub(root.note.self_wakes()),
            busy: Duration::ZERO,
            yields: yields(&root.note.waiting),
        }
    }
}

/// The tasks that are being watched, by number.
pub(super) struct Spinners(BTreeMap<u64, Seen>);

impl Spinners {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// A task that is being polled at this moment, or a root.
    pub(super) fn saw(&mut self, look: &Look, now: Duration) -> Option<Spin> {
        let Look { number, polls, wakes, busy, yields } = *look;
        self.0.retain(|_, seen| now.saturating_sub(seen.last) < WATCH);
        let new = Seen { first: now, last: now, polls, wakes, busy, yields: false };
        let seen = self.0.entry(number).or_insert(new);
        seen.last = now;
        seen.yields |= yields;
        let within = now.saturating_sub(seen.first);
        if within < WATCH {
            return None;
        }
        let since = |count: u32, seen: u32| count.wrapping_sub(seen) & COUNTED;
        let (polls, wakes) = (since(polls, seen.polls), since(wakes, seen.wakes));
        let works = busy.saturating_sub(seen.busy) > WORK * polls;
        let spins = !seen.yields
            && !works
            && u64::from(polls) * 1000 >= u64::from(POLLS_PER_SECOND) * within.as_millis() as u64
            && wakes < polls / POLLS_PER_WAKE;
        self.0.remove(&number);
        spins.then_some(Spin { polls, within })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{COUNTED, Look, Spinners};
    use std::time::Duration;

    /// Seen every 10 ms for a second and more, with so many polls and wake-ups by others in
    /// a second, from these counts on, and polls that take so many nanoseconds.
    fn spins(polls: u32, wakes: u32, first: u32, poll_ns: u64) -> bool {
        let mut spinners = Spinners::new();
        (0..=110).any(|tick| {
            let busy = Duration::from_nanos(poll_ns * u64::from(polls / 100 * tick));
            let (polls, wakes) =
                (first + polls / 100 * tick, first.wrapping_add(wakes / 100 * tick));
            let look = Look { number: 1, polls: polls & COUNTED, wakes, busy, yields: false };
            spinners.saw(&look, Duration::from_millis(10) * tick).is_some()
        })
    }

    #[test]
    fn counts_that_begin_anew_are_no_spinning() {
        for first in [0, COUNTED - 500] {
            assert!(spins(30_000, 0, first, 0), "from {first}");
            let few = [(1_000, 1_000), (30_000, 30_000)];
            assert!(!few.iter().any(|few| spins(few.0, few.1, first, 0)), "from {first}");
        }
    }

    #[test]
    fn who_works_in_every_poll_does_not_spin() {
        assert!(spins(200_000, 0, 0, 1_000));
        assert!(!spins(200_000, 0, 0, 4_000));
    }
}
