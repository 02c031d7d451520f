//! [`Interest`]: the kinds of readiness that a task waits for.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A non-empty set of readiness kinds that a task waits for.
///
/// Passed to methods such as [`TcpStream::ready`](crate::net::TcpStream::ready). Combine kinds with
/// `|`.
///
/// # Examples
///
/// ```
/// use wakeful::io::Interest;
///
/// let interest = Interest::READABLE | Interest::WRITABLE;
/// assert!(interest.is_readable() && interest.is_writable());
/// ```
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Interest(u8);

impl Interest {
    /// Interest in data to read, or in a closed read side.
    pub const READABLE: Interest = Interest(1);

    /// Interest in space to write, or in a closed write side.
    pub const WRITABLE: Interest = Interest(1 << 1);

    /// Interest in urgent (out-of-band) data to read.
    pub const PRIORITY: Interest = Interest(1 << 4);

    /// Interest in errors.
    ///
    /// The kernel always reports errors; the details depend on the descriptor.
    pub const ERROR: Interest = Interest(1 << 5);

    /// Returns whether reading is included.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Interest;
    ///
    /// assert!((Interest::READABLE | Interest::WRITABLE).is_readable());
    /// assert!(!Interest::WRITABLE.is_readable());
    /// ```
    pub const fn is_readable(self) -> bool {
        self.contains(Interest::READABLE)
    }

    /// Returns whether writing is included.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Interest;
    ///
    /// assert!((Interest::READABLE | Interest::WRITABLE).is_writable());
    /// assert!(!Interest::READABLE.is_writable());
    /// ```
    pub const fn is_writable(self) -> bool {
        self.contains(Interest::WRITABLE)
    }

    /// Returns whether errors are included.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Interest;
    ///
    /// assert!((Interest::READABLE | Interest::ERROR).is_error());
    /// ```
    pub const fn is_error(self) -> bool {
        self.contains(Interest::ERROR)
    }

    /// Returns whether urgent data is included.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Interest;
    ///
    /// assert!(Interest::PRIORITY.is_priority());
    /// assert!(!Interest::READABLE.is_priority());
    /// ```
    pub const fn is_priority(self) -> bool {
        self.contains(Interest::PRIORITY)
    }

    const fn contains(self, one: Interest) -> bool {
        self.0 & one.0 != 0
    }

    /// Returns the union of both interests; usable in constants, unlike `|`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Interest;
    ///
    /// const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);
    /// assert!(BOTH.is_readable() && BOTH.is_writable());
    /// ```
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// Returns `self` without `other`, or `None` if nothing is left.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::io::Interest;
    ///
    /// let both = Interest::READABLE | Interest::WRITABLE;
    /// assert_eq!(both.remove(Interest::WRITABLE), Some(Interest::READABLE));
    /// assert_eq!(both.remove(both), None);
    /// ```
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub fn remove(self, other: Interest) -> Option<Interest> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Interest(left)),
        }
    }

    /// Converts to the interest that the poller registers.
    ///
    /// Never empty: the poller always reports errors, but requires at least one other interest.
    pub(crate) fn to_mio(self) -> mio::Interest {
        let parts = [
            (self.is_readable() || self.is_error()).then_some(mio::Interest::READABLE),
            self.is_writable().then_some(mio::Interest::WRITABLE),
            self.is_priority().then_some(mio::Interest::PRIORITY),
        ];
        let all = parts.into_iter().flatten().reduce(mio::Interest::add);
        all.expect("an interest is never empty")
    }
}

impl BitOr for Interest {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Interest::READABLE, "READABLE"),
            (Interest::WRITABLE, "WRITABLE"),
            (Interest::PRIORITY, "PRIORITY"),
            (Interest::ERROR, "ERROR"),
        ];
        let mut separator = "";
        for (_, name) in names.into_iter().filter(|&(one, _)| self.contains(one)) {
            write!(f, "{separator}{name}")?;
            separator = " | ";
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn interest_for_the_poller_is_never_empty() {
        assert_eq!(Interest::ERROR.to_mio(), mio::Interest::READABLE);
        assert_eq!(Interest::WRITABLE.to_mio(), mio::Interest::WRITABLE);
        let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
        assert_eq!((Interest::READABLE | Interest::WRITABLE).to_mio(), both);
        assert_eq!((Interest::ERROR | Interest::WRITABLE).to_mio(), both);
    }
}
