//! Station 7 for timers: one worker's timers, and what holds a sleeping task's
//! waker. A task comes here from the poll of a `Sleep`; when its time has come,
//! the waker leads on to station 8.
//!
//! Actors: the *owner* is the worker (or the thread in `block_on`) that parks
//! until the next timer and then calls [`Timers::turn`]; a *sleeper* is the
//! thread that holds the future, and registers, moves or cancels its
//! [`TimerEntry`]; it is usually the owner too, but need not be.
//!
//! Rules:
//! - I1. The wheel, an entry's links and its waker are touched only under the
//!   lock of the [`Timers`] that the entry is registered with.
//! - I2. `when` says where an entry stands, without the lock: a tick (it waits),
//!   FIRED, or SHUT_DOWN. Only the lock's holder stores the last two, as its
//!   last access to the entry: from then on the entry is the sleeper's alone.
//! - I3. A deadline that moves later only stores the new tick in `when`. The
//!   wheel finds out when the old one comes up, and links the entry anew. So
//!   `when` is never before the tick that an entry is linked at.
//! - I4. An entry is linked only while its future is pinned; the future's drop
//!   unlinks it.
//!
//! Wakers are cloned before the lock is taken, and woken and dropped after it:
//! they are foreign code.

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

/// The entry's time has come.
const FIRED: u64 = u64::MAX;
/// The runtime went away while the entry waited.
const SHUT_DOWN: u64 = u64::MAX - 1;
/// The latest tick that can be asked for, four million years after the start. Every tick fits
/// into a wait record ([`TargetWord::of_tick`]).
const LAST_TICK: u64 = TargetWord::MAX_NUMBER;
const _: () = assert!(LAST_TICK < SHUT_DOWN && SHUT_DOWN < FIRED, "they are no ticks");
/// With so many different deadlines in one round of the wheel (256 ticks, 16 ms),
/// waking up for each costs more than the tasks behind them do.
const CROWDED: u32 = 64;
/// The owner of a crowded wheel gets up at multiples of this, every three
/// quarters of a millisecond.
const CROWD_TICKS: u64 = 12;
/// Wakers taken out under one hold of the lock.
const BATCH: usize = 32;

/// One timer; part of the future that waits for it.
pub(crate) struct TimerEntry {
    /// Guarded by I1.
    links: Links<TimerEntry>,
    /// Guarded by I1.
    waker: UnsafeCell<Option<Waker>>,
    /// See I2.
    when: AtomicU64,
    _pinned: PhantomPinned,
}

// SAFETY: I1 and I2 say who touches what when.
unsafe impl Send for TimerEntry {}
// SAFETY: as above.
unsafe impl Sync for TimerEntry {}

// SAFETY: always the same field.
unsafe impl Linked for TimerEntry {
    // SAFETY: the caller's entry is alive.
    unsafe fn links(entry: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: as above; the address of a field of a live entry.
        unsafe { NonNull::new_unchecked(&raw mut (*entry.as_ptr()).links) }
    }
}

/// Where an entry stands.
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

    /// The tick it waits for, while it waits; once it has fired or was shut down, which another
    /// thread may do at any moment, a number beyond the last tick.
    pub(crate) fn tick(&self) -> u64 {
        self.when.load(Relaxed)
    }

    pub(crate) fn state(&self) -> TimerState {
        match self.when.load(Acquire) {
            FIRED => TimerState::Fired,
            SHUT_DOWN => TimerState::ShutDown,
            _ => TimerState::Waiting,
        }
    }
}

/// What came of a registration.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterOutcome {
    Waiting,
    /// As Waiting, and it is the first to come: an owner that is already parked
    /// has to be told.
    WaitingFirst,
    /// The time has come already; nothing was registered.
    Due,
    ShutDown,
}

pub(crate) struct Timers {
    state: SpinLock<State>,
    /// The tick at which the wheel has something to do, MAX for never. Written
    /// under the lock, read by anybody.
    next: AtomicU64,
    /// Many timers come up one after the other; see `next_wake_up`. Written under
    /// the lock, once a round.
    crowded: AtomicBool,
    /// Which worker's these are.
    pub(crate) owner: usize,
}

struct State {
    wheel: Wheel<TimerEntry>,
    /// The wheel's round that `crowded` was set for.
    round: u64,
    closed: bool,
}

