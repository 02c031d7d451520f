//! Station 7 for timers: one worker's timers, with the wakers of sleeping tasks.
//!
//! A task comes here from the poll of a `Sleep`. When its deadline is reached, its waker leads to
//! station 8.
//!
//! Actors: the *owner* is the worker, or the thread in `block_on`, that parks until the next timer
//! and then calls [`Timers::fire_due`]. A *sleeper* is the thread that polls or drops the future.
//! It registers, moves or cancels the future's [`TimerEntry`]. The sleeper is usually the owner.
//!
//! - TIMER-1. The wheel, and an entry's links and waker, are accessed only under the lock of the
//!   [`Timers`] that the entry is registered with.
//! - TIMER-2. `when` is an entry's state, readable without the lock: a tick (waiting), FIRED, or
//!   SHUT_DOWN. Only the holder of the lock stores the last two, as its last access to the entry.
//!   From then on the entry belongs to the sleeper alone.
//! - TIMER-3. Moving a deadline to a later tick only stores that tick in `when`. At the old tick,
//!   the wheel sees the new one and links the entry again. So `when` is never before the tick at
//!   which the entry is linked.
//! - TIMER-4. An entry is linked only while its future is pinned. Dropping the future unlinks it.
//!
//! Wakers are foreign code. They are cloned before the lock is taken, and woken and dropped after
//! it is released. (Models: `models/timers.rs`.)

use super::wheel::{Inserted, Linked, Links, Wheel};
use crate::sys::spin_lock::SpinLock;
use crate::sys::sync::UnsafeCell;
use crate::sys::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use crate::task::wait_target::TargetWord;
use std::marker::PhantomPinned;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::Waker;

/// Value of `when`: the timer has fired.
const FIRED: u64 = u64::MAX;
/// Value of `when`: the runtime shut down while the entry waited.
const SHUT_DOWN: u64 = u64::MAX - 1;
/// The latest tick that a timer can have, four million years after the start. Every tick fits into
/// a wait record ([`TargetWord::of_tick`]).
const LAST_TICK: u64 = TargetWord::MAX_NUMBER;
const _: () =
    assert!(LAST_TICK < SHUT_DOWN && SHUT_DOWN < FIRED, "FIRED and SHUT_DOWN are not ticks");
/// The number of different deadlines in one round of the wheel from which the wheel is crowded.
///
/// A round is 256 ticks, or 16 ms. Waking up for each of these deadlines costs more than running
/// the tasks.
const CROWDED: u32 = 64;
/// The wake-up interval of the owner of a crowded wheel: 0.75 ms.
const CROWD_TICKS: u64 = 12;
/// The number of wakers that are taken out in one critical section.
const BATCH: usize = 32;

/// One timer, embedded in the future that waits for it.
pub(crate) struct TimerEntry {
    /// Guarded by the lock (TIMER-1).
    links: Links<TimerEntry>,
    /// Guarded by the lock (TIMER-1).
    waker: UnsafeCell<Option<Waker>>,
    /// The tick that the timer waits for, FIRED or SHUT_DOWN (TIMER-2).
    when: AtomicU64,
    _pinned: PhantomPinned,
}

// SAFETY: links and waker are accessed under a lock (TIMER-1) until the entry belongs to one thread
// (TIMER-2). A waker is Send.
unsafe impl Send for TimerEntry {}
// SAFETY: shared access to links and waker needs the lock (TIMER-1); `when` is atomic.
unsafe impl Sync for TimerEntry {}

// SAFETY: `links` always returns the same field, and does not panic.
unsafe impl Linked for TimerEntry {
    // SAFETY: the trait's contract: `entry` points to a live entry.
    unsafe fn links(entry: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: the entry is alive, so the address of its field is valid and not null.
        unsafe { NonNull::new_unchecked(&raw mut (*entry.as_ptr()).links) }
    }
}

/// The state of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerState {
    Waiting,
    Fired,
    ShutDown,
}

impl TimerEntry {
    pub(crate) fn new() -> Self {
        Self {
            links: Links::new(),
            waker: UnsafeCell::new(None),
            when: AtomicU64::new(0),
            _pinned: PhantomPinned,
        }
    }

    /// Returns the tick that the timer waits for.
    ///
    /// After the timer has fired or was shut down, which another thread may do at any time, returns
    /// a number beyond the last tick.
    pub(crate) fn tick(&self) -> u64 {
        self.when.load(Relaxed)
    }

    /// Returns whether the timer waits, has fired or was shut down.
    pub(crate) fn state(&self) -> TimerState {
        match self.when.load(Acquire) {
            FIRED => TimerState::Fired,
            SHUT_DOWN => TimerState::ShutDown,
            _ => TimerState::Waiting,
        }
    }
}

