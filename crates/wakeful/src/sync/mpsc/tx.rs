//! The sending end of both kinds of channels: counting senders, and claiming slots.

use super::capacity::ReserveError;
use super::chan::{Chan, ClaimedSlot, SlotClaim};
use super::error::{SendError, TrySendError};
use super::tail::{CLOSED, QUEUED, Tail};
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::*;

/// A sender that keeps the channel open.
pub(super) struct Tx<T> {
    chan: Arc<Chan<T>>,
    /// Whether this is the first sender, which was created with the channel.
    is_first: bool,
}

/// A sender that does not keep the channel open.
pub(super) struct WeakTx<T>(Arc<Chan<T>>);

impl<T> Tx<T> {
    /// Creates the first sender, which `chan` already counts.
    pub(super) fn first(chan: Arc<Chan<T>>) -> Self {
        Self { chan, is_first: true }
    }

    #[inline]
    pub(super) fn chan(&self) -> &Chan<T> {
        &self.chan
    }

    pub(super) fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chan, &other.chan)
    }

    pub(super) fn downgrade(&self) -> WeakTx<T> {
        self.chan.weak_senders().fetch_add(1, Relaxed);
        self.chan.exempt_first();
        WeakTx(self.chan.clone())
    }
}

impl<T> Clone for Tx<T> {
    fn clone(&self) -> Self {
        self.chan.add_sender();
        if self.is_first {
            self.chan.record_clone_of_first();
        }
        Self { chan: self.chan.clone(), is_first: false }
    }
}

impl<T> Drop for Tx<T> {
    fn drop(&mut self) {
        self.chan.remove_sender(self.is_first);
    }
}

impl<T> WeakTx<T> {
    pub(super) fn chan(&self) -> &Chan<T> {
        &self.0
    }

    pub(super) fn upgrade(&self) -> Option<Tx<T>> {
        self.0.try_add_sender().then(|| Tx { chan: self.0.clone(), is_first: false })
    }
}

impl<T> Clone for WeakTx<T> {
    fn clone(&self) -> Self {
        self.0.weak_senders().fetch_add(1, Relaxed);
        Self(self.0.clone())
    }
}

impl<T> Drop for WeakTx<T> {
    fn drop(&mut self) {
        self.0.weak_senders().fetch_sub(1, Relaxed);
    }
}

impl<T> Chan<T> {
    /// Sends a message regardless of capacity.
    #[inline]
    pub(super) fn send_unbounded(&self, value: T) -> Result<(), SendError<T>> {
        let mut word = self.load_tail();
        loop {
            if word.has(CLOSED) {
                return Err(SendError(value));
            }
            match self.try_claim(word, word.forward()) {
                SlotClaim::Claimed(claim) => {
                    self.fill(claim, value);
                    return Ok(());
                }
                SlotClaim::Raced(now) => word = now,
            }
        }
    }

    /// Sends a message if there is capacity now.
    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.claim() {
            Ok(claim) => {
                self.fill(claim, value);
                Ok(())
            }
            Err(word) => self.try_send_queued(word, value),
        }
    }

    /// Claims a slot if there is capacity and no sender waits for it.
    ///
    /// # Errors
    ///
    /// Returns the current word. If neither CLOSED nor QUEUED is set, the channel is full.
    #[inline]
    pub(super) fn claim(&self) -> Result<ClaimedSlot<T>, Tail> {
        let mut word = self.load_tail();
        loop {
            if word.has(CLOSED | QUEUED) {
                return Err(word);
            }
            if !self.fits(word, 1)
                && let Err(newer) = self.recheck_capacity(word, 1)
            {
                word = newer.ok_or(word)?;
                continue;
            }
            match self.try_claim(word, word.forward()) {
                SlotClaim::Claimed(claim) => return Ok(claim),
                SlotClaim::Raced(now) => word = now,
            }
        }
    }

    #[cold]
    fn try_send_queued(&self, word: Tail, value: T) -> Result<(), TrySendError<T>> {
        if word.has(CLOSED) {
            return Err(TrySendError::Closed(value));
        }
        if !word.has(QUEUED) {
            return Err(TrySendError::Full(value));
        }
        match self.try_reserve_locked(1) {
            Ok(()) => {
                self.send_reserved(value);
                Ok(())
            }
            Err(ReserveError::Full) => Err(TrySendError::Full(value)),
            Err(ReserveError::Closed) => Err(TrySendError::Closed(value)),
        }
    }

    /// Sends a message into a slot that the caller has reserved.
    pub(super) fn send_reserved(&self, value: T) {
        let mut word = self.load_tail();
        loop {
            if word.reserved() == 0 {
                self.refill_reserved();
                word = self.load_tail();
                continue;
            }
            match self.try_claim(word, word.unreserve(1).forward()) {
                SlotClaim::Claimed(claim) => return self.fill(claim, value),
                SlotClaim::Raced(now) => word = now,
            }
        }
    }
}
