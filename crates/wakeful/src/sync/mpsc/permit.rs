//! Permits: slots of a bounded channel that are promised to whoever holds them.

use super::bounded::Sender;
use super::chan::Chan;
use std::fmt;
use std::iter::FusedIterator;
use std::mem;

/// Room for one message, from [`Sender::reserve`] or [`Sender::try_reserve`].
///
/// It promises room, not a place in the order: messages come in the order in
/// which they are sent. Dropping it gives the room back.
pub struct Permit<'a, T> {
    chan: &'a Chan<T>,
}

impl<'a, T> Permit<'a, T> {
    /// One slot was promised to it.
    #[inline]
    pub(super) fn new(chan: &'a Chan<T>) -> Self {
        chan.record_reserved(1);
        Self { chan }
    }

    /// Sends a message. It neither waits nor fails, also after the receiver was
    /// closed.
    ///
    /// If the receiver is dropped, so is the message, with the channel at the
    /// latest.
    pub fn send(self, value: T) {
        let chan = self.chan;
        mem::forget(self);
        chan.send_reserved(value);
        chan.record_unreserved(1);
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.chan.release(1);
        self.chan.record_unreserved(1);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// Room for several messages, from [`Sender::reserve_many`] or
/// [`Sender::try_reserve_many`]: an iterator of [`Permit`]s.
///
/// Dropping it gives back the room for those that it has not granted out.
pub struct PermitIterator<'a, T> {
    chan: &'a Chan<T>,
    left: usize,
}

impl<'a, T> PermitIterator<'a, T> {
    /// So many slots were promised to it.
    pub(super) fn new(chan: &'a Chan<T>, left: usize) -> Self {
        chan.record_reserved(left);
        Self { chan, left }
    }
}

impl<'a, T> Iterator for PermitIterator<'a, T> {
    type Item = Permit<'a, T>;

    fn next(&mut self) -> Option<Permit<'a, T>> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit { chan: self.chan })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for PermitIterator<'_, T> {}
impl<T> FusedIterator for PermitIterator<'_, T> {}

impl<T> Drop for PermitIterator<'_, T> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.chan.release(self.left as u64);
            self.chan.record_unreserved(self.left);
        }
    }
}

impl<T> fmt::Debug for PermitIterator<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitIterator").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Room for one message, from [`Sender::reserve_owned`] or
/// [`Sender::try_reserve_owned`]. As a [`Permit`], but it owns the sender, and
/// keeps the channel open as one.
pub struct OwnedPermit<T> {
    /// None once the permit was used.
    sender: Option<Sender<T>>,
}

impl<T> OwnedPermit<T> {
    /// One slot was promised to it.
    pub(super) fn new(sender: Sender<T>) -> Self {
        sender.chan().record_reserved(1);
        Self { sender: Some(sender) }
    }

    fn into_sender(mut self) -> Sender<T> {
        self.sender.take().expect("a permit has its sender until it is used")
    }

    /// Sends a message and gives the sender back. It neither waits nor fails,
    /// also after the receiver was closed.
    pub fn send(self, value: T) -> Sender<T> {
        let sender = self.into_sender();
        Permit { chan: sender.chan() }.send(value);
        sender
    }

    /// Gives the room back, and the sender.
    pub fn release(self) -> Sender<T> {
        let sender = self.into_sender();
        drop(Permit { chan: sender.chan() });
        sender
    }

    /// Whether two permits belong to the same channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        match (&self.sender, &other.sender) {
            (Some(own), Some(other)) => own.same_channel(other),
            _ => false,
        }
    }

    /// Whether the permit and a sender belong to the same channel.
    pub fn same_channel_as_sender(&self, sender: &Sender<T>) -> bool {
        self.sender.as_ref().is_some_and(|own| own.same_channel(sender))
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            drop(Permit { chan: sender.chan() });
        }
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}
