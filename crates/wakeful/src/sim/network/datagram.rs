//! UDP: datagrams that are lost, duplicated, reordered and truncated.

use super::links::{Blocked, Route};
use super::log::MessageFate;
use super::ports::{Destination, Protocol, destination};
use super::state::{Address, Message, Net, NetworkOracle, SocketId, SocketState, source_ip};
use super::stream::hash_of;
use crate::driver::io_readiness::Readiness;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The largest datagram: the largest IP packet minus the headers of IP and UDP.
const MAX_LEN: usize = 65_507;

/// The bytes of a datagram that fit into one packet of 1,500 bytes. A larger datagram takes
/// several packets.
const FRAGMENT: usize = 1_472;

/// The most memory that the queue of a socket takes. Further datagrams are dropped.
const MAX_QUEUED: usize = 212_992;

/// Returns the memory that a queued datagram of `len` bytes counts with, as on Linux: that of its
/// buffer, which holds headers too, and 256 bytes for its description.
fn memory_of(len: usize) -> usize {
    /// The headers, and what the kernel adds at the end of the buffer.
    const OVERHEAD: usize = 384;
    const LEAST_BUFFER: usize = 576;
    const PAGE: usize = 4096;
    let needed = len + OVERHEAD;
    let buffer = if needed > 8 * PAGE {
        needed.next_multiple_of(PAGE)
    } else {
        needed.next_power_of_two().max(LEAST_BUFFER)
    };
    buffer + 256
}

/// A datagram in flight.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) route: Route,
    sender: SocketId,
    from: SocketAddrV4,
    to: SocketAddrV4,
    bytes: Vec<u8>,
}

/// A UDP socket.
#[derive(Debug, Default)]
pub(crate) struct DatagramSocket {
    pub(crate) peer: Option<SocketAddrV4>,
    pub(crate) error: Option<Errno>,
    queue: VecDeque<(Vec<u8>, SocketAddrV4)>,
    /// The memory of the queued datagrams, as Linux counts it.
    queued_bytes: usize,
}

impl DatagramSocket {
    pub(crate) fn readiness(&self) -> Readiness {
        let readable = if self.queue.is_empty() { Readiness::NONE } else { Readiness::READABLE };
        let error = if self.error.is_some() { Readiness::ERROR } else { Readiness::NONE };
        Readiness::WRITABLE | readable | error
    }
}

impl Net {
    /// Binds a UDP socket to an address.
    pub(crate) fn bind_datagram(&mut self, id: SocketId, addr: SocketAddrV4) -> Result<(), Errno> {
        self.bind(id, addr)?;
        self.set_state(id, SocketState::Datagram(DatagramSocket::default()));
        Ok(())
    }

