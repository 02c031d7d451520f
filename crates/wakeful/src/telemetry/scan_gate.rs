//! When whoever looks who waits for whom (the monitor, or the thread that runs the tasks of a
//! current-thread runtime) may stop looking.
//!
//! What ends on threads that run no tasks is not seen by it otherwise: a rest or the whole of a
//! `block_on`, a closure, a poll of a thread without a core.
//!
//! Protocol: the one who looks reads `ends`, looks, says that it rests, and reads `ends` once
//! more; if that has moved, it does not rest. Who ends something counts that, and then looks
//! whether the other rests. All of these are SeqCst, so one of them sees the other: the last
//! look comes after the end, or the one who rests is roused.

use crate::sys::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

/// Where nobody would tell of what may leave another stuck (a future of `block_on` that never rested
/// ends, or a thread from outside does), it is looked again after this time at first, then twice as
/// long each time,
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// and at most so long.
pub(crate) const MOST_PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct ScanGate {
    rests: AtomicBool,
    ends: CachePadded,
}

/// Workers read what lies around it all the time, and others write this.
#[repr(align(128))]
struct CachePadded(AtomicU64);

impl ScanGate {
    pub(crate) fn new(rests: bool) -> Self {
        Self { rests: AtomicBool::new(rests), ends: CachePadded(AtomicU64::new(0)) }
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.rests.load(SeqCst)
    }

    /// How often something has ended elsewhere.
    pub(crate) fn ends(&self) -> u64 {
        self.ends.0.load(SeqCst)
    }

    /// The one who looks rests, unless something has ended since there were so many ends.
    /// Answers whether it does. (It may be roused right away.)
    pub(crate) fn rest(&self, ends: u64) -> bool {
        self.rests.swap(true, SeqCst);
        let rests = self.ends() == ends;
        if !rests {
            self.rouse();
        }
        rests
    }

    /// Something has ended. True: the one who looks rests, and is to be roused.
    pub(crate) fn end(&self) -> bool {
        self.ends.0.fetch_add(1, SeqCst);
        self.is_over()
    }

    /// It is to look again. True for the one who has to wake it.
    pub(crate) fn rouse(&self) -> bool {
        self.rests.swap(false, SeqCst)
    }

    /// Nobody looks: there is no thread for it.
    pub(crate) fn give_up(&self) {
        self.rests.store(true, SeqCst);
    }

    /// By the one who looks, at work: it does not rest.
    #[inline]
    pub(crate) fn go_on(&self) {
        self.rests.store(false, Relaxed);
    }
}
