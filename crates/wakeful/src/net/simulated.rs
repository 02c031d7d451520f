//! Sockets in a simulation: the stand-in for a descriptor, and how a socket is opened.

use crate::runtime::context;
use crate::runtime::poll_evented::{IoObject, PollEvented};
use crate::runtime::shutdown_error::shutting_down;
use crate::runtime::simulated::with_host;
use crate::sim::network::{Address, SimulatedSocket, SocketKind};
use crate::sim::world::SimulatedHost;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net;
use std::net::SocketAddr;
use std::os::unix::net as unix;
use std::panic::Location;

macro_rules! stand_ins {
    ($($object:ty: $domain:ident $kind:ident),+ $(,)?) => {$(
        impl IoObject for $object {
            #[cold]
            #[inline(never)]
            fn stand_in(socket: &SimulatedSocket) -> &Self {
                socket.stand_in(|| {
                    let kind = Type::$kind.nonblocking().cloexec();
                    Ok(Socket::new(Domain::$domain, kind, None)?.into())
                })
            }
        }
    )+};
}
stand_ins! {
    net::TcpStream: IPV4 STREAM,
    net::TcpListener: IPV4 STREAM,
    net::UdpSocket: IPV4 DGRAM,
    unix::UnixStream: UNIX STREAM,
    unix::UnixListener: UNIX STREAM,
    unix::UnixDatagram: UNIX DGRAM,
}

/// Opens a simulated socket, if the current runtime is simulated.
#[inline]
pub(super) fn open(kind: SocketKind) -> Option<io::Result<SimulatedSocket>> {
    with_host(|host| open_on(host, kind))
}

#[cold]
#[inline(never)]
fn open_on(host: &SimulatedHost, kind: SocketKind) -> io::Result<SimulatedSocket> {
    check_not_shut_down()?;
    SimulatedSocket::open(host, kind)
}

/// Returns an error if the current runtime is shutting down.
fn check_not_shut_down() -> io::Result<()> {
    match context::with_current(|runtime| runtime.is_closing()) {
        Some(true) => Err(shutting_down()),
        _ => Ok(()),
    }
}

/// Opens a pair of connected Unix sockets, if the current runtime is simulated.
pub(super) fn pair() -> Option<io::Result<[SimulatedSocket; 2]>> {
    with_host(pair_on)
}

#[cold]
#[inline(never)]
fn pair_on(host: &SimulatedHost) -> io::Result<[SimulatedSocket; 2]> {
    check_not_shut_down()?;
    SimulatedSocket::pair(host)
}

/// Registers a simulated socket with the current runtime.
#[track_caller]
pub(super) fn register<S: IoObject>(
    socket: SimulatedSocket,
    site: &'static Location<'static>,
) -> PollEvented<S> {
    PollEvented::new_simulated(socket, site)
}

/// Returns the path or abstract name in the form of [`Address::Unix`].
pub(super) fn name_of(addr: &unix::SocketAddr) -> Vec<u8> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    match (addr.as_abstract_name(), addr.as_pathname()) {
        (Some(name), _) => [b"\0", name].concat(),
        (None, Some(path)) => path.as_os_str().as_bytes().to_vec(),
        (None, None) => Vec::new(),
    }
}

/// Returns the address of a Unix socket.
pub(super) fn unix_addr(address: Address) -> io::Result<unix::SocketAddr> {
    use std::ffi::OsStr;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    let Address::Unix(name) = address else {
        return Err(rustix::io::Errno::AFNOSUPPORT.into());
    };
    match name.strip_prefix(b"\0") {
        Some(name) => unix::SocketAddr::from_abstract_name(name),
        None => unix::SocketAddr::from_pathname(OsStr::from_bytes(&name)),
    }
}

/// Resolves the name of a host of the simulation, or `localhost`. `None` outside of a simulation.
///
/// Without `port`, the name ends with a colon and the port.
pub(super) fn lookup(name: &str, port: Option<u16>) -> Option<io::Result<SocketAddr>> {
    with_host(|host| {
        let (name, port) = match port {
            Some(port) => (name, port),
            None => split_port(name)?,
        };
        find(host, name).map(|ip| SocketAddr::new(ip, port)).ok_or_else(|| {
            io::Error::other(format!(
                "failed to lookup address information: the simulation has no host named {name:?}"
            ))
        })
    })
}

fn split_port(name: &str) -> io::Result<(&str, u16)> {
    let invalid = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
    let (name, port) = name.rsplit_once(':').ok_or_else(|| invalid("invalid socket address"))?;
    Ok((name, port.parse().map_err(|_| invalid("invalid port value"))?))
}

fn find(host: &SimulatedHost, name: &str) -> Option<net::IpAddr> {
    if let Ok(ip) = name.parse() {
        return Some(ip);
    }
    if name == "localhost" {
        return Some(net::Ipv4Addr::LOCALHOST.into());
    }
    host.world.host_named(name).map(|found| crate::sim::network::ip_of(found).into())
}
