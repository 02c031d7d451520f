//! Station 6: the sleep protocol, which decides which workers search, sleep and are woken.
//!
//! A sleeping worker is woken only for work that no other worker is about to find. A wake-up costs
//! microseconds, and a worker that is woken without need spends even more to fall asleep again.
//!
//! Actors:
//!
//! - *Pushers* put a task where other workers can find it (the injector, a ring) and then call
//!   [`Idle::claim_sleeper`].
//! - *Searchers* are workers without work that check every queue. No worker starts to search while
//!   half of all workers do.
//! - *Sleepers* are on the list of sleepers, and parked or about to park.
//!
//! One word holds the counts of searchers and sleepers, so one load shows whether no worker
//! searches and at least one sleeps. The steps that matter are SeqCst, so they have one order.
//!
//! A pusher:
//! - SLEEP-1. pushes the task;
//! - SLEEP-2. loads the word;
//! - SLEEP-3. if no worker searches and a worker sleeps, wakes one.
//!
//! A worker that runs out of work:
//! - SLEEP-4. announces its sleep: searching - 1, sleeping + 1, in one step;
//! - SLEEP-5. if no other worker searches, checks every queue once more;
//! - SLEEP-6. parks.
//!
//! The race to fear: the pusher sees a searcher and relies on it. But the searcher has already
//! checked that queue and goes to sleep. It cannot happen:
//! - If SLEEP-4 comes before SLEEP-2, the pusher sees the new counts and wakes a sleeper.
//! - If SLEEP-2 comes before SLEEP-4, then SLEEP-1 comes before SLEEP-5, and the last searcher to
//!   go to sleep sees the task. Only the last searcher has to check: when an earlier searcher goes
//!   to sleep, another one remains whose SLEEP-4 is still to come.
//!
//! A searcher that finds work calls [`Idle::found_work`]. If it was the last searcher, it takes
//! over the duty of the pushers that relied on it. It checks for more work, and wakes one more
//! worker if it finds some.
//!
//! Pushes of a worker to its own ring may skip the wake-up for short backlogs. The worker is awake
//! and will reach the task itself, so skipping only loses parallelism for a short time, never the
//! task.
//!
//! A woken worker starts as a searcher, and the waking thread counts it as one, so that two pushers
//! don't wake two workers for one task. Other pushers rely on that searcher at once. If no thread
//! can be started for the worker, the next sleeper becomes the searcher in its place
//! ([`Idle::choose_other`]). (Model: `models/idle.rs`.)

use crate::sys::spin_lock::SpinUnlessModel;
use crate::sys::sync::atomic::{AtomicU32, Ordering::SeqCst};

const SEARCHING_ONE: u32 = 1;
const SLEEPING_ONE: u32 = 1 << 16;
const SEARCHING_MASK: u32 = SLEEPING_ONE - 1;

/// The maximum number of workers that the counts can hold.
pub(crate) const MAX_WORKERS: usize = SEARCHING_MASK as usize;

/// The counts of searching and sleeping workers, and the list of sleepers.
///
/// The alignment keeps the counts two cache lines away from data that changes more often, because
/// workers read them with every push.
#[repr(align(128))]
pub(crate) struct Idle {
    /// The number of searching workers in the low half, of sleeping workers in the high half.
    counts: AtomicU32,
    /// The sleeping workers. The worker at the end is woken first, because it fell asleep last and
    /// its caches are the warmest. A worker whose thread cannot be started is put at the front. The
    /// initial capacity is enough for all workers.
    sleepers: SpinUnlessModel<Vec<usize>>,
    workers: u32,
}

/// The duty of a worker that has announced its sleep.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeforeParking {
    /// Another worker still searches: park.
    Park,
    /// No other worker searches: check every queue once more (SLEEP-5).
    SearchAgain,
}

impl Idle {
    /// Creates the list with all workers asleep: their threads are not started yet.
    pub(crate) fn new(workers: usize) -> Self {
        assert!(workers <= MAX_WORKERS, "at most {MAX_WORKERS} worker threads are possible");
        let count = workers as u32;
        Self {
            counts: AtomicU32::new(count * SLEEPING_ONE),
            sleepers: SpinUnlessModel::new((0..workers).rev().collect()),
            workers: count,
        }
    }

    #[inline]
    fn needs_wake(counts: u32) -> bool {
        counts & SEARCHING_MASK == 0 && counts >= SLEEPING_ONE
    }

    /// Returns whether a push would have to wake a worker, with a single load.
    #[inline]
    pub(crate) fn may_wake(&self) -> bool {
        Self::needs_wake(self.counts.load(SeqCst))
    }

