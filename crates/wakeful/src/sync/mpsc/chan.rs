//! The state that both ends of a channel share: a queue of linked blocks, and the receiver's waker.
//!
//! Actors: *senders* claim positions and fill them; the one *receiver* empties them in order.
//! `capacity` handles the limit of a bounded channel.
//!
//! Sending a message is one compare-exchange of `tail`, which claims a position, and one store,
//! which marks the slot as ready. Receiving it is one load of that mark and, in a bounded channel,
//! one store of the receiver's position. Nothing else is written while both sides are busy.
//!
//! Rules:
//! - MPSC-1. `tail` changes only by read-modify-write operations. The sender that moves its
//!   position from `p` to `p + 1` has claimed slot `p`. It fills the slot without delay: no user
//!   code runs in between.
//! - MPSC-2. `tail_block` points to the block of the position in `tail`, or to the preceding block.
//!   Its lowest bit is the parity of the block's number, which distinguishes the two. Only the
//!   sender that claimed the last slot of a block advances `tail_block`, before it fills that slot.
//!   A sender that finds the earlier block waits for that step.
//! - MPSC-3. A sender uses the pointer only if its compare-exchange of `tail` succeeded. Then no
//!   position was claimed since the sender loaded `tail`, so the pointer is still valid. The block
//!   is not reused before its slot is ready (BLOCK-3).
//! - MPSC-4. The waker cell belongs to the receiver while PARKED is not set and all claimed
//!   positions are received. Setting PARKED gives the cell to the actor that clears the bit. This
//!   is the receiver itself, if it changes its mind, or the sender that claims the next position,
//!   until that slot is ready. Or it is the actor that ends the channel, after which the receiver
//!   does not park again.
//!
//! The race to fear: the receiver finds no message and parks, while a sender sends one and finds no
//! parked receiver. It cannot happen: the receiver parks with a compare-exchange of the same word
//! that it found empty. If a position was claimed since, the exchange fails, and the receiver
//! checks again. If it succeeds, the next sender sees PARKED in the word that it exchanges. So no
//! fence is needed, and a send that wakes no receiver takes no further step.
//!
//! A position that is claimed but not ready belongs to a sender that is in the middle of a few
//! instructions. That sender did not see PARKED, because it was not set. So the receiver must not
//! park: it spins for a short time, and then yields to other tasks.
//!
//! Why MPSC-4 holds: the sender that clears PARKED takes the waker before its slot is ready. Until
//! then the receiver sees a position that is claimed but not ready, so it does not park. After that
//! the cell is empty, and belongs to the receiver.
#![allow(unsafe_code)]

use super::block::{self, Block, Reader, SLOTS, SpareBlocks};
use super::capacity::{Capacity, CapacityRequest};
use super::first_sender::FirstSender;
use super::tail::{CLOSED, DISCONNECTED, PARKED, Tail};
use crate::sys::IS_MODEL;
use crate::sys::membarrier::Barriers;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, UnsafeCell, thread};
use crate::wait::describe::senders_alive;
use crate::wait::list::{Grant, Waiters};
use crate::wait::ownership::owner::OwnerCell;
use crate::wait::wake_batch::PanicSink;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};
use std::task::Waker;

/// The longest back-off of a sender that lost a race, in spin hints: at most about a microsecond.
const MAX_BACK_OFF: u32 = 24;

/// The `limit` of an unbounded channel.
pub(super) const UNBOUNDED: u64 = u64::MAX;

/// Keeps the fields that one side writes out of the cache lines of the other. Alignment would do
/// the same, but would make the allocation slower.
struct CacheLineGap {
    _bytes: [u64; 8],
}

impl CacheLineGap {
    const fn new() -> Self {
        Self { _bytes: [0; 8] }
    }
}