    fn datagram_mut(&mut self, id: SocketId) -> Result<&mut DatagramSocket, Errno> {
        match self.sockets.get_mut(&id).map(|socket| &mut socket.state) {
            Some(SocketState::Datagram(socket)) => Ok(socket),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOTCONN),
        }
    }

    /// Sets the peer of a UDP socket, which then exchanges datagrams with this address only.
    pub(crate) fn connect_datagram(
        &mut self,
        id: SocketId,
        peer: SocketAddrV4,
    ) -> Result<(), Errno> {
        let host = self.socket(id)?.host;
        if destination(host, *peer.ip(), self.hosts) == Destination::Outside {
            return Err(Errno::NETUNREACH);
        }
        let ip = if peer.ip().is_unspecified() { Ipv4Addr::LOCALHOST } else { *peer.ip() };
        self.datagram_mut(id)?.peer = Some(SocketAddrV4::new(ip, peer.port()));
        Ok(())
    }

    /// Sends a datagram to `target`, or to the peer.
    pub(crate) fn send_datagram(
        &mut self,
        id: SocketId,
        bytes: &[u8],
        target: Option<SocketAddrV4>,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Result<usize, Errno> {
        let socket = self.datagram_mut(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let to = target.or(socket.peer).ok_or(Errno::DESTADDRREQ)?;
        if bytes.len() > MAX_LEN {
            return Err(Errno::MSGSIZE);
        }
        let socket = self.socket(id)?;
        let (host, Some(Address::Inet(bound))) = (socket.host, &socket.bound) else {
            return Err(Errno::INVAL);
        };
        let ip = if bound.ip().is_unspecified() { source_ip(host, *to.ip()) } else { *bound.ip() };
        let from = SocketAddrV4::new(ip, bound.port());
        let there = match destination(host, *to.ip(), self.hosts) {
            _ if to.port() == 0 => return Err(Errno::INVAL),
            Destination::Outside => return Err(Errno::NETUNREACH),
            Destination::Host(there) if there != host && ip.is_loopback() => {
                return Err(Errno::INVAL);
            }
            Destination::Host(there) => there,
            Destination::NoHost => return Ok(bytes.len()),
        };
        let to_ip = if to.ip().is_unspecified() { Ipv4Addr::LOCALHOST } else { *to.ip() };
        let to = SocketAddrV4::new(to_ip, to.port());
        let datagram =
            Datagram { route: (host, there), sender: id, from, to, bytes: bytes.to_vec() };
        self.dispatch_datagram(datagram, now_ns, oracle);
        Ok(bytes.len())
    }

    /// Sends a datagram on its route, with the faults of the link.
    pub(crate) fn dispatch_datagram(
        &mut self,
        datagram: Datagram,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let route = datagram.route;
        self.log_fate(MessageFate::Sent, &datagram);
        if self.links.is_immediate(route) {
            return self.arrive_datagram(datagram);
        }
        if self.links.blocked(route).is_some() {
            return self.obstruct(datagram);
        }
        let len = datagram.bytes.len();
        let fragments = len.div_ceil(FRAGMENT).max(1);
        let delays = self.links.datagram_delays(route, len, fragments, now_ns, oracle);
        let Some((last, others)) = delays.split_last() else {
            return self.log_fate(MessageFate::Lost, &datagram);
        };
        for delay in others {
            self.send(*delay, route.0, Message::Datagram(datagram.clone()));
        }
        self.send(*last, route.0, Message::Datagram(datagram));
    }

    /// Sends a datagram that was held. No fault affects it.
    pub(crate) fn release_datagram(
        &mut self,
        datagram: Datagram,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        self.log_fate(MessageFate::Sent, &datagram);
        let (route, len) = (datagram.route, datagram.bytes.len());
        let delay = self.links.latency(route, len, now_ns, oracle);
        self.send(delay, route.0, Message::Datagram(datagram));
    }

    /// Loses a datagram in a partition, or keeps it until the end of a hold.
    fn obstruct(&mut self, datagram: Datagram) {
        if self.links.blocked(datagram.route) == Some(Blocked::Hold) {
            self.log_fate(MessageFate::Stalled, &datagram);
            self.held.push(datagram);
        } else {
            self.log_fate(MessageFate::Lost, &datagram);
        }
    }

    fn log_fate(&mut self, fate: MessageFate, datagram: &Datagram) {
        let Datagram { route, from, to, ref bytes, .. } = *datagram;
        self.log_datagram(fate, route, (from, to), bytes.len());
    }

    /// Delivers a datagram to the socket that is bound to its address.
    pub(crate) fn arrive_datagram(&mut self, datagram: Datagram) {
        if self.links.blocked(datagram.route).is_some() {
            return self.obstruct(datagram);
        }
        self.log_fate(MessageFate::Arrived, &datagram);
        let Datagram { route, sender, from, to, bytes } = datagram;
        let found = self.ports.bound_to(route.1, Protocol::Udp, to).find(|id| {
            let state = self.sockets.get(id).map(|socket| &socket.state);
            matches!(state, Some(SocketState::Datagram(socket))
                if socket.peer.is_none_or(|peer| peer == from))
        });
        let Some(id) = found else {
            let back = (route.1, route.0);
            if self.links.blocked(back).is_none() {
                let latency = self.links.least_latency_ns(back);
                self.send(latency, route.1, Message::Unreachable(sender, to));
            }
            return;
        };
        let Ok(socket) = self.datagram_mut(id) else { return };
        if socket.queued_bytes + memory_of(bytes.len()) > MAX_QUEUED {
            return;
        }
        socket.queued_bytes += memory_of(bytes.len());
        let hash = hash_of(&bytes);
        socket.queue.push_back((bytes, from));
        self.out.delivered.push((route.1, hash));
        self.set_ready(Some(id), Readiness::READABLE);
    }

    /// Reports to a socket that no socket listens at `to`, if it is connected to that address.
    pub(crate) fn arrive_unreachable(&mut self, id: SocketId, to: SocketAddrV4) {
        if let Ok(socket) = self.datagram_mut(id)
            && socket.peer == Some(to)
        {
            socket.error = Some(Errno::CONNREFUSED);
            self.set_ready(Some(id), Readiness::ERROR | Readiness::WRITABLE);
        }
    }

    /// Receives a datagram into `sink`, up to `len` bytes. Returns the number of bytes and the
    /// sender.
    pub(crate) fn receive_datagram(
        &mut self,
        id: SocketId,
        len: usize,
        peeks: bool,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(usize, SocketAddrV4), Errno> {
        let socket = self.datagram_mut(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (bytes, from) = socket.queue.front().ok_or(Errno::AGAIN)?;
        let (count, from) = (bytes.len().min(len), *from);
        sink(&bytes[..count]);
        if !peeks && let Some((bytes, _)) = socket.queue.pop_front() {
            socket.queued_bytes -= memory_of(bytes.len());
        }
        Ok((count, from))
    }
}