/// The outcome of registering a timer or moving its deadline.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterOutcome {
    Waiting,
    /// The timer waits, and its deadline is now the earliest. A parked owner must be woken.
    WaitingFirst,
    /// The deadline has passed. The timer is not registered.
    Due,
    ShutDown,
}

/// All timers of one worker.
pub(crate) struct Timers {
    state: SpinLock<State>,
    /// The next tick at which `fire_due` has work, or MAX. Written under the lock, read by any
    /// thread.
    next: AtomicU64,
    /// Whether many deadlines follow each other closely; see `next_wake_up`. Written under the
    /// lock, once per round of the wheel.
    crowded: AtomicBool,
    /// The index of the worker that owns these timers.
    pub(crate) owner: usize,
}

struct State {
    wheel: Wheel<TimerEntry>,
    /// The round of the wheel in which `crowded` was last computed.
    round: u64,
    closed: bool,
}

// SAFETY: the entries in the wheel are Send and Sync, and the lock guards them (TIMER-1).
unsafe impl Send for State {}

impl Timers {
    pub(crate) fn new(owner: usize) -> Self {
        Self {
            state: SpinLock::new(State { wheel: Wheel::new(0), round: 0, closed: false }),
            next: AtomicU64::new(u64::MAX),
            crowded: AtomicBool::new(false),
            owner,
        }
    }

