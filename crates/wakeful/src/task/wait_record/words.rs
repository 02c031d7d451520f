//! The words of a wait record that are addresses with a flag: the site, and the link.

use super::Link;
use crate::sys::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use crate::task::wait_target::TargetWord;
use std::panic::Location;
use std::ptr::NonNull;

/// The site of a wait, with a flag in the lowest bit of its address.
///
/// With the flag, the site is where the resource was created, because the future does not know
/// where it is awaited.
#[derive(Clone, Copy)]
pub(in crate::task) struct SiteWord(*mut Location<'static>);

const OF_RESOURCE: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > OF_RESOURCE);

impl SiteWord {
    #[inline]
    pub(in crate::task) fn new(site: &'static Location<'static>, of_resource: bool) -> Self {
        let flag = if of_resource { OF_RESOURCE } else { 0 };
        Self(std::ptr::from_ref(site).cast_mut().map_addr(|address| address | flag))
    }

    /// Reads a word in which only null or results of `new` are stored.
    pub(in crate::task) fn load(
        word: &AtomicPtr<Location<'static>>,
    ) -> Option<(&'static Location<'static>, bool)> {
        let word = word.load(Relaxed);
        // SAFETY: only null, or a `&'static` with the flag that is removed here, is stored there.
        let site = unsafe { word.map_addr(|address| address & !OF_RESOURCE).as_ref() }?;
        Some((site, word.addr() & OF_RESOURCE != 0))
    }

    #[inline]
    pub(in crate::task) fn store(self, word: &AtomicPtr<Location<'static>>) {
        word.store(self.0, Relaxed);
    }
}

/// A reference to the target word of a linked wait, for the thread that removes the link.
///
/// The lowest bit of the address is set if the link is indirect.
#[derive(Clone, Copy)]
pub(crate) struct LinkWord(pub(super) NonNull<AtomicU64>);

const INDIRECT: usize = 1;
const _: () = assert!(align_of::<AtomicU64>() > INDIRECT);

impl LinkWord {
    pub(in crate::task) fn new(word: NonNull<AtomicU64>, link: Link) -> Self {
        Self(if link == Link::Indirect {
            word.map_addr(|address| address | INDIRECT)
        } else {
            word
        })
    }

    #[inline]
    pub(crate) fn is_indirect(self) -> bool {
        self.0.addr().get() & INDIRECT != 0
    }

    /// Removes a direct link: the task's waker is no longer queued there.
    ///
    /// # Safety
    ///
    /// The link must be direct, and the task's wait record must be alive.
    #[inline]
    pub(crate) unsafe fn detach(self) {
        debug_assert!(!self.is_indirect());
        // SAFETY: the word is in the wait record, or in a wait set, which is never freed.
        let word = unsafe { self.0.as_ref() };
        if let Some(unlinked) = TargetWord::from_bits(word.load(Relaxed)).unlinked_record() {
            // A plain store: the word belongs to this waiter while it is linked (SET-2).
            word.store(unlinked.to_bits(), Relaxed);
        }
    }

    /// Removes an indirect link to this target.
    pub(crate) fn detach_indirect(self, linked: TargetWord) {
        Self::detach_expected(self.indirect_word(), linked);
    }

    /// Removes the link from `word`, if `word` still has the link to this target.
    pub(in crate::task) fn detach_expected(word: &AtomicU64, linked: TargetWord) {
        // Relaxed: no other memory depends on the link.
        let unlinked = linked.unlinked().to_bits();
        let _ = word.compare_exchange(linked.to_bits(), unlinked, Relaxed, Relaxed);
    }

    /// Returns the word of an indirect link.
    pub(super) fn indirect_word(self) -> &'static AtomicU64 {
        assert!(self.is_indirect());
        // SAFETY: `new` set the bit that is removed. An indirect link is always in a wait set
        // (`WaitWriter::record_indirect`), which is never freed.
        unsafe { &*self.0.as_ptr().map_addr(|address| address & !INDIRECT) }
    }

    /// Returns whether this word still has the direct link to that target.
    ///
    /// # Safety
    ///
    /// The task's wait record must be alive.
    #[inline]
    pub(crate) unsafe fn has_direct(self, linked: TargetWord) -> bool {
        // SAFETY: the word is in the wait record, or in a wait set, which is never freed.
        !self.is_indirect() && unsafe { self.0.as_ref() }.load(Relaxed) == linked.to_bits()
    }
}
