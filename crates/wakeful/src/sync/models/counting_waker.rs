//! A waker that counts its wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};

/// Counts how often it was woken. Its counter is std's, so it is not part of the model.
pub(super) struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl WakeCount {
    /// Creates a counter, and a waker that increments it.
    pub(super) fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    /// Returns the number of wake-ups.
    pub(super) fn wakes(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Returns the number of wake-ups and sets it to 0.
    pub(super) fn take_wakes(&self) -> usize {
        self.0.swap(0, SeqCst)
    }

    /// Asserts that no clone of the waker is left.
    #[track_caller]
    pub(super) fn assert_waker_dropped(self: &Arc<Self>) {
        assert_eq!(Arc::strong_count(self), 1, "a waker was not dropped");
    }
}
