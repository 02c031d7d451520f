//! What a descriptor is ready for, as users see it. The bits are those that the
//! driver keeps.

use super::Interest;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// What an I/O resource is ready for: a set of states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u8);

impl Ready {
    /// Nothing.
    pub const EMPTY: Ready = Ready(0);

    /// There is something to read.
    pub const READABLE: Ready = Ready(1);

    /// There is room to write.
    pub const WRITABLE: Ready = Ready(1 << 1);

    /// No more comes in.
    pub const READ_CLOSED: Ready = Ready(1 << 2);

    /// No more goes out.
    pub const WRITE_CLOSED: Ready = Ready(1 << 3);

    /// There is something urgent to read.
    pub const PRIORITY: Ready = Ready(1 << 4);

    /// There is an error to be asked for.
    pub const ERROR: Ready = Ready(1 << 5);

    /// Everything.
    pub const ALL: Ready = Ready((1 << 6) - 1);

    /// Whether it is ready for nothing.
    pub fn is_empty(self) -> bool {
        self == Ready::EMPTY
    }

    /// Whether a read would not have to wait: there is something, or nothing more
    /// comes.
    pub fn is_readable(self) -> bool {
        self.has(Ready::READABLE) || self.is_read_closed()
    }

    /// Whether a write would not have to wait: there is room, or nothing more
    /// goes out.
    pub fn is_writable(self) -> bool {
        self.has(Ready::WRITABLE) || self.is_write_closed()
    }

    /// Whether the side that is read from is closed.
    pub fn is_read_closed(self) -> bool {
        self.has(Ready::READ_CLOSED)
    }

    /// Whether the side that is written to is closed.
    pub fn is_write_closed(self) -> bool {
        self.has(Ready::WRITE_CLOSED)
    }

    /// Whether there is something urgent to read.
    pub fn is_priority(self) -> bool {
        self.has(Ready::PRIORITY)
    }

    /// Whether there is an error to be asked for.
    pub fn is_error(self) -> bool {
        self.has(Ready::ERROR)
    }

    fn has(self, all: Ready) -> bool {
        self & all == all
    }

    /// From the driver's word; bits that mean nothing here are left out.
    pub(crate) const fn from_bits(bits: u8) -> Ready {
        Ready(bits & Ready::ALL.0)
    }

    /// For the driver.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// What ends the wait of somebody with this interest.
    pub(crate) fn of_interest(interest: Interest) -> Ready {
        let mut ready = Ready::EMPTY;
        if interest.is_readable() {
            ready |= Ready::READABLE | Ready::READ_CLOSED;
        }
        if interest.is_writable() {
            ready |= Ready::WRITABLE | Ready::WRITE_CLOSED;
        }
        if interest.is_priority() {
            ready |= Ready::PRIORITY | Ready::READ_CLOSED;
        }
        if interest.is_error() {
            ready |= Ready::ERROR;
        }
        ready
    }
}

impl BitOr for Ready {
    type Output = Ready;

    #[inline]
    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    #[inline]
    fn bitor_assign(&mut self, other: Ready) {
        self.0 |= other.0;
    }
}

impl BitAnd for Ready {
    type Output = Ready;

    #[inline]
    fn bitand(self, other: Ready) -> Ready {
        Ready(self.0 & other.0)
    }
}

/// What is in the first set and not in the second.
impl Sub for Ready {
    type Output = Ready;

    #[inline]
    fn sub(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Ready");
        fields
            .field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_error", &self.is_error());
        fields.field("is_priority", &self.is_priority());
        fields.finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_bits_come_back_as_they_went() {
        for bits in 0..=Ready::ALL.bits() {
            assert_eq!(Ready::from_bits(bits).bits(), bits);
        }
        assert_eq!(Ready::from_bits(u8::MAX), Ready::ALL);
    }

    #[test]
    fn an_interest_is_met_by_the_end_too() {
        let read = Ready::of_interest(Interest::READABLE);
        assert_eq!(read, Ready::READABLE | Ready::READ_CLOSED);
        let both = Ready::of_interest(Interest::WRITABLE | Interest::ERROR);
        assert_eq!(both, Ready::WRITABLE | Ready::WRITE_CLOSED | Ready::ERROR);
    }
}
