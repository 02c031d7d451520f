//! What the two ends of a channel share: a queue of linked blocks that many fill
//! and one empties, and the receiver's waker.
//!
//! Actors: *senders* claim positions and fill them; the *receiver*, of which there
//! is one, empties them in order. Room in a bounded channel is `room`'s part.
//!
//! A message is sent by one exchange of `tail`, which claims a position, and one
//! store, which says that its slot is ready. It is received by one load of that
//! `ready`, and in a bounded channel one store, which says how far the receiver
//! is. Nothing else is written while both sides are busy.
//!
//! Rules:
//! - T1. `tail` changes by exchanges only. Whoever moves its position from `p` to
//!   `p + 1` has claimed slot `p`, and fills it without delay: nothing foreign
//!   runs in between.
//! - T2. `tail_block` points to the block of the position in `tail`, or to the
//!   one before; its lowest bit is the parity of the block's number and tells
//!   which. Only who claimed the last slot of a block moves it on, before it
//!   fills that slot. A sender that finds the block before waits for that.
//! - T3. A sender uses the pointer only if its exchange of `tail` succeeded: then
//!   no position was claimed since it looked, so the pointer is still the right
//!   one, and the block is not reused before its slot is ready (B3).
//! - T4. The waker's place is the receiver's while PARKED is not set and all that
//!   was claimed has been received. Setting PARKED gives it away: to whoever
//!   clears the bit. That is the receiver, who changed its mind; or the sender
//!   that claims the next position, until that slot is ready; or the one that
//!   makes the channel's end, after which the receiver does not park again.
//!
//! The race one fears: the receiver finds nothing and parks, while a sender puts
//! something and finds nobody parked. The receiver parks by an exchange of the
//! very word that it found empty: if a position was claimed since, the exchange
//! fails and it looks again. If it succeeds, the next sender to claim a position
//! sees PARKED in the word it exchanges. So there is no fence, and no other step
//! in a send that wakes nobody.
//!
//! A position that is claimed and not yet ready is a sender in the middle of a
//! few instructions. It did not see PARKED, as it was not set. The receiver must
//! not park then: it looks again for a moment, and then lets others run first.
//!
//! Why T4 holds: the sender that clears PARKED takes the waker out before its slot
//! is ready. Until then the receiver sees a position that is claimed and not
//! ready, so it does not park; after that the place is empty and its own.
#![allow(unsafe_code)]

use super::block::{self, Block, Reader, SLOTS, Spares};
use super::capacity::{Capacity, CapacityRequest};
use super::tail::{CLOSED, GONE, PARKED, Tail};
use crate::sys::IS_MODEL;
use crate::sys::membarrier::Barriers;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, UnsafeCell, thread};
use crate::wait::list::{Grant, Waiters};
use crate::wait::ownership::owner::OwnerCell;
use crate::wait::wake_batch::PanicSink;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};
use std::task::Waker;

/// The longest pause of a sender that was in another's way: a microsecond or less.
const MAX_PAUSES: u32 = 24;

/// No limit.
pub(super) const UNBOUNDED: u64 = u64::MAX;

/// Keeps what one side writes out of the cache lines of the other. Alignment
/// would do the same, and make the allocation slower.
struct Gap {
    _bytes: [u64; 8],
}

impl Gap {
    const fn new() -> Self {
        Self { _bytes: [0; 8] }
    }
}

#[repr(C)]
pub(super) struct Chan<T> {
    // Written by senders.
    tail: AtomicU64,
    /// See T2.
    tail_block: AtomicPtr<Block<T>>,
    /// A position that the receiver is known to have reached; it may be further.
    pub(super) seen_head: AtomicU64,
    /// How often senders were in each other's way lately; see `step_aside`. Not
    /// part of any protocol, so std's also in models.
    losses: std::sync::atomic::AtomicU32,
    /// As many slots can be taken or promised. Never written.
    pub(super) limit: u64,
    _gap_before_receiver: Gap,

