//! Cleans up the network at the end of a run of the world, before another run.

use super::datagram::Datagram;
use super::state::{ConnectionId, EndId, Message, Net, NetworkOracle, SocketId};
use super::timeout::STALL_LIMIT_NS;
use crate::sim::oracle::HostId;
use rustix::io::Errno;

impl Net {
    /// Resets all connections between the first host and others, and drops their messages.
    ///
    /// Messages that the first host sent to itself arrive when the world runs again.
    pub(crate) fn disconnect_other_hosts(&mut self, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let is_local = |datagram: &Datagram| datagram.route == (HostId::FIRST, HostId::FIRST);
        self.held.retain(is_local);
        for (number, message) in std::mem::take(&mut self.messages) {
            let after_ns = match &message {
                Message::Datagram(datagram) if !is_local(datagram) => continue,
                Message::Unreachable(socket, _) if !self.is_of_first_host(*socket) => continue,
                Message::Segment(end, ..) | Message::Window(end, _) | Message::Confirm(end)
                    if !self.is_within_first_host(end.connection) =>
                {
                    continue;
                }
                Message::Timeout(end) | Message::NoHost(end)
                    if !self.is_within_first_host(end.connection) =>
                {
                    continue;
                }
                Message::Timeout(_) => STALL_LIMIT_NS,
                _ => 0,
            };
            self.messages.insert(number, message);
            self.out.sent.push((after_ns, HostId::FIRST, number));
        }
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            if !self.is_within_first_host(id) {
                self.disconnect(id, now_ns, oracle);
            }
        }
    }

    fn disconnect(&mut self, id: ConnectionId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.in_flight = 0;
        for side in [0, 1] {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let end = &mut connection.ends[side];
            if end.host == HostId::FIRST {
                let error = if end.has_ended { Errno::PIPE } else { Errno::CONNRESET };
                self.fail_end(EndId { connection: id, side }, error, now_ns, oracle);
            } else {
                end.is_closed = true;
                end.drop_stalled();
            }
        }
        self.remove_if_over(EndId { connection: id, side: 0 });
    }

    fn is_of_first_host(&self, id: SocketId) -> bool {
        self.sockets.get(&id).is_some_and(|socket| socket.host == HostId::FIRST)
    }

    fn is_within_first_host(&self, id: ConnectionId) -> bool {
        let ends = self.connections.get(&id).map(|it| &it.ends);
        ends.is_some_and(|ends| ends.iter().all(|end| end.host == HostId::FIRST))
    }
}
