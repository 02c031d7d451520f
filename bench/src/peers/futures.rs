//! The executors of the futures crate: `ThreadPool` and `LocalPool`.
//!
//! Neither has timers, I/O or a `yield_now` of its own; they show what bare
//! scheduling costs.

use std::cell::RefCell;
use std::future::Future;
use std::sync::OnceLock;

use futures::executor::{self, LocalPool, LocalSpawner, ThreadPool, ThreadPoolBuilder};
use futures::future::RemoteHandle;
use futures::task::{LocalSpawnExt, SpawnExt};

use super::{Flavor, Peer, Remote, WORKERS};

/// The one pool of this process: a cell builds its peer once.
static POOL: OnceLock<ThreadPool> = OnceLock::new();

thread_local! {
    /// Set on the thread that built a [`FuturesLocal`].
    static SPAWNER: RefCell<Option<LocalSpawner>> = const { RefCell::new(None) };
}

/// futures' `ThreadPool` with [`WORKERS`] threads. Dropping it doesn't wait for
/// its threads, so it takes no part in start_stop.
pub struct FuturesPool(ThreadPool);

impl Peer for FuturesPool {
    const NAME: &'static str = "futures-pool";
    const FLAVOR: Flavor = Flavor::Multi;

    type Join<T: Send + 'static> = RemoteHandle<T>;

    fn build() -> Self {
        let pool = POOL.get_or_init(|| {
            ThreadPoolBuilder::new().pool_size(WORKERS).create().expect("the threads start")
        });
        Self(pool.clone())
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        executor::block_on(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> RemoteHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let pool = POOL.get().expect("built before anything is spawned");
        pool.spawn_with_handle(future).expect("the pool runs")
    }

    fn detach<T: Send + 'static>(join: RemoteHandle<T>) {
        join.forget();
    }
}

impl Remote for FuturesPool {
    type Spawner = ThreadPool;

    fn spawner(&self) -> ThreadPool {
        self.0.clone()
    }

    fn spawn_from<F>(spawner: &ThreadPool, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        spawner.spawn_ok(future);
    }
}

/// futures' `LocalPool`: one thread.
pub struct FuturesLocal(RefCell<LocalPool>);

impl Drop for FuturesLocal {
    fn drop(&mut self) {
        SPAWNER.set(None);
    }
}

impl Peer for FuturesLocal {
    const NAME: &'static str = "futures-local";
    const FLAVOR: Flavor = Flavor::Single;

    type Join<T: Send + 'static> = RemoteHandle<T>;

    fn build() -> Self {
        let pool = LocalPool::new();
        SPAWNER.set(Some(pool.spawner()));
        Self(RefCell::new(pool))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.borrow_mut().run_until(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> RemoteHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        SPAWNER.with_borrow(|current| {
            let spawner = current.as_ref().expect("built before anything is spawned");
            spawner.spawn_local_with_handle(future).expect("the pool runs")
        })
    }

    fn detach<T: Send + 'static>(join: RemoteHandle<T>) {
        join.forget();
    }
}
