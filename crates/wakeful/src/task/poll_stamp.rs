//! Which poll of a task something was recorded in.

/// The number of a poll, reduced to 15 bits in the upper half of a word.
///
/// A wait record keeps it beside the kind of the wait. The bit below the number means nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollStamp(u32);

impl PollStamp {
    const MASK: u32 = 0x7fff << 17;

    /// Makes a stamp of twice the number of a poll. The lowest bit of `doubled` is ignored.
    #[inline]
    pub(crate) const fn from_doubled(doubled: u32) -> Self {
        Self(doubled << 16)
    }

    /// Reads the stamp out of a word that also holds other values in its lower half.
    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Returns the stamp as the upper half of a word.
    #[inline]
    pub(super) const fn to_word(self) -> u32 {
        self.0
    }

    /// Returns whether both stamps are of one poll. Stamps repeat after 32,768 polls.
    #[inline]
    pub(crate) fn same_poll(self, other: PollStamp) -> bool {
        (self.0 ^ other.0) & Self::MASK == 0
    }
}