#[repr(C)]
/// The state that both ends of a channel share.
pub(super) struct Chan<T> {
    // Written by senders.
    tail: AtomicU64,
    /// See MPSC-2.
    tail_block: AtomicPtr<Block<T>>,
    /// A position that the receiver has reached, as a lower bound.
    pub(super) seen_head: AtomicU64,
    /// The number of races that senders lost recently; see `back_off`. Not part of the protocol, so
    /// models use std's atomic, too.
    lost_races: std::sync::atomic::AtomicU32,
    /// The number of slots that may be used or reserved. Never written.
    pub(super) limit: u64,
    _gap_before_receiver: CacheLineGap,

    // Written by the receiver.
    /// The receiver's position. Written only in a bounded channel, and when the receiver is
    /// dropped.
    pub(super) head: AtomicU64,
    /// Whether senders wait for capacity, and which fence the receiver uses; see `capacity`.
    pub(super) fence_mode: AtomicU32,
    /// The task that received last. Recorded when the task waits and, in a bounded channel, when a
    /// different task receives.
    pub(super) last_receiver: OwnerCell,
    /// Read by the receiver when it waits.
    pub(super) first_sender: FirstSender,
    /// See MPSC-4.
    waker: UnsafeCell<Option<Waker>>,
    _gap_after_receiver: CacheLineGap,

    pub(super) spares: SpareBlocks<T>,
    /// The number of senders and owned permits.
    senders: AtomicUsize,
    weak_senders: AtomicUsize,
    /// The number of slots that permits hold: capacity that the receiver does not free. Not part of
    /// the protocol, so models use std's atomic, too.
    pub(super) held_permits: std::sync::atomic::AtomicUsize,
    /// The senders that wait for capacity.
    pub(super) send_waiters: Waiters<Capacity, CapacityRequest>,
    /// The tasks that wait until the receiver is closed or dropped.
    pub(super) closed_waiters: Waiters<(), ()>,
    pub(super) barriers: Barriers,
    /// The receiver's block when it was dropped.
    final_block: AtomicPtr<Block<T>>,
    /// The location where the channel was created. Never written.
    pub(super) created_at: &'static Location<'static>,
}

// SAFETY: values are moved in and out by the owner of their slot (BLOCK-1), MPSC-4 guards the
// waker, and no `&T` is ever shared.
unsafe impl<T: Send> Send for Chan<T> {}
// SAFETY: values are moved in and out by the owner of their slot (BLOCK-1), MPSC-4 guards the
// waker, and no `&T` is ever shared.
unsafe impl<T: Send> Sync for Chan<T> {}

impl<T> UnwindSafe for Chan<T> {}
impl<T> RefUnwindSafe for Chan<T> {}

/// A claimed position, which its owner is about to fill.
pub(super) struct ClaimedSlot<T> {
    block: NonNull<Block<T>>,
    position: u64,
    /// The waker of a parked receiver, to be woken after the fill.
    receiver: Option<Waker>,
}

/// The result of an attempt to claim a position.
#[must_use]
pub(super) enum SlotClaim<T> {
    Claimed(ClaimedSlot<T>),
    /// Another sender was faster; contains the current word.
    Raced(Tail),
}

/// The result of an attempt to park.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkOutcome {
    /// The next message, or the end, wakes the receiver.
    Parked,
    /// The word has changed: the receiver checks again.
    Raced,
}

