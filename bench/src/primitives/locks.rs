//! Crates of locks and one-shot channels that run on any runtime.

use super::{Mutex, Oneshot, Primitives, RwLock, Semaphore};

pub struct AsyncLock;

impl Primitives for AsyncLock {
    const NAME: &'static str = "async-lock";
}

impl Mutex for AsyncLock {
    type Mutex = async_lock::Mutex<u64>;
    type Guard<'a> = async_lock::MutexGuard<'a, u64>;

    fn mutex() -> Self::Mutex {
        async_lock::Mutex::new(0)
    }

    #[inline]
    async fn lock(mutex: &Self::Mutex) -> Self::Guard<'_> {
        mutex.lock().await
    }
}

impl RwLock for AsyncLock {
    type RwLock = async_lock::RwLock<u64>;
    type ReadGuard<'a> = async_lock::RwLockReadGuard<'a, u64>;

    fn rwlock() -> Self::RwLock {
        async_lock::RwLock::new(1)
    }

    #[inline]
    async fn read(rwlock: &Self::RwLock) -> Self::ReadGuard<'_> {
        rwlock.read().await
    }
}

impl Semaphore for AsyncLock {
    type Semaphore = async_lock::Semaphore;
    type Permit<'a> = async_lock::SemaphoreGuard<'a>;

    fn semaphore(permits: usize) -> Self::Semaphore {
        async_lock::Semaphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Self::Semaphore) -> Self::Permit<'_> {
        semaphore.acquire().await
    }
}

pub struct Futures;

impl Primitives for Futures {
    const NAME: &'static str = "futures";
}

impl Mutex for Futures {
    type Mutex = futures::lock::Mutex<u64>;
    type Guard<'a> = futures::lock::MutexGuard<'a, u64>;

    fn mutex() -> Self::Mutex {
        futures::lock::Mutex::new(0)
    }

    #[inline]
    async fn lock(mutex: &Self::Mutex) -> Self::Guard<'_> {
        mutex.lock().await
    }
}

impl Oneshot for Futures {
    type Sender = futures::channel::oneshot::Sender<u64>;
    type Receiver = futures::channel::oneshot::Receiver<u64>;

    #[inline]
    fn oneshot() -> (Self::Sender, Self::Receiver) {
        futures::channel::oneshot::channel()
    }

    #[inline]
    fn send(sender: Self::Sender, message: u64) {
        sender.send(message).expect("the receiver is there");
    }

    #[inline]
    async fn recv(receiver: Self::Receiver) -> u64 {
        receiver.await.expect("the sender sends")
    }
}

/// The crate `oneshot`.
pub struct Oneshots;

impl Primitives for Oneshots {
    const NAME: &'static str = "oneshot";
}

impl Oneshot for Oneshots {
    type Sender = oneshot::Sender<u64>;
    type Receiver = oneshot::AsyncReceiver<u64>;

    #[inline]
    fn oneshot() -> (Self::Sender, Self::Receiver) {
        oneshot::async_channel()
    }

    #[inline]
    fn send(sender: Self::Sender, message: u64) {
        sender.send(message).expect("the receiver is there");
    }

    #[inline]
    async fn recv(receiver: Self::Receiver) -> u64 {
        receiver.await.expect("the sender sends")
    }
}
