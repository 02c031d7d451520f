//! The sending end of both kinds of channels: what is counted, and how a message
//! gets in.

use super::capacity::Refusal;
use super::chan::{Attempt, Chan, Claim};
use super::error::{SendError, TrySendError};
use super::tail::{CLOSED, QUEUED, Tail};
use crate::sys::sync::Arc;
use crate::sys::sync::atomic::Ordering::*;

/// A sender that keeps the channel open.
pub(super) struct Tx<T>(Arc<Chan<T>>);

/// A sender that does not.
pub(super) struct WeakTx<T>(Arc<Chan<T>>);

impl<T> Tx<T> {
    /// The first one, which `chan` already counts.
    pub(super) fn first(chan: Arc<Chan<T>>) -> Self {
        Self(chan)
    }

    #[inline]
    pub(super) fn chan(&self) -> &Chan<T> {
        &self.0
    }

    pub(super) fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn downgrade(&self) -> WeakTx<T> {
        self.0.weak_senders().fetch_add(1, Relaxed);
        WeakTx(self.0.clone())
    }
}

impl<T> Clone for Tx<T> {
    fn clone(&self) -> Self {
        self.0.add_sender();
        Self(self.0.clone())
    }
}

impl<T> Drop for Tx<T> {
    fn drop(&mut self) {
        self.0.remove_sender();
    }
}

impl<T> WeakTx<T> {
    pub(super) fn chan(&self) -> &Chan<T> {
        &self.0
    }

    pub(super) fn upgrade(&self) -> Option<Tx<T>> {
        self.0.try_add_sender().then(|| Tx(self.0.clone()))
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
    /// Sends without regard to room.
    #[inline]
    pub(super) fn send_unbounded(&self, value: T) -> Result<(), SendError<T>> {
        let mut word = self.word();
        loop {
            if word.has(CLOSED) {
                return Err(SendError(value));
            }
            match self.attempt(word, word.forward()) {
                Attempt::Claimed(claim) => {
                    self.fill(claim, value);
                    return Ok(());
                }
                Attempt::Lost(now) => word = now,
            }
        }
    }

    /// Sends if there is room now.
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

    /// Claims a slot if there is room and nobody waits for it. Otherwise the word
    /// tells why not: CLOSED, QUEUED, or else full.
    #[inline]
    pub(super) fn claim(&self) -> Result<Claim<T>, Tail> {
        let mut word = self.word();
        loop {
            if word.has(CLOSED | QUEUED) {
                return Err(word);
            }
            if !self.fits(word, 1)
                && let Err(newer) = self.look_for_room(word, 1)
            {
                word = newer.ok_or(word)?;
                continue;
            }
            match self.attempt(word, word.forward()) {
                Attempt::Claimed(claim) => return Ok(claim),
                Attempt::Lost(now) => word = now,
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
        match self.try_promise_locked(1) {
            Ok(()) => {
                self.send_promised(value);
                Ok(())
            }
            Err(Refusal::Full) => Err(TrySendError::Full(value)),
            Err(Refusal::Closed) => Err(TrySendError::Closed(value)),
        }
    }

    /// Sends into a slot that was promised to the caller.
    pub(super) fn send_promised(&self, value: T) {
        let mut word = self.word();
        loop {
            if word.reserved() == 0 {
                self.bring_promises();
                word = self.word();
                continue;
            }
            match self.attempt(word, word.unreserve(1).forward()) {
                Attempt::Claimed(claim) => return self.fill(claim, value),
                Attempt::Lost(now) => word = now,
            }
        }
    }
}
