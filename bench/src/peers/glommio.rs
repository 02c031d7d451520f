//! glommio: one thread, bound to no core, on io_uring.
//!
//! It wants 512 KiB of lockable memory (`ulimit -l`).

use std::future::Future;
use std::time::Duration;

use glommio::{
    ExecutorProxy, GlommioError, LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement,
    Task,
};

use super::{Blocking, Flavor, OneThread, Peer, Timers, WORKERS};

pub struct Glommio(LocalExecutor);

impl Peer for Glommio {
    const NAME: &'static str = "glommio";
    const FLAVOR: Flavor = Flavor::Single;

    type Join<T: Send + 'static> = OneThread<Task<T>>;

    fn build() -> Self {
        let executor = LocalExecutorBuilder::new(Placement::Unbound).make();
        Self(executor.expect("the executor starts; it needs io_uring and lockable memory"))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.run(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> OneThread<Task<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        OneThread(glommio::spawn_local(future))
    }

    fn detach<T: Send + 'static>(join: OneThread<Task<T>>) {
        drop(join.0.detach());
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        OneThread(async { glommio::executor().yield_now().await })
    }
}

impl Blocking for Glommio {
    /// Its pool has one thread unless told otherwise.
    fn build_with_pool() -> Self {
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .blocking_thread_pool_placement(PoolPlacement::Unbound(WORKERS))
            .make();
        Self(executor.expect("the executor starts; it needs io_uring and lockable memory"))
    }

    #[inline]
    fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
    where
        F: FnOnce() + Send + 'static,
    {
        OneThread(ExecutorProxy::spawn_blocking(&glommio::executor(), work))
    }
}

impl Timers for Glommio {
    #[inline]
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        OneThread(glommio::timer::sleep(duration))
    }

    #[inline]
    fn timeout<F>(duration: Duration, future: F) -> impl Future<Output = bool> + Send
    where
        F: Future<Output = ()> + Send,
    {
        OneThread(async move {
            let future = async {
                future.await;
                Ok::<(), GlommioError<()>>(())
            };
            glommio::timer::timeout(duration, future).await.is_ok()
        })
    }
}
