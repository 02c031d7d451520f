//! monoio on its epoll driver: one thread, with timers on.
//!
//! It has no `yield_now`, and runs a task that has woken itself again before
//! any other. So it stays out of the rows in which a crowd yields.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use monoio::blocking::DefaultThreadPool;
use monoio::time::TimeDriver;
use monoio::{LegacyDriver, Runtime, RuntimeBuilder};

use super::{Blocking, Flavor, Peer, WORKERS};

/// `block_on` wants `&mut`; it isn't re-entered, so the cell is free each time.
pub struct Monoio(RefCell<Runtime<TimeDriver<LegacyDriver>>>);

/// monoio's join handle, under the `Send` bound the rows ask for.
pub struct Join<T>(monoio::task::JoinHandle<T>);

// SAFETY: the bound is there because rows are written once for all peers. Here
// the driver and every task run inside `block_on` on the thread that built the
// runtime, monoio's `spawn` never moves a future to another thread, and no row
// hands a join handle to a thread of its own.
unsafe impl<T: Send> Send for Join<T> {}

impl<T> Future for Join<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Peer for Monoio {
    const NAME: &'static str = "monoio";
    const FLAVOR: Flavor = Flavor::Single;

    type Join<T: Send + 'static> = Join<T>;

    fn build() -> Self {
        let builder = RuntimeBuilder::<LegacyDriver>::new().enable_all();
        Self(RefCell::new(builder.build().expect("the runtime starts")))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.borrow_mut().block_on(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Join(monoio::spawn(future))
    }
}

impl Blocking for Monoio {
    /// monoio has no pool unless one is attached.
    fn build_with_pool() -> Self {
        let builder = RuntimeBuilder::<LegacyDriver>::new()
            .attach_thread_pool(Box::new(DefaultThreadPool::new(WORKERS)))
            .enable_all();
        Self(RefCell::new(builder.build().expect("the runtime starts")))
    }

    #[inline]
    fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
    where
        F: FnOnce() + Send + 'static,
    {
        let outcome = Join(monoio::spawn_blocking(work));
        async move { outcome.await.expect("the closure ran") }
    }
}
