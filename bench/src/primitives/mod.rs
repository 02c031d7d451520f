//! The primitives: the traits that a sync row uses, and the crates that implement them.
//!
//! A sync row is generic over a runtime ([`Peer`]) and a crate of primitives. A
//! crate is a type that implements the traits of its primitives:
//!
//! | file | crates |
//! | --- | --- |
//! | `tokio_shaped.rs` | wakeful, tokio: one macro for both |
//! | `channels.rs` | async-channel, flume, kanal, crossfire |
//! | `locks.rs` | async-lock, futures, and the crate named oneshot |
//!
//! wakeful and tokio run on their own runtimes. All other crates, and tokio's
//! primitives once more, are guests on one [`host`]; a guest's cells are called
//! `kanal@wakeful-mt`.
//!
//! [`cells!`] lists the crates of a row.

mod channels;
mod locks;
mod tokio_shaped;

pub use self::channels::{AsyncChannel, Crossfire, Flume, Kanal};
pub use self::locks::{AsyncLock, Futures, Oneshots};
pub use self::tokio_shaped::Tokio;
#[cfg(feature = "wakeful")]
pub use self::tokio_shaped::Wakeful;

// The runtime that guests run on: wakeful's, or tokio's in a build without it.
#[cfg(not(feature = "wakeful"))]
pub use crate::peers::on_tokio as host;
#[cfg(feature = "wakeful")]
pub use crate::peers::on_wakeful as host;

use std::future::Future;
use std::ops::{Deref, DerefMut};

use crate::peers::Peer;
use crate::rows::{Cell, Kind, Work};

/// A crate with primitives.
pub trait Primitives: 'static {
    const NAME: &'static str;
}

/// A channel that makes senders wait when it is full.
pub trait Bounded: Primitives {
    type Sender: Clone + Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver);

    fn send(sender: &Self::Sender, message: u64) -> impl Future<Output = ()> + Send;

    /// `None` once all senders are gone.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;
}

/// A channel without a limit.
pub trait Unbounded: Primitives {
    type Sender: Clone + Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn unbounded() -> (Self::Sender, Self::Receiver);

    fn send(sender: &Self::Sender, message: u64);

    /// `None` once all senders are gone.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;
}

pub trait Mutex: Primitives {
    type Mutex: Send + Sync + 'static;
    type Guard<'a>: DerefMut<Target = u64> + Send;

    fn mutex() -> Self::Mutex;

    fn lock(mutex: &Self::Mutex) -> impl Future<Output = Self::Guard<'_>> + Send;
}

pub trait RwLock: Primitives {
    type RwLock: Send + Sync + 'static;
    type ReadGuard<'a>: Deref<Target = u64> + Send;

    fn rwlock() -> Self::RwLock;

    fn read(rwlock: &Self::RwLock) -> impl Future<Output = Self::ReadGuard<'_>> + Send;
}

pub trait Semaphore: Primitives {
    type Semaphore: Send + Sync + 'static;
    /// Gives the permit back when dropped.
    type Permit<'a>: Send;

    fn semaphore(permits: usize) -> Self::Semaphore;

    fn acquire(semaphore: &Self::Semaphore) -> impl Future<Output = Self::Permit<'_>> + Send;
}

pub trait Notify: Primitives {
    type Notify: Send + Sync + 'static;

    fn notify() -> Self::Notify;

    fn notify_one(notify: &Self::Notify);

    fn notified(notify: &Self::Notify) -> impl Future<Output = ()> + Send;
}

pub trait Oneshot: Primitives {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    fn oneshot() -> (Self::Sender, Self::Receiver);

    fn send(sender: Self::Sender, message: u64);

    fn recv(receiver: Self::Receiver) -> impl Future<Output = u64> + Send;
}

pub trait Watch: Primitives {
    type Sender: Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn watch(value: u64) -> (Self::Sender, Self::Receiver);

    fn send(sender: &Self::Sender, value: u64);

    /// The latest value once it is one not seen before.
    fn changed(receiver: &mut Self::Receiver) -> impl Future<Output = u64> + Send;
}

pub trait Broadcast: Primitives {
    type Sender: Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn broadcast(capacity: usize) -> Self::Sender;

    fn subscribe(sender: &Self::Sender) -> Self::Receiver;

    fn send(sender: &Self::Sender, message: u64);

    /// Panics if messages were missed.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = u64> + Send;
}

/// A cell of `C`'s primitives on a runtime that isn't theirs.
pub fn guest<P: Peer, C: Primitives>(prepare: fn() -> Work) -> Cell {
    // Leaked: a cell's name lives as long as the process, and there are few.
    let peer = format!("{}@{}", C::NAME, P::NAME).leak();
    Cell { peer, flavor: P::FLAVOR, kind: Kind::Here(prepare) }
}

/// The cells of a sync row. wakeful and tokio run on their own runtimes in both flavors. Guests are
/// tokio's primitives and the crates named.
///
/// `cells!(mpsc_1: Flume)` instantiates the row's function `mpsc_1::<P, C>`
/// for each of them.
macro_rules! cells {
    ($row:ident: $($guest:ident),*) => {
        vec![
            #[cfg(feature = "wakeful")]
            $crate::primitives::cells!(@own on_wakeful Multi $row Wakeful),
            #[cfg(feature = "wakeful")]
            $crate::primitives::cells!(@own on_wakeful Current $row Wakeful),
            $crate::primitives::cells!(@own on_tokio Multi $row Tokio),
            $crate::primitives::cells!(@own on_tokio Current $row Tokio),
            #[cfg(feature = "wakeful")]
            $crate::primitives::cells!(@guest Multi $row Tokio),
            #[cfg(feature = "wakeful")]
            $crate::primitives::cells!(@guest Current $row Tokio),
            $(
                $crate::primitives::cells!(@guest Multi $row $guest),
                $crate::primitives::cells!(@guest Current $row $guest),
            )*
        ]
    };

    (@own $runtime:ident $flavor:ident $row:ident $crate_of:ident) => {
        $crate::rows::Cell::of::<$crate::peers::$runtime::$flavor>(
            $row::<$crate::peers::$runtime::$flavor, $crate::primitives::$crate_of>,
        )
    };

    (@guest $flavor:ident $row:ident $crate_of:ident) => {
        $crate::primitives::guest::<$crate::primitives::host::$flavor, $crate::primitives::$crate_of>(
            $row::<$crate::primitives::host::$flavor, $crate::primitives::$crate_of>,
        )
    };
}
pub(crate) use cells;
