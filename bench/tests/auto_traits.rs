//! Compares the auto traits of every public type of tokio with those of its counterpart in wakeful.
//!
//! A field that is a trait object or a raw pointer takes auto traits away from a type, and from the futures of
//! programs that hold it. `Send` and `Sync` must be equal on both sides: one that wakeful has alone may be unsound.
//! Of `Unpin`, `UnwindSafe` and `RefUnwindSafe` wakeful may have more.
#![cfg(feature = "wakeful")]

use std::collections::BTreeMap;

/// The names of the traits, in the order of the values in [`Traits`].
const NAMES: [&str; 5] = ["Send", "Sync", "Unpin", "UnwindSafe", "RefUnwindSafe"];

type Traits = [bool; 5];

/// Whether a type implements a trait. The inherent constant exists only if it does, and hides that of `IsNot`.
macro_rules! implements {
    ($type:ty, $trait:path) => {{
        #[allow(dead_code, reason = "the type implements the trait")]
        trait IsNot {
            const VALUE: bool = false;
        }
        impl<T: ?Sized> IsNot for T {}
        #[allow(dead_code, reason = "only its constant is used")]
        struct Is<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "the type does not implement the trait")]
        impl<T: ?Sized + $trait> Is<T> {
            const VALUE: bool = true;
        }
        <Is<$type>>::VALUE
    }};
}

macro_rules! types {
    ($($type:ty,)+) => {
        [$((
            stringify!($type),
            [
                implements!($type, Send),
                implements!($type, Sync),
                implements!($type, Unpin),
                implements!($type, std::panic::UnwindSafe),
                implements!($type, std::panic::RefUnwindSafe),
            ],
        )),+]
    };
}