impl<T> Chan<T> {
    /// Creates a channel with one sender, and the reader for its receiver.
    #[track_caller]
    pub(super) fn new(limit: u64) -> (Arc<Self>, Reader<T>) {
        let block = Block::alloc();
        let chan = Self {
            tail: AtomicU64::new(0),
            tail_block: AtomicPtr::new(block.as_ptr()),
            seen_head: AtomicU64::new(0),
            lost_races: std::sync::atomic::AtomicU32::new(0),
            limit,
            _gap_before_receiver: CacheLineGap::new(),
            head: AtomicU64::new(0),
            fence_mode: AtomicU32::new(0),
            last_receiver: OwnerCell::none(),
            first_sender: FirstSender::new(),
            waker: UnsafeCell::new(None),
            _gap_after_receiver: CacheLineGap::new(),
            spares: SpareBlocks::new(),
            senders: AtomicUsize::new(1),
            weak_senders: AtomicUsize::new(0),
            held_permits: std::sync::atomic::AtomicUsize::new(0),
            send_waiters: Waiters::new(Capacity::new()),
            closed_waiters: Waiters::new(()),
            barriers: Barriers::detect(),
            final_block: AtomicPtr::new(ptr::null_mut()),
            created_at: Location::caller(),
        };
        if IS_MODEL {
            // Otherwise loom may overlook a later SeqCst store.
            chan.head.store(0, SeqCst);
        }
        // SAFETY: nothing was read, and this is the only reader.
        let reader = unsafe { Reader::new(block, 0) };
        (Arc::new(chan), reader)
    }

    #[inline]
    pub(super) fn load_tail(&self) -> Tail {
        // Acquire: a thread that sees a position also sees what its claimer saw, above all
        // `tail_block` (MPSC-2).
        Tail(self.tail.load(Acquire))
    }

    /// Replaces the tail's word if it is still `from`.
    #[inline]
    pub(super) fn replace_tail(&self, from: Tail, to: Tail) -> Result<(), Tail> {
        // Release: hands over the waker cell (MPSC-4), and everything seen before. Acquire:
        // receives them.
        match self.tail.compare_exchange(from.0, to.0, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(Tail(now)),
        }
    }

    /// Adds `change` to the tail's word and returns the previous word.
    ///
    /// The change must not overflow a part of the word. A wrapped negative `change` subtracts.
    pub(super) fn add_to_tail(&self, change: u64) -> Tail {
        Tail(self.tail.fetch_add(change, AcqRel))
    }

    /// Sets a flag and returns the previous word.
    pub(super) fn set_flag(&self, flag: super::tail::Flag) -> Tail {
        Tail(self.tail.fetch_or(flag.0, AcqRel))
    }

    /// Tries to claim the position of `word` by replacing `word` with `next`, one message further.
    #[inline]
    pub(super) fn try_claim(&self, word: Tail, next: Tail) -> SlotClaim<T> {
        let position = word.position();
        // Acquire: pairs with the Release in `append_block`, so the block is seen empty.
        let tagged = self.tail_block.load(Acquire);
        if tagged.addr() & 1 != parity(position) {
            return SlotClaim::Raced(self.wait_for_block(position));
        }
        if self.replace_tail(word, next).is_err() {
            return SlotClaim::Raced(self.back_off());
        }
        let block = tagged.map_addr(|addr| addr & !1);
        // SAFETY: MPSC-3: the pointer comes from `Block::alloc`.
        let block = unsafe { NonNull::new_unchecked(block) };
        if block::offset(position) as u64 == SLOTS - 1 {
            self.append_block(block, position);
        }
        let receiver = if word.has(PARKED) { self.take_waker() } else { None };
        SlotClaim::Claimed(ClaimedSlot { block, position, receiver })
    }

    /// Waits a short time after a lost race and returns the new word.
    ///
    /// If senders race often, two cores take the same cache lines from each other with every
    /// message. A sender that pauses lets the other send many messages at the price of one
    /// transfer. So the pause grows with each lost race, and shrinks with each filled block.
    #[cold]
    fn back_off(&self) -> Tail {
        let pauses = self.lost_races.load(Relaxed);
        self.lost_races.store((pauses + 1).min(MAX_BACK_OFF), Relaxed);
        for _ in 0..pauses {
            std::hint::spin_loop();
        }
        self.load_tail()
    }

    /// Takes the waker of a receiver that the caller has unparked.
    fn take_waker(&self) -> Option<Waker> {
        // SAFETY: MPSC-4: the caller cleared PARKED.
        let waker = self.waker.with_mut(|value| unsafe { (*value).take() });
        debug_assert!(waker.is_some(), "MPSC-4: PARKED is set, so the cell holds a waker");
        waker
    }

