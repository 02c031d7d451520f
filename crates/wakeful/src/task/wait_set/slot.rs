//! One wait of a wait set.

use crate::sys::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, RecordedWait, SiteWord, Wait};
use crate::task::wait_target::TargetWord;
use std::panic::Location;
use std::ptr;

/// A flag in a slot's tag, above the kind: the link of the slot is indirect.
const INDIRECT: u32 = 1 << 8;
/// The kind of a free slot.
pub(super) const FREE: u8 = 0;

/// One wait of a set.
pub(super) struct Slot {
    pub(super) target: AtomicU64,
    pub(super) site: AtomicPtr<Location<'static>>,
    pub(super) since_ms: AtomicU32,
    /// The kind in bits 0 to 7, INDIRECT, and the [`PollStamp`].
    pub(super) tag: AtomicU32,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            target: AtomicU64::new(TargetWord::NONE.to_bits()),
            site: AtomicPtr::new(ptr::null_mut()),
            since_ms: AtomicU32::new(0),
            tag: AtomicU32::new(u32::from(FREE)),
        }
    }

    pub(super) fn is_linked(&self) -> bool {
        TargetWord::from_bits(self.target.load(Relaxed)).is_linked_record()
    }

    pub(super) fn kind(&self) -> u8 {
        self.tag.load(Relaxed) as u8
    }

    pub(super) fn describe(&self, new: &RecordedWait) {
        self.since_ms.store(new.wait.since_ms, Relaxed);
        SiteWord::new(new.wait.site, new.at_resource).store(&self.site);
        let indirect = if new.link == Link::Indirect { INDIRECT } else { 0 };
        let tag = new.wait.kind as u32 | indirect | new.poll.to_word();
        // Release pairs with the Acquire load of `read`: a reader that sees the kind sees the site.
        self.tag.store(tag, Release);
    }

    pub(super) fn free(&self) {
        self.tag.store(u32::from(FREE), Relaxed);
    }

    /// Reads the slot, whose target is at `word`.
    pub(super) fn read(&self, word: &AtomicU64) -> Option<RecordedWait> {
        // Acquire pairs with the Release store of a link.
        let target = TargetWord::from_bits(word.load(Acquire));
        let tag = self.tag.load(Acquire);
        if tag as u8 == FREE {
            return None;
        }
        let (site, at_resource) = SiteWord::load(&self.site)?;
        let link = match () {
            () if !target.is_linked() => Link::None,
            () if tag & INDIRECT != 0 => Link::Indirect,
            () => Link::Direct,
        };
        let kind = WaitKind::from_u8(tag as u8);
        let since_ms = self.since_ms.load(Relaxed);
        let wait = Wait { kind, target: target.unlinked(), site, since_ms };
        Some(RecordedWait { wait, link, at_resource, poll: PollStamp::from_word(tag) })
    }
}
