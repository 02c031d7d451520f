//! Tasks that share something, or tell each other: locks, channels and events.
//!
//! # Wakers
//!
//! A future that returns `Pending` leaves the waker of its task with what it waits for.
//! What happens to that waker when the future is dropped depends on who may wait. The rule
//! is tokio's, and holds for the whole crate, not only for this module:
//!
//! - **The wait belongs to the future** where several may wait at a time: locks, permits,
//!   room in a channel, `Notify`, `Barrier`, `broadcast`, `watch`, `closed()` of a sender
//!   that can be cloned, `accept`, and `readable`, `ready`, `recv` or `async_io` of sockets.
//!   Each future has a place in a queue of its own. Dropping the future removes the waker.
//!   Nothing wakes the task on behalf of the dropped future.
//! - **The wait belongs to the resource** where one task at a time can wait, most often
//!   because the method takes `&mut self`: [`mpsc::Receiver::recv`] and `recv_many`,
//!   [`oneshot::Sender::closed`], [`JoinSet::join_next`], `Signal::recv`, `Child::wait`,
//!   `Interval::tick`, `LocalSet::run_until`, reads and writes of streams, and what is
//!   awaited by reference (`&mut` of a `JoinHandle`, a `oneshot::Receiver`, a `LocalSet` or
//!   a pinned `Sleep`). The resource keeps the last waker that was registered, as the `poll_*`
//!   methods do. Dropping the future leaves it there, and the next event wakes it.
//!
//! So a future of the second kind may be made anew in every poll:
//!
//! ```
//! use std::future::poll_fn;
//! use std::pin::pin;
//! use wakeful::sync::mpsc;
//!
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() {
//! let (tx, mut rx) = mpsc::channel(1);
//! wakeful::spawn(async move { tx.send("hello").await });
//! assert_eq!(poll_fn(|cx| pin!(rx.recv()).poll(cx)).await, Some("hello"));
//! # }
//! ```
//!
//! The resource drops the waker when another waker is registered, when it is dropped itself,
//! or when the event can no longer happen. A task whose waker lies with a resource is no
//! [orphan](crate::runtime::OrphanPolicy): the resource can wake it. Once the resource has
//! dropped its last waker without waking the task, the task is reported.
//!
//! [`JoinSet::join_next`]: crate::task::JoinSet::join_next

pub mod broadcast;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

mod acquire;
mod barrier;
mod guard_macros;
mod mutex;
mod notify;
mod once_cell;
mod once_slot;
mod permit_owners;
mod raw_semaphore;
mod rwlock;
mod semaphore;
mod set_once;

#[cfg(all(test, loom))]
mod models;

pub use barrier::{Barrier, BarrierWaitResult};
pub use mutex::{
    MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard, TryLockError,
};
pub use notify::Notify;
pub use once_cell::{OnceCell, SetError};
pub use rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard,
};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use set_once::{SetOnce, SetOnceError};

/// Futures that need a name.
pub mod futures {
    pub use super::notify::{Notified, OwnedNotified};
}