    /// Appends a block. The caller has claimed the last slot of `block`.
    #[cold]
    fn append_block(&self, block: NonNull<Block<T>>, position: u64) {
        let lost_races = self.lost_races.load(Relaxed);
        if lost_races > 0 {
            self.lost_races.store(lost_races - 1, Relaxed);
        }
        // SAFETY: BLOCK-5, MPSC-1: the caller claimed the last slot.
        let next = unsafe { self.spares.take() };
        // SAFETY: BLOCK-4.
        unsafe { Block::link(block, next) };
        let parity = parity(position.wrapping_add(1));
        let tagged = next.as_ptr().map_addr(|addr| addr | parity);
        // Release: a sender that claims a slot of the block sees it empty, and sees the spare
        // blocks as they are now (BLOCK-5).
        self.tail_block.store(tagged, Release);
    }

    /// Waits until another sender has appended a block. Returns the word after that.
    #[cold]
    fn wait_for_block(&self, position: u64) -> Tail {
        let mut spin = SpinThenYield::new();
        while self.tail_block.load(Acquire).addr() & 1 != parity(position) {
            let now = self.load_tail();
            if now.position() != position {
                return now;
            }
            spin.pause();
        }
        self.load_tail()
    }

    /// Writes a message to its claimed slot and wakes the receiver if it was parked.
    #[inline]
    pub(super) fn fill(&self, claim: ClaimedSlot<T>, value: T) {
        // SAFETY: BLOCK-1: the slot is claimed. It is filled once, because the claim is consumed.
        unsafe { Block::fill(claim.block, block::offset(claim.position), value) };
        if let Some(waker) = claim.receiver {
            waker.wake();
        }
    }

    /// Parks the receiver.
    ///
    /// The receiver loaded `word`, in which PARKED is not set and all claimed positions are
    /// received.
    pub(super) fn park(&self, word: Tail, waker: Waker) -> ParkOutcome {
        debug_assert!(!word.has(PARKED) && !word.has_ended());
        // SAFETY: MPSC-4: the cell is the receiver's, by the contract of this function.
        let left = self.waker.with_mut(|value| unsafe { (*value).replace(waker) });
        debug_assert!(left.is_none(), "MPSC-4: no waker is left in the cell");
        if self.replace_tail(word, word.with(PARKED)).is_ok() {
            return ParkOutcome::Parked;
        }
        // SAFETY: MPSC-4: PARKED was not set, so the cell is still the receiver's.
        drop(self.waker.with_mut(|value| unsafe { (*value).take() }));
        ParkOutcome::Raced
    }

    /// Unparks the receiver if it is parked, and drops its waker.
    pub(super) fn unpark(&self) {
        drop(self.take_parked_waker(|_| true));
    }

    /// Wakes the receiver if it is parked and the channel has ended.
    pub(super) fn wake_receiver_if_ended(&self) {
        if let Some(waker) = self.take_parked_waker(Tail::has_ended) {
            waker.wake();
        }
    }

