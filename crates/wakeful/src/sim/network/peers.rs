//! The other ends of streams, and the tasks that use them: a reader waits for its peer to write.

use super::socket::number_of;
use super::state::{EndId, Net, SocketState};
use crate::sim::world::World;
use std::collections::BTreeMap;

/// The other end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPeer {
    /// The number of the socket, as in the waits of its tasks.
    pub(crate) number: u64,
    /// The tasks that have last read from the end and written to it, or 0.
    pub(crate) users: [u64; 2],
}

/// The half of a stream that a task uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Read,
    Write,
}

impl Net {
    /// Records that a task uses a half of a stream.
    pub(super) fn record_use(&mut self, id: EndId, half: Half, task: u64) {
        if let Some(connection) = self.connections.get_mut(&id.connection) {
            connection.ends[id.side].users[half as usize] = task;
        }
    }

    /// Returns the peer of a stream whose bytes have all arrived. Returns `None` if the peer is closed.
    fn stream_peer(&self, id: EndId) -> Option<StreamPeer> {
        let connection = self.connections.get(&id.connection)?;
        let peer = &connection.ends[id.peer().side];
        let is_settled = connection.in_flight == 0
            && connection.ends.iter().all(|end| end.stalled.is_empty() && end.withheld == 0);
        let socket = peer.socket.filter(|_| is_settled)?;
        Some(StreamPeer { number: number_of(socket), users: peer.users })
    }
}

impl World {
    /// Returns the peers of all streams that nothing is under way on, by the number of the socket.
    pub(crate) fn stream_peers(&self) -> BTreeMap<u64, StreamPeer> {
        self.with_net(|net, _, _| {
            let streams = net.sockets.iter().filter_map(|(id, socket)| match socket.state {
                SocketState::Stream(end) => Some((number_of(*id), net.stream_peer(end)?)),
                _ => None,
            });
            streams.collect()
        })
    }
}
