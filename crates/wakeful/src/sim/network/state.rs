//! [`Net`]: the sockets and connections of all hosts, without a runtime.

use super::connection::{Closing, Connection, Segment};
use super::datagram::DatagramSocket;
use super::links::{Links, Route};
use super::listener::Listener;
use super::log::Logged;
use super::ports::{Ports, Protocol, ip_of};
use crate::driver::io_readiness::Readiness;
use crate::sim::oracle::{ChoiceKind, HostId};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The number of a socket in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SocketId(pub(crate) u32);

/// The number of a connection in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u32);

/// An end of a connection. Side 0 connected, side 1 accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId {
    pub(crate) connection: ConnectionId,
    pub(crate) side: usize,
}

impl EndId {
    pub(crate) fn peer(self) -> EndId {
        EndId { side: 1 - self.side, ..self }
    }
}

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Inet(SocketAddrV4),
    /// A path, or a zero byte and an abstract name. Empty without a name.
    Unix(Vec<u8>),
}

/// Makes the choices of the network.
pub(crate) trait NetworkOracle {
    fn choose(&mut self, kind: ChoiceKind, host: HostId, len: u64) -> u64;
    fn chance(&mut self, kind: ChoiceKind, host: HostId, probability: u32) -> bool;
}

/// The state of a socket.
#[derive(Debug)]
pub(crate) enum SocketState {
    /// Neither connected nor listening. TCP may have a port, a Unix socket a name.
    Idle,
    Stream(EndId),
    Listener(Listener),
    Datagram(DatagramSocket),
}

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketKind {
    Tcp,
    Udp,
    Unix,
}

/// A socket of a host.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) host: HostId,
    pub(crate) kind: SocketKind,
    /// The address to which the socket is bound.
    pub(crate) bound: Option<Address>,
    pub(crate) state: SocketState,
}

/// A message or timer in flight.
#[derive(Debug)]
pub(crate) enum Message {
    /// A part of the stream that this end sent, with its number.
    Segment(EndId, u64, Segment),
    /// This end has read this number of bytes, so its peer may write as many more.
    Window(EndId, usize),
    Datagram(super::datagram::Datagram),
    /// No socket received the datagram that this socket sent to this address.
    Unreachable(SocketId, SocketAddrV4),
    /// A time limit of this end has passed.
    Timeout(EndId),
    /// No host has the address to which this end connects.
    NoHost(EndId),
    /// The connecting end has received the answer, so the connection can be accepted.
    Confirm(EndId),
}

/// The effects of a call of [`Net`], to be applied outside of its lock, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Sockets that have become ready.
    pub(crate) ready: Vec<(SocketId, Readiness)>,
    /// The delay, host and number of each message that was sent.
    pub(crate) sent: Vec<(u64, HostId, u64)>,
    /// The hashes of delivered data, for the hash of the run.
    pub(crate) delivered: Vec<(HostId, u64)>,
    /// Entries for the log.
    pub(crate) logged: Vec<Logged>,
}

/// The sockets and connections of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) links: Links,
    pub(crate) ports: Ports,
    pub(crate) sockets: BTreeMap<SocketId, Socket>,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    pub(crate) out: Outbox,
    /// Whether the run keeps a log of its messages.
    pub(crate) is_logged: bool,
    /// The number of hosts.
    pub(crate) hosts: u32,
    pub(super) messages: BTreeMap<u64, Message>,
    /// Datagrams that are kept until the end of a hold.
    pub(crate) held: Vec<super::datagram::Datagram>,
    next_socket: u32,
    next_connection: u32,
    next_message: u64,
}

impl Net {
    /// Opens a socket on a host.
    pub(crate) fn open(&mut self, host: HostId, kind: SocketKind) -> SocketId {
        self.next_socket += 1;
        let id = SocketId(self.next_socket);
        self.sockets.insert(id, Socket { host, kind, bound: None, state: SocketState::Idle });
        id
    }