    /// Clears PARKED if it is set and `condition` holds, and returns the waker.
    fn take_parked_waker(&self, condition: impl Fn(Tail) -> bool) -> Option<Waker> {
        let mut word = self.load_tail();
        while word.has(PARKED) && condition(word) {
            match self.replace_tail(word, word.without(PARKED)) {
                Ok(()) => return self.take_waker(),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Closes the channel. The receiver still gets all messages that were sent, and those that
    /// permits send.
    pub(super) fn close(&self) {
        if self.set_flag(CLOSED).has(CLOSED) {
            return;
        }
        let mut panics = PanicSink::default();
        self.close_send_waiters(&mut panics);
        panics.catch(|| self.closed_waiters.grant_while(Grant::All, |_, _| true));
        panics.resume();
    }

    pub(super) fn add_sender(&self) {
        // The caller is a sender. AcqRel for FIRST-1.
        self.senders.fetch_add(1, AcqRel);
    }

    /// Returns whether exactly one sender is left, using a read-modify-write (FIRST-1).
    pub(super) fn has_one_sender(&self) -> bool {
        self.senders.fetch_add(0, AcqRel) == 1
    }

    /// Adds a sender, unless all senders are gone.
    pub(super) fn try_add_sender(&self) -> bool {
        let some = |senders: usize| (senders > 0).then(|| senders + 1);
        self.senders.fetch_update(AcqRel, Acquire, some).is_ok()
    }

    /// Removes a sender, which may be the first one. Removing the last sender ends the channel.
    pub(super) fn remove_sender(&self, is_first: bool) {
        // AcqRel: the last sender passes on what all others have sent.
        match self.senders.fetch_sub(1, AcqRel) {
            1 => {}
            _ if is_first => return self.exempt_first(),
            2 => return self.record_last_but_one(),
            _ => return,
        }
        // If slots are still reserved, their permits were leaked.
        self.set_flag(DISCONNECTED);
        self.wake_receiver_if_ended();
    }

    pub(super) fn senders(&self) -> usize {
        self.senders.load(Acquire)
    }

    /// Describes the channel in the report of a receiver that waits forever.
    pub(super) fn describe_to_receiver(&self) -> String {
        format!("channel created at {}, {}", self.created_at, senders_alive(self.senders()))
    }

    /// Describes the channel in the report of a sender that waits forever for `slots`.
    pub(super) fn describe_to_sender(&self, slots: u64) -> String {
        let held = self.held_permits.load(Relaxed);
        let request = match slots {
            1 => String::new(),
            _ => format!(", requests {slots} of {} slots", self.limit),
        };
        let permits = match held {
            0 => String::new(),
            1 => ", 1 slot is held by a permit".to_owned(),
            _ => format!(", {held} slots are held by permits"),
        };
        format!(
            "channel created at {}, a queue of {}{request}{permits}",
            self.created_at, self.limit
        )
    }

    pub(super) fn weak_senders(&self) -> &AtomicUsize {
        &self.weak_senders
    }

    /// Stores the final position of a receiver that is dropped.
    pub(super) fn store_final_position(&self, reader: &Reader<T>) {
        self.head.store(reader.position(), Release);
        self.final_block.store(reader.block().as_ptr(), Release);
    }
}

impl<T> Drop for Chan<T> {
    fn drop(&mut self) {
        /// Frees the block even if the drop of a value panics. In that case the values behind it
        /// leak.
        struct Last<T>(Reader<T>);
        impl<T> Drop for Last<T> {
            fn drop(&mut self) {
                // SAFETY: no other owner is left, and a reader's block is in use.
                unsafe { Block::free(self.0.block()) };
            }
        }
        let Some(block) = NonNull::new(self.final_block.load(Acquire)) else {
            return; // A leaked receiver keeps the channel.
        };
        // SAFETY: the receiver was dropped, and this is its final position.
        let mut last = Last(unsafe { Reader::new(block, self.head.load(Acquire)) });
        // Only messages that permits sent after the receiver was dropped.
        while let Some(value) = last.0.pop(&self.spares) {
            drop(value);
        }
    }
}

/// Returns the parity of the number of a position's block.
#[inline]
fn parity(position: u64) -> usize {
    (position / SLOTS % 2) as usize
}

/// Waits for a few instructions of another thread: spins first, then yields.
pub(super) struct SpinThenYield(u32);

impl SpinThenYield {
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// The number of spins before yielding to other threads.
    pub(super) const SPINS: u32 = if IS_MODEL { 0 } else { 64 };

    pub(super) fn pause(&mut self) {
        self.0 += 1;
        if self.0 <= Self::SPINS {
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
