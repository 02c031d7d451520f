//! Futures that a test polls by hand, with wakers that are counted: any executor may do what the test does.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it was woken.
#[derive(Default)]
pub struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future and the bell that its wakers ring.
pub struct Hand<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
}

impl<F: Future> Hand<F> {
    pub fn new(future: F) -> Self {
        Self { future: Box::pin(future), bell: Arc::default() }
    }

    /// One that was polled once, and waits.
    pub fn pending(future: F) -> Self {
        let mut hand = Self::new(future);
        assert!(hand.poll().is_pending(), "it was expected to wait");
        hand
    }

    pub fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(self.bell.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls with another waker.
    pub fn poll_with(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }

    /// The output of a future that is ready.
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

    /// How often it was woken since the last call.
    pub fn rings(&self) -> usize {
        self.bell.0.swap(0, SeqCst)
    }

    /// How many wakers there are that ring its bell.
    pub fn wakers(&self) -> usize {
        Arc::strong_count(&self.bell) - 1
    }

    /// For what is left of it when the future is gone.
    pub fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }
}
