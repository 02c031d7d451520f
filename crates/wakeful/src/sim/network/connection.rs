//! The two ends of a connection, and what each of them knows.

use super::links::Route;
use super::state::{Address, SocketId};
use super::stream::{BOTH_CLOSED, WINDOW};
use crate::driver::io_readiness::Readiness;
use crate::sim::oracle::HostId;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};

/// A part of a stream, or what happens to it.
#[derive(Debug)]
pub(crate) enum Segment {
    /// A request to connect.
    Syn,
    /// The connection is accepted.
    Accepted,
    /// There is no listener.
    Refused,
    Data(Vec<u8>),
    /// The end of the stream.
    Fin,
    Reset,
}

impl Segment {
    pub(super) fn len(&self) -> usize {
        if let Segment::Data(bytes) = self { bytes.len() } else { 0 }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) address: Address,
    /// `None` before `accept`, and after the socket was closed.
    pub(crate) socket: Option<SocketId>,
    /// The peer has accepted, or this end has.
    pub(crate) is_established: bool,
    pub(crate) is_closed: bool,
    /// This end writes no more.
    pub(super) is_shut: bool,
    /// The peer writes no more.
    pub(super) has_ended: bool,
    /// A reset has arrived, or the end has given up.
    pub(super) is_reset: bool,
    pub(crate) error: Option<Errno>,
    pub(super) received: VecDeque<u8>,
    /// The bytes written that the peer has not read.
    pub(super) unread: usize,
    /// A write found less room than it could have used.
    pub(super) is_write_blocked: bool,
    /// When the last segment arrives.
    pub(super) last_arrival_ns: u64,
    /// The number of the next segment that this end sends.
    pub(super) next_sent: u64,
    /// The number of the next segment of this end that its peer takes.
    pub(super) next_delivered: u64,
    /// Segments that wait for the route, by number.
    pub(super) stalled: BTreeMap<u64, Segment>,
    /// Segments that have reached the peer before an earlier one, by number.
    pub(super) early: BTreeMap<u64, Segment>,
    /// Room in the peer's window of which it does not know: the route is blocked.
    pub(super) withheld: usize,
    /// The message that ends the wait for the route.
    pub(super) stall_timer: Option<u64>,
    /// The message that ends the handshake.
    pub(super) handshake_timer: Option<u64>,
}

/// How an end is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// With the end of the stream, or with a reset if bytes were not read.
    Orderly,
    /// With a reset. Bytes that wait for the route are dropped.
    Abort,
    /// With a reset, after the bytes that were sent: the host is killed.
    Kill,
}

impl End {
    pub(crate) fn new(host: HostId, address: Address, socket: Option<SocketId>) -> Self {
        Self {
            host,
            address,
            socket,
            is_established: false,
            is_closed: false,
            is_shut: false,
            has_ended: false,
            is_reset: false,
            error: None,
            received: VecDeque::new(),
            unread: 0,
            is_write_blocked: false,
            last_arrival_ns: 0,
            next_sent: 0,
            next_delivered: 0,
            stalled: BTreeMap::new(),
            early: BTreeMap::new(),
            withheld: 0,
            stall_timer: None,
            handshake_timer: None,
        }
    }

    /// Returns whether the end has failed or was closed before its peer has answered.
    pub(super) fn has_given_up(&self) -> bool {
        !self.is_established && (self.is_reset || self.is_closed)
    }

    /// Returns whether the end waits for the answer of its peer.
    pub(super) fn is_connecting(&self) -> bool {
        !self.is_established && !self.is_reset && !self.is_closed
    }

    /// Returns whether a write waits for room in the window.
    pub(super) fn awaits_window(&self) -> bool {
        self.is_write_blocked && self.unread >= WINDOW && !self.is_closed
    }

    /// Drops the segments that wait for the route. The next one takes the place of the first.
    pub(super) fn drop_stalled(&mut self) {
        if let Some((first, _)) = self.stalled.pop_first() {
            self.next_sent = first;
            self.stalled.clear();
        }
    }
}

/// Two ends, and what is on its way between them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [End; 2],
    /// A Unix stream, whose bytes stay on the host and arrive at once.
    pub(crate) is_unix: bool,
    /// The listener that has answered the request, until the connection is in its queue.
    pub(crate) listener: Option<SocketId>,
    /// The end that has connected knows of the answer, but the route is blocked.
    pub(super) is_confirm_withheld: bool,
    /// The number of messages on their way.
    pub(crate) in_flight: usize,
}

impl Connection {
    pub(crate) fn new(is_unix: bool, ends: [End; 2]) -> Self {
        Self { ends, is_unix, listener: None, is_confirm_withheld: false, in_flight: 0 }
    }

    /// Returns the route from this side to the other.
    pub(super) fn route(&self, side: usize) -> Route {
        (self.ends[side].host, self.ends[1 - side].host)
    }

    /// Returns the address of the peer, if the end is connected.
    pub(crate) fn peer_addr(&self, side: usize) -> Option<Address> {
        let end = &self.ends[side];
        let is_connected = end.is_established && (self.is_unix || !end.is_reset);
        is_connected.then(|| self.ends[1 - side].address.clone())
    }

    pub(crate) fn readiness(&self, side: usize) -> Readiness {
        let end = &self.ends[side];
        let mut ready = Readiness::NONE;
        if !end.received.is_empty() {
            ready = ready | Readiness::READABLE;
        }
        if end.has_ended {
            ready = ready | Readiness::READ;
            if end.is_shut {
                ready = ready | Readiness::WRITE_CLOSED;
            }
        }
        if end.is_established && end.unread < WINDOW {
            ready = ready | Readiness::WRITABLE;
        }
        if end.is_reset {
            ready = ready | BOTH_CLOSED;
        }
        if end.error.is_some() {
            ready = ready | Readiness::ERROR;
        }
        ready
    }
}