    /// Returns a socket. Returns an error if the socket is gone because its host was killed.
    pub(crate) fn socket(&self, id: SocketId) -> Result<&Socket, Errno> {
        self.sockets.get(&id).ok_or(Errno::NOTCONN)
    }

    pub(crate) fn add_connection(&mut self, connection: Connection) -> ConnectionId {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        self.connections.insert(id, connection);
        id
    }

    /// Schedules a message to arrive after this time, on behalf of `host`. Returns its number.
    pub(crate) fn send(&mut self, after_ns: u64, host: HostId, message: Message) -> u64 {
        if let Message::Segment(end, ..) | Message::Window(end, _) | Message::Confirm(end) =
            &message
            && let Some(connection) = self.connections.get_mut(&end.connection)
        {
            connection.in_flight += 1;
        }
        self.next_message += 1;
        self.messages.insert(self.next_message, message);
        self.out.sent.push((after_ns, host, self.next_message));
        self.next_message
    }

    /// Cancels a message that does not count as in flight in a connection.
    pub(super) fn cancel(&mut self, number: u64) {
        self.messages.remove(&number);
    }

    /// Returns whether the message with this number is in flight.
    pub(crate) fn is_under_way(&self, number: u64) -> bool {
        self.messages.contains_key(&number)
    }

    /// Delivers the message with this number, or does nothing if it was cancelled.
    pub(crate) fn arrive(&mut self, number: u64, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        match self.messages.remove(&number) {
            Some(Message::Segment(end, number, segment)) => {
                self.arrive_segment(end, number, segment, now_ns, oracle);
            }
            Some(Message::Window(end, room)) => self.arrive_window(end, room),
            Some(Message::Datagram(datagram)) => self.arrive_datagram(datagram),
            Some(Message::Unreachable(socket, to)) => self.arrive_unreachable(socket, to),
            Some(Message::Timeout(end)) => self.expire(end, now_ns, oracle),
            Some(Message::NoHost(end)) => self.fail_end(end, Errno::HOSTUNREACH, now_ns, oracle),
            Some(Message::Confirm(end)) => self.arrive_confirm(end, now_ns, oracle),
            None => {}
        }
    }

    pub(crate) fn set_ready(&mut self, socket: Option<SocketId>, ready: Readiness) {
        self.out.ready.extend(socket.map(|socket| (socket, ready)));
    }

