//! Futures that a test polls by hand, with a waker that counts its wakes.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts how often it is woken.
#[derive(Default)]
pub struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A boxed future, and the counter that its wakers increment.
pub struct ManualPoll<F> {
    future: Pin<Box<F>>,
    wake_count: Arc<WakeCount>,
}

impl<F: Future> ManualPoll<F> {
    pub fn new(future: F) -> Self {
        Self { future: Box::pin(future), wake_count: Arc::default() }
    }

    /// Polls a new future once; it must be pending.
    pub fn pending(future: F) -> Self {
        let mut manual = Self::new(future);
        assert!(manual.poll().is_pending(), "it was expected to wait");
        manual
    }

    pub fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(self.wake_count.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls with another waker.
    pub fn poll_with(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }

    /// Polls the future, which must be ready, and returns its output.
    #[track_caller]
    pub fn ready(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it was expected to be ready"),
        }
    }

    pub fn as_mut(&mut self) -> Pin<&mut F> {
        self.future.as_mut()
    }

    /// Returns the number of wakes since the last call, and resets it.
    pub fn take_wakes(&self) -> usize {
        self.wake_count.0.swap(0, SeqCst)
    }

    /// Returns the number of wakers that exist.
    pub fn wakers(&self) -> usize {
        Arc::strong_count(&self.wake_count) - 1
    }

    /// Returns the counter, which outlives the future.
    pub fn wake_count(&self) -> Arc<WakeCount> {
        self.wake_count.clone()
    }
}