/// `side!(tokio)` returns the auto traits of that crate's types, by name.
macro_rules! side {
    ($name:ident) => {
        mod $name {
            use std::cell::Cell;
            use std::collections::BTreeMap;
            use std::future::{Pending, Ready};
            use std::rc::Rc;

            use ::$name::{fs, io, net, process, runtime, signal, sync, task, time};

            type Bytes = &'static [u8];

            pub fn traits() -> BTreeMap<String, super::Traits> {
                super::by_name(&types![
                    fs::DirBuilder,
                    fs::DirEntry,
                    fs::File,
                    fs::OpenOptions,
                    fs::ReadDir,
                    io::unix::AsyncFd<std::net::TcpStream>,
                    io::unix::AsyncFd<Rc<std::net::TcpStream>>,
                    io::unix::AsyncFdReadyGuard<'static, std::net::TcpStream>,
                    io::unix::AsyncFdReadyMutGuard<'static, std::net::TcpStream>,
                    io::unix::TryIoError,
                    io::BufReader<Bytes>,
                    io::BufStream<Bytes>,
                    io::BufWriter<Bytes>,
                    io::Chain<Bytes, Bytes>,
                    io::DuplexStream,
                    io::Empty,
                    io::Interest,
                    io::Join<Bytes, Bytes>,
                    io::Lines<Bytes>,
                    io::ReadBuf<'static>,
                    io::ReadHalf<Bytes>,
                    io::ReadHalf<Rc<u8>>,
                    io::Ready,
                    io::Repeat,
                    io::SimplexStream,
                    io::Sink,
                    io::Split<Bytes>,
                    io::Stderr,
                    io::Stdin,
                    io::Stdout,
                    io::Take<Bytes>,
                    io::WriteHalf<Bytes>,
                    io::WriteHalf<Rc<u8>>,
                    net::TcpListener,
                    net::TcpSocket,
                    net::TcpStream,
                    net::UdpSocket,
                    net::UnixDatagram,
                    net::UnixListener,
                    net::UnixSocket,
                    net::UnixStream,
                    net::tcp::OwnedReadHalf,
                    net::tcp::OwnedWriteHalf,
                    net::tcp::ReadHalf<'static>,
                    net::tcp::ReuniteError,
                    net::tcp::WriteHalf<'static>,
                    net::unix::OwnedReadHalf,
                    net::unix::OwnedWriteHalf,
                    net::unix::ReadHalf<'static>,
                    net::unix::ReuniteError,
                    net::unix::SocketAddr,
                    net::unix::UCred,
                    net::unix::WriteHalf<'static>,
                    net::unix::pipe::OpenOptions,
                    net::unix::pipe::Receiver,
                    net::unix::pipe::Sender,
                    process::Child,
                    process::ChildStderr,
                    process::ChildStdin,
                    process::ChildStdout,
                    process::Command,
                    runtime::Builder,
                    runtime::EnterGuard<'static>,
                    runtime::Handle,
                    runtime::Runtime,
                    runtime::RuntimeFlavor,
                    runtime::RuntimeMetrics,
                    runtime::TryCurrentError,
                    signal::unix::Signal,
                    signal::unix::SignalKind,
                    sync::AcquireError,
                    sync::Barrier,
                    sync::BarrierWaitResult,
                    sync::MappedMutexGuard<'static, u8>,
                    sync::MappedMutexGuard<'static, Cell<u8>>,
                    sync::Mutex<u8>,
                    sync::Mutex<Cell<u8>>,
                    sync::Mutex<Rc<u8>>,
                    sync::MutexGuard<'static, u8>,
                    sync::MutexGuard<'static, Cell<u8>>,
                    sync::Notify,
                    sync::OnceCell<u8>,
                    sync::OnceCell<Cell<u8>>,
                    sync::OnceCell<Rc<u8>>,
                    sync::OwnedMappedMutexGuard<u8, u8>,
                    sync::OwnedMappedMutexGuard<Cell<u8>, Cell<u8>>,
                    sync::OwnedMutexGuard<u8>,
                    sync::OwnedMutexGuard<Cell<u8>>,
                    sync::OwnedMutexGuard<Rc<u8>>,
                    sync::OwnedRwLockMappedWriteGuard<u8, u8>,
                    sync::OwnedRwLockReadGuard<u8, u8>,
                    sync::OwnedRwLockReadGuard<Cell<u8>, Cell<u8>>,
                    sync::OwnedRwLockWriteGuard<u8>,
                    sync::OwnedRwLockWriteGuard<Cell<u8>>,
                    sync::OwnedSemaphorePermit,
                    sync::RwLock<u8>,
                    sync::RwLock<Cell<u8>>,
                    sync::RwLock<Rc<u8>>,
                    sync::RwLockMappedWriteGuard<'static, u8>,
                    sync::RwLockReadGuard<'static, u8>,
                    sync::RwLockReadGuard<'static, Cell<u8>>,
                    sync::RwLockWriteGuard<'static, u8>,
                    sync::RwLockWriteGuard<'static, Cell<u8>>,
                    sync::Semaphore,
                    sync::SemaphorePermit<'static>,
                    sync::SetError<u8>,
                    sync::SetOnce<u8>,
                    sync::SetOnce<Cell<u8>>,
                    sync::SetOnce<Rc<u8>>,
                    sync::SetOnceError<u8>,
                    sync::TryAcquireError,
                    sync::TryLockError,
                    sync::broadcast::Receiver<u8>,
                    sync::broadcast::Receiver<Cell<u8>>,
                    sync::broadcast::Receiver<Rc<u8>>,
                    sync::broadcast::Sender<u8>,
                    sync::broadcast::Sender<Cell<u8>>,
                    sync::broadcast::Sender<Rc<u8>>,
                    sync::broadcast::WeakSender<u8>,
                    sync::broadcast::error::RecvError,
                    sync::broadcast::error::SendError<u8>,
                    sync::broadcast::error::TryRecvError,
                    sync::futures::Notified<'static>,
                    sync::futures::OwnedNotified,
                    sync::mpsc::OwnedPermit<u8>,
                    sync::mpsc::OwnedPermit<Cell<u8>>,
                    sync::mpsc::Permit<'static, u8>,
                    sync::mpsc::Permit<'static, Cell<u8>>,
                    sync::mpsc::PermitIterator<'static, u8>,
                    sync::mpsc::Receiver<u8>,
                    sync::mpsc::Receiver<Cell<u8>>,
                    sync::mpsc::Receiver<Rc<u8>>,
                    sync::mpsc::Sender<u8>,
                    sync::mpsc::Sender<Cell<u8>>,
                    sync::mpsc::Sender<Rc<u8>>,
                    sync::mpsc::UnboundedReceiver<u8>,
                    sync::mpsc::UnboundedReceiver<Rc<u8>>,
                    sync::mpsc::UnboundedSender<u8>,
                    sync::mpsc::UnboundedSender<Rc<u8>>,
                    sync::mpsc::WeakSender<u8>,
                    sync::mpsc::WeakUnboundedSender<u8>,
                    sync::mpsc::error::SendError<u8>,
                    sync::mpsc::error::SendTimeoutError<u8>,
                    sync::mpsc::error::TryRecvError,
                    sync::mpsc::error::TrySendError<u8>,
                    sync::oneshot::Receiver<u8>,
                    sync::oneshot::Receiver<Cell<u8>>,
                    sync::oneshot::Receiver<Rc<u8>>,
                    sync::oneshot::Sender<u8>,
                    sync::oneshot::Sender<Cell<u8>>,
                    sync::oneshot::Sender<Rc<u8>>,
                    sync::oneshot::error::RecvError,
                    sync::oneshot::error::TryRecvError,
                    sync::watch::Receiver<u8>,
                    sync::watch::Receiver<Cell<u8>>,
                    sync::watch::Receiver<Rc<u8>>,
                    sync::watch::Ref<'static, u8>,
                    sync::watch::Ref<'static, Cell<u8>>,
                    sync::watch::Sender<u8>,
                    sync::watch::Sender<Cell<u8>>,
                    sync::watch::Sender<Rc<u8>>,
                    sync::watch::error::RecvError,
                    sync::watch::error::SendError<u8>,
                    task::AbortHandle,
                    task::Id,
                    task::JoinError,
                    task::JoinHandle<u8>,
                    task::JoinHandle<Cell<u8>>,
                    task::JoinHandle<Rc<u8>>,
                    task::JoinSet<u8>,
                    task::JoinSet<Cell<u8>>,
                    task::JoinSet<Rc<u8>>,
                    task::LocalEnterGuard,
                    task::LocalKey<u8>,
                    task::LocalSet,
                    task::coop::Unconstrained<Ready<u8>>,
                    task::futures::TaskLocalFuture<u8, Ready<u8>>,
                    time::Instant,
                    time::Interval,
                    time::MissedTickBehavior,
                    time::Sleep,
                    time::Timeout<Pending<u8>>,
                    time::Timeout<Pending<Rc<u8>>>,
                    time::error::Elapsed,
                    time::error::Error,
                ])
            }
        }
    };
}
side!(tokio);
side!(wakeful);

