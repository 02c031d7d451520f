//! The receiving end of both kinds of channels.
#![allow(unsafe_code)]

use super::block::Reader;
use super::capacity::{ALERT, WAITING};
use super::chan::{Chan, Parking, Patience, UNBOUNDED};
use super::error::TryRecvError;
use super::tail::{CLOSED, GONE, PARKED, Tail};
use crate::sys::IS_MODEL;
use crate::sys::membarrier::Barriers;
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::*;
use crate::task::wait_kind::WaitKind;
use crate::task::{context, coop};
use crate::wait;
use crate::wait::wake_batch::PanicSink;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::task::{Context, Poll, RawWakerVTable, Waker, ready};

/// After so many messages for which no sender had to wait, the receiver calms
/// down.
const CALM_AFTER: u32 = if IS_MODEL { 2 } else { 512 };

pub(super) struct Rx<T> {
    chan: Arc<Chan<T>>,
    reader: Reader<T>,
    /// Which waker is parked, if there is one.
    parked: Option<Identity>,
    /// Messages until it calms down, while it is alert.
    calm_in: u32,
    /// Copies: the channel's own lie where senders write.
    is_bounded: bool,
    barriers: Barriers,
}

// SAFETY: the reader is only used with exclusive access to this, apart from
// looking at positions and at `ready`; values go to whoever has that access.
unsafe impl<T: Send> Send for Rx<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Rx<T> {}

impl<T> UnwindSafe for Rx<T> {}
impl<T> RefUnwindSafe for Rx<T> {}

/// What makes two wakers the same. The waker itself is not ours to look at while
/// it is parked (T4).
#[derive(Clone, Copy)]
struct Identity {
    data: *const (),
    vtable: &'static RawWakerVTable,
}

impl Identity {
    fn of(waker: &Waker) -> Self {
        Self { data: waker.data(), vtable: waker.vtable() }
    }

    fn is(self, waker: &Waker) -> bool {
        ptr::eq(self.data, waker.data()) && ptr::eq(self.vtable, waker.vtable())
    }
}

/// What the receiver finds when there is no message ready.
enum Sight {
    /// A message is ready after all.
    Ready,
    /// A sender is about to have one ready.
    Close,
    /// Nothing, says this word.
    Nothing(Tail),
    /// Nothing, and nothing will come.
    End,
}

/// What came of looking for a message to wait for.
enum Look {
    Ready,
    End,
    Wait,
}

impl<T> Rx<T> {
    pub(super) fn new(chan: Arc<Chan<T>>, reader: Reader<T>) -> Self {
        let (is_bounded, barriers) = (chan.limit != UNBOUNDED, chan.barriers);
        Self { chan, reader, parked: None, calm_in: CALM_AFTER, is_bounded, barriers }
    }

    pub(super) fn chan(&self) -> &Chan<T> {
        &self.chan
    }

    /// The next message, if it is ready.
    #[inline]
    fn pop(&mut self) -> Option<T> {
        let value = self.reader.pop(&self.chan.spares)?;
        self.publish();
        Some(value)
    }

    /// Tells senders how far the receiver is: slots were freed.
    #[inline]
    fn publish(&mut self) {
        if !self.is_bounded {
            return;
        }
        if !self.chan.last_receiver.is_current() {
            self.chan.is_received_by_another();
        }
        let position = self.reader.position();
        self.chan.head.store(position, Release);
        // Between the store and the load: the receiver's part of the protocol of
        // `room`, calm. In models it is a full barrier, and would hide what the
        // alert part lacks.
        if !IS_MODEL || self.chan.attention.load(Relaxed) == 0 {
            self.barriers.light();
        }
        if self.chan.attention.load(Relaxed) != 0 {
            self.publish_alert(position);
        }
    }

    /// The receiver's part of the protocol of `room`, alert.
    #[cold]
    fn publish_alert(&mut self, position: u64) {
        let chan = &*self.chan;
        // Once more, for the full barrier.
        chan.head.swap(position, SeqCst);
        if chan.attention.load(SeqCst) & WAITING != 0 {
            self.calm_in = CALM_AFTER;
            return chan.hand_out();
        }
        self.calm_in -= 1;
        if self.calm_in == 0 {
            self.calm_in = CALM_AFTER;
            // If it fails, then somebody waits, and is served with the next.
            if chan.attention.compare_exchange(ALERT, 0, SeqCst, SeqCst).is_err() {
                chan.hand_out();
            }
        }
    }

    fn look(&self) -> Sight {
        let word = self.chan.word();
        if word.len(self.reader.position()) > 0 {
            // The word came after the look at the slot.
            return if self.reader.is_ready() { Sight::Ready } else { Sight::Close };
        }
        if word.has_ended() { Sight::End } else { Sight::Nothing(word) }
    }

