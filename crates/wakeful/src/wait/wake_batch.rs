//! Wakers that are collected under a lock and woken after it is released.
//!
//! Wakers are foreign code: a wake may call back into the resource, and it may panic.

use crate::sys::IS_MODEL;
use crate::sys::unwind::catch_and_forget;
use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

/// The capacity of a batch, collected in one critical section.
const CAPACITY: usize = if IS_MODEL { 2 } else { 32 };

/// A wake to be performed once the lock is released.
///
/// A waiter that was never polled has no waker, and sees its grant at its first poll.
#[must_use = "the task waits until this is woken"]
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

/// Up to [`CAPACITY`] pending wakes; more wakes need another critical section.
pub(crate) struct WakeBatch {
    wakers: [MaybeUninit<Waker>; CAPACITY],
    /// The number of initialized `wakers`.
    len: usize,
}

impl WakeBatch {
    pub(crate) const fn new() -> Self {
        Self { wakers: [const { MaybeUninit::uninit() }; CAPACITY], len: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Adds a wake.
    ///
    /// # Panics
    ///
    /// If the batch is full.
    #[inline]
    pub(crate) fn push(&mut self, wake: PendingWake) {
        if let Some(waker) = wake.0 {
            self.wakers[self.len].write(waker);
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<Waker> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: wakers below the old `len` are initialized, and this one is no longer below it.
        Some(unsafe { self.wakers[self.len].assume_init_read() })
    }

    /// Wakes all wakers, in the order in which they were pushed. The caller must hold no lock.
    pub(crate) fn wake(&mut self) {
        // Reversed once, so that `len` stays correct if a wake panics.
        self.wakers[..self.len].reverse();
        while let Some(waker) = self.pop() {
            waker.wake();
        }
    }
}

impl Drop for WakeBatch {
    /// Wakes the remaining wakers after a panic of one, so that their tasks don't wait forever.
    fn drop(&mut self) {
        while let Some(waker) = self.pop() {
            catch_and_forget(|| waker.wake());
        }
    }
}

/// Collects panics of wakers, so that the caller can finish its work before it resumes them.
#[derive(Default)]
pub(crate) struct PanicSink(Option<Box<dyn Any + Send>>);

impl PanicSink {
    /// Runs `f`, and keeps the payload if it panics.
    #[inline]
    pub(crate) fn catch(&mut self, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            // Only the last payload is kept. Dropping an earlier payload may panic, so it is
            // leaked.
            std::mem::forget(self.0.replace(payload));
        }
    }

    /// Returns whether a waker has panicked.
    pub(crate) fn has_panic(&self) -> bool {
        self.0.is_some()
    }

    /// Resumes the last panic.
    ///
    /// # Panics
    ///
    /// If a waker has panicked.
    #[inline]
    pub(crate) fn resume(self) {
        if let Some(payload) = self.0 {
            panic::resume_unwind(payload);
        }
    }

    /// Discards the panic, which the panic hook has printed and the caller cannot handle.
    #[inline]
    pub(crate) fn forget(self) {
        if let Some(payload) = self.0 {
            std::mem::forget(payload); // its drop may panic again
        }
    }
}

/// Wakes all wakers, and discards their panics. The caller must hold no lock.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    let mut panics = PanicSink::default();
    wakers.into_iter().for_each(|waker| panics.catch(|| waker.wake()));
    panics.forget();
}

/// Drops all wakers, even if one of the drops panics. The caller must hold no lock.
///
/// # Panics
///
/// If the drop of a waker panics.
pub(crate) fn drop_all(wakers: impl IntoIterator<Item = Waker>) {
    let mut panics = PanicSink::default();
    wakers.into_iter().for_each(|waker| panics.catch(|| drop(waker)));
    panics.resume();
}