    /// Returns the next tick at which [`fire_due`](Self::fire_due) has work.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        match self.next.load(SeqCst) {
            u64::MAX => None,
            tick => Some(tick),
        }
    }

    /// Returns the tick until which an idle owner may sleep.
    ///
    /// Normally this is [`next`](Self::next). If many deadlines follow each other closely, it is up
    /// to 0.75 ms later, so that one wake-up serves several timers.
    #[inline]
    pub(crate) fn next_wake_up(&self) -> Option<u64> {
        let next = self.next()?;
        let crowded = self.crowded.load(Relaxed);
        let later = if crowded { next.checked_next_multiple_of(CROWD_TICKS) } else { None };
        Some(later.unwrap_or(next))
    }

    /// Returns the exact earliest deadline, for a paused clock that advances to it.
    pub(crate) fn earliest_deadline(&self) -> Option<u64> {
        self.state.with(|state| state.wheel.next_deadline())
    }

    /// Returns the number of waiting timers.
    pub(crate) fn len(&self) -> usize {
        self.state.with(|state| state.wheel.len())
    }

    /// Registers a timer that is not linked.
    pub(crate) fn register(
        &self,
        entry: Pin<&TimerEntry>,
        tick: u64,
        waker: &Waker,
    ) -> RegisterOutcome {
        let tick = tick.min(LAST_TICK);
        // Dropped after the lock is released, if it is not stored in the entry.
        let mut waker = Some(waker.clone());
        let registered = self.state.with(|state| {
            if state.closed {
                entry.when.store(SHUT_DOWN, Release);
                return RegisterOutcome::ShutDown;
            }
            entry.when.store(tick, Relaxed);
            // SAFETY: the entry is not linked, and pinned until its drop, which unlinks it
            // (TIMER-4).
            match unsafe { state.wheel.insert(NonNull::from(entry.get_ref()), tick) } {
                Inserted::Due => {
                    entry.when.store(FIRED, Release);
                    RegisterOutcome::Due
                }
                Inserted::Waiting => {
                    // SAFETY: the lock is held (TIMER-1).
                    entry.waker.with_mut(|slot| unsafe { ptr::swap(slot, &mut waker) });
                    self.publish_next(tick)
                }
            }
        });
        drop(waker);
        registered
    }

    /// Updates `next` after an insertion, under the lock.
    ///
    /// A cancelled timer leaves `next` too early, which costs the owner one spurious wake-up.
    fn publish_next(&self, tick: u64) -> RegisterOutcome {
        if tick < self.next.load(Relaxed) {
            self.next.store(tick, SeqCst);
            return RegisterOutcome::WaitingFirst;
        }
        RegisterOutcome::Waiting
    }

    /// Moves the deadline of a timer that is registered here and waits.
    ///
    /// If the new deadline has passed, wakes the timer's waker.
    pub(crate) fn rearm(&self, entry: Pin<&TimerEntry>, tick: u64) -> RegisterOutcome {
        let tick = tick.min(LAST_TICK);
        let current = entry.when.load(Acquire);
        if current < SHUT_DOWN && tick >= current {
            // TIMER-3. If this fails the timer has just fired, and is linked again below.
            if entry.when.compare_exchange(current, tick, AcqRel, Relaxed).is_ok() {
                return RegisterOutcome::Waiting;
            }
        }
        let mut waker = None;
        let registered = self.state.with(|state| {
            let entry_ptr = NonNull::from(entry.get_ref());
            // SAFETY: the lock is held (TIMER-1). The entry is alive, and linked here or not at all
            // (TIMER-4).
            unsafe { state.wheel.remove(entry_ptr) };
            if state.closed {
                // `close` has not reached this entry yet, and will no longer find it.
                // SAFETY: the lock is held (TIMER-1).
                waker = entry.waker.with_mut(|slot| unsafe { (*slot).take() });
                entry.when.store(SHUT_DOWN, Release);
                return RegisterOutcome::ShutDown;
            }
            entry.when.store(tick, Relaxed);
            // SAFETY: the entry is alive as above, and was just unlinked.
            match unsafe { state.wheel.insert(entry_ptr, tick) } {
                Inserted::Due => {
                    // SAFETY: the lock is held (TIMER-1).
                    waker = entry.waker.with_mut(|slot| unsafe { (*slot).take() });
                    entry.when.store(FIRED, Release);
                    RegisterOutcome::Due
                }
                // If the timer has just fired, its waker was woken. The next poll stores another.
                Inserted::Waiting => self.publish_next(tick),
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        registered
    }

    /// Replaces the waker of a waiting timer, if it would wake another task.
    pub(crate) fn update_waker(&self, entry: Pin<&TimerEntry>, waker: &Waker) {
        let is_current = self.state.with(|_| {
            // SAFETY: the lock is held (TIMER-1).
            entry.waker.with(|slot| unsafe {
                (*slot).as_ref().is_some_and(|stored| stored.will_wake(waker))
            })
        });
        if is_current {
            return;
        }
        let mut waker = Some(waker.clone());
        self.state.with(|_| {
            if entry.state() == TimerState::Waiting {
                // SAFETY: the lock is held (TIMER-1).
                entry.waker.with_mut(|slot| unsafe { ptr::swap(slot, &mut waker) });
            }
        });
        drop(waker);
    }

    /// Unlinks a timer that was registered here, because its future is dropped or reset.
    pub(crate) fn cancel(&self, entry: Pin<&TimerEntry>) {
        if entry.state() != TimerState::Waiting {
            return; // TIMER-2: the entry belongs to the sleeper, and its waker was taken
        }
        let waker = self.state.with(|state| {
            // SAFETY: the lock is held (TIMER-1), and the entry is alive (TIMER-4).
            unsafe { state.wheel.remove(NonNull::from(entry.get_ref())) };
            // SAFETY: the lock is held (TIMER-1).
            entry.waker.with_mut(|slot| unsafe { (*slot).take() })
        });
        drop(waker);
    }

    /// Fires all timers that are due at the tick `now`. Returns their number.
    ///
    /// Normally the owner calls this, but any thread may.
    pub(crate) fn fire_due(&self, now: u64) -> usize {
        if now < self.next.load(SeqCst) {
            return 0;
        }
        self.advance_to(now)
    }

    /// Fires all timers that are due at `now`, and advances the wheel to `now` in any case.
    ///
    /// Used when the program has advanced a clock: timers registered later see the new time even if
    /// no timer was due.
    pub(crate) fn advance_to(&self, now: u64) -> usize {
        let mut fired = 0;
        let mut batch = WakerBatch::new();
        loop {
            self.state.with(|state| {
                while !batch.is_full()
                    && let Some(waker) = state.pop_due(now)
                {
                    batch.push(waker);
                }
                let (round, ticks) = state.wheel.round();
                if mem::replace(&mut state.round, round) != round {
                    self.crowded.store(ticks >= CROWDED, Relaxed);
                }
                self.next.store(state.wheel.next_event().unwrap_or(u64::MAX), SeqCst);
            });
            fired += batch.len;
            let more = batch.is_full();
            batch.wake();
            if !more {
                return fired;
            }
        }
    }

    /// Rejects new timers, and wakes all waiting tasks, which then see [`TimerState::ShutDown`].
    pub(crate) fn close(&self) {
        let is_empty = self.state.with(|state| {
            state.closed = true;
            self.next.store(u64::MAX, SeqCst);
            state.wheel.is_empty()
        });
        if !is_empty {
            self.wake_all();
        }
    }

    /// Wakes all waiting tasks, after `closed` was set.
    #[cold]
    fn wake_all(&self) {
        let mut batch = WakerBatch::new();
        loop {
            self.state.with(|state| {
                while !batch.is_full()
                    && let Some(entry_ptr) = state.wheel.pop_any()
                {
                    // SAFETY: the lock is held (TIMER-1). The entry was linked until now, so it is
                    // alive (TIMER-4).
                    let entry = unsafe { entry_ptr.as_ref() };
                    // SAFETY: the lock is held (TIMER-1).
                    batch.push(entry.waker.with_mut(|slot| unsafe { (*slot).take() }));
                    // TIMER-2: the last access. A swap, because TIMER-3 stores with a
                    // compare_exchange, which either came before or fails.
                    entry.when.swap(SHUT_DOWN, AcqRel);
                }
                // A thread may have fired due timers after `close` stored MAX here.
                self.next.store(u64::MAX, SeqCst);
            });
            let more = batch.is_full();
            batch.wake();
            if !more {
                return;
            }
        }
    }
}

/// Wakers that were taken out under the lock, to be woken after it is released.
struct WakerBatch {
    wakers: [Option<Waker>; BATCH],
    len: usize,
}

impl WakerBatch {
    fn new() -> Self {
        Self { wakers: [const { None }; BATCH], len: 0 }
    }

    fn is_full(&self) -> bool {
        self.len == BATCH
    }

    fn push(&mut self, waker: Option<Waker>) {
        self.wakers[self.len] = waker;
        self.len += 1;
    }

    /// Wakes all wakers, even if some panic. The panic hook has printed each panic.
    fn wake(&mut self) {
        let len = mem::take(&mut self.len);
        let mut wakers = self.wakers[..len].iter_mut().filter_map(Option::take);
        let mut wake = || wakers.by_ref().for_each(Waker::wake);
        while let Err(payload) = panic::catch_unwind(AssertUnwindSafe(&mut wake)) {
            mem::forget(payload); // its drop might panic again
        }
    }
}

impl State {
    /// Unlinks the next timer that is due, and returns its waker.
    fn pop_due(&mut self, now: u64) -> Option<Option<Waker>> {
        loop {
            let entry_ptr = self.wheel.pop_due(now)?;
            // SAFETY: the lock is held (TIMER-1). The entry was linked until now, so it is alive
            // (TIMER-4).
            let entry = unsafe { entry_ptr.as_ref() };
            let when = entry.when.load(Acquire);
            if when > self.wheel.elapsed() {
                self.relink(entry_ptr, when);
                continue;
            }
            // SAFETY: the lock is held (TIMER-1).
            let waker = entry.waker.with_mut(|slot| unsafe { (*slot).take() });
            // TIMER-2: the last access, unless the sleeper has just moved the deadline.
            let Err(later) = entry.when.compare_exchange(when, FIRED, AcqRel, Acquire) else {
                return Some(waker);
            };
            // SAFETY: the lock is held (TIMER-1).
            entry.waker.with_mut(|slot| unsafe { *slot = waker });
            self.relink(entry_ptr, later);
        }
    }

    /// Links a popped timer again whose deadline has moved to a later tick (TIMER-3).
    fn relink(&mut self, entry_ptr: NonNull<TimerEntry>, when: u64) {
        // SAFETY: the entry was popped, so it is not linked. It did not fire, so it is alive
        // (TIMER-4).
        let inserted = unsafe { self.wheel.insert(entry_ptr, when) };
        debug_assert_eq!(inserted, Inserted::Waiting, "TIMER-3: `when` is after the linked tick");
    }
}

#[cfg(all(test, loom))]
#[path = "models/timers.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn crowded_wheel_wakes_up_at_multiples_without_overflow() {
        let timers = Timers::new(0);
        let next_wake_up = |crowded, tick| {
            timers.crowded.store(crowded, Relaxed);
            timers.next.store(tick, SeqCst);
            timers.next_wake_up()
        };
        assert_eq!(next_wake_up(false, 17), Some(17));
        assert_eq!((next_wake_up(true, 24), next_wake_up(true, 25)), (Some(24), Some(36)));
        assert_eq!(next_wake_up(true, u64::MAX - 1), Some(u64::MAX - 1));
        assert_eq!(next_wake_up(true, u64::MAX), None, "no timer waits");
    }

    /// `close` releases the lock between batches, to wake tasks. A timer may move then.
    #[test]
    fn rearm_during_close_unlinks_the_timer() {
        let timers = Timers::new(0);
        let entry = std::pin::pin!(TimerEntry::new());
        let entry = entry.as_ref();
        let waiting = timers.register(entry, 1_000, Waker::noop());
        assert_eq!(waiting, RegisterOutcome::WaitingFirst);
        timers.state.with(|state| state.closed = true);
        assert_eq!(timers.rearm(entry, 500), RegisterOutcome::ShutDown);
        let left = timers.state.with(|state| state.wheel.pop_any());
        assert!(left.is_none(), "its future may be dropped at any time");
    }
}
