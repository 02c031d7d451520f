//! Tasks that share something, or tell each other: locks, channels and events.

pub mod broadcast;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

mod acquiring;
mod barrier;
mod guards;
mod mutex;
mod notify;
mod once_cell;
mod permit_holders;
mod permits;
mod rwlock;
mod semaphore;
mod set_once;
mod slot;

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

#[cfg(all(test, loom))]
mod loom_locks;
#[cfg(all(test, loom))]
mod loom_notify;
#[cfg(all(test, loom))]
mod loom_once;
#[cfg(all(test, loom))]
mod loom_permits;
