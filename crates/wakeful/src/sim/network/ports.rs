//! Addresses: the IP of each host, its ports, and the names of its Unix sockets.

use super::state::SocketId;
use crate::sim::oracle::HostId;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The range of the ports for sockets that request any port.
const EPHEMERAL: (u16, u16) = (32_768, 60_999);

/// Returns the IP of a host: `10.0.0.1` for the first.
pub(crate) fn ip_of(host: HostId) -> Ipv4Addr {
    let [_, high, middle, low] = host.0.to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

/// The destination of a message to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Host(HostId),
    /// An address of the simulated network that no host has.
    NoHost,
    /// An address outside of the simulated network.
    Outside,
}

/// Returns the destination of `ip`, as seen from `host`. There are `hosts` hosts.
pub(crate) fn destination(host: HostId, ip: Ipv4Addr, hosts: u32) -> Destination {
    if ip.is_loopback() || ip.is_unspecified() {
        return Destination::Host(host);
    }
    let [10, high, middle, low] = ip.octets() else { return Destination::Outside };
    match u32::from_be_bytes([0, high, middle, low]) {
        0 => Destination::NoHost,
        number if number <= hosts => Destination::Host(HostId(number)),
        _ => Destination::NoHost,
    }
}

/// A protocol, which has its own port numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// The bound ports and names.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    bound: BTreeMap<(HostId, Protocol, u16), Vec<(Ipv4Addr, SocketId)>>,
    /// The port at which the search for the next free port starts.
    next: BTreeMap<(HostId, Protocol), u16>,
    /// The Unix sockets of each host, by path, or by zero byte and abstract name.
    named: BTreeMap<(HostId, Vec<u8>), SocketId>,
}

fn overlaps(one: Ipv4Addr, other: Ipv4Addr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}

impl Ports {
    /// Binds a socket to an address, where port 0 requests any free port. Returns the bound address.
    pub(crate) fn bind(
        &mut self,
        host: HostId,
        protocol: Protocol,
        addr: SocketAddrV4,
        socket: SocketId,
    ) -> Result<SocketAddrV4, Errno> {
        let ip = *addr.ip();
        if !ip.is_unspecified() && !ip.is_loopback() && ip != ip_of(host) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let port = match addr.port() {
            0 => self.free_port(host, protocol, ip).ok_or(Errno::ADDRINUSE)?,
            port if self.is_free(host, protocol, ip, port) => port,
            _ => return Err(Errno::ADDRINUSE),
        };
        self.bound.entry((host, protocol, port)).or_default().push((ip, socket));
        Ok(SocketAddrV4::new(ip, port))
    }

    fn is_free(&self, host: HostId, protocol: Protocol, ip: Ipv4Addr, port: u16) -> bool {
        let bound = self.bound.get(&(host, protocol, port));
        bound.is_none_or(|bound| bound.iter().all(|(other, _)| !overlaps(ip, *other)))
    }

    fn free_port(&mut self, host: HostId, protocol: Protocol, ip: Ipv4Addr) -> Option<u16> {
        let (first, last) = EPHEMERAL;
        let start = self.next.get(&(host, protocol)).copied().unwrap_or(first);
        let mut ports = (start..=last).chain(first..start);
        let port = ports.find(|port| self.is_free(host, protocol, ip, *port))?;
        self.next.insert((host, protocol), if port == last { first } else { port + 1 });
        Some(port)
    }

    /// Frees a port if it belongs to this socket.
    pub(crate) fn unbind(&mut self, host: HostId, protocol: Protocol, port: u16, socket: SocketId) {
        if let Some(bound) = self.bound.get_mut(&(host, protocol, port)) {
            bound.retain(|(_, other)| *other != socket);
            if bound.is_empty() {
                self.bound.remove(&(host, protocol, port));
            }
        }
    }

    /// Returns the sockets that receive messages to this address of the host, the best match first.
    pub(crate) fn bound_to(
        &self,
        host: HostId,
        protocol: Protocol,
        addr: SocketAddrV4,
    ) -> impl Iterator<Item = SocketId> + '_ {
        let ip = *addr.ip();
        let bound = self.bound.get(&(host, protocol, addr.port())).map_or(&[][..], Vec::as_slice);
        let exact = bound.iter().filter(move |(other, _)| *other == ip);
        let any = bound.iter().filter(|(other, _)| other.is_unspecified());
        exact.chain(any).map(|(_, socket)| *socket)
    }

    /// Gives a Unix socket a name on its host.
    pub(crate) fn set_name(
        &mut self,
        host: HostId,
        name: &[u8],
        socket: SocketId,
    ) -> Result<(), Errno> {
        let key = (host, name.to_vec());
        if self.named.contains_key(&key) {
            return Err(Errno::ADDRINUSE);
        }
        self.named.insert(key, socket);
        Ok(())
    }

    pub(crate) fn named(&self, host: HostId, name: &[u8]) -> Option<SocketId> {
        self.named.get(&(host, name.to_vec())).copied()
    }

    pub(crate) fn remove_name(&mut self, host: HostId, name: &[u8]) {
        self.named.remove(&(host, name.to_vec()));
    }
}
