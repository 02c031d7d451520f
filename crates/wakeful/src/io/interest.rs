//! What somebody waits for at a descriptor, as users say it.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Which kinds of readiness somebody is interested in; at least one.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Interest(u8);

impl Interest {
    /// That there is something to read, or that nothing more comes.
    pub const READABLE: Interest = Interest(1);

    /// That there is room to write, or that nothing more goes out.
    pub const WRITABLE: Interest = Interest(1 << 1);

    /// That there is something urgent to read.
    pub const PRIORITY: Interest = Interest(1 << 4);

    /// That there is an error. The system tells of these in any case; what one
    /// gets to know depends on the platform.
    pub const ERROR: Interest = Interest(1 << 5);

    /// Whether reading is part of it.
    pub const fn is_readable(self) -> bool {
        self.has(Interest::READABLE)
    }

    /// Whether writing is part of it.
    pub const fn is_writable(self) -> bool {
        self.has(Interest::WRITABLE)
    }

    /// Whether errors are part of it.
    pub const fn is_error(self) -> bool {
        self.has(Interest::ERROR)
    }

    /// Whether what is urgent is part of it.
    pub const fn is_priority(self) -> bool {
        self.has(Interest::PRIORITY)
    }

    const fn has(self, one: Interest) -> bool {
        self.0 & one.0 != 0
    }

    /// Both interests in one; the same as `|`, for constants.
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

    /// What is left of it without the other; `None` if that is nothing.
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub fn remove(self, other: Interest) -> Option<Interest> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Interest(left)),
        }
    }

    /// What the poller is to be asked for. There is always something: it tells of
    /// errors unasked, but wants to be asked for something else then.
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
        for (_, name) in names.into_iter().filter(|&(one, _)| self.has(one)) {
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
    fn the_poller_is_always_asked_for_something() {
        assert_eq!(Interest::ERROR.to_mio(), mio::Interest::READABLE);
        assert_eq!(Interest::WRITABLE.to_mio(), mio::Interest::WRITABLE);
        let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
        assert_eq!((Interest::READABLE | Interest::WRITABLE).to_mio(), both);
        assert_eq!((Interest::ERROR | Interest::WRITABLE).to_mio(), both);
    }
}
