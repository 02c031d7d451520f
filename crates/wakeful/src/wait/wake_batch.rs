//! Wakers on their way out of a lock: collected under it, woken after it.

use crate::sys::IS_MODEL;
use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

/// Wakers taken out under one hold of a lock.
const ROOM: usize = if IS_MODEL { 2 } else { 32 };

/// Somebody to be woken once the lock is let go. A waiter that has not been
/// polled yet has no waker, and sees its answer when it is.
#[must_use = "whoever it is for waits"]
#[derive(Debug)]
pub(crate) struct PendingWake(pub(super) Option<Waker>);

impl PendingWake {
    pub(crate) const NONE: PendingWake = PendingWake(None);

    pub(crate) fn new(waker: Option<Waker>) -> Self {
        Self(waker)
    }

    #[inline]
    pub(crate) fn wake(self) {
        if let Some(waker) = self.0 {
            waker.wake();
        }
    }
}

/// Up to [`ROOM`] calls; more take another hold of the lock.
pub(crate) struct WakeBatch {
    wakers: [MaybeUninit<Waker>; ROOM],
    /// How many of `wakers` are there.
    len: usize,
}

impl WakeBatch {
    pub(crate) const fn new() -> Self {
        Self { wakers: [const { MaybeUninit::uninit() }; ROOM], len: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == ROOM
    }

    /// # Panics
    ///
    /// If it is full.
    #[inline]
    pub(crate) fn push(&mut self, call: PendingWake) {
        if let Some(waker) = call.0 {
            self.wakers[self.len].write(waker);
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<Waker> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: those below the old `len` are there; this one no longer is.
        Some(unsafe { self.wakers[self.len].assume_init_read() })
    }

    /// Wakes all, in the order they came; outside of any lock.
    pub(crate) fn wake(&mut self) {
        // Reversed once, so that a panic leaves `len` in step with what is there.
        self.wakers[..self.len].reverse();
        while let Some(waker) = self.pop() {
            waker.wake();
        }
    }
}

impl Drop for WakeBatch {
    /// If there is any left, the one before panicked: the others are not to
    /// blame.
    fn drop(&mut self) {
        while let Some(waker) = self.pop() {
            if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                std::mem::forget(payload); // its drop might panic again
            }
        }
    }
}

/// What wakers have panicked with. They are foreign code, and what is left to do is done before
/// that is passed on.
#[derive(Default)]
pub(crate) struct PanicSink(Option<Box<dyn Any + Send>>);

impl PanicSink {
    /// Runs what may panic.
    #[inline]
    pub(crate) fn catch(&mut self, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            // The last one is passed on; the drop of another may panic too.
            std::mem::forget(self.0.replace(payload));
        }
    }

    pub(crate) fn has_panic(&self) -> bool {
        self.0.is_some()
    }

    /// # Panics
    ///
    /// If a waker did.
    #[inline]
    pub(crate) fn resume(self) {
        if let Some(payload) = self.0 {
            panic::resume_unwind(payload);
        }
    }

    /// Whoever runs this is not to blame, and nobody above could do anything: it was printed.
    #[inline]
    pub(crate) fn forget(self) {
        if let Some(payload) = self.0 {
            std::mem::forget(payload); // its drop might panic again
        }
    }
}

/// Wakes all, outside of any lock, whichever of them panic.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    let mut panics = PanicSink::default();
    wakers.into_iter().for_each(|waker| panics.catch(|| waker.wake()));
    panics.forget();
}

/// Drops all, outside of any lock, whichever drops panic.
///
/// # Panics
///
/// If the drop of a waker does.
pub(crate) fn drop_all(wakers: impl IntoIterator<Item = Waker>) {
    let mut panics = PanicSink::default();
    wakers.into_iter().for_each(|waker| panics.catch(|| drop(waker)));
    panics.resume();
}
