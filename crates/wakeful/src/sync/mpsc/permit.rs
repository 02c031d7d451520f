//! Permits: reserved slots of a bounded channel.

use super::bounded::Sender;
use super::chan::Chan;
use std::fmt;
use std::iter::FusedIterator;
use std::mem;

/// Reserved capacity for one message, from [`Sender::reserve`] or [`Sender::try_reserve`].
///
/// A permit reserves a slot, not a position: messages are received in the order in which they are
/// sent. Dropping the permit releases the slot.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(1);
/// let permit = tx.try_reserve().unwrap();
/// assert_eq!(tx.capacity(), 0);
/// permit.send(1);
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
pub struct Permit<'a, T> {
    chan: &'a Chan<T>,
}

impl<'a, T> Permit<'a, T> {
    /// Creates the permit of a slot that the caller has reserved.
    #[inline]
    pub(super) fn new(chan: &'a Chan<T>) -> Self {
        chan.record_reserved(1);
        Self { chan }
    }

    /// Sends a message in the reserved slot.
    ///
    /// Neither waits nor fails, even after the receiver was closed. If the receiver was dropped,
    /// the message is dropped no later than the channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.reserve().await.unwrap();
    /// assert!(tx.try_send("other").is_err(), "the only slot is reserved");
    /// permit.send("message");
    /// assert_eq!(rx.recv().await, Some("message"));
    /// # }
    /// ```
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

/// Reserved capacity for several messages: an iterator of [`Permit`]s.
///
/// Returned by [`Sender::reserve_many`] and [`Sender::try_reserve_many`]. Dropping the iterator
/// releases the slots of the permits that it has not yielded.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// let (tx, mut rx) = mpsc::channel(3);
/// let mut permits = tx.try_reserve_many(3).unwrap();
/// permits.next().unwrap().send(1);
/// drop(permits);
/// assert_eq!(tx.capacity(), 2, "two slots are free again");
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
pub struct PermitIterator<'a, T> {
    chan: &'a Chan<T>,
    left: usize,
}

impl<'a, T> PermitIterator<'a, T> {
    /// Creates the iterator of `left` slots that the caller has reserved.
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

/// Reserved capacity for one message; owns its sender.
///
/// Returned by [`Sender::reserve_owned`] and [`Sender::try_reserve_owned`]. The permit borrows
/// nothing, and keeps the channel open like a [`Sender`]. Dropping it releases the slot.
///
/// # Examples
///
/// ```
/// use wakeful::sync::mpsc;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let (tx, mut rx) = mpsc::channel(1);
/// let permit = tx.reserve_owned().await.unwrap();
/// wakeful::spawn(async move { permit.send(1) });
/// assert_eq!(rx.recv().await, Some(1));
/// # }
/// ```
pub struct OwnedPermit<T> {
    /// `None` once the permit was used.
    sender: Option<Sender<T>>,
}

impl<T> OwnedPermit<T> {
    /// Creates the permit of a slot that the caller has reserved.
    pub(super) fn new(sender: Sender<T>) -> Self {
        sender.chan().record_reserved(1);
        Self { sender: Some(sender) }
    }

    fn into_sender(mut self) -> Sender<T> {
        self.sender.take().expect("a permit has its sender until it is used")
    }

    /// Sends a message in the reserved slot and returns the sender.
    ///
    /// Neither waits nor fails, even after the receiver was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (tx, mut rx) = mpsc::channel(1);
    /// let permit = tx.reserve_owned().await.unwrap();
    /// let tx = permit.send("message");
    /// assert_eq!(rx.recv().await, Some("message"));
    /// # drop(tx);
    /// # }
    /// ```
    pub fn send(self, value: T) -> Sender<T> {
        let sender = self.into_sender();
        Permit { chan: sender.chan() }.send(value);
        sender
    }

    /// Releases the slot and returns the sender.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let permit = tx.try_reserve_owned().unwrap();
    /// let tx = permit.release();
    /// assert_eq!(tx.capacity(), 1);
    /// ```
    pub fn release(self) -> Sender<T> {
        let sender = self.into_sender();
        drop(Permit { chan: sender.chan() });
        sender
    }

    /// Returns whether two permits belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(2);
    /// let first = tx.clone().try_reserve_owned().unwrap();
    /// let second = tx.try_reserve_owned().unwrap();
    /// assert!(first.same_channel(&second));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        match (&self.sender, &other.sender) {
            (Some(own), Some(other)) => own.same_channel(other),
            _ => false,
        }
    }

    /// Returns whether this permit and a sender belong to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, _rx) = mpsc::channel::<u32>(1);
    /// let permit = tx.clone().try_reserve_owned().unwrap();
    /// assert!(permit.same_channel_as_sender(&tx));
    /// ```
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
