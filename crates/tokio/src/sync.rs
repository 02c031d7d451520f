//! Locks, channels and notifications between tasks; see `wakeful::sync`.

pub use wakeful::sync::{
    AcquireError, Barrier, BarrierWaitResult, MappedMutexGuard, Mutex, MutexGuard, Notify,
    OnceCell, OwnedMappedMutexGuard, OwnedMutexGuard, OwnedRwLockMappedWriteGuard,
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit,
    SetError, SetOnce, SetOnceError, TryAcquireError, TryLockError,
};

pub use wakeful::sync::{broadcast, mpsc, oneshot, watch};

/// Named future types.
pub mod futures {
    pub use wakeful::sync::futures::{Notified, OwnedNotified};
}