    // Written by the receiver.
    /// The position it has reached. Only in a bounded channel, and at the end.
    pub(super) head: AtomicU64,
    /// Whether the receiver has to look for waiting senders; see `room`.
    pub(super) attention: AtomicU32,
    /// Who received last: noted when it waited, and, if the channel is bounded, when it is
    /// another than before.
    pub(super) last_receiver: OwnerCell,
    /// See T4.
    waker: UnsafeCell<Option<Waker>>,
    _gap_after_receiver: Gap,

    pub(super) spares: Spares<T>,
    /// Senders and owned permits.
    senders: AtomicUsize,
    weak_senders: AtomicUsize,
    /// Slots that are promised to permits which somebody has: room that the receiver does
    /// not make. Part of no protocol, so std's also in models.
    pub(super) reserved: std::sync::atomic::AtomicUsize,
    /// Those who wait for room.
    pub(super) room: Waiters<Capacity, CapacityRequest>,
    /// Those who wait for the receiver's end.
    pub(super) closing: Waiters<(), ()>,
    pub(super) barriers: Barriers,
    /// The block the receiver was at when it went away.
    left_at: AtomicPtr<Block<T>>,
}

// SAFETY: values are moved in and out by whoever owns their slot (B1); T4 guards
// the waker; no `&T` is ever shared.
unsafe impl<T: Send> Send for Chan<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Chan<T> {}

impl<T> UnwindSafe for Chan<T> {}
impl<T> RefUnwindSafe for Chan<T> {}

/// A position that the holder is about to fill.
pub(super) struct Claim<T> {
    block: NonNull<Block<T>>,
    position: u64,
    /// The receiver waited.
    receiver: Option<Waker>,
}

/// What came of an attempt to claim a position.
#[must_use]
pub(super) enum Attempt<T> {
    Claimed(Claim<T>),
    /// Another was faster; this is the word now.
    Lost(Tail),
}

/// What came of an attempt to park.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parking {
    /// The next message, or the end, wakes the receiver.
    Parked,
    /// Something happened meanwhile: look again.
    Disturbed,
}

impl<T> Chan<T> {
    /// A channel with one sender, and where its receiver starts.
    pub(super) fn new(limit: u64) -> (Arc<Self>, Reader<T>) {
        let block = Block::make();
        let chan = Self {
            tail: AtomicU64::new(0),
            tail_block: AtomicPtr::new(block.as_ptr()),
            seen_head: AtomicU64::new(0),
            losses: std::sync::atomic::AtomicU32::new(0),
            limit,
            _gap_before_receiver: Gap::new(),
            head: AtomicU64::new(0),
            attention: AtomicU32::new(0),
            last_receiver: OwnerCell::none(),
            waker: UnsafeCell::new(None),
            _gap_after_receiver: Gap::new(),
            spares: Spares::new(),
            senders: AtomicUsize::new(1),
            weak_senders: AtomicUsize::new(0),
            reserved: std::sync::atomic::AtomicUsize::new(0),
            room: Waiters::new(Capacity::new()),
            closing: Waiters::new(()),
            barriers: Barriers::detect(),
            left_at: AtomicPtr::new(ptr::null_mut()),
        };
        if IS_MODEL {
            // Or loom may overlook a SeqCst store that comes later.
            chan.head.store(0, SeqCst);
        }
        // SAFETY: nothing was read, and this is the one reader.
        let reader = unsafe { Reader::new(block, 0) };
        (Arc::new(chan), reader)
    }

    #[inline]
    pub(super) fn word(&self) -> Tail {
        // Acquire: whoever sees a position sees what its claimer saw, `tail_block`
        // above all (T2).
        Tail(self.tail.load(Acquire))
    }

    /// Exchanges the tail's word.
    #[inline]
    pub(super) fn exchange(&self, from: Tail, to: Tail) -> Result<(), Tail> {
        // Release: passes on the waker's place (T4), and what was seen before.
        // Acquire: receives them.
        match self.tail.compare_exchange(from.0, to.0, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(Tail(now)),
        }
    }

