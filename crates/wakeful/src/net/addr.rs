//! What can be resolved to socket addresses.

use crate::task::spawn_blocking;
use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::option;
use std::pin::Pin;
use std::vec;

/// Something that can be turned into one or more socket addresses, without
/// blocking the thread: an address, a list of them, or a host name with a port,
/// which is looked up on the blocking pool.
///
/// It cannot be implemented outside of this crate.
pub trait ToSocketAddrs: sealed::Resolve {}

mod sealed {
    use super::*;

    /// What [`ToSocketAddrs`] can do.
    pub trait Resolve {
        type Iter: Iterator<Item = SocketAddr> + Send + 'static;
        type Future: Future<Output = io::Result<Self::Iter>> + Send + 'static;

        fn resolve(&self) -> Self::Future;
    }
}
use sealed::Resolve;

pub(crate) fn resolve<T: ToSocketAddrs>(addrs: T) -> T::Future {
    addrs.resolve()
}

/// What there is to say if not even one address was tried.
pub(crate) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")
}

/// Looks up a host name.
///
/// The result may be empty. The iterator has the addresses in the order in which
/// the system gave them.
///
/// # Errors
///
/// Whatever the system's resolver says, or that there is no port in the name.
pub fn lookup_host<T>(host: T) -> impl Future<Output = io::Result<impl Iterator<Item = SocketAddr>>>
where
    T: ToSocketAddrs,
{
    let resolved = resolve(host);
    #[expect(clippy::redundant_async_block, reason = "it is not to be `Unpin`, whatever it holds")]
    async move {
        resolved.await
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {}

impl<T: Resolve + ?Sized> Resolve for &T {
    type Iter = T::Iter;
    type Future = T::Future;

    fn resolve(&self) -> Self::Future {
        (**self).resolve()
    }
}

/// Those that need no look-up.
macro_rules! resolved {
    ($($type:ty),+) => {$(
        impl ToSocketAddrs for $type {}

        impl Resolve for $type {
            type Iter = option::IntoIter<SocketAddr>;
            type Future = Ready<io::Result<Self::Iter>>;

            fn resolve(&self) -> Self::Future {
                ready(Ok(Some(SocketAddr::from(*self)).into_iter()))
            }
        }
    )+};
}
resolved!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for &[SocketAddr] {}

impl Resolve for &[SocketAddr] {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = Ready<io::Result<Self::Iter>>;

    fn resolve(&self) -> Self::Future {
        let addrs: Vec<SocketAddr> = self.to_vec();
        ready(Ok(addrs.into_iter()))
    }
}

/// A look-up on the blocking pool, unless there is nothing to look up.
type LookUp = Pin<Box<dyn Future<Output = io::Result<vec::IntoIter<SocketAddr>>> + Send>>;

fn look_up(known: Option<SocketAddr>, name: impl FnOnce() -> (String, Option<u16>)) -> LookUp {
    if let Some(known) = known {
        return Box::pin(ready(Ok(vec![known].into_iter())));
    }
    let (host, port) = name();
    let look = move || match port {
        Some(port) => std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port)),
        None => std::net::ToSocketAddrs::to_socket_addrs(&*host),
    };
    Box::pin(async move {
        // Not before it is polled: the runtime may be one that runs it later.
        match spawn_blocking(look).await {
            Ok(addrs) => addrs,
            Err(_) => Err(io::Error::other("the look-up was cancelled: its runtime is gone")),
        }
    })
}

impl ToSocketAddrs for str {}

impl Resolve for str {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookUp;

    fn resolve(&self) -> LookUp {
        look_up(self.parse().ok(), || (self.to_owned(), None))
    }
}

impl ToSocketAddrs for String {}

impl Resolve for String {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookUp;

    fn resolve(&self) -> LookUp {
        (**self).resolve()
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl Resolve for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookUp;

    fn resolve(&self) -> LookUp {
        let (host, port) = *self;
        let known = host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
        look_up(known, || (host.to_owned(), Some(port)))
    }
}

impl ToSocketAddrs for (String, u16) {}

impl Resolve for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookUp;

    fn resolve(&self) -> LookUp {
        (self.0.as_str(), self.1).resolve()
    }
}
