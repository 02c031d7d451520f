//! The peers: the traits that a row uses, and the runtimes that implement them.
//!
//! A row is written once, against the traits here. Each peer is a type that
//! implements [`Peer`] and those of [`Remote`], [`Blocking`], [`Sets`] and [`Timers`] it
//! can do:
//!
//! | file | peers |
//! | --- | --- |
//! | `tokio_shaped.rs` | wakeful-mt, wakeful-ct, tokio-mt, tokio-ct: one macro for both crates |
//! | `smol.rs` | smol-mt, smol-static, smol-local |
//! | `futures.rs` | futures-pool, futures-local |
//! | `monoio.rs` | monoio, monoio-uring |
//! | `compio.rs` | compio |
//! | `glommio.rs` | glommio |
//!
//! The traits of rows about files are in `files.rs`.
//!
//! [`cells!`] lists the peers of a row.

mod compio;
pub mod files;
mod futures;
mod glommio;
#[cfg(feature = "wakeful")]
mod hooks;
mod monoio;
mod smol;
mod tokio_shaped;

pub use self::compio::Compio;
pub use self::futures::{FuturesLocal, FuturesPool};
pub use self::glommio::Glommio;
pub use self::monoio::{Monoio, MonoioUring};
pub use self::smol::{SmolLocal, SmolMulti, SmolStatic};
pub use self::tokio_shaped::tokio as on_tokio;
#[cfg(feature = "wakeful")]
pub use self::tokio_shaped::wakeful as on_wakeful;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Worker threads of every multi-thread peer.
pub const WORKERS: usize = 2;

/// Peers are compared only with peers of the same flavor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Tasks run on [`WORKERS`] threads.
    Multi,
    /// Tasks run on the thread that calls `block_on`.
    Single,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavor::Multi => "mt",
            Flavor::Single => "ct",
        })
    }
}

/// A runtime, as far as every row needs it.
pub trait Peer: Sized + 'static {
    /// How the command line and the table call it.
    const NAME: &'static str;
    const FLAVOR: Flavor;

    /// Resolves with the task's output; a panic in the task passes on.
    type Join<T: Send + 'static>: Future<Output = T> + Send + 'static;

    /// Starts the runtime with its workers.
    fn build() -> Self;

    /// Drives `future` on the calling thread, which is not a worker.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns from inside a task (or from inside `block_on` on a single thread).
    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Detaches a task: it runs on without its handle.
    ///
    /// Peers whose handle cancels the task when dropped override this.
    fn detach<T: Send + 'static>(join: Self::Join<T>) {
        drop(join);
    }

    /// The peer's own `yield_now`, or a wake by hand where it has none.
    fn yield_now() -> impl Future<Output = ()> + Send {
        WakeAndYield::default()
    }

    /// Runs a row's driver as a task. So a task on a worker spawns and wakes,
    /// and not the `block_on` future.
    fn run<F>(&self, driver: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.block_on(async { Self::spawn(driver).await })
    }
}

/// A peer that takes tasks from threads that are not workers.
pub trait Remote: Peer {
    type Spawner: Clone + Send + 'static;

    fn spawner(&self) -> Self::Spawner;

    /// Spawns and detaches.
    fn spawn_from<F>(spawner: &Self::Spawner, future: F)
    where
        F: Future<Output = ()> + Send + 'static;
}

/// A peer with a pool for closures that block.
pub trait Blocking: Peer {
    /// As `build`, for peers that have a pool only when asked for one.
    fn build_with_pool() -> Self {
        Self::build()
    }

    fn spawn_blocking<F>(work: F) -> impl Future<Output = ()> + Send
    where
        F: FnOnce() + Send + 'static;
}

/// A peer with a set of tasks that are joined in the order in which they end.
pub trait Sets: Peer {
    /// Spawns `tasks` empty tasks into a set, and joins them.
    fn spawn_and_join_set(tasks: u64) -> impl Future<Output = ()> + Send;
}

/// A peer with timers.
pub trait Timers: Peer {
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send;

    /// Whether `future` was done in time.
    fn timeout<F>(duration: Duration, future: F) -> impl Future<Output = bool> + Send
    where
        F: Future<Output = ()> + Send;
}

/// Pending once, having woken its own task by reference.
#[derive(Default)]
pub struct WakeAndYield {
    woken: bool,
}

impl Future for WakeAndYield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.woken {
            return Poll::Ready(());
        }
        self.woken = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A future of a runtime of one thread, under the `Send` bound that rows ask for.
///
/// For peers of [`Flavor::Single`] whose `spawn` never moves a task to another
/// thread, and for nothing else.
pub struct OneThread<F>(pub F);

// SAFETY: the bound is there because rows are written once for all peers. On
// these peers the driver and every task run inside `block_on`, on the thread
// that built the runtime. No row moves a future of a task to another thread. So
// no `OneThread` leaves the thread it was made on.
unsafe impl<F> Send for OneThread<F> {}

impl<F: Future> Future for OneThread<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved, here or anywhere once it is pinned.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(cx)
    }
}

/// The cells of a row: wakeful and tokio in both flavors, and the peers named.
///
/// `cells!(spawn_join: SmolMulti, Monoio)` instantiates the row's function
/// `spawn_join::<P>` for each of them.
macro_rules! cells {
    ($row:ident: $($peer:ident),* $(,)?) => {
        vec![
            #[cfg(feature = "wakeful")]
            $crate::rows::Cell::of::<$crate::peers::on_wakeful::Multi>($row::<$crate::peers::on_wakeful::Multi>),
            #[cfg(feature = "wakeful")]
            $crate::rows::Cell::of::<$crate::peers::on_wakeful::Current>($row::<$crate::peers::on_wakeful::Current>),
            $crate::rows::Cell::of::<$crate::peers::on_tokio::Multi>($row::<$crate::peers::on_tokio::Multi>),
            $crate::rows::Cell::of::<$crate::peers::on_tokio::Current>($row::<$crate::peers::on_tokio::Current>),
            $($crate::rows::Cell::of::<$crate::peers::$peer>($row::<$crate::peers::$peer>),)*
        ]
    };
}
pub(crate) use cells;
