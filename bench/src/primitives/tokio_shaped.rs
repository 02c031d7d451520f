//! Primitives with tokio's API: tokio's own, and wakeful's, which have their shape.
//!
//! One macro writes both adapters, so the two crates are called in exactly the
//! same way and a difference between their figures is theirs.

use super::{
    Bounded, Broadcast, Mutex, Notify, Oneshot, Primitives, RwLock, Semaphore, Unbounded, Watch,
};

/// `tokio_shaped!(Tokio, tokio: mpsc, mutex)` defines a type for the crate and implements the named
/// primitives for it.
macro_rules! tokio_shaped {
    ($type:ident, $name:ident: $($primitive:ident),*) => {
        pub struct $type;

        impl Primitives for $type {
            const NAME: &'static str = stringify!($name);
        }

        $(tokio_shaped!(@$primitive $type $name);)*
    };

    (@mpsc $type:ident $name:ident) => {
        impl Bounded for $type {
            type Sender = ::$name::sync::mpsc::Sender<u64>;
            type Receiver = ::$name::sync::mpsc::Receiver<u64>;

            fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
                ::$name::sync::mpsc::channel(capacity)
            }

            #[inline]
            async fn send(sender: &Self::Sender, message: u64) {
                sender.send(message).await.expect("the receiver is there");
            }

            #[inline]
            async fn recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.recv().await
            }
        }

        impl Unbounded for $type {
            type Sender = ::$name::sync::mpsc::UnboundedSender<u64>;
            type Receiver = ::$name::sync::mpsc::UnboundedReceiver<u64>;

            fn unbounded() -> (Self::Sender, Self::Receiver) {
                ::$name::sync::mpsc::unbounded_channel()
            }

            #[inline]
            fn send(sender: &Self::Sender, message: u64) {
                sender.send(message).expect("the receiver is there");
            }

            #[inline]
            async fn recv(receiver: &mut Self::Receiver) -> Option<u64> {
                receiver.recv().await
            }
        }
    };

    (@mutex $type:ident $name:ident) => {
        impl Mutex for $type {
            type Mutex = ::$name::sync::Mutex<u64>;
            type Guard<'a> = ::$name::sync::MutexGuard<'a, u64>;

            fn mutex() -> Self::Mutex {
                ::$name::sync::Mutex::new(0)
            }

            #[inline]
            async fn lock(mutex: &Self::Mutex) -> Self::Guard<'_> {
                mutex.lock().await
            }
        }
    };

    (@rwlock $type:ident $name:ident) => {
        impl RwLock for $type {
            type RwLock = ::$name::sync::RwLock<u64>;
            type ReadGuard<'a> = ::$name::sync::RwLockReadGuard<'a, u64>;

            fn rwlock() -> Self::RwLock {
                ::$name::sync::RwLock::new(1)
            }

            #[inline]
            async fn read(rwlock: &Self::RwLock) -> Self::ReadGuard<'_> {
                rwlock.read().await
            }
        }
    };

    (@semaphore $type:ident $name:ident) => {
        impl Semaphore for $type {
            type Semaphore = ::$name::sync::Semaphore;
            type Permit<'a> = ::$name::sync::SemaphorePermit<'a>;

            fn semaphore(permits: usize) -> Self::Semaphore {
                ::$name::sync::Semaphore::new(permits)
            }

            #[inline]
            async fn acquire(semaphore: &Self::Semaphore) -> Self::Permit<'_> {
                semaphore.acquire().await.expect("it is never closed")
            }
        }
    };

    (@notify $type:ident $name:ident) => {
        impl Notify for $type {
            type Notify = ::$name::sync::Notify;

            fn notify() -> Self::Notify {
                ::$name::sync::Notify::new()
            }

            #[inline]
            fn notify_one(notify: &Self::Notify) {
                notify.notify_one();
            }

            #[inline]
            async fn notified(notify: &Self::Notify) {
                notify.notified().await;
            }
        }
    };

    (@oneshot $type:ident $name:ident) => {
        impl Oneshot for $type {
            type Sender = ::$name::sync::oneshot::Sender<u64>;
            type Receiver = ::$name::sync::oneshot::Receiver<u64>;

            #[inline]
            fn oneshot() -> (Self::Sender, Self::Receiver) {
                ::$name::sync::oneshot::channel()
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
    };

    (@watch $type:ident $name:ident) => {
        impl Watch for $type {
            type Sender = ::$name::sync::watch::Sender<u64>;
            type Receiver = ::$name::sync::watch::Receiver<u64>;

            fn watch(value: u64) -> (Self::Sender, Self::Receiver) {
                ::$name::sync::watch::channel(value)
            }

            #[inline]
            fn send(sender: &Self::Sender, value: u64) {
                sender.send(value).expect("the receiver is there");
            }

            #[inline]
            async fn changed(receiver: &mut Self::Receiver) -> u64 {
                receiver.changed().await.expect("the sender is there");
                *receiver.borrow_and_update()
            }
        }
    };

    (@broadcast $type:ident $name:ident) => {
        impl Broadcast for $type {
            type Sender = ::$name::sync::broadcast::Sender<u64>;
            type Receiver = ::$name::sync::broadcast::Receiver<u64>;

            fn broadcast(capacity: usize) -> Self::Sender {
                ::$name::sync::broadcast::Sender::new(capacity)
            }

            fn subscribe(sender: &Self::Sender) -> Self::Receiver {
                sender.subscribe()
            }

            #[inline]
            fn send(sender: &Self::Sender, message: u64) {
                sender.send(message).expect("a receiver is there");
            }

            #[inline]
            async fn recv(receiver: &mut Self::Receiver) -> u64 {
                receiver.recv().await.expect("the sender waits for those behind")
            }
        }
    };
}

tokio_shaped!(Tokio, tokio: mpsc, mutex, rwlock, semaphore, notify, oneshot, watch, broadcast);
#[cfg(feature = "wakeful")]
tokio_shaped!(Wakeful, wakeful: mpsc, mutex, rwlock, semaphore, notify, oneshot, watch, broadcast);
