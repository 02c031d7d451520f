//! The receiving end of both kinds of channels.
#![allow(unsafe_code)]

use super::block::Reader;
use super::capacity::{FULL_FENCE, SENDER_WAITS};
use super::chan::{Chan, ParkOutcome, SpinThenYield, UNBOUNDED};
use super::error::TryRecvError;
use super::tail::{CLOSED, DISCONNECTED, PARKED, Tail};
use crate::sys::IS_MODEL;
use crate::sys::membarrier::Barriers;
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::*;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::task::{context, coop};
use crate::wait;
use crate::wait::describe::{self, describe_wait};
use crate::wait::wake_batch::PanicSink;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::task::{Context, Poll, RawWakerVTable, Waker, ready};

/// The number of messages without a waiting sender after which the receiver returns to cheap fences.
const CHEAP_FENCE_AFTER: u32 = if IS_MODEL { 2 } else { 512 };

/// The receiving end of a channel.
pub(super) struct Rx<T> {
    chan: Arc<Chan<T>>,
    reader: Reader<T>,
    /// The parked waker, if there is one.
    parked: Option<WakerId>,
    /// The number of messages until the receiver returns to cheap fences.
    full_fences_left: u32,
    /// Copies of channel fields that share cache lines with fields that senders write.
    is_bounded: bool,
    barriers: Barriers,
    /// Whether the end of the channel was returned.
    has_ended: bool,
}

// SAFETY: the reader is used only with exclusive access, except for loading positions and `ready`.
// Values go to the thread that has that access.
unsafe impl<T: Send> Send for Rx<T> {}
// SAFETY: through `&Rx`, only positions and `ready` are loaded.
unsafe impl<T: Send> Sync for Rx<T> {}

impl<T> UnwindSafe for Rx<T> {}
impl<T> RefUnwindSafe for Rx<T> {}

/// The identity of a waker. The receiver must not access a parked waker itself (MPSC-4).
#[derive(Clone, Copy)]
struct WakerId {
    data: *const (),
    vtable: &'static RawWakerVTable,
}

impl WakerId {
    fn of(waker: &Waker) -> Self {
        Self { data: waker.data(), vtable: waker.vtable() }
    }

    fn is(self, waker: &Waker) -> bool {
        ptr::eq(self.data, waker.data()) && ptr::eq(self.vtable, waker.vtable())
    }
}

/// The state of the channel when `pop` found no ready message.
enum RecvState {
    /// The message has become ready since.
    Ready,
    /// A sender has claimed the next position, and is about to fill it.
    Incomplete,
    /// There is no message, according to this word.
    Empty(Tail),
    /// There is no message, and none can arrive.
    Ended,
}

/// The result of `wait_or_park`.
enum WaitOutcome {
    Ready,
    Ended,
    Pending,
}

impl<T> Rx<T> {
    pub(super) fn new(chan: Arc<Chan<T>>, reader: Reader<T>) -> Self {
        let (is_bounded, barriers) = (chan.limit != UNBOUNDED, chan.barriers);
        Self {
            chan,
            reader,
            parked: None,
            full_fences_left: CHEAP_FENCE_AFTER,
            is_bounded,
            barriers,
            has_ended: false,
        }
    }

    pub(super) fn chan(&self) -> &Chan<T> {
        &self.chan
    }

    /// Takes the next message if it is ready.
    #[inline]
    fn pop(&mut self) -> Option<T> {
        let value = self.reader.pop(&self.chan.spares)?;
        self.publish();
        Some(value)
    }

    /// Publishes the receiver's position to senders: slots were freed.
    #[inline]
    fn publish(&mut self) {
        if !self.is_bounded {
            return;
        }
        if !self.chan.last_receiver.is_current() {
            self.chan.record_other_receiver();
        }
        let position = self.reader.position();
        self.chan.head.store(position, Release);
        // The cheap fence of the receiver, between the store and the load (see `capacity`). In
        // models it would be a full fence, and would hide a fence that full-fence mode lacks.
        if !IS_MODEL || self.chan.fence_mode.load(Relaxed) == 0 {
            self.barriers.light();
        }
        if self.chan.fence_mode.load(Relaxed) != 0 {
            self.publish_with_full_fence(position);
        }
    }

