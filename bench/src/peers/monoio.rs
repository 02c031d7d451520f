//! monoio on its epoll driver, for sockets on its io_uring driver too: one thread,
//! with timers on.
//!
//! It has no `yield_now`, and runs a task that has woken itself again before
//! any other. So it stays out of the rows in which a crowd yields.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use monoio::blocking::DefaultThreadPool;
use monoio::task::JoinHandle;
use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

use super::{Blocking, Flavor, OneThread, Peer, Timers, WORKERS};

macro_rules! on_driver {
    ($(#[$doc:meta])* $peer:ident, $name:literal, $driver:ty) => {
        $(#[$doc])*
        ///
        /// `block_on` wants `&mut`; it isn't re-entered, so the cell is free each time.
        pub struct $peer(RefCell<Runtime<TimeDriver<$driver>>>);

        impl Peer for $peer {
            const NAME: &'static str = $name;
            const FLAVOR: Flavor = Flavor::Single;

            type Join<T: Send + 'static> = OneThread<JoinHandle<T>>;

            fn build() -> Self {
                let builder = RuntimeBuilder::<$driver>::new().enable_all();
                Self(RefCell::new(builder.build().expect("the runtime starts")))
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                self.0.borrow_mut().block_on(future)
            }

            #[inline]
            fn spawn<F>(future: F) -> OneThread<JoinHandle<F::Output>>
            where
                F: Future + Send + 'static,
                F::Output: Send + 'static,
            {
                OneThread(monoio::spawn(future))
            }
        }
    };
}
on_driver!(
    /// On epoll.
    Monoio, "monoio", LegacyDriver
);
on_driver!(
    /// On io_uring, for the rows about sockets and files.
    MonoioUring, "monoio-uring", IoUringDriver
);

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
        let outcome = OneThread(monoio::spawn_blocking(work));
        async move { outcome.await.expect("the closure ran") }
    }
}

impl Timers for Monoio {
    #[inline]
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        OneThread(monoio::time::sleep(duration))
    }

    #[inline]
    fn timeout<F>(duration: Duration, future: F) -> impl Future<Output = bool> + Send
    where
        F: Future<Output = ()> + Send,
    {
        OneThread(async move { monoio::time::timeout(duration, future).await.is_ok() })
    }
}
