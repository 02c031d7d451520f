//! smol: its `Executor`, async-executor's `StaticExecutor`, and `LocalExecutor`.
//!
//! smol's executors have no notion of "the current one", so each adapter keeps
//! it in a thread-local for `Peer::spawn` to find.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_executor::StaticExecutor;
use smol::channel::{Receiver, Sender};
use smol::{Executor, LocalExecutor, Task, Timer};

use super::{Blocking, Flavor, Peer, Remote, Timers, WORKERS};

thread_local! {
    /// Set on the thread that built a [`SmolMulti`] and on its workers, until it ends.
    static EXECUTOR: RefCell<Option<Arc<Executor<'static>>>> = const { RefCell::new(None) };
    /// Set on the thread that built a [`SmolStatic`] and on its workers.
    static STATIC: Cell<Option<&'static StaticExecutor>> = const { Cell::new(None) };
    /// Set on the thread that built a [`SmolLocal`], until that is dropped.
    static LOCAL: RefCell<Option<Rc<LocalExecutor<'static>>>> = const { RefCell::new(None) };
}

/// smol's `Executor` on [`WORKERS`] threads, which end when this is dropped.
pub struct SmolMulti {
    executor: Arc<Executor<'static>>,
    /// Dropped first: the workers take the closed channel as the word to stop.
    stop: Option<Sender<()>>,
    workers: Vec<JoinHandle<()>>,
}

fn work_until(stop: Receiver<()>, executor: Arc<Executor<'static>>) {
    EXECUTOR.set(Some(executor.clone()));
    // The error is the closed channel.
    let _ = smol::block_on(executor.run(stop.recv()));
    EXECUTOR.set(None);
}

impl Drop for SmolMulti {
    fn drop(&mut self) {
        self.stop.take();
        for worker in self.workers.drain(..) {
            worker.join().expect("a smol worker panicked");
        }
        EXECUTOR.set(None);
    }
}

impl Peer for SmolMulti {
    const NAME: &'static str = "smol-mt";
    const FLAVOR: Flavor = Flavor::Multi;

    type Join<T: Send + 'static> = Task<T>;

    fn build() -> Self {
        let executor = Arc::new(Executor::new());
        let (stop, stopped) = smol::channel::bounded(1);
        let workers = (0..WORKERS)
            .map(|_| {
                let (stopped, executor) = (stopped.clone(), executor.clone());
                thread::spawn(move || work_until(stopped, executor))
            })
            .collect();
        EXECUTOR.set(Some(executor.clone()));
        Self { executor, stop: Some(stop), workers }
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        smol::block_on(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        EXECUTOR.with_borrow(|current| current.as_ref().expect("on a smol thread").spawn(future))
    }

    fn detach<T: Send + 'static>(join: Task<T>) {
        join.detach();
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        smol::future::yield_now()
    }
}

impl Remote for SmolMulti {
    type Spawner = Arc<Executor<'static>>;

    fn spawner(&self) -> Self::Spawner {
        self.executor.clone()
    }

    fn spawn_from<F>(spawner: &Self::Spawner, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        spawner.spawn(future).detach();
    }
}

/// async-executor's `StaticExecutor` on [`WORKERS`] threads. It lives as long
/// as the process, so it takes no part in start_stop.
pub struct SmolStatic(&'static StaticExecutor);

impl Peer for SmolStatic {
    const NAME: &'static str = "smol-static";
    const FLAVOR: Flavor = Flavor::Multi;

    type Join<T: Send + 'static> = Task<T>;

    fn build() -> Self {
        let executor: &'static StaticExecutor = Box::leak(Box::new(StaticExecutor::new()));
        STATIC.set(Some(executor));
        for _ in 0..WORKERS {
            thread::spawn(move || {
                STATIC.set(Some(executor));
                smol::block_on(executor.run(std::future::pending::<()>()))
            });
        }
        Self(executor)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        smol::block_on(future)
    }

    #[inline]
    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        STATIC.get().expect("on a smol thread").spawn(future)
    }

    fn detach<T: Send + 'static>(join: Task<T>) {
        join.detach();
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        smol::future::yield_now()
    }
}

impl Remote for SmolStatic {
    type Spawner = &'static StaticExecutor;

    fn spawner(&self) -> Self::Spawner {
        self.0
    }

    fn spawn_from<F>(spawner: &Self::Spawner, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        spawner.spawn(future).detach();
    }
}

impl Blocking for SmolStatic {
    #[inline]
    fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
    where
        F: FnOnce() + Send + 'static,
    {
        smol::unblock(work)
    }
}

/// smol's `LocalExecutor`: one thread.
pub struct SmolLocal(Rc<LocalExecutor<'static>>);

impl Drop for SmolLocal {
    fn drop(&mut self) {
        LOCAL.set(None);
    }
}

impl Peer for SmolLocal {
    const NAME: &'static str = "smol-local";
    const FLAVOR: Flavor = Flavor::Single;

    type Join<T: Send + 'static> = Task<T>;

    fn build() -> Self {
        let executor = Rc::new(LocalExecutor::new());
        LOCAL.set(Some(executor.clone()));
        Self(executor)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        smol::block_on(self.0.run(future))
    }

    #[inline]
    fn spawn<F>(future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        LOCAL.with_borrow(|current| current.as_ref().expect("on smol's thread").spawn(future))
    }

    fn detach<T: Send + 'static>(join: Task<T>) {
        join.detach();
    }

    #[inline]
    fn yield_now() -> impl Future<Output = ()> + Send {
        smol::future::yield_now()
    }
}

impl Blocking for SmolLocal {
    #[inline]
    fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
    where
        F: FnOnce() + Send + 'static,
    {
        smol::unblock(work)
    }
}

/// Implements [`Timers`] by async-io for all three peers. async-io's own thread or a thread in
/// `block_on` drives the timers.
macro_rules! timers {
    ($($peer:ty),*) => {$(
        impl Timers for $peer {
            #[inline]
            async fn sleep(duration: Duration) {
                Timer::after(duration).await;
            }

            #[inline]
            fn timeout<F>(duration: Duration, future: F) -> impl Future<Output = bool> + Send
            where
                F: Future<Output = ()> + Send,
            {
                let in_time = async {
                    future.await;
                    true
                };
                let too_late = async move {
                    Timer::after(duration).await;
                    false
                };
                smol::future::or(in_time, too_late)
            }
        }
    )*};
}

timers!(SmolMulti, SmolStatic, SmolLocal);
