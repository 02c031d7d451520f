//! Station 6, the sleep protocol: who searches, who sleeps, whom to wake.
//!
//! A sleeping worker is woken only for work that nobody is already coming for:
//! waking costs microseconds, and a worker that is woken for nothing costs them
//! again to fall asleep.
//!
//! Actors. *Pushers* put a task where other workers can find it (the injector, a
//! ring) and then ask [`Idle::worker_to_wake`]. *Searchers* are workers without
//! work who look at every queue; at most half of all workers search at a time.
//! *Sleepers* have announced themselves and parked.
//!
//! One word holds both counts, so that "nobody searches and somebody sleeps" is
//! one load. The steps that matter are SeqCst, so they have one order:
//!
//! A pusher:
//! - S1. pushes the task;
//! - S2. loads the word;
//! - S3. if nobody searches and somebody sleeps, wakes one.
//!
//! A worker that runs out of work:
//! - S4. announces it (`sleep`): searching - 1, sleeping + 1, in one step;
//! - S5. if it was the last searcher, looks at every queue once more;
//! - S6. parks.
//!
//! The race one fears: the pusher sees a searcher and trusts it, while the
//! searcher has already looked past the queue in question and goes to sleep.
//! - If S4 comes before S2, the pusher sees the new counts and wakes a sleeper.
//! - If S2 comes before S4, then S1 comes before S5, and the searcher that goes
//!   to sleep last sees the task. Only the last one need look: an earlier one
//!   leaves a searcher behind who has its own S4 still ahead.
//!
//! A searcher that finds work calls [`Idle::found_work`]; if it was the last, it
//! takes over the pushers' duty: it asks whether there is more than it took, and
//! wakes one more if so (those who pushed while it searched trusted it).
//!
//! A worker's pushes to its own ring need less: the worker is awake and will
//! come to the task itself, so skipping a wake loses parallelism for a moment,
//! never the task. That is why workers may skip it for short backlogs.
//!
//! A woken worker starts as a searcher, counted by the one who wakes it, so that
//! two pushers do not wake two workers for one task. Others trust that searcher
//! at once; so a worker that has no thread and gets none passes the mark on to
//! the next sleeper (`pass_on`), and only if there is none does it end.

use crate::sys::spin_lock::SpinUnlessModel;
use crate::sys::sync::atomic::{AtomicU32, Ordering::SeqCst};

const SEARCHING_ONE: u32 = 1;
const SLEEPING_ONE: u32 = 1 << 16;
const SEARCHING_MASK: u32 = SLEEPING_ONE - 1;

/// As many workers as the counts have room for.
pub(crate) const MAX_WORKERS: usize = SEARCHING_MASK as usize;

/// Apart by two cache lines from what changes more often: workers read it with
/// every push.
#[repr(align(128))]
pub(crate) struct Idle {
    counts: AtomicU32,
    /// The sleepers; the last to fall asleep is the first to be woken, its
    /// caches are the warmest. There is room for all workers from the start.
    sleepers: SpinUnlessModel<Vec<usize>>,
    workers: u32,
}

/// What a worker owes after it announced its sleep.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeforeParking {
    /// Others still search: just park.
    Park,
    /// The last searcher: look at every queue once more (S5).
    LookAgain,
}

impl Idle {
    /// All workers start asleep: the threads are not even there yet.
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
    fn wants_waking(counts: u32) -> bool {
        counts & SEARCHING_MASK == 0 && counts >= SLEEPING_ONE
    }

    /// A cheap look: is there anybody to wake at all?
    #[inline]
    pub(crate) fn may_wake(&self) -> bool {
        Self::wants_waking(self.counts.load(SeqCst))
    }

    /// S2 and S3: the sleeper to wake for work that was just pushed, if any. It
    /// counts as a searcher from here.
    pub(crate) fn worker_to_wake(&self) -> Option<usize> {
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

    /// A worker without work asks to become a searcher.
    pub(crate) fn start_searching(&self) -> bool {
        let searching = self.counts.load(SeqCst) & SEARCHING_MASK;
        if 2 * searching >= self.workers {
            return false;
        }
        self.counts.fetch_add(SEARCHING_ONE, SeqCst);
        true
    }

    /// A searcher found work. True: it was the last, and owes a look whether
    /// there is more.
    #[must_use]
    pub(crate) fn found_work(&self) -> bool {
        let before = self.counts.fetch_sub(SEARCHING_ONE, SeqCst);
        debug_assert!(before & SEARCHING_MASK > 0, "nobody searched");
        before & SEARCHING_MASK == 1
    }

    /// S4: the worker is about to park.
    pub(crate) fn sleep(&self, worker: usize, searching: bool) -> BeforeParking {
        self.fall_asleep(searching, |sleepers| sleepers.push(worker))
    }

    fn fall_asleep(&self, searching: bool, list: impl FnOnce(&mut Vec<usize>)) -> BeforeParking {
        let change = SLEEPING_ONE - if searching { SEARCHING_ONE } else { 0 };
        let before = self.sleepers.with(|sleepers| {
            list(sleepers);
            self.counts.fetch_add(change, SeqCst)
        });
        // A worker that did not search has not looked either, so it looks now unless
        // somebody searches.
        let others = (before & SEARCHING_MASK) - u32::from(searching);
        if others == 0 { BeforeParking::LookAgain } else { BeforeParking::Park }
    }

    /// The worker found work on its last look, or its parking spot returned
    /// without a token: it takes itself off the list. False: somebody woke it
    /// meanwhile, and it counts as a searcher.
    #[must_use]
    pub(crate) fn cancel_sleep(&self, worker: usize) -> bool {
        self.sleepers.with(|sleepers| {
            // Whoever wakes up by itself is most likely the one who fell asleep last.
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

    /// The worker that was to be woken cannot be: it goes to the end of the list,
    /// and the next sleeper counts as the searcher in its place. `None`: every sleeper
    /// is in `tried`, and no worker searches; decided under the same lock under which others
    /// fall asleep, so no worker trusts a searcher that does not exist.
    #[must_use]
    pub(crate) fn pass_on(&self, worker: usize, tried: &mut Vec<usize>) -> Option<usize> {
        tried.push(worker);
        self.sleepers.with(|sleepers| {
            sleepers.insert(0, worker);
            // Those that were tried are at the front: if the last was, all were.
            sleepers.pop_if(|last| !tried.contains(last)).or_else(|| {
                self.counts.fetch_add(SLEEPING_ONE - SEARCHING_ONE, SeqCst);
                None
            })
        })
    }

    /// A worker that was awake has lost its thread: it goes to the end of the list.
    pub(crate) fn lose(&self, worker: usize, searching: bool) -> BeforeParking {
        self.fall_asleep(searching, |sleepers| sleepers.insert(0, worker))
    }

    /// Whether this worker is still on the list.
    pub(crate) fn is_asleep(&self, worker: usize) -> bool {
        self.sleepers.with(|sleepers| sleepers.contains(&worker))
    }

    pub(crate) fn all_asleep(&self) -> bool {
        self.counts.load(SeqCst) >> 16 == self.workers
    }
}
