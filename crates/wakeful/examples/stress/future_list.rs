//! The futures for `futures`: for each public way to wait, several futures on one resource, and the call that readies
//! them.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use wakeful::io::{AsyncReadExt, unix::AsyncFd};
use wakeful::net::{TcpListener, UdpSocket, UnixDatagram, UnixStream};
use wakeful::signal::unix::{SignalKind, signal};
use wakeful::sync::{
    Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce, broadcast, mpsc, oneshot, watch,
};
use wakeful::task::{JoinSet, spawn_blocking};
use wakeful::time::{Instant, interval, sleep, sleep_until, timeout};

use super::round::{lock, returns};

pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The futures that the call makes ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wakes {
    All,
    /// The first remaining future, which passes the resource on when it is dropped.
    First,
}

/// Futures on one resource.
pub struct Case {
    pub futures: Vec<BoxFuture>,
    /// Makes the futures ready.
    pub fire: Box<dyn FnOnce() + Send>,
    pub wakes: Wakes,
}

/// Makes a number of futures. Called in the context of a runtime.
pub type Make = fn(usize) -> Case;

fn case<F>(
    futures: impl Iterator<Item = F>,
    wakes: Wakes,
    fire: impl FnOnce() + Send + 'static,
) -> Case
where
    F: Future<Output = ()> + Send + 'static,
{
    let futures = futures.map(|future| Box::pin(future) as BoxFuture).collect();
    Case { futures, fire: Box::new(fire), wakes }
}

/// Each future has its own resource and its own call.
fn each<F, G>(count: usize, mut make: impl FnMut() -> (F, G)) -> Case
where
    F: Future<Output = ()> + Send + 'static,
    G: FnOnce() + Send + 'static,
{
    let (futures, fires): (Vec<F>, Vec<G>) = (0..count).map(|_| make()).unzip();
    case(futures.into_iter(), Wakes::All, move || {
        fires.into_iter().for_each(|fire| _ = returns(fire))
    })
}

/// The futures share one resource.
fn shared<T, F>(
    count: usize,
    resource: &Arc<T>,
    wait: impl Fn(Arc<T>) -> F,
) -> std::vec::IntoIter<F> {
    (0..count).map(move |_| wait(resource.clone())).collect::<Vec<_>>().into_iter()
}

/// A stream of the runtime and its peer, which belongs to no runtime: the peer's calls reach the kernel at once.
fn stream() -> (UnixStream, std::os::unix::net::UnixStream) {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    (UnixStream::from_std(near).unwrap(), far)
}

const SOON: Duration = Duration::from_micros(200);