    /// Publishes the receiver's position in full-fence mode (see `capacity`).
    #[cold]
    fn publish_with_full_fence(&mut self, position: u64) {
        let chan = &*self.chan;
        // Stored again, for the full fence.
        chan.head.swap(position, SeqCst);
        if chan.fence_mode.load(SeqCst) & SENDER_WAITS != 0 {
            self.full_fences_left = CHEAP_FENCE_AFTER;
            return chan.grant_capacity();
        }
        self.full_fences_left -= 1;
        if self.full_fences_left == 0 {
            self.full_fences_left = CHEAP_FENCE_AFTER;
            // Failure means that a sender waits; it is granted capacity here.
            if chan.fence_mode.compare_exchange(FULL_FENCE, 0, SeqCst, SeqCst).is_err() {
                chan.grant_capacity();
            }
        }
    }

    fn recv_state(&self) -> RecvState {
        let word = self.chan.load_tail();
        if word.len(self.reader.position()) > 0 {
            // The word was loaded after the slot, so the slot is checked again.
            return if self.reader.is_ready() { RecvState::Ready } else { RecvState::Incomplete };
        }
        if word.has_ended() { RecvState::Ended } else { RecvState::Empty(word) }
    }

    // Inlined, so that the fast path does not pass the site along.
    #[inline(always)]
    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Option<T>> {
        let progress = ready!(coop::poll_proceed(cx));
        let received = self.recv_or_park(cx.waker(), site);
        match received {
            Poll::Ready(_) => progress.made_progress(),
            Poll::Pending => self.record_wait(cx.waker(), site),
        }
        received
    }

    #[inline]
    fn recv_or_park(&mut self, waker: &Waker, site: &'static Location<'static>) -> Poll<Option<T>> {
        loop {
            if let Some(value) = self.pop() {
                return Poll::Ready(Some(value));
            }
            match self.wait_or_park(waker, FutileKind::MpscRecv, site) {
                WaitOutcome::Ready => {}
                WaitOutcome::Ended => return Poll::Ready(None),
                WaitOutcome::Pending => return Poll::Pending,
            }
        }
    }

    /// Records that the current task waits for a message, or yields to the sender that is about to
    /// send it.
    // The rare cases are a tail call, so that a repeated wait saves no registers.
    #[inline]
    fn record_wait(&self, waker: &Waker, site: &'static Location<'static>) {
        let chan = &*self.chan;
        let is_rare = describe::has_open_question()
            || chan.first_sender.may_be_kept()
            || !chan.last_receiver.is_current();
        if is_rare {
            return self.record_wait_slow(waker, site);
        }
        self.chan.last_receiver.set(site);
        self.record_target(site);
    }

    /// The slow path of `record_wait`: a task's first wait, a wait whose details were requested, or a
    /// first sender that may be kept.
    #[cold]
    #[inline(never)]
    fn record_wait_slow(&self, waker: &Waker, site: &'static Location<'static>) {
        let is_other = !self.chan.last_receiver.is_current();
        self.chan.last_receiver.set(site);
        if is_other {
            self.chan.publish_receiver();
        }
        if self.chan.first_sender.may_be_kept() {
            self.chan.record_wait_for_first(context::is_own_waker(waker));
        }
        self.record_target(site);
        describe_wait(|| self.chan.describe_to_receiver());
    }

    #[inline]
    fn record_target(&self, site: &'static Location<'static>) {
        let target = self.chan.send_waiters.record.target(self.chan());
        wait::record_wait_for_target(WaitKind::MpscRecv, target, site);
    }