/// Returns the traits by the name of the type, without the white space of `stringify!`.
fn by_name(types: &[(&str, Traits)]) -> BTreeMap<String, Traits> {
    types.iter().map(|(name, traits)| (name.replace(char::is_whitespace, ""), *traits)).collect()
}

/// Returns the types whose traits differ in a way that the opening of this file does not allow.
fn differences(
    tokio: &BTreeMap<String, Traits>,
    wakeful: &BTreeMap<String, Traits>,
) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, on_tokio) in tokio {
        let on_wakeful = &wakeful[name];
        for (nth, of) in NAMES.iter().enumerate() {
            let (theirs, ours) = (on_tokio[nth], on_wakeful[nth]);
            if theirs != ours && (nth < 2 || theirs) {
                differences.push(format!("{name}: {of} is {theirs} on tokio, {ours} on wakeful"));
            }
        }
    }
    differences
}

#[test]
fn every_type_has_the_auto_traits_of_its_counterpart() {
    let (tokio, wakeful) = (tokio::traits(), wakeful::traits());
    let found = differences(&tokio, &wakeful);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_trait_that_is_missing_or_unsound_is_a_difference() {
    assert_eq!(tokio::traits()["sync::Mutex<Rc<u8>>"][..2], [false, false]);
    let side = |traits| BTreeMap::from([("T".to_owned(), traits)]);
    let (all, none) = (side([true; 5]), side([false; 5]));
    assert_eq!(differences(&all, &none).len(), 5);
    assert_eq!(differences(&none, &all).len(), 2, "Send and Sync");
    assert_eq!(differences(&all, &all), [""; 0]);
}