    // Inlined, so that nobody carries the place around who need not wait.
    #[inline(always)]
    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Option<T>> {
        let progress = ready!(coop::poll_proceed(cx));
        let received = self.recv_or_park(cx.waker());
        match received {
            Poll::Ready(_) => progress.made_progress(),
            Poll::Pending => self.note_wait(site),
        }
        received
    }

    #[inline]
    fn recv_or_park(&mut self, waker: &Waker) -> Poll<Option<T>> {
        loop {
            if let Some(value) = self.pop() {
                return Poll::Ready(Some(value));
            }
            match self.look_or_park(waker) {
                Look::Ready => {}
                Look::End => return Poll::Ready(None),
                Look::Wait => return Poll::Pending,
            }
        }
    }

    /// The current task waits for a message, or gives way to who is about to send it.
    #[inline]
    fn note_wait(&self, site: &'static Location<'static>) {
        let is_another = !self.chan.last_receiver.is_current();
        self.chan.last_receiver.set(site);
        if is_another {
            self.chan.tell_receiver();
        }
        let target = self.chan.room.record.target(self.chan());
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
            match self.look_or_park(cx.waker()) {
                Look::Ready => {}
                Look::End => {
                    progress.made_progress();
                    return Poll::Ready(0);
                }
                Look::Wait => {
                    self.note_wait(site);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Takes up to `limit` messages that are ready.
    fn pop_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        // First of all: it may panic.
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

    /// There is no message ready: finds out why, and parks if need be.
    #[cold]
    fn look_or_park(&mut self, waker: &Waker) -> Look {
        let mut looks = 0;
        loop {
            match self.look() {
                Sight::Ready => return Look::Ready,
                Sight::End => {
                    self.unpark();
                    return Look::End;
                }
                Sight::Close if looks < Patience::LOOKS => {
                    looks += 1;
                    std::hint::spin_loop();
                }
                Sight::Close => {
                    // That sender's thread has lost its core. Nobody will wake
                    // us for this message, as we did not park.
                    crate::sys::sync::thread::yield_now();
                    context::yield_out_of_budget(waker);
                    break;
                }
                Sight::Nothing(word) if self.park(word, waker) == Parking::Parked => break,
                Sight::Nothing(_) => {}
            }
        }
        Look::Wait
    }

    fn park(&mut self, word: Tail, waker: &Waker) -> Parking {
        if word.has(PARKED) {
            if self.parked.is_some_and(|parked| parked.is(waker)) {
                return Parking::Parked;
            }
            // Another task waits from here on.
            self.unpark();
            return Parking::Disturbed;
        }
        let parking = self.chan.park(word, waker.clone());
        if parking == Parking::Parked {
            self.parked = Some(Identity::of(waker));
        }
        parking
    }

    /// Does not wait any more, if it did.
    pub(super) fn unpark(&mut self) {
        if self.parked.take().is_some() {
            self.chan.unpark();
        }
    }

    pub(super) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut patience = Patience::new();
        loop {
            if let Some(value) = self.pop() {
                return Ok(value);
            }
            match self.look() {
                Sight::Ready => {}
                Sight::Close => patience.pause(),
                Sight::Nothing(_) => return Err(TryRecvError::Empty),
                Sight::End => return Err(TryRecvError::Disconnected),
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.chan.word().has(CLOSED | GONE)
    }

    pub(super) fn len(&self) -> usize {
        self.chan.word().len(self.reader.position()) as usize
    }
}

impl<T> Drop for Rx<T> {
    /// Closes the channel and drops what is in it.
    fn drop(&mut self) {
        /// Goes on also when a value's drop panics.
        struct Drain<'a, T>(&'a mut Rx<T>);
        impl<T> Drain<'_, T> {
            fn run(&mut self) {
                let mut patience = Patience::new();
                // Those that are claimed and not ready are about to be.
                while self.0.len() > 0 {
                    match self.0.reader.pop(&self.0.chan.spares) {
                        Some(value) => drop(value),
                        None => patience.pause(),
                    }
                }
            }
        }
        impl<T> Drop for Drain<'_, T> {
            fn drop(&mut self) {
                self.run();
                self.0.chan.leave(&self.0.reader);
            }
        }
        let mut drain = Drain(self);
        // The waker's drop is foreign code. If it panics, senders still learn of the end.
        let mut panics = PanicSink::default();
        panics.catch(|| drain.0.unpark());
        panics.catch(|| drain.0.chan.close());
        drain.run();
        drop(drain);
        panics.resume();
    }
}
