//! Locks, channels and events between tasks.

pub use wakeful::sync::{
    AcquireError, Barrier, BarrierWaitResult, MappedMutexGuard, Mutex, MutexGuard, Notify,
    OnceCell, OwnedMappedMutexGuard, OwnedMutexGuard, OwnedRwLockMappedWriteGuard,
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit,
    SetError, SetOnce, SetOnceError, TryAcquireError, TryLockError,
};

pub use wakeful::sync::{broadcast, mpsc, oneshot, watch};

/// Futures that have a name because users hold them.
pub mod futures {
    pub use wakeful::sync::futures::{Notified, OwnedNotified};
}