    /// Chooses the sleeper to wake for work that was just pushed, if any (SLEEP-2, SLEEP-3).
    ///
    /// From then on, the sleeper counts as a searcher.
    pub(crate) fn claim_sleeper(&self) -> Option<usize> {
        if !self.may_wake() {
            return None;
        }
        self.sleepers.with(|sleepers| {
            if !self.may_wake() {
                return None;
            }
            let worker = sleepers.pop()?;
            self.counts.fetch_sub(SLEEPING_ONE - SEARCHING_ONE, SeqCst);
            Some(worker)
        })
    }

    /// Makes a worker without work a searcher. Returns false if enough workers search.
    pub(crate) fn start_searching(&self) -> bool {
        let searching = self.counts.load(SeqCst) & SEARCHING_MASK;
        if 2 * searching >= self.workers {
            return false;
        }
        self.counts.fetch_add(SEARCHING_ONE, SeqCst);
        true
    }

    /// Ends a search that found work. Returns true to the last searcher, which must then check for
    /// more work.
    #[must_use]
    pub(crate) fn found_work(&self) -> bool {
        let before = self.counts.fetch_sub(SEARCHING_ONE, SeqCst);
        debug_assert!(before & SEARCHING_MASK > 0, "no worker searched");
        before & SEARCHING_MASK == 1
    }

    /// Announces that the worker is about to park (SLEEP-4).
    pub(crate) fn sleep(&self, worker: usize, searching: bool) -> BeforeParking {
        self.fall_asleep(searching, |sleepers| sleepers.push(worker))
    }

    fn fall_asleep(&self, searching: bool, list: impl FnOnce(&mut Vec<usize>)) -> BeforeParking {
        let change = SLEEPING_ONE - if searching { SEARCHING_ONE } else { 0 };
        let before = self.sleepers.with(|sleepers| {
            list(sleepers);
            self.counts.fetch_add(change, SeqCst)
        });
        // A worker that was not a searcher has not checked the queues, so it must check them now
        // unless another worker searches.
        let others = (before & SEARCHING_MASK) - u32::from(searching);
        if others == 0 { BeforeParking::SearchAgain } else { BeforeParking::Park }
    }

    /// Removes a worker that found work, or was not woken through the list, from the list of
    /// sleepers.
    ///
    /// Returns false if another thread has already chosen the worker, which then counts as a
    /// searcher.
    #[must_use]
    pub(crate) fn cancel_sleep(&self, worker: usize) -> bool {
        self.sleepers.with(|sleepers| {
            // A worker that wakes up by itself is most likely the last one that fell asleep.
            if sleepers.pop_if(|last| *last == worker).is_none() {
                let Some(at) = sleepers.iter().position(|&sleeper| sleeper == worker) else {
                    return false;
                };
                sleepers.remove(at);
            }
            self.counts.fetch_sub(SLEEPING_ONE, SeqCst);
            true
        })
    }

    /// Chooses another sleeper in place of a worker that cannot be woken.
    ///
    /// The worker goes to the front of the list, to be woken last. The next sleeper counts as the
    /// searcher in its place. Returns `None` if every sleeper is in `tried`; then no worker
    /// searches. Workers fall asleep under the same lock, so no worker relies on a searcher that
    /// does not exist.
    #[must_use]
    pub(crate) fn choose_other(&self, worker: usize, tried: &mut Vec<usize>) -> Option<usize> {
        tried.push(worker);
        self.sleepers.with(|sleepers| {
            sleepers.insert(0, worker);
            // The tried workers are at the front. If the worker at the end was tried, all were.
            sleepers.pop_if(|last| !tried.contains(last)).or_else(|| {
                self.counts.fetch_add(SLEEPING_ONE - SEARCHING_ONE, SeqCst);
                None
            })
        })
    }

    /// Puts an awake worker that has lost its thread at the front of the list, to be woken last.
    pub(crate) fn lose(&self, worker: usize, searching: bool) -> BeforeParking {
        self.fall_asleep(searching, |sleepers| sleepers.insert(0, worker))
    }

    /// Returns whether this worker is on the list.
    pub(crate) fn is_asleep(&self, worker: usize) -> bool {
        self.sleepers.with(|sleepers| sleepers.contains(&worker))
    }

    /// Returns whether all workers are on the list.
    pub(crate) fn all_asleep(&self) -> bool {
        self.counts.load(SeqCst) >> 16 == self.workers
    }
}
