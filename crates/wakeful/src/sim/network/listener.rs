//! Listeners: requesting, queueing and accepting connections.

use super::connection::{Closing, Connection, End, Segment};
use super::ports::{Destination, Protocol, destination};
use super::state::{
    Address, ConnectionId, EndId, Message, Net, NetworkOracle, Socket, SocketId, SocketKind,
    SocketState, source_ip,
};
use crate::driver::io_readiness::Readiness;
use crate::sim::oracle::HostId;
use rustix::io::Errno;
use std::collections::{BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

/// How long a host looks for an address that no host has, as on Linux.
const NO_HOST_NS: u64 = 3_000_000_000;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    backlog: usize,
    /// Connections whose peer has not confirmed the listener's answer.
    requested: BTreeSet<ConnectionId>,
    /// Connections that are ready to be accepted.
    queue: VecDeque<ConnectionId>,
    /// Requests that arrived while the queue was full.
    waiting: VecDeque<ConnectionId>,
}

impl Listener {
    pub(crate) fn readiness(&self) -> Readiness {
        if self.queue.is_empty() { Readiness::NONE } else { Readiness::READABLE }
    }

    fn is_full(&self) -> bool {
        // Linux queues one more than the backlog.
        self.queue.len() + self.requested.len() > self.backlog
    }
}

impl Net {
    /// Makes an idle socket listen.
    pub(crate) fn listen(&mut self, id: SocketId, backlog: usize) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if socket.bound.is_none() {
            if socket.kind == SocketKind::Unix {
                return Err(Errno::INVAL);
            }
            self.bind(id, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
        }
        let listener = Listener {
            backlog,
            requested: BTreeSet::new(),
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
        };
        self.set_state(id, SocketState::Listener(listener));
        Ok(())
    }

