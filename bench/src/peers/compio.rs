//! compio on io_uring: one thread.
//!
//! It has no `yield_now`. It asks the kernel for completions between a task and
//! those it spawned or woke, which is what chained_spawn and spawn_await measure.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use compio::runtime::{JoinHandle, Runtime};

use super::{Blocking, Flavor, OneThread, Peer, Timers};

pub struct Compio(Runtime);

/// Resolves with the task's output instead of a `Result`.
pub struct Join<T>(JoinHandle<T>);

impl<T> Future for Join<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|outcome| outcome.expect("a benchmark task panicked or was cancelled"))
    }
}

impl Peer for Compio {
    const NAME: &'static str = "compio";
    const FLAVOR: Flavor = Flavor::Single;

    type Join<T: Send + 'static> = Join<T>;

    fn build() -> Self {
        Self(Runtime::new().expect("the runtime starts; it needs io_uring"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(compio::runtime::spawn(future))
    }

    fn detach<T: Send + 'static>(join: Join<T>) {
        join.0.detach();
    }
}

impl Blocking for Compio {
    #[inline]
    fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
    where
        F: FnOnce() + Send + 'static,
    {
        Join(compio::runtime::spawn_blocking(work))
    }
}

impl Timers for Compio {
    #[inline]
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        OneThread(compio::time::sleep(duration))
    }

    #[inline]
    fn timeout<F>(duration: Duration, future: F) -> impl Future<Output = bool> + Send
    where
        F: Future<Output = ()> + Send,
    {
        OneThread(async move { compio::time::timeout(duration, future).await.is_ok() })
    }
}