    /// Adds to the tail's word what cannot overflow one of its parts, and may
    /// take away. Gives back the word before.
    pub(super) fn add(&self, change: u64) -> Tail {
        Tail(self.tail.fetch_add(change, AcqRel))
    }

    /// Sets bits. Gives back the word before.
    pub(super) fn set(&self, flag: super::tail::Flag) -> Tail {
        Tail(self.tail.fetch_or(flag.0, AcqRel))
    }

    /// Tries to claim the position of `word` by an exchange for `next`, which is
    /// one message further.
    #[inline]
    pub(super) fn attempt(&self, word: Tail, next: Tail) -> Attempt<T> {
        let position = word.position();
        // Acquire: pairs with the Release in `open_block`; the block is empty.
        let tagged = self.tail_block.load(Acquire);
        if tagged.addr() & 1 != parity(position) {
            return Attempt::Lost(self.wait_for_block(position));
        }
        if self.exchange(word, next).is_err() {
            return Attempt::Lost(self.step_aside());
        }
        let block = tagged.map_addr(|addr| addr & !1);
        // SAFETY: T3: a block that `make` made.
        let block = unsafe { NonNull::new_unchecked(block) };
        if block::offset(position) as u64 == SLOTS - 1 {
            self.open_block(block, position);
        }
        let receiver = if word.has(PARKED) { self.take_waker() } else { None };
        Attempt::Claimed(Claim { block, position, receiver })
    }

    /// Another sender was faster. Where that happens often, two cores take the
    /// same cache lines from each other with every message; whoever stays away
    /// for a while lets the other one send many at the price of one. So the pause
    /// grows with each loss, and shrinks with each block that is filled.
    /// Gives back the word after it.
    #[cold]
    fn step_aside(&self) -> Tail {
        let pauses = self.losses.load(Relaxed);
        self.losses.store((pauses + 1).min(MAX_PAUSES), Relaxed);
        for _ in 0..pauses {
            std::hint::spin_loop();
        }
        self.word()
    }

    /// The waker of a receiver that is parked no more.
    fn take_waker(&self) -> Option<Waker> {
        // SAFETY: T4: the caller cleared PARKED.
        let waker = self.waker.with_mut(|place| unsafe { (*place).take() });
        debug_assert!(waker.is_some(), "T4: PARKED says that it is there");
        waker
    }

    /// The last slot of `block` is claimed: appends another.
    #[cold]
    fn open_block(&self, block: NonNull<Block<T>>, position: u64) {
        let losses = self.losses.load(Relaxed);
        if losses > 0 {
            self.losses.store(losses - 1, Relaxed);
        }
        // SAFETY: B5, T1: we claimed the last slot.
        let next = unsafe { self.spares.take() };
        // SAFETY: B4.
        unsafe { Block::link(block, next) };
        let parity = parity(position.wrapping_add(1));
        let tagged = next.as_ptr().map_addr(|addr| addr | parity);
        // Release: who claims a slot of it sees it empty, and the spares as we
        // leave them (B5).
        self.tail_block.store(tagged, Release);
    }

    /// Somebody else is about to append a block. Gives back the word after that.
    #[cold]
    fn wait_for_block(&self, position: u64) -> Tail {
        let mut patience = Patience::new();
        while self.tail_block.load(Acquire).addr() & 1 != parity(position) {
            let now = self.word();
            if now.position() != position {
                return now;
            }
            patience.pause();
        }
        self.word()
    }

    /// Puts a message where it was claimed, and wakes the receiver if it waited.
    #[inline]
    pub(super) fn fill(&self, claim: Claim<T>, value: T) {
        // SAFETY: B1: claimed, and filled once, as the claim is gone.
        unsafe { Block::fill(claim.block, block::offset(claim.position), value) };
        if let Some(waker) = claim.receiver {
            waker.wake();
        }
    }