    /// Binds a TCP or UDP socket to an address.
    pub(crate) fn bind(&mut self, id: SocketId, addr: SocketAddrV4) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if socket.bound.is_some() {
            return Err(Errno::INVAL);
        }
        let protocol = if socket.kind == SocketKind::Udp { Protocol::Udp } else { Protocol::Tcp };
        let addr = self.ports.bind(socket.host, protocol, addr, id)?;
        self.set_bound(id, Address::Inet(addr));
        Ok(())
    }

    /// Binds a Unix socket to a name.
    pub(crate) fn bind_name(&mut self, id: SocketId, name: &[u8]) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if socket.bound.is_some() {
            return Err(Errno::INVAL);
        }
        self.ports.set_name(socket.host, name, id)?;
        self.set_bound(id, Address::Unix(name.to_vec()));
        Ok(())
    }

    fn set_bound(&mut self, id: SocketId, address: Address) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.bound = Some(address);
        }
    }

    /// Returns the address of a socket.
    pub(crate) fn local_addr(&self, id: SocketId) -> Result<Address, Errno> {
        let socket = self.socket(id)?;
        if let SocketState::Stream(end) = socket.state
            && let Some(connection) = self.connections.get(&end.connection)
        {
            return Ok(connection.ends[end.side].address.clone());
        }
        if let (SocketState::Datagram(datagram), Some(Address::Inet(bound))) =
            (&socket.state, &socket.bound)
            && bound.ip().is_unspecified()
            && let Some(peer) = datagram.peer
        {
            // Connecting chose the interface.
            let ip = source_ip(socket.host, *peer.ip());
            return Ok(Address::Inet(SocketAddrV4::new(ip, bound.port())));
        }
        Ok(socket.bound.clone().unwrap_or_else(|| match socket.kind {
            SocketKind::Unix => Address::Unix(Vec::new()),
            _ => Address::Inet(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        }))
    }

    /// Returns the address of the peer of a socket.
    pub(crate) fn peer_addr(&self, id: SocketId) -> Result<Address, Errno> {
        match &self.socket(id)?.state {
            SocketState::Stream(end) => {
                let connection = self.connections.get(&end.connection).ok_or(Errno::NOTCONN)?;
                connection.peer_addr(end.side).ok_or(Errno::NOTCONN)
            }
            SocketState::Datagram(datagram) => {
                datagram.peer.map(Address::Inet).ok_or(Errno::NOTCONN)
            }
            _ => Err(Errno::NOTCONN),
        }
    }

    /// Takes the pending error of a socket.
    pub(crate) fn take_error(&mut self, id: SocketId) -> Option<Errno> {
        match &mut self.sockets.get_mut(&id)?.state {
            SocketState::Stream(end) => {
                let end = *end;
                self.connections.get_mut(&end.connection)?.ends[end.side].error.take()
            }
            SocketState::Datagram(datagram) => datagram.error.take(),
            _ => None,
        }
    }

    /// Returns what a socket is ready for.
    pub(crate) fn readiness(&self, id: SocketId) -> Readiness {
        match self.sockets.get(&id).map(|socket| &socket.state) {
            Some(SocketState::Stream(end)) => {
                let connection = self.connections.get(&end.connection);
                connection.map_or(Readiness::NONE, |connection| connection.readiness(end.side))
            }
            Some(SocketState::Listener(listener)) => listener.readiness(),
            Some(SocketState::Datagram(datagram)) => datagram.readiness(),
            Some(SocketState::Idle) => Readiness::NONE,
            None => Readiness::READ | Readiness::WRITE,
        }
    }

    /// Closes a socket.
    pub(crate) fn close(
        &mut self,
        id: SocketId,
        how: Closing,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Some(socket) = self.sockets.remove(&id) else { return };
        match &socket.bound {
            Some(Address::Inet(addr)) => {
                let protocol =
                    if socket.kind == SocketKind::Udp { Protocol::Udp } else { Protocol::Tcp };
                self.ports.unbind(socket.host, protocol, addr.port(), id);
            }
            Some(Address::Unix(name)) => self.ports.remove_name(socket.host, name),
            None => {}
        }
        match socket.state {
            SocketState::Stream(end) => self.close_end(end, how, now_ns, oracle),
            SocketState::Listener(listener) => self.close_listener(listener, now_ns, oracle),
            SocketState::Idle | SocketState::Datagram(_) => {}
        }
    }

    /// Closes all sockets of a host that is killed, and resets their connections.
    pub(crate) fn kill_host(&mut self, host: HostId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let of_host = self.sockets.iter().filter(|(_, socket)| socket.host == host);
        let ids: Vec<SocketId> = of_host.map(|(id, _)| *id).collect();
        for id in ids {
            self.close(id, Closing::Kill, now_ns, oracle);
        }
    }

    /// Sends the messages that waited for routes that are open again.
    pub(crate) fn resume(&mut self, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for connection in ids {
            for side in [0, 1] {
                self.resume_end(EndId { connection, side }, now_ns, oracle);
            }
        }
        let is_held = |route: Route| self.links.blocked(route).is_some();
        let (held, released): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|held| is_held(held.route));
        self.held = held;
        for datagram in released {
            self.release_datagram(datagram, now_ns, oracle);
        }
    }
}

/// Returns the source address for messages from a host to `target`.
pub(crate) fn source_ip(host: HostId, target: Ipv4Addr) -> Ipv4Addr {
    let is_local = target.is_loopback() || target.is_unspecified();
    if is_local { Ipv4Addr::LOCALHOST } else { ip_of(host) }
}
