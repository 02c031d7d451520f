//! Support for tests of time: runtimes with a paused or a real clock, single polls, a log.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::time::Duration;

use super::runtimes::{TestRuntime, watch};

/// Returns a current-thread runtime whose clock starts paused.
pub fn paused() -> TestRuntime {
    let mut builder = Builder::new_current_thread();
    watch("paused", builder.enable_all().start_paused(true).on_orphan(OrphanPolicy::Panic))
}

/// Returns a current-thread runtime with a real clock.
pub fn real_current_thread() -> TestRuntime {
    let mut builder = Builder::new_current_thread();
    watch("current_thread", builder.enable_all().on_orphan(OrphanPolicy::Panic))
}

/// Returns a multi-thread runtime with a real clock.
pub fn real_multi_thread(workers: usize) -> TestRuntime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().on_orphan(OrphanPolicy::Panic);
    watch("multi_thread", &mut builder)
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

pub const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Polls once, with the waker of the current task.
pub async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A log of events in order.
#[derive(Clone, Debug)]
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Log<T> {
    pub fn note(&self, event: T) {
        self.0.lock().unwrap().push(event);
    }

    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