    pub(super) fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
        site: &'static Location<'static>,
    ) -> Poll<usize> {
        let progress = ready!(coop::poll_proceed(cx));
        if limit == 0 {
            progress.made_progress();
            return Poll::Ready(0);
        }
        loop {
            if self.reader.is_ready() {
                progress.made_progress();
                return Poll::Ready(self.pop_many(buffer, limit));
            }
            match self.wait_or_park(cx.waker(), FutileKind::MpscRecvMany, site) {
                WaitOutcome::Ready => {}
                WaitOutcome::Ended => {
                    progress.made_progress();
                    return Poll::Ready(0);
                }
                WaitOutcome::Pending => {
                    self.record_wait(cx.waker(), site);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Takes up to `limit` messages that are ready.
    fn pop_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        // First of all, because it may panic.
        buffer.reserve(limit.min(self.len()));
        let mut taken = 0;
        while taken < limit && buffer.len() < buffer.capacity() {
            let Some(value) = self.reader.pop(&self.chan.spares) else { break };
            buffer.push(value);
            taken += 1;
        }
        self.publish();
        taken
    }

    /// Counts a repeated return of the channel's end, by a call at `site`.
    fn count_end(&mut self, kind: FutileKind, site: &'static Location<'static>) {
        if std::mem::replace(&mut self.has_ended, true) {
            futile::count(kind, ptr::from_ref(self.chan()).addr() as u64, Some(site));
        }
    }

    /// Finds out why no message is ready and parks if there is none.
    ///
    /// `kind` and `site` describe the call; they are used when the channel has ended.
    #[cold]
    fn wait_or_park(
        &mut self,
        waker: &Waker,
        kind: FutileKind,
        site: &'static Location<'static>,
    ) -> WaitOutcome {
        let mut spins = 0;
        loop {
            match self.recv_state() {
                RecvState::Ready => return WaitOutcome::Ready,
                RecvState::Ended => {
                    self.unpark();
                    self.count_end(kind, site);
                    return WaitOutcome::Ended;
                }
                RecvState::Incomplete if spins < SpinThenYield::SPINS => {
                    spins += 1;
                    std::hint::spin_loop();
                }
                RecvState::Incomplete => {
                    // The sender's thread was preempted. It will not wake this task for the
                    // message, because the receiver is not parked.
                    crate::sys::sync::thread::yield_now();
                    context::yield_out_of_budget(waker);
                    break;
                }
                RecvState::Empty(word) if self.park(word, waker) == ParkOutcome::Parked => break,
                RecvState::Empty(_) => {}
            }
        }
        WaitOutcome::Pending
    }

    fn park(&mut self, word: Tail, waker: &Waker) -> ParkOutcome {
        if word.has(PARKED) {
            if self.parked.is_some_and(|parked| parked.is(waker)) {
                return ParkOutcome::Parked;
            }
            // From now on a different task waits.
            self.unpark();
            return ParkOutcome::Raced;
        }
        let outcome = self.chan.park(word, waker.clone());
        if outcome == ParkOutcome::Parked {
            self.parked = Some(WakerId::of(waker));
        }
        outcome
    }

    /// Unparks if it is parked.
    pub(super) fn unpark(&mut self) {
        if self.parked.take().is_some() {
            self.chan.unpark();
        }
    }

    #[track_caller]
    pub(super) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut spin = SpinThenYield::new();
        loop {
            if let Some(value) = self.pop() {
                return Ok(value);
            }
            match self.recv_state() {
                RecvState::Ready => {}
                RecvState::Incomplete => spin.pause(),
                RecvState::Empty(_) => return Err(TryRecvError::Empty),
                RecvState::Ended => {
                    self.count_end(FutileKind::MpscTryRecv, Location::caller());
                    return Err(TryRecvError::Disconnected);
                }
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.chan.load_tail().has(CLOSED | DISCONNECTED)
    }

    pub(super) fn len(&self) -> usize {
        self.chan.load_tail().len(self.reader.position()) as usize
    }
}

impl<T> Drop for Rx<T> {
    /// Closes the channel and drops the messages in it.
    fn drop(&mut self) {
        /// Continues even if the drop of a value panics.
        struct Drain<'a, T>(&'a mut Rx<T>);
        impl<T> Drain<'_, T> {
            fn run(&mut self) {
                let mut spin = SpinThenYield::new();
                // Claimed messages that are not ready yet will be soon.
                while self.0.len() > 0 {
                    match self.0.reader.pop(&self.0.chan.spares) {
                        Some(value) => drop(value),
                        None => spin.pause(),
                    }
                }
            }
        }
        impl<T> Drop for Drain<'_, T> {
            fn drop(&mut self) {
                self.run();
                self.0.chan.store_final_position(&self.0.reader);
            }
        }
        let mut drain = Drain(self);
        // Dropping the waker runs user code. If it panics, senders are still notified that the channel
        // ended.
        let mut panics = PanicSink::default();
        panics.catch(|| drain.0.unpark());
        panics.catch(|| drain.0.chan.close());
        drain.run();
        drop(drain);
        panics.resume();
    }
}
