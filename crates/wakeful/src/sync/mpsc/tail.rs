//! The word that senders race for: how many messages were ever claimed, how many
//! slots are promised to permits, and what the two sides tell each other.
//!
//! ```text
//!  63                 24 23              4    3       2       1       0
//!  position of the tail  reserved slots      GONE  QUEUED  PARKED  CLOSED
//! ```

use crate::sys::IS_MODEL;
use std::ops::BitOr;

const FLAG_BITS: u32 = 4;
const RESERVED_BITS: u32 = if IS_MODEL { 1 } else { 20 };
const POSITION_SHIFT: u32 = FLAG_BITS + RESERVED_BITS;

/// Positions wrap at this many messages. A sender that slept between its look at
/// the word and its exchange would have to sleep through exactly so many (ten
/// hours at 30 million a second) to be deceived.
pub(super) const POSITIONS: u64 = 1 << (u64::BITS - POSITION_SHIFT);
/// As many permits as the word counts; what is above is counted under a lock.
pub(super) const MAX_RESERVED: u64 = (1 << RESERVED_BITS) - 1;

/// A copy of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail(pub(super) u64);

/// What one bit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag(pub(super) u64);

/// The receiver wants no more messages. Never taken back.
pub(super) const CLOSED: Flag = Flag(1);
/// The receiver waits, and its waker is in its place.
pub(super) const PARKED: Flag = Flag(2);
/// Senders wait for room, or more is reserved than the word counts: whoever wants
/// room asks under the lock.
pub(super) const QUEUED: Flag = Flag(4);
/// The last sender has gone. Never taken back.
pub(super) const GONE: Flag = Flag(8);

impl BitOr for Flag {
    type Output = Flag;

    fn bitor(self, other: Flag) -> Flag {
        Flag(self.0 | other.0)
    }
}

/// One more message.
pub(super) const MESSAGE: u64 = 1 << POSITION_SHIFT;
/// One more permit.
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

    /// Whether any of the bits is set.
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

    /// The word after one more message was claimed. The receiver, if it waited,
    /// is the claimer's to wake.
    #[inline]
    pub(super) fn forward(self) -> Tail {
        Tail(self.0.wrapping_add(MESSAGE)).without(PARKED)
    }

    /// # Panics
    ///
    /// In debug builds, if there is no room for as many.
    #[inline]
    pub(super) fn reserve(self, permits: u64) -> Tail {
        debug_assert!(self.reserved() + permits <= MAX_RESERVED);
        Tail(self.0 + permits * PERMIT)
    }

    /// # Panics
    ///
    /// In debug builds, if there are not as many.
    #[inline]
    pub(super) fn unreserve(self, permits: u64) -> Tail {
        debug_assert!(self.reserved() >= permits);
        Tail(self.0 - permits * PERMIT)
    }

    /// How many slots are taken or promised, if the receiver is at `head`. A huge
    /// number if the word is older than `head`.
    #[inline]
    pub(super) fn used(self, head: u64) -> u64 {
        (self.position() + self.reserved()).wrapping_sub(head) & (POSITIONS - 1)
    }

    /// How many messages wait for a receiver at `head`.
    #[inline]
    pub(super) fn len(self, head: u64) -> u64 {
        self.position().wrapping_sub(head) & (POSITIONS - 1)
    }

    /// Whether nothing can come after what is already there.
    #[inline]
    pub(super) fn has_ended(self) -> bool {
        self.has(GONE) || (self.has(CLOSED) && !self.has(QUEUED) && self.reserved() == 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_touch_each_other() {
        let word = Tail(0).with(CLOSED | QUEUED).reserve(MAX_RESERVED).forward();
        assert_eq!((word.position(), word.reserved()), (1, MAX_RESERVED));
        let word = word.unreserve(MAX_RESERVED - 1).with(PARKED).forward();
        assert_eq!((word.position(), word.reserved()), (2, 1));
        assert!(word.has(CLOSED) && word.has(QUEUED) && !word.has(PARKED) && !word.has(GONE));
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
    fn a_closed_channel_ends_with_its_last_permit() {
        let closed = Tail(0).reserve(1).with(CLOSED);
        assert!(!closed.has_ended() && closed.unreserve(1).has_ended());
        assert!(!closed.unreserve(1).with(QUEUED).has_ended());
        assert!(Tail(0).with(GONE).has_ended() && !Tail(0).has_ended());
    }
}