// SAFETY: the entries in the wheel are Send and Sync, and I1 guards them.
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

    /// The tick at which `turn` has something to do, if ever.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        match self.next.load(SeqCst) {
            u64::MAX => None,
            tick => Some(tick),
        }
    }

    /// The tick until which an idle owner may sleep, if there is one: the next
    /// that has something to do, or a little later where one follows the other.
    #[inline]
    pub(crate) fn next_wake_up(&self) -> Option<u64> {
        let next = self.next()?;
        let crowded = self.crowded.load(Relaxed);
        let later = if crowded { next.checked_next_multiple_of(CROWD_TICKS) } else { None };
        Some(later.unwrap_or(next))
    }

    /// The earliest deadline, exactly; for a clock that jumps there.
    pub(crate) fn earliest_deadline(&self) -> Option<u64> {
        self.state.with(|state| state.wheel.next_deadline())
    }

    /// How many timers wait here.
    pub(crate) fn len(&self) -> usize {
        self.state.with(|state| state.wheel.len())
    }

    /// Links an entry that is in no wheel.
    pub(crate) fn register(
        &self,
        entry: Pin<&TimerEntry>,
        tick: u64,
        waker: &Waker,
    ) -> RegisterOutcome {
        let tick = tick.min(LAST_TICK);
        // What is in here at the end is dropped after the lock.
        let mut waker = Some(waker.clone());
        let registered = self.state.with(|state| {
            if state.closed {
                entry.when.store(SHUT_DOWN, Release);
                return RegisterOutcome::ShutDown;
            }
            entry.when.store(tick, Relaxed);
            // SAFETY: pinned until its drop, which cancels (I4); not linked.
            match unsafe { state.wheel.insert(NonNull::from(entry.get_ref()), tick) } {
                Inserted::Due => {
                    entry.when.store(FIRED, Release);
                    RegisterOutcome::Due
                }
                Inserted::Waiting => {
                    // SAFETY: I1.
                    entry.waker.with_mut(|slot| unsafe { ptr::swap(slot, &mut waker) });
                    self.publish_next(tick)
                }
            }
        });
        drop(waker);
        registered
    }

    /// After an insertion, under the lock: tells whether the owner has to look
    /// again. A deadline that is cancelled later leaves `next` too early, which
    /// costs the owner one look in vain.
    fn publish_next(&self, tick: u64) -> RegisterOutcome {
        if tick < self.next.load(Relaxed) {
            self.next.store(tick, SeqCst);
            return RegisterOutcome::WaitingFirst;
        }
        RegisterOutcome::Waiting
    }

    /// Moves the deadline of an entry that is registered here and waits. If it
    /// has passed already, whoever waits is woken.
    pub(crate) fn rearm(&self, entry: Pin<&TimerEntry>, tick: u64) -> RegisterOutcome {
        let tick = tick.min(LAST_TICK);
        let current = entry.when.load(Acquire);
        if current < SHUT_DOWN && tick >= current {
            // I3; unless it fires this very moment, then it is linked anew.
            if entry.when.compare_exchange(current, tick, AcqRel, Relaxed).is_ok() {
                return RegisterOutcome::Waiting;
            }
        }
        let mut waker = None;
        let registered = self.state.with(|state| {
            let cell = NonNull::from(entry.get_ref());
            // SAFETY: I1 and I4; linked here or not at all.
            unsafe { state.wheel.remove(cell) };
            if state.closed {
                // Whoever closes is not there yet, and will not find it.
                // SAFETY: I1.
                waker = entry.waker.with_mut(|slot| unsafe { (*slot).take() });
                entry.when.store(SHUT_DOWN, Release);
                return RegisterOutcome::ShutDown;
            }
            entry.when.store(tick, Relaxed);
            // SAFETY: as above, and not linked now.
            match unsafe { state.wheel.insert(cell, tick) } {
                Inserted::Due => {
                    // SAFETY: I1.
                    waker = entry.waker.with_mut(|slot| unsafe { (*slot).take() });
                    entry.when.store(FIRED, Release);
                    RegisterOutcome::Due
                }
                // If it fired a moment ago, its waker was woken: the next poll
                // leaves another.
                Inserted::Waiting => self.publish_next(tick),
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        registered
    }

    /// Keeps the waker of an entry that waits up to date.
    pub(crate) fn update_waker(&self, entry: Pin<&TimerEntry>, waker: &Waker) {
        let is_current = self.state.with(|_| {
            // SAFETY: I1.
            entry
                .waker
                .with(|slot| unsafe { (*slot).as_ref().is_some_and(|own| own.will_wake(waker)) })
        });
        if is_current {
            return;
        }
        let mut waker = Some(waker.clone());
        self.state.with(|_| {
            if entry.state() == TimerState::Waiting {
                // SAFETY: I1.
                entry.waker.with_mut(|slot| unsafe { ptr::swap(slot, &mut waker) });
            }
        });
        drop(waker);
    }

    /// Unlinks an entry that was registered here; its future goes, or starts
    /// over.
    pub(crate) fn cancel(&self, entry: Pin<&TimerEntry>) {
        if entry.state() != TimerState::Waiting {
            return; // I2: ours alone already, and its waker was taken
        }
        let waker = self.state.with(|state| {
            // SAFETY: I1 and I4.
            unsafe { state.wheel.remove(NonNull::from(entry.get_ref())) };
            // SAFETY: I1.
            entry.waker.with_mut(|slot| unsafe { (*slot).take() })
        });
        drop(waker);
    }

    /// Fires what is due at `now`. Any thread may, the owner does.
    pub(crate) fn fire_due(&self, now: u64) -> usize {
        if now < self.next.load(SeqCst) {
            return 0;
        }
        self.advance_to(now)
    }

    /// As `turn`, and what is registered from here on knows that it is `now`,
    /// whether anything was due or not: for a clock that was moved by hand.
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

    /// Lets nothing in any more and wakes whoever waits, to be told.
    pub(crate) fn close(&self) {
        let mut batch = WakerBatch::new();
        loop {
            self.state.with(|state| {
                state.closed = true;
                while !batch.is_full()
                    && let Some(cell) = state.wheel.pop_any()
                {
                    // SAFETY: I1; linked until a moment ago, so alive (I4).
                    let entry = unsafe { cell.as_ref() };
                    // SAFETY: I1.
                    batch.push(entry.waker.with_mut(|slot| unsafe { (*slot).take() }));
                    // I2: the last access. An exchange, as I3's is one: either
                    // that came before, or it fails.
                    entry.when.swap(SHUT_DOWN, AcqRel);
                }
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

/// Wakers on their way out of the lock.
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

    /// If one panics, neither the others are to blame nor whoever turns: it was printed.
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
    /// The waker of the next entry that is due.
    fn pop_due(&mut self, now: u64) -> Option<Option<Waker>> {
        loop {
            let cell = self.wheel.pop_due(now)?;
            // SAFETY: I1; linked until a moment ago, so alive (I4).
            let entry = unsafe { cell.as_ref() };
            let when = entry.when.load(Acquire);
            if when > self.wheel.elapsed() {
                self.relink(cell, when);
                continue;
            }
            // SAFETY: I1.
            let waker = entry.waker.with_mut(|slot| unsafe { (*slot).take() });
            // I2: the last access, unless the deadline moves right now.
            let Err(later) = entry.when.compare_exchange(when, FIRED, AcqRel, Acquire) else {
                return Some(waker);
            };
            // SAFETY: I1.
            entry.waker.with_mut(|slot| unsafe { *slot = waker });
            self.relink(cell, later);
        }
    }

    /// I3: an entry that was popped has moved later.
    fn relink(&mut self, cell: NonNull<TimerEntry>, when: u64) {
        // SAFETY: popped, so not linked, and alive as it did not fire (I4).
        let inserted = unsafe { self.wheel.insert(cell, when) };
        debug_assert_eq!(inserted, Inserted::Waiting, "I3: later than where it was linked");
    }
}

#[cfg(all(test, loom))]
#[path = "models/timers.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_crowd_sleeps_a_little_longer_but_not_beyond_the_end_of_time() {
        let timers = Timers::new(0);
        let next_wake_up = |crowded, tick| {
            timers.crowded.store(crowded, Relaxed);
            timers.next.store(tick, SeqCst);
            timers.next_wake_up()
        };
        assert_eq!(next_wake_up(false, 17), Some(17));
        assert_eq!((next_wake_up(true, 24), next_wake_up(true, 25)), (Some(24), Some(36)));
        assert_eq!(next_wake_up(true, u64::MAX - 1), Some(u64::MAX - 1));
        assert_eq!(next_wake_up(true, u64::MAX), None, "nothing waits");
    }

    /// Whoever closes goes by many timers, some at a time, and wakes those in between.
    #[test]
    fn a_timer_that_moves_while_all_close_is_let_go_of() {
        let timers = Timers::new(0);
        let entry = std::pin::pin!(TimerEntry::new());
        let entry = entry.as_ref();
        let waiting = timers.register(entry, 1_000, Waker::noop());
        assert_eq!(waiting, RegisterOutcome::WaitingFirst);
        timers.state.with(|state| state.closed = true);
        assert_eq!(timers.rearm(entry, 500), RegisterOutcome::ShutDown);
        let left = timers.state.with(|state| state.wheel.pop_any());
        assert!(left.is_none(), "its future may go at any moment");
    }
}