pub const FUTURES: &[(&str, Make)] = &[
    ("sleep", |n| each(n, || (sleep(SOON), || ()))),
    ("sleep_until", |n| each(n, || (sleep_until(Instant::now() + SOON), || ()))),
    ("interval", |n| {
        each(n, || {
            let mut ticks = interval(SOON);
            (async move { _ = (ticks.tick().await, ticks.tick().await) }, || ())
        })
    }),
    ("timeout", |n| {
        each(n, || (async { _ = timeout(SOON, std::future::pending::<()>()).await }, || ()))
    }),
    ("mutex", |n| {
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.clone().try_lock_owned().unwrap();
        case(shared(n, &mutex, |m| async move { drop(m.lock().await) }), Wakes::First, || {
            drop(held)
        })
    }),
    ("rwlock write", |n| {
        let rwlock = Arc::new(RwLock::new(()));
        let held = rwlock.clone().try_read_owned().unwrap();
        case(shared(n, &rwlock, |l| async move { drop(l.write().await) }), Wakes::First, || {
            drop(held)
        })
    }),
    ("rwlock read", |n| {
        let rwlock = Arc::new(RwLock::new(()));
        let held = rwlock.clone().try_write_owned().unwrap();
        case(shared(n, &rwlock, |l| async move { drop(l.read().await) }), Wakes::All, || drop(held))
    }),
    ("semaphore", |n| {
        let semaphore = Arc::new(Semaphore::new(0));
        let futures = shared(n, &semaphore, |s| async move { drop(s.acquire().await) });
        case(futures, Wakes::All, move || semaphore.add_permits(n))
    }),
    ("semaphore, several permits", |n| {
        let semaphore = Arc::new(Semaphore::new(1));
        let futures = shared(n, &semaphore, |s| async move { drop(s.acquire_many_owned(2).await) });
        case(futures, Wakes::All, move || semaphore.add_permits(2 * n))
    }),
    ("semaphore that closes", |n| {
        let semaphore = Arc::new(Semaphore::new(0));
        let futures = shared(n, &semaphore, |s| async move { drop(s.acquire().await) });
        case(futures, Wakes::All, move || semaphore.close())
    }),
    ("notify_waiters", |n| {
        let notify = Arc::new(Notify::new());
        let futures = shared(n, &notify, |notify| async move { notify.notified().await });
        case(futures, Wakes::All, move || notify.notify_waiters())
    }),
    ("notify_one", |n| {
        let notify = Arc::new(Notify::new());
        let futures = shared(n, &notify, |notify| async move { notify.notified().await });
        case(futures, Wakes::First, move || notify.notify_one())
    }),
    ("barrier", |n| {
        let barrier = Arc::new(Barrier::new(n + 1));
        let futures = shared(n, &barrier, |b| async move { _ = b.wait().await });
        case(futures, Wakes::All, move || _ = futures::executor::block_on(barrier.wait()))
    }),
    ("once cell", |n| {
        let resource = Arc::new((OnceCell::new(), Semaphore::new(0)));
        let init = |r: Arc<(OnceCell<()>, Semaphore)>| async move {
            r.0.get_or_init(|| async { r.1.acquire().await.unwrap().forget() }).await;
        };
        case(shared(n, &resource, init), Wakes::First, move || resource.1.add_permits(n))
    }),
    ("set once", |n| {
        let set = Arc::new(SetOnce::new());
        case(shared(n, &set, |s| async move { _ = s.wait().await }), Wakes::All, move || {
            set.set(1).unwrap()
        })
    }),
    ("mpsc receive", |n| {
        each(n, || {
            let (tx, mut rx) = mpsc::channel(1);
            (async move { _ = rx.recv().await }, move || _ = tx.try_send(1))
        })
    }),
    ("mpsc receive many", |n| {
        each(n, || {
            let (tx, mut rx) = mpsc::unbounded_channel();
            (async move { _ = rx.recv_many(&mut Vec::new(), 3).await }, move || _ = tx.send(1))
        })
    }),
    ("mpsc send", |n| {
        let (tx, rx) = mpsc::channel(1);
        tx.try_send(0).unwrap();
        // The futures keep the receiver too, since all of them would be ready without it.
        let resource = Arc::new((tx, std::sync::Mutex::new(rx)));
        let futures = shared(n, &resource, |r| async move { _ = r.0.send(1).await });
        case(futures, Wakes::First, move || _ = lock(&resource.1).try_recv())
    }),
    ("mpsc reserve", |n| {
        let (tx, rx) = mpsc::channel(1);
        tx.try_send(0).unwrap();
        let futures = shared(n, &Arc::new(tx), |tx| async move { drop(tx.reserve().await) });
        case(futures, Wakes::All, || drop(rx))
    }),
    ("mpsc closed", |n| {
        let (tx, rx) = mpsc::channel::<()>(1);
        case(shared(n, &Arc::new(tx), |tx| async move { tx.closed().await }), Wakes::All, || {
            drop(rx)
        })
    }),
    ("oneshot receive", |n| {
        each(n, || {
            let (tx, rx) = oneshot::channel();
            (async move { _ = rx.await }, move || _ = tx.send(1))
        })
    }),
    ("oneshot closed", |n| {
        each(n, || {
            let (mut tx, rx) = oneshot::channel::<()>();
            (async move { tx.closed().await }, || drop(rx))
        })
    }),
    ("broadcast", |n| {
        let tx = broadcast::Sender::new(2);
        let futures: Vec<_> = (0..n).map(|_| tx.subscribe()).collect();
        let wait = |mut rx: broadcast::Receiver<u8>| async move { _ = rx.recv().await };
        case(futures.into_iter().map(wait), Wakes::All, move || _ = tx.send(1))
    }),
    ("watch changed", |n| {
        let tx = watch::Sender::new(0);
        let futures: Vec<_> = (0..n).map(|_| tx.subscribe()).collect();
        let wait = |mut rx: watch::Receiver<u8>| async move { _ = rx.changed().await };
        case(futures.into_iter().map(wait), Wakes::All, move || _ = tx.send(1))
    }),
    ("join handle", |n| {
        each(n, || {
            let (tx, rx) = oneshot::channel();
            let join = wakeful::spawn(rx);
            (async { _ = join.await }, move || _ = tx.send(1))
        })
    }),
    ("join set", |n| {
        each(n, || {
            let (tx, rx) = oneshot::channel();
            let mut set = JoinSet::new();
            set.spawn(rx);
            (async move { _ = set.join_next().await }, move || _ = tx.send(1))
        })
    }),
    ("blocking closure", |n| {
        each(n, || {
            let (tx, rx) = std::sync::mpsc::channel();
            let join = spawn_blocking(move || rx.recv());
            (async { _ = join.await }, move || _ = tx.send(1))
        })
    }),
    ("stream read", |n| {
        each(n, || {
            let (mut near, mut far) = stream();
            (async move { _ = near.read(&mut [0; 4]).await }, move || _ = far.write(b"text"))
        })
    }),
    ("stream write", |n| {
        each(n, || {
            let (near, mut far) = stream();
            far.set_nonblocking(true).unwrap();
            while rustix::io::write(&near, &[0; 4096]).is_ok() {}
            let drain = move || while far.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {};
            (async move { _ = near.writable().await }, drain)
        })
    }),
    ("accept", |n| {
        let std = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        std.set_nonblocking(true).unwrap();
        let address = std.local_addr().unwrap();
        let listener = Arc::new(TcpListener::from_std(std).unwrap());
        let futures = shared(n, &listener, |l| async move { drop(l.accept().await) });
        case(futures, Wakes::All, move || {
            // One connection for each future, because another future may accept first.
            (0..n).for_each(|_| drop(std::net::TcpStream::connect(address)));
        })
    }),
    ("datagrams", |n| {
        let std = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        std.set_nonblocking(true).unwrap();
        let (address, sender) = (std.local_addr().unwrap(), std.try_clone().unwrap());
        let socket = Arc::new(UdpSocket::from_std(std).unwrap());
        let futures = shared(n, &socket, |s| async move { _ = s.recv_from(&mut [0; 8]).await });
        case(futures, Wakes::All, move || {
            (0..n).for_each(|_| _ = sender.send_to(b"text", address));
        })
    }),
    ("readable", |n| {
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let near = UnixDatagram::from_std(near).unwrap();
        let futures = shared(n, &Arc::new(near), |s| async move { _ = s.readable().await });
        case(futures, Wakes::All, move || _ = far.send(b"text"))
    }),
    ("async descriptor", |n| {
        let (read, mut write) = std::io::pipe().unwrap();
        // SAFETY: the pipe owns its one descriptor.
        let fd = Arc::new(unsafe { AsyncFd::register(OwnedFd::from(read)) }.unwrap());
        let futures = shared(n, &fd, |fd| async move { drop(fd.readable().await) });
        case(futures, Wakes::All, move || _ = write.write(b"text"))
    }),
    ("file read", |n| {
        each(n, || {
            let (read, mut write) = std::io::pipe().unwrap();
            let mut file = wakeful::fs::File::from(OwnedFd::from(read));
            (async move { _ = file.read(&mut [0; 4]).await }, move || _ = write.write(b"text"))
        })
    }),
    ("signal", |n| {
        let listeners: Vec<_> =
            (0..n).map(|_| signal(SignalKind::user_defined1()).unwrap()).collect();
        // SAFETY: the process handles the signal from now on.
        let raise = || _ = unsafe { libc::raise(libc::SIGUSR1) };
        case(
            listeners.into_iter().map(|mut l| async move { _ = l.recv().await }),
            Wakes::All,
            raise,
        )
    }),
];