    pub(crate) fn set_state(&mut self, id: SocketId, state: SocketState) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.state = state;
        }
    }

    fn listener_mut(&mut self, id: SocketId) -> Result<&mut Listener, Errno> {
        match self.sockets.get_mut(&id).map(|socket| &mut socket.state) {
            Some(SocketState::Listener(listener)) => Ok(listener),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOTCONN),
        }
    }

    /// Starts to connect a TCP socket. Write readiness reports the result.
    pub(crate) fn connect(
        &mut self,
        id: SocketId,
        target: SocketAddrV4,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if !matches!(socket.state, SocketState::Idle) {
            return Err(Errno::ISCONN);
        }
        let host = socket.host;
        let there = destination(host, *target.ip(), self.hosts);
        if there == Destination::Outside {
            return Err(Errno::NETUNREACH);
        }
        if socket.bound.is_none() {
            self.bind(id, SocketAddrV4::new(source_ip(host, *target.ip()), 0))?;
        }
        let Some(Address::Inet(bound)) = self.socket(id)?.bound else {
            return Err(Errno::AFNOSUPPORT);
        };
        let ip =
            if bound.ip().is_unspecified() { source_ip(host, *target.ip()) } else { *bound.ip() };
        if ip.is_loopback() && there != Destination::Host(host) {
            return Err(Errno::INVAL);
        }
        let near = Address::Inet(SocketAddrV4::new(ip, bound.port()));
        let to_ip = if target.ip().is_unspecified() { Ipv4Addr::LOCALHOST } else { *target.ip() };
        let far = Address::Inet(SocketAddrV4::new(to_ip, target.port()));
        let far_host = if let Destination::Host(host) = there { host } else { HostId::WORLD };
        let ends = [End::new(host, near, Some(id)), End::new(far_host, far, None)];
        let connection = self.add_connection(Connection::new(false, ends));
        let end = EndId { connection, side: 0 };
        self.set_state(id, SocketState::Stream(end));
        if there == Destination::NoHost {
            let timer = self.send(NO_HOST_NS, host, Message::NoHost(end));
            self.connections.get_mut(&connection).expect("just added").ends[0].handshake_timer =
                Some(timer);
        } else {
            self.transmit(end, Segment::Syn, now_ns, oracle);
            self.start_handshake_timer(end);
        }
        Ok(())
    }

    /// Handles the arrival of a connection request. `id` is the connecting end.
    pub(super) fn arrive_syn(&mut self, id: EndId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        let end = &connection.ends[1];
        let Address::Inet(addr) = end.address else { return };
        if connection.ends[0].has_given_up() {
            // The connecting host would answer with a reset.
            return self.close_unaccepted(id.connection);
        }
        let listens = |socket: &SocketId| {
            let state = self.sockets.get(socket).map(|socket| &socket.state);
            matches!(state, Some(SocketState::Listener(_)))
        };
        let listener = self.ports.bound_to(end.host, Protocol::Tcp, addr).find(listens);
        match listener {
            Some(listener) => self.queue(listener, id.connection, now_ns, oracle),
            None => {
                self.close_unaccepted(id.connection);
                self.transmit(id.peer(), Segment::Refused, now_ns, oracle);
            }
        }
    }

    /// Answers a connection request, or keeps it until the listener's queue has room.
    fn queue(
        &mut self,
        listener: SocketId,
        connection: ConnectionId,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Ok(state) = self.listener_mut(listener) else { return };
        if state.is_full() {
            // The listener's host drops the request, and the connecting host repeats it for some
            // time.
            state.waiting.push_back(connection);
            return;
        }
        state.requested.insert(connection);
        let Some(accepted) = self.connections.get_mut(&connection) else { return };
        accepted.ends[1].is_established = true;
        accepted.listener = Some(listener);
        let end = EndId { connection, side: 1 };
        self.transmit(end, Segment::Accepted, now_ns, oracle);
        self.start_handshake_timer(end);
    }

    /// Confirms to the listener that this end has received its answer.
    pub(super) fn confirm(&mut self, id: EndId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        let route = (connection.ends[0].host, connection.ends[1].host);
        if connection.is_unix || self.links.is_immediate(route) {
            self.enqueue(id.connection, now_ns, oracle);
        } else {
            let latency = self.links.least_latency_ns(route);
            self.send(latency, route.0, Message::Confirm(id));
        }
    }

    /// Handles the arrival of the peer's confirmation.
    pub(crate) fn arrive_confirm(
        &mut self,
        id: EndId,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        connection.in_flight -= 1;
        if self.links.blocked(connection.route(0)).is_some() {
            connection.is_confirm_withheld = true;
        } else {
            self.enqueue(id.connection, now_ns, oracle);
        }
        self.remove_if_over(id);
    }

    /// Drops a request that was answered but not confirmed, and answers the next one.
    pub(super) fn forget_request(
        &mut self,
        id: ConnectionId,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let server = EndId { connection: id, side: 1 };
        self.stop_timers(server);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(listener) = connection.listener.take() else { return };
        connection.is_confirm_withheld = false;
        let [client, forgotten] = &mut connection.ends;
        if client.is_connecting() {
            // The client repeats the request, which gets through when the routes change.
            *forgotten = End::new(forgotten.host, forgotten.address.clone(), None);
            (client.next_sent, client.next_delivered) = (1, 0);
            client.stalled.insert(0, Segment::Syn);
        } else {
            forgotten.is_closed = true;
            forgotten.drop_stalled();
        }
        if let Ok(state) = self.listener_mut(listener) {
            state.requested.remove(&id);
            self.queue_next(listener, now_ns, oracle);
        }
        self.remove_if_over(server);
    }

    /// Ends a connection attempt that its host has given up.
    pub(super) fn abandon_request(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.listener.is_none()
        {
            connection.ends[1].is_closed = true;
            connection.ends[1].drop_stalled();
        }
    }

    /// Adds a connection to the queue of its listener.
    pub(super) fn enqueue(
        &mut self,
        connection: ConnectionId,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let listener = self.connections.get_mut(&connection).and_then(|it| it.listener.take());
        let Some(listener) = listener else { return };
        self.stop_timers(EndId { connection, side: 1 });
        match self.listener_mut(listener) {
            Ok(state) => {
                state.requested.remove(&connection);
                state.queue.push_back(connection);
                self.set_ready(Some(listener), Readiness::READABLE);
            }
            Err(_) => self.close_end(EndId { connection, side: 1 }, Closing::Abort, now_ns, oracle),
        }
    }

    /// Takes the next connection of a listener. Returns its socket and the address of the peer.
    pub(crate) fn accept(
        &mut self,
        id: SocketId,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Result<(SocketId, Address), Errno> {
        let listener = self.listener_mut(id)?;
        let connection = listener.queue.pop_front().ok_or(Errno::AGAIN)?;
        let Socket { host, kind, .. } = *self.socket(id)?;
        if !self.connections.contains_key(&connection) {
            self.queue_next(id, now_ns, oracle);
            return Err(Errno::CONNABORTED);
        }
        let socket = self.open(host, kind);
        let end = EndId { connection, side: 1 };
        self.set_state(socket, SocketState::Stream(end));
        let accepted = self.connections.get_mut(&connection).ok_or(Errno::CONNABORTED)?;
        accepted.ends[1].socket = Some(socket);
        let peer = accepted.ends[0].address.clone();
        self.queue_next(id, now_ns, oracle);
        Ok((socket, peer))
    }

    /// Answers the oldest request that waits for room and whose host has not given up.
    fn queue_next(&mut self, id: SocketId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        while let Ok(listener) = self.listener_mut(id)
            && let Some(next) = listener.waiting.pop_front()
        {
            if self.connections.get(&next).is_none_or(|it| it.ends[0].has_given_up()) {
                self.close_unaccepted(next);
                self.remove_if_over(EndId { connection: next, side: 0 });
            } else {
                return self.queue(id, next, now_ns, oracle);
            }
        }
    }

    /// Marks the accepting end as closed, which has no socket yet.
    fn close_unaccepted(&mut self, connection: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.ends[1].is_closed = true;
        }
    }

    /// Resets the connections that were never accepted.
    pub(super) fn close_listener(
        &mut self,
        listener: Listener,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        for connection in listener.queue {
            self.close_end(EndId { connection, side: 1 }, Closing::Abort, now_ns, oracle);
        }
        for connection in listener.waiting {
            self.close_unaccepted(connection);
            self.transmit(EndId { connection, side: 1 }, Segment::Refused, now_ns, oracle);
        }
    }

    /// Connects a Unix socket to the listener with this name.
    pub(crate) fn connect_name(
        &mut self,
        id: SocketId,
        name: &[u8],
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if !matches!(socket.state, SocketState::Idle) {
            return Err(Errno::ISCONN);
        }
        let (host, near) = (socket.host, socket.bound.clone());
        let is_abstract = name.first() == Some(&0);
        let unknown = if is_abstract { Errno::CONNREFUSED } else { Errno::NOENT };
        let listener = self.ports.named(host, name).ok_or(unknown)?;
        match self.listener_mut(listener) {
            Ok(listener) if listener.is_full() => return Err(Errno::AGAIN),
            Ok(_) => {}
            Err(_) => return Err(Errno::CONNREFUSED),
        }
        let near = near.unwrap_or(Address::Unix(Vec::new()));
        let far = Address::Unix(name.to_vec());
        let ends = [End::new(host, near, Some(id)), End::new(host, far, None)];
        let connection = self.add_connection(Connection::new(true, ends));
        self.set_state(id, SocketState::Stream(EndId { connection, side: 0 }));
        self.queue(listener, connection, now_ns, oracle);
        Ok(())
    }

    /// Connects two new Unix sockets of a host with each other.
    pub(crate) fn pair(&mut self, host: HostId) -> [SocketId; 2] {
        let ids = [0, 1].map(|_| self.open(host, SocketKind::Unix));
        let ends = ids.map(|id| {
            let mut end = End::new(host, Address::Unix(Vec::new()), Some(id));
            end.is_established = true;
            end
        });
        let connection = self.add_connection(Connection::new(true, ends));
        for (side, id) in ids.into_iter().enumerate() {
            self.set_state(id, SocketState::Stream(EndId { connection, side }));
        }
        ids
    }
}
