//! The word that senders race for: the tail's position, the number of reserved slots, and flags.
//!
//! ```text
//!  63                 24 23            4       3          2       1       0
//!  position of the tail  reserved slots  DISCONNECTED  QUEUED  PARKED  CLOSED
//! ```

use crate::sys::IS_MODEL;
use std::ops::BitOr;

const FLAG_BITS: u32 = 4;
const RESERVED_BITS: u32 = if IS_MODEL { 1 } else { 20 };
const POSITION_SHIFT: u32 = FLAG_BITS + RESERVED_BITS;

/// The number of positions before they wrap.
///
/// A sender may sleep between its load of the word and its exchange. The exchange would succeed
/// wrongly only if exactly this number of messages passed in between: ten hours at 30 million a
/// second.
pub(super) const POSITIONS: u64 = 1 << (u64::BITS - POSITION_SHIFT);
/// The largest number of reserved slots that the word can count. More are counted under a lock.
pub(super) const MAX_RESERVED: u64 = (1 << RESERVED_BITS) - 1;

/// A copy of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail(pub(super) u64);

/// One bit of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag(pub(super) u64);

/// The receiver is closed or dropped. Never cleared.
pub(super) const CLOSED: Flag = Flag(1);
/// The receiver waits, and its waker is in its cell.
pub(super) const PARKED: Flag = Flag(2);
/// Senders wait for capacity, or more slots are reserved than the word counts. While set, senders
/// request capacity under the lock.
pub(super) const QUEUED: Flag = Flag(4);
/// The last sender was dropped. Never cleared.
pub(super) const DISCONNECTED: Flag = Flag(8);

impl BitOr for Flag {
    type Output = Flag;

    fn bitor(self, other: Flag) -> Flag {
        Flag(self.0 | other.0)
    }
}

/// One message, in the word.
pub(super) const MESSAGE: u64 = 1 << POSITION_SHIFT;
/// One reserved slot, in the word.
pub(super) const PERMIT: u64 = 1 << FLAG_BITS;

impl Tail {
    #[inline]
    pub(super) fn position(self) -> u64 {
        self.0 >> POSITION_SHIFT
    }

    #[inline]
    pub(super) fn reserved(self) -> u64 {
        (self.0 >> FLAG_BITS) & MAX_RESERVED
    }

    /// Returns whether any of the flags is set.
    #[inline]
    pub(super) fn has(self, flags: Flag) -> bool {
        self.0 & flags.0 != 0
    }

    #[inline]
    pub(super) fn with(self, flags: Flag) -> Tail {
        Tail(self.0 | flags.0)
    }

    #[inline]
    pub(super) fn without(self, flags: Flag) -> Tail {
        Tail(self.0 & !flags.0)
    }

    /// Returns the word after a message was claimed. Its claimer wakes the receiver if PARKED was
    /// set.
    #[inline]
    pub(super) fn forward(self) -> Tail {
        Tail(self.0.wrapping_add(MESSAGE)).without(PARKED)
    }

    /// Returns the word with `permits` more reserved slots.
    ///
    /// # Panics
    ///
    /// In debug builds, panics if the word cannot count them.
    #[inline]
    pub(super) fn reserve(self, permits: u64) -> Tail {
        debug_assert!(self.reserved() + permits <= MAX_RESERVED);
        Tail(self.0 + permits * PERMIT)
    }

    /// Returns the word with `permits` fewer reserved slots.
    ///
    /// # Panics
    ///
    /// In debug builds, panics if fewer are reserved.
    #[inline]
    pub(super) fn unreserve(self, permits: u64) -> Tail {
        debug_assert!(self.reserved() >= permits);
        Tail(self.0 - permits * PERMIT)
    }

    /// Returns the number of slots that are used or reserved, if the receiver is at `head`.
    ///
    /// The number is huge if the word is older than `head`.
    #[inline]
    pub(super) fn used(self, head: u64) -> u64 {
        (self.position() + self.reserved()).wrapping_sub(head) & (POSITIONS - 1)
    }

    /// Returns the number of messages that a receiver at `head` has not received.
    #[inline]
    pub(super) fn len(self, head: u64) -> u64 {
        self.position().wrapping_sub(head) & (POSITIONS - 1)
    }

    /// Returns whether no message can follow those already claimed.
    #[inline]
    pub(super) fn has_ended(self) -> bool {
        self.has(DISCONNECTED) || (self.has(CLOSED) && !self.has(QUEUED) && self.reserved() == 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_independent() {
        let word = Tail(0).with(CLOSED | QUEUED).reserve(MAX_RESERVED).forward();
        assert_eq!((word.position(), word.reserved()), (1, MAX_RESERVED));
        let word = word.unreserve(MAX_RESERVED - 1).with(PARKED).forward();
        assert_eq!((word.position(), word.reserved()), (2, 1));
        assert!(
            word.has(CLOSED) && word.has(QUEUED) && !word.has(PARKED) && !word.has(DISCONNECTED)
        );
        assert_eq!((word.used(0), word.len(0)), (3, 2));
    }

    #[test]
    fn positions_wrap() {
        let last = Tail((POSITIONS - 1) << POSITION_SHIFT).reserve(3).with(QUEUED);
        let next = last.forward();
        assert_eq!((next.position(), next.reserved(), next.has(QUEUED)), (0, 3, true));
        assert_eq!((next.len(POSITIONS - 2), next.used(POSITIONS - 2)), (2, 5));
    }

    #[test]
    fn closed_channel_ends_with_its_last_permit() {
        let closed = Tail(0).reserve(1).with(CLOSED);
        assert!(!closed.has_ended() && closed.unreserve(1).has_ended());
        assert!(!closed.unreserve(1).with(QUEUED).has_ended());
        assert!(Tail(0).with(DISCONNECTED).has_ended() && !Tail(0).has_ended());
    }
}
