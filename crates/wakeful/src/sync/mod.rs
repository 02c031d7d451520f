//! Synchronization primitives for tasks: locks, channels, semaphores and notifications.
//!
//! Tasks communicate in two ways: they send messages through a channel, or they share a value
//! behind a lock. All types work between tasks of one runtime, between runtimes, and between tasks
//! and plain threads.
//!
//! # Which one to use
//!
//! | Need | Type |
//! |---|---|
//! | Many senders, one receiver, every message is received once | [`mpsc`] |
//! | One message, one sender, one receiver | [`oneshot`] |
//! | Every receiver gets every message | [`broadcast`] |
//! | Every receiver gets the latest value | [`watch`] |
//! | Wake tasks without sending data | [`Notify`] |
//! | Exclusive access across an `.await` | [`Mutex`] |
//! | Many readers or one writer | [`RwLock`] |
//! | At most N tasks at a time | [`Semaphore`] |
//! | Wait until N tasks have arrived | [`Barrier`] |
//! | Compute a value once, on demand | [`OnceCell`] |
//! | Set a value once, and wait for it | [`SetOnce`] |
//!
//! # Wakers
//!
//! A future that returns `Pending` has registered the waker of its task. Whether dropping the
//! future removes that waker depends on how many tasks can wait concurrently. The rule is tokio's.
//! It holds for the whole crate, not only for this module:
//!
//! - **The wait belongs to the future** if several tasks can wait concurrently. Examples are locks,
//!   semaphores, free capacity of a channel, `Notify`, `Barrier`, `broadcast`, `watch`, and
//!   `closed()` of a sender that can be cloned. Of socket methods, `accept`, `readable`, `ready`,
//!   `recv` and `async_io` belong here. Each future has its own entry in a wait queue. Dropping the
//!   future removes the entry and its waker. Nothing wakes the task on behalf of the dropped
//!   future.
//! - **The wait belongs to the resource** if only one task can wait at a time, usually because the
//!   method takes `&mut self`. Examples are [`mpsc::Receiver::recv`] and `recv_many`,
//!   [`oneshot::Sender::closed`], [`JoinSet::join_next`], `Signal::recv`, `Child::wait`,
//!   `Interval::tick`, `LocalSet::run_until`, and reads and writes of streams. Futures that are
//!   awaited by reference belong here too: `&mut` of a `JoinHandle`, a `oneshot::Receiver`, a
//!   `LocalSet` or a pinned `Sleep`. The resource keeps the last registered waker, as the `poll_*`
//!   methods do. Dropping the future leaves the waker registered, and the next event wakes it.
//!
//! So a future of the second kind may be recreated in every poll:
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
//! The resource drops the waker when another waker is registered, when the resource itself is
//! dropped, or when the event can no longer happen. A task whose waker is registered with a
//! resource is not an [orphan](crate::runtime::OrphanPolicy), because the resource can still wake it.
//! Once the last waker of a task is dropped without a wake-up, the task is reported as an orphan.
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

/// Named future types of the primitives in this module.
///
/// Most asynchronous methods return `impl Future`. The futures in this module have names, so that
/// they can be stored in a struct.
pub mod futures {
    pub use super::notify::{Notified, OwnedNotified};
}
