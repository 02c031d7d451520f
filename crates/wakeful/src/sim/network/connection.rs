//! Connections: the state of their two ends.

use super::links::Route;
use super::state::{Address, SocketId};
use super::stream::{BOTH_CLOSED, WINDOW};
use crate::driver::io_readiness::Readiness;
use crate::sim::oracle::HostId;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};

/// A part of a stream, or a control message.
#[derive(Debug)]
pub(crate) enum Segment {
    /// A request to connect.
    Syn,
    /// The connection is accepted.
    Accepted,
    /// No socket listens at the address.
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
    /// The tasks that have last read from the end and written to it, or 0. Only diagnostics use them.
    pub(super) users: [u64; 2],
    /// The handshake of this end is complete.
    pub(crate) is_established: bool,
    pub(crate) is_closed: bool,
    /// This end has shut down its write half.
    pub(super) is_shut: bool,
    /// The peer has shut down its write half.
    pub(super) has_ended: bool,
    /// A reset arrived, or the end gave up.
    pub(super) is_reset: bool,
    pub(crate) error: Option<Errno>,
    pub(super) received: VecDeque<u8>,
    /// The number of written bytes that the peer has not read.
    pub(super) unread: usize,
    /// A write had more bytes than the window had room.
    pub(super) is_write_blocked: bool,
    /// The arrival time of the last segment.
    pub(super) last_arrival_ns: u64,
    /// The number of the next segment that this end sends.
    pub(super) next_sent: u64,
    /// The number of the next segment of this end that its peer accepts.
    pub(super) next_delivered: u64,
    /// Segments that wait for a blocked route, by number.
    pub(super) stalled: BTreeMap<u64, Segment>,
    /// Segments that reached the peer before an earlier one, by number.
    pub(super) early: BTreeMap<u64, Segment>,
    /// Bytes that this end has read while the route was blocked, so that its peer does not know
    /// of the room.
    pub(super) withheld: usize,
    /// The timeout message for a blocked route.
    pub(super) stall_timer: Option<u64>,
    /// The timeout message of the handshake.
    pub(super) handshake_timer: Option<u64>,
}

/// The way in which an end is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// With the end of the stream, or with a reset if there are unread bytes.
    Orderly,
    /// With a reset. Stalled bytes are dropped.
    Abort,
    /// With a reset after the bytes that were sent, because the host is killed.
    Kill,
}

impl End {
    pub(crate) fn new(host: HostId, address: Address, socket: Option<SocketId>) -> Self {
        Self {
            host,
            address,
            socket,
            users: [0; 2],
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

    /// Returns whether the end failed or was closed before its peer answered.
    pub(super) fn has_given_up(&self) -> bool {
        !self.is_established && (self.is_reset || self.is_closed)
    }

    /// Returns whether the end waits for its peer to answer.
    pub(super) fn is_connecting(&self) -> bool {
        !self.is_established && !self.is_reset && !self.is_closed
    }

    /// Returns whether a write waits for room in the window.
    pub(super) fn awaits_window(&self) -> bool {
        self.is_write_blocked && self.unread >= WINDOW && !self.is_closed
    }

    /// Drops the stalled segments. The next segment gets the number of the first one.
    pub(super) fn drop_stalled(&mut self) {
        if let Some((first, _)) = self.stalled.pop_first() {
            self.next_sent = first;
            self.stalled.clear();
        }
    }
}

/// Two ends, and the state of the messages between them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [End; 2],
    /// A Unix stream, whose bytes stay on the host and arrive at once.
    pub(crate) is_unix: bool,
    /// The listener that answered the request, until the connection is in its queue.
    pub(crate) listener: Option<SocketId>,
    /// The connecting end has received the answer, but its confirmation is blocked.
    pub(super) is_confirm_withheld: bool,
    /// The number of messages in flight.
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

    /// Returns the address of the peer, or `None` if the end is not connected.
    pub(crate) fn peer_addr(&self, side: usize) -> Option<Address> {
        let end = &self.ends[side];
        // On Linux, a TCP connection is forgotten when it is reset, or when both sides have shut down.
        let is_over = !self.is_unix && (end.is_reset || end.has_ended && end.is_shut);
        let is_connected = end.is_established && !is_over;
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
