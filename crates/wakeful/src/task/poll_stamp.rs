//! Identifies the poll in which a wait was recorded.

/// The number of a poll, reduced to 15 bits: bits 16 to 30 of a word.
///
/// A wait record stores the stamp in one word with the kind of the wait and a flag in bit 31.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollStamp(u32);

impl PollStamp {
    const MASK: u32 = 0x7fff << 16;

    /// Creates a stamp from twice the number of a poll. The lowest bit of `doubled` is ignored.
    #[inline]
    pub(crate) const fn from_doubled(doubled: u32) -> Self {
        Self((doubled << 15) & Self::MASK)
    }

    /// Reads the stamp out of a word that also holds other values.
    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        Self(word & Self::MASK)
    }

    /// Returns the stamp at its position in a word. All other bits are 0.
    #[inline]
    pub(super) const fn to_word(self) -> u32 {
        self.0
    }

    /// Returns whether both stamps belong to one poll. Stamps repeat after 32,768 polls.
    #[inline]
    pub(crate) fn same_poll(self, other: PollStamp) -> bool {
        self.0 == other.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn stamps_tell_polls_apart_until_they_repeat() {
        let stamp = |poll: u32| PollStamp::from_doubled(poll.wrapping_mul(2));
        for poll in [0, 1, 2, 32_767, 32_768, 65_535, u32::MAX] {
            assert!(stamp(poll).same_poll(PollStamp::from_doubled(poll.wrapping_mul(2) | 1)));
            assert!(!stamp(poll).same_poll(stamp(poll.wrapping_add(1))));
            assert!(!stamp(poll).same_poll(stamp(poll.wrapping_add(32_767))));
            assert!(stamp(poll).same_poll(stamp(poll.wrapping_add(32_768))));
            let word = stamp(poll).to_word() | 0x8000_ffff;
            assert!(stamp(poll).same_poll(PollStamp::from_word(word)));
            assert_eq!(stamp(poll).to_word() & 0x8000_ffff, 0);
        }
    }
}
