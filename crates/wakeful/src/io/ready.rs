//! [`Ready`]: the readiness of a descriptor.
//!
//! The bits match the driver's `Readiness`.

use super::Interest;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// A set of readiness states of a descriptor.
///
/// Returned by methods such as [`TcpStream::ready`](crate::net::TcpStream::ready).
///
/// # Examples
///
/// ```
/// use wakeful::io::Ready;
///
/// let ready = Ready::READABLE | Ready::WRITE_CLOSED;
/// assert!(ready.is_readable() && ready.is_writable());
/// assert_eq!(ready - Ready::READABLE, Ready::WRITE_CLOSED);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u8);

impl Ready {
    /// The empty set.
    pub const EMPTY: Ready = Ready(0);

    /// There is data to read.
    pub const READABLE: Ready = Ready(1);

    /// There is space to write.
    pub const WRITABLE: Ready = Ready(1 << 1);

    /// The read side is closed.
    pub const READ_CLOSED: Ready = Ready(1 << 2);

    /// The write side is closed.
    pub const WRITE_CLOSED: Ready = Ready(1 << 3);

    /// There is urgent (out-of-band) data to read.
    pub const PRIORITY: Ready = Ready(1 << 4);

    /// There is a pending error.
    pub const ERROR: Ready = Ready(1 << 5);

    /// All states.
    pub const ALL: Ready = Ready((1 << 6) - 1);

    /// Returns whether the set is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Ready;
    ///
    /// assert!(Ready::EMPTY.is_empty());
    /// assert!(!Ready::READABLE.is_empty());
    /// ```
    pub fn is_empty(self) -> bool {
        self == Ready::EMPTY
    }

    /// Returns whether a read would not wait: there is data, or the read side is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Ready;
    ///
    /// assert!(Ready::READABLE.is_readable());
    /// assert!(Ready::READ_CLOSED.is_readable());
    /// assert!(!Ready::WRITABLE.is_readable());
    /// ```
    pub fn is_readable(self) -> bool {
        self.contains(Ready::READABLE) || self.is_read_closed()
    }

    /// Returns whether a write would not wait: there is space, or the write side is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Ready;
    ///
    /// assert!(Ready::WRITABLE.is_writable());
    /// assert!(Ready::WRITE_CLOSED.is_writable());
    /// assert!(!Ready::READABLE.is_writable());
    /// ```
    pub fn is_writable(self) -> bool {
        self.contains(Ready::WRITABLE) || self.is_write_closed()
    }

    /// Returns whether the read side is closed.
    ///
    /// Reads return the rest of the receive buffer, and then 0 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::Interest;
    /// use wakeful::net::UnixStream;
    ///
    /// let (a, b) = UnixStream::pair()?;
    /// drop(b);
    /// assert!(a.ready(Interest::READABLE).await?.is_read_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_read_closed(self) -> bool {
        self.contains(Ready::READ_CLOSED)
    }

    /// Returns whether the write side is closed.
    ///
    /// Writes fail.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::Interest;
    /// use wakeful::net::unix::pipe;
    ///
    /// let (tx, rx) = pipe::pipe()?;
    /// drop(rx);
    /// assert!(tx.ready(Interest::WRITABLE).await?.is_write_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_write_closed(self) -> bool {
        self.contains(Ready::WRITE_CLOSED)
    }

    /// Returns whether there is urgent data to read.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Ready;
    ///
    /// assert!(Ready::PRIORITY.is_priority());
    /// assert!(!Ready::READABLE.is_priority());
    /// ```
    pub fn is_priority(self) -> bool {
        self.contains(Ready::PRIORITY)
    }

    /// Returns whether there is a pending error.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Ready;
    ///
    /// assert!((Ready::READABLE | Ready::ERROR).is_error());
    /// assert!(!Ready::READABLE.is_error());
    /// ```
    pub fn is_error(self) -> bool {
        self.contains(Ready::ERROR)
    }

    fn contains(self, all: Ready) -> bool {
        self & all == all
    }

    /// Converts from the driver's bits, ignoring those that have no meaning here.
    pub(crate) const fn from_bits(bits: u8) -> Ready {
        Ready(bits & Ready::ALL.0)
    }

    /// Converts to the driver's bits.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the states that end a wait for `interest`.
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

/// Set difference.
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
    fn bits_survive_a_round_trip() {
        for bits in 0..=Ready::ALL.bits() {
            assert_eq!(Ready::from_bits(bits).bits(), bits);
        }
        assert_eq!(Ready::from_bits(u8::MAX), Ready::ALL);
    }

    #[test]
    fn interest_includes_closed_sides() {
        let read = Ready::of_interest(Interest::READABLE);
        assert_eq!(read, Ready::READABLE | Ready::READ_CLOSED);
        let both = Ready::of_interest(Interest::WRITABLE | Interest::ERROR);
        assert_eq!(both, Ready::WRITABLE | Ready::WRITE_CLOSED | Ready::ERROR);
    }
}