    /// The receiver saw `word`, in which all that was claimed is received and
    /// which has no PARKED: it waits.
    pub(super) fn park(&self, word: Tail, waker: Waker) -> Parking {
        debug_assert!(!word.has(PARKED) && !word.has_ended());
        // SAFETY: T4: ours, by contract.
        let left = self.waker.with_mut(|place| unsafe { (*place).replace(waker) });
        debug_assert!(left.is_none(), "T4: no waker is left behind");
        if self.exchange(word, word.with(PARKED)).is_ok() {
            return Parking::Parked;
        }
        // SAFETY: T4: PARKED was not set, so it is still ours.
        drop(self.waker.with_mut(|place| unsafe { (*place).take() }));
        Parking::Disturbed
    }

    /// The receiver does not wait any more, if it did.
    pub(super) fn unpark(&self) {
        drop(self.take_parked(|_| true));
    }

    /// Wakes the receiver if it waits for an end that has come.
    pub(super) fn call_at_end(&self) {
        if let Some(waker) = self.take_parked(Tail::has_ended) {
            waker.wake();
        }
    }

    /// Clears PARKED while it is set and `condition` holds.
    fn take_parked(&self, condition: impl Fn(Tail) -> bool) -> Option<Waker> {
        let mut word = self.word();
        while word.has(PARKED) && condition(word) {
            match self.exchange(word, word.without(PARKED)) {
                Ok(()) => return self.take_waker(),
                Err(now) => word = now,
            }
        }
        None
    }

    /// The receiver wants no more. What was sent, and what permits send, it still
    /// gets.
    pub(super) fn close(&self) {
        if self.set(CLOSED).has(CLOSED) {
            return;
        }
        let mut panics = PanicSink::default();
        self.refuse_room(&mut panics);
        panics.catch(|| self.closing.grant_while(Grant::All, |_, _| true));
        panics.resume();
    }

    pub(super) fn add_sender(&self) {
        // Relaxed: the caller is one.
        self.senders.fetch_add(1, Relaxed);
    }

    /// Adds a sender if there is one.
    pub(super) fn try_add_sender(&self) -> bool {
        let some = |senders: usize| (senders > 0).then(|| senders + 1);
        self.senders.fetch_update(AcqRel, Acquire, some).is_ok()
    }

    /// A sender goes away. The last one makes the channel's end.
    pub(super) fn remove_sender(&self) {
        // AcqRel: the last one passes on what all others have sent.
        if self.senders.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        // If there are promises left, permits were leaked.
        self.set(GONE);
        self.call_at_end();
    }

    pub(super) fn senders(&self) -> usize {
        self.senders.load(Acquire)
    }

    pub(super) fn weak_senders(&self) -> &AtomicUsize {
        &self.weak_senders
    }

    /// The receiver goes away: `reader` is where it was.
    pub(super) fn leave(&self, reader: &Reader<T>) {
        self.head.store(reader.position(), Release);
        self.left_at.store(reader.block().as_ptr(), Release);
    }
}

impl<T> Drop for Chan<T> {
    fn drop(&mut self) {
        /// Frees the block also if a value's drop panics; the values behind it
        /// leak then.
        struct Last<T>(Reader<T>);
        impl<T> Drop for Last<T> {
            fn drop(&mut self) {
                // SAFETY: nobody else is left; a reader's block is in use.
                unsafe { Block::free(self.0.block()) };
            }
        }
        let Some(block) = NonNull::new(self.left_at.load(Acquire)) else {
            return; // A receiver that was leaked keeps the channel.
        };
        // SAFETY: the receiver has gone, and this is where it was.
        let mut last = Last(unsafe { Reader::new(block, self.head.load(Acquire)) });
        // Only permits that were used after the receiver went away.
        while let Some(value) = last.0.pop(&self.spares) {
            drop(value);
        }
    }
}

/// The parity of the number of a position's block.
#[inline]
fn parity(position: u64) -> usize {
    (position / SLOTS % 2) as usize
}

/// For somebody who waits for a few instructions of another thread.
pub(super) struct Patience(u32);

impl Patience {
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// How often it looks before it lets other threads run.
    pub(super) const LOOKS: u32 = if IS_MODEL { 0 } else { 64 };

    pub(super) fn pause(&mut self) {
        self.0 += 1;
        if self.0 <= Self::LOOKS {
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
