//! Resolution of host names and address-like values to socket addresses.

use super::simulated;
use crate::task::spawn_blocking;
use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::option;
use std::pin::Pin;
use std::vec;

/// A value that can be converted to one or more socket addresses without blocking the thread.
///
/// Implemented for addresses, lists of addresses, and host names with a port, such as
/// `"example.com:80"` or `("example.com", 80)`. Host names are resolved on the blocking pool.
/// Textual addresses are parsed without a lookup.
///
/// This trait is sealed: it cannot be implemented outside of this crate.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::TcpListener;
///
/// TcpListener::bind("127.0.0.1:0").await?;
/// TcpListener::bind(("127.0.0.1", 0)).await?;
/// TcpListener::bind(&["127.0.0.1:0".parse().unwrap()][..]).await?;
/// # Ok(())
/// # }
/// ```
pub trait ToSocketAddrs: sealed::Resolve {}

mod sealed {
    use super::*;

    /// The private part of [`ToSocketAddrs`](super::ToSocketAddrs).
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

/// Returns the error for a name that resolved to no address.
pub(crate) fn no_addresses() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")
}

/// Resolves a host name to socket addresses.
///
/// Yields the addresses in the order in which the system's resolver returned them. The result may
/// be empty. The lookup runs on the blocking pool.
///
/// # Errors
///
/// Returns the resolver's error, or `InvalidInput` if the port is missing.
///
/// # Panics
///
/// The future panics if it has to look up a name and is polled outside of a runtime.
///
/// # Cancel safety
///
/// Dropping the future does not stop a lookup that has started on the blocking pool; its result is
/// discarded.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut addrs = wakeful::net::lookup_host("127.0.0.1:8080").await?;
/// assert_eq!(addrs.next(), Some(([127, 0, 0, 1], 8080).into()));
/// # Ok(())
/// # }
/// ```
pub fn lookup_host<T>(host: T) -> impl Future<Output = io::Result<impl Iterator<Item = SocketAddr>>>
where
    T: ToSocketAddrs,
{
    let resolved = resolve(host);
    #[expect(
        clippy::redundant_async_block,
        reason = "the future must not be `Unpin`, whatever it contains"
    )]
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

/// Implements [`ToSocketAddrs`] for types that need no lookup.
macro_rules! impl_without_lookup {
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
impl_without_lookup!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl ToSocketAddrs for &[SocketAddr] {}

impl Resolve for &[SocketAddr] {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = Ready<io::Result<Self::Iter>>;

    fn resolve(&self) -> Self::Future {
        let addrs: Vec<SocketAddr> = self.to_vec();
        ready(Ok(addrs.into_iter()))
    }
}

/// The future of a lookup on the blocking pool, or of an address that needed none.
type LookupFuture = Pin<Box<dyn Future<Output = io::Result<vec::IntoIter<SocketAddr>>> + Send>>;

/// Returns `literal`, or looks `name` up on the blocking pool.
fn lookup(
    literal: Option<SocketAddr>,
    name: impl FnOnce() -> (String, Option<u16>),
) -> LookupFuture {
    if let Some(literal) = literal {
        return Box::pin(ready(Ok(vec![literal].into_iter())));
    }
    let (host, port) = name();
    let simulated_name = host.clone();
    let lookup = move || match port {
        Some(port) => std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port)),
        None => std::net::ToSocketAddrs::to_socket_addrs(&*host),
    };
    Box::pin(async move {
        if let Some(found) = simulated::lookup(&simulated_name, port) {
            return found.map(|addr| vec![addr].into_iter());
        }
        // Spawned at the first poll: the future may be polled on another runtime than the one in
        // whose context it was created.
        match spawn_blocking(lookup).await {
            Ok(addrs) => addrs,
            Err(_) => Err(io::Error::other(
                "the host name lookup was cancelled because its runtime has shut down",
            )),
        }
    })
}

impl ToSocketAddrs for str {}

impl Resolve for str {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookupFuture;

    fn resolve(&self) -> LookupFuture {
        lookup(self.parse().ok(), || (self.to_owned(), None))
    }
}

impl ToSocketAddrs for String {}

impl Resolve for String {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookupFuture;

    fn resolve(&self) -> LookupFuture {
        (**self).resolve()
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl Resolve for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookupFuture;

    fn resolve(&self) -> LookupFuture {
        let (host, port) = *self;
        let literal = host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
        lookup(literal, || (host.to_owned(), Some(port)))
    }
}

impl ToSocketAddrs for (String, u16) {}

impl Resolve for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    type Future = LookupFuture;

    fn resolve(&self) -> LookupFuture {
        (self.0.as_str(), self.1).resolve()
    }
}
