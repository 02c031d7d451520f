//! Connections: ordered bytes in both directions, for TCP and Unix streams.
//!
//! ```text
//! diagram
//!   write() ─1─► segments on their way ─2─► arrive_segment() ─3─► received ─4─► read()
//!                        │    ▲
//!                        5    6
//!                        ▼    │
//!                 stalled: the route is blocked
//! ```
//!
//! 1. Requires room in the window, which counts the bytes that the peer has not read.
//! 2. After the latency of the link. A lost segment arrives later. No segment overtakes another.
//! 3. If the end is closed, the sender gets a reset.
//! 4. The reader makes room in the window.
//! 5. A partition or a hold. [`Net::expire`] ends the connection if it lasts.
//! 6. [`Net::resume`].

use super::connection::{Closing, End, Segment};
use super::log::MessageFate;
use super::state::{EndId, Message, Net, NetworkOracle};
use crate::driver::io_readiness::Readiness;
use crate::sim::oracle::{ChoiceKind, HostId};
use rustix::io::Errno;

/// The most bytes in flight or unread by the peer.
pub(crate) const WINDOW: usize = 64 * 1024;

/// The probability that a read or write transfers less than it could, in millionths.
const SHORT_IO: u32 = 125_000;

pub(super) const BOTH_CLOSED: Readiness = Readiness(Readiness::READ.0 | Readiness::WRITE.0);

/// Chooses how many of `len` possible bytes to transfer, usually all.
fn shortened(len: usize, host: HostId, oracle: &mut dyn NetworkOracle) -> usize {
    if len > 1 && oracle.chance(ChoiceKind::ShortIo, host, SHORT_IO) {
        1 + oracle.choose(ChoiceKind::ShortIo, host, len as u64 - 1) as usize
    } else {
        len
    }
}

/// Reading and writing.
impl Net {
    pub(super) fn end_mut(&mut self, id: EndId) -> Result<&mut End, Errno> {
        let connection = self.connections.get_mut(&id.connection).ok_or(Errno::NOTCONN)?;
        Ok(&mut connection.ends[id.side])
    }

    /// Writes bytes and returns their number, which is at least 1 unless `bytes` is empty.
    pub(crate) fn write(
        &mut self,
        id: EndId,
        bytes: &[u8],
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Result<usize, Errno> {
        let connection = self.connections.get_mut(&id.connection).ok_or(Errno::NOTCONN)?;
        let is_unix = connection.is_unix;
        let end = &mut connection.ends[id.side];
        if end.is_reset || end.is_shut {
            // A Unix stream keeps the error of its peer for a read, as on Linux.
            let error = if is_unix { None } else { end.error.take() };
            return Err(error.unwrap_or(Errno::PIPE));
        }
        if !end.is_established {
            return Err(Errno::AGAIN);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = WINDOW.saturating_sub(end.unread).min(bytes.len());
        end.is_write_blocked = room < bytes.len();
        if room == 0 {
            self.begin_stall_if_blocked(id);
            return Err(Errno::AGAIN);
        }
        let count = shortened(room, end.host, oracle);
        end.unread += count;
        let socket = end.socket;
        if count < room {
            self.set_ready(socket, Readiness::WRITABLE);
        }
        self.transmit(id, Segment::Data(bytes[..count].to_vec()), now_ns, oracle);
        Ok(count)
    }

    /// Reads up to `len` bytes into `sink`. If `peeks`, the bytes stay in the receive buffer.
    pub(crate) fn read(
        &mut self,
        id: EndId,
        len: usize,
        peeks: bool,
        oracle: &mut dyn NetworkOracle,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        let connection = self.connections.get_mut(&id.connection).ok_or(Errno::NOTCONN)?;
        let end = &mut connection.ends[id.side];
        if end.received.is_empty() && end.has_ended && !connection.is_unix {
            // The end of the stream precedes a later error, as on Linux.
            return Ok(0);
        }
        if end.received.is_empty() {
            return match end.error.take() {
                Some(error) => Err(error),
                None if end.has_ended || end.is_reset => Ok(0),
                None => Err(Errno::AGAIN),
            };
        }
        if len == 0 {
            return Ok(0);
        }
        let possible = end.received.len().min(len);
        let count = if peeks { possible } else { shortened(possible, end.host, oracle) };
        let (front, back) = end.received.as_slices();
        let from_front = front.len().min(count);
        sink(&front[..from_front]);
        if from_front < count {
            sink(&back[..count - from_front]);
        }
        let socket = end.socket;
        if peeks {
            return Ok(count);
        }
        end.received.drain(..count);
        // A caller that gets less than it requested assumes that the buffer is empty.
        if !end.received.is_empty() {
            self.set_ready(socket, Readiness::READABLE);
        } else if end.has_ended || end.is_reset {
            self.set_ready(socket, Readiness::READ);
        }
        self.make_room(id, count);
        Ok(count)
    }

    /// Reports to the peer that this end has read `count` bytes.
    fn make_room(&mut self, id: EndId, count: usize) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let (route, is_unix) = (connection.route(id.side), connection.is_unix);
        let writer = &connection.ends[1 - id.side];
        // A writer with much room would not notice more of it.
        let is_noticed = writer.is_write_blocked || writer.unread > WINDOW / 2;
        if is_unix || self.links.is_immediate(route) {
            self.open_window(id, count);
        } else if is_noticed {
            let least_ns = self.links.least_latency_ns(route);
            self.send(least_ns, route.0, Message::Window(id, count));
        } else {
            connection.ends[1 - id.side].unread -= count;
        }
    }

    /// Adds `count` bytes to the window of this end's peer.
    pub(crate) fn arrive_window(&mut self, id: EndId, count: usize) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let route = connection.route(id.side);
        connection.in_flight -= 1;
        if self.links.blocked(route).is_some() {
            connection.ends[id.side].withheld += count;
        } else {
            self.open_window(id, count);
        }
        self.remove_if_over(id);
    }

    fn open_window(&mut self, id: EndId, count: usize) {
        let Ok(writer) = self.end_mut(id.peer()) else { return };
        writer.unread -= count.min(writer.unread);
        if std::mem::take(&mut writer.is_write_blocked) {
            let socket = writer.socket;
            self.set_ready(socket, Readiness::WRITABLE);
        }
    }

    /// Shuts down the write half of this end.
    pub(crate) fn shut_down_write(
        &mut self,
        id: EndId,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) -> Result<(), Errno> {
        let end = self.end_mut(id)?;
        if end.is_reset || !end.is_established {
            return Err(Errno::NOTCONN);
        }
        if !std::mem::replace(&mut end.is_shut, true) {
            let (socket, has_ended) = (end.socket, end.has_ended);
            let closed = if has_ended { BOTH_CLOSED } else { Readiness::WRITABLE };
            self.set_ready(socket, closed);
            self.transmit(id, Segment::Fin, now_ns, oracle);
        }
        Ok(())
    }

    /// Closes an end whose socket is gone.
    pub(crate) fn close_end(
        &mut self,
        id: EndId,
        how: Closing,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        if connection.is_unix {
            return self.close_unix_end(id, how != Closing::Orderly);
        }
        let end = &mut connection.ends[id.side];
        end.socket = None;
        let was_open = !std::mem::replace(&mut end.is_closed, true) && !end.is_reset;
        if was_open && !end.is_established {
            // The peer is not notified, as on Linux.
            end.drop_stalled();
            self.stop_timers(id);
            self.abandon_request(id.connection);
        } else if was_open && (how != Closing::Orderly || !end.received.is_empty()) {
            if how != Closing::Kill {
                end.drop_stalled();
            }
            self.transmit(id, Segment::Reset, now_ns, oracle);
        } else if was_open && !std::mem::replace(&mut end.is_shut, true) {
            self.transmit(id, Segment::Fin, now_ns, oracle);
        }
        self.remove_if_over(id);
    }

    /// Closes an end of a Unix stream. Its peer can read the bytes that were sent, but not write.
    fn close_unix_end(&mut self, id: EndId, resets: bool) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let end = &mut connection.ends[id.side];
        end.socket = None;
        end.is_closed = true;
        let is_unread = resets || !end.received.is_empty();
        let peer = &mut connection.ends[1 - id.side];
        peer.has_ended = true;
        peer.is_reset = true;
        if is_unread {
            peer.error = Some(Errno::CONNRESET);
        }
        let socket = peer.socket;
        self.set_ready(socket, BOTH_CLOSED);
        self.remove_if_over(id);
    }

    pub(super) fn remove_if_over(&mut self, id: EndId) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        let is_over = |end: &End| end.is_closed && end.stalled.is_empty();
        if connection.in_flight == 0 && connection.ends.iter().all(is_over) {
            self.connections.remove(&id.connection);
        }
    }
}

/// Sending and delivering segments.
impl Net {
    /// Sends a segment from this end to its peer.
    pub(crate) fn transmit(
        &mut self,
        id: EndId,
        segment: Segment,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Ok(end) = self.end_mut(id) else { return };
        let number = end.next_sent;
        end.next_sent += 1;
        self.dispatch_segment(id, number, segment, now_ns, oracle);
    }

    /// Sends a segment on its route, or stalls it if the route is blocked.
    fn dispatch_segment(
        &mut self,
        id: EndId,
        number: u64,
        segment: Segment,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        self.log_segment(MessageFate::Sent, id, &segment);
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let route = connection.route(id.side);
        let end = &mut connection.ends[id.side];
        let is_next = number == end.next_delivered;
        if connection.is_unix || (is_next && self.links.is_immediate(route)) {
            self.deliver_in_order(id, number, segment, now_ns, oracle);
        } else if self.links.blocked(route).is_some() {
            self.stall(id, number, segment);
        } else {
            let delay = self.links.segment_delay(route, segment.len(), now_ns, oracle);
            let arrival = now_ns.saturating_add(delay).max(end.last_arrival_ns);
            end.last_arrival_ns = arrival;
            self.send(arrival - now_ns, route.0, Message::Segment(id, number, segment));
        }
    }

    /// Handles the arrival of a segment.
    pub(crate) fn arrive_segment(
        &mut self,
        id: EndId,
        number: u64,
        segment: Segment,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        connection.in_flight -= 1;
        let route = connection.route(id.side);
        if self.links.blocked(route).is_some() {
            return self.stall(id, number, segment);
        }
        self.deliver_in_order(id, number, segment, now_ns, oracle);
        // While the way back is blocked, the acknowledgement is lost.
        if self.links.blocked((route.1, route.0)).is_some() {
            self.begin_stall(id);
        }
    }

    /// Delivers a segment and its successors that arrived early. Keeps the segment if an earlier one
    /// is missing.
    fn deliver_in_order(
        &mut self,
        id: EndId,
        number: u64,
        segment: Segment,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        let Ok(end) = self.end_mut(id) else { return };
        if number != end.next_delivered {
            end.early.insert(number, segment);
            return self.remove_if_over(id);
        }
        let mut next = Some(segment);
        while let (Some(segment), Ok(end)) = (next, self.end_mut(id)) {
            end.next_delivered += 1;
            self.deliver(id, segment, now_ns, oracle);
            next = self.end_mut(id).ok().and_then(|end| end.early.remove(&end.next_delivered));
        }
    }

    /// Keeps a segment of this end until the route is open.
    fn stall(&mut self, id: EndId, number: u64, segment: Segment) {
        self.log_segment(MessageFate::Stalled, id, &segment);
        if let Ok(end) = self.end_mut(id) {
            end.stalled.insert(number, segment);
        }
        self.begin_stall(id);
    }

    /// Sends the stalled segments of this end if the route is open again.
    pub(crate) fn resume_end(&mut self, id: EndId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let (there, back) = (connection.route(id.side), connection.route(1 - id.side));
        let is_blocked = self.links.blocked(there).is_some();
        let is_answered = !is_blocked && self.links.blocked(back).is_none();
        let end = &mut connection.ends[id.side];
        if !is_answered && end.awaits_window() {
            self.begin_stall(id);
        }
        if is_blocked {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let end = &mut connection.ends[id.side];
        let stalled = std::mem::take(&mut end.stalled);
        let withheld = std::mem::take(&mut end.withheld);
        let confirms = id.side == 0 && std::mem::take(&mut connection.is_confirm_withheld);
        if is_answered {
            self.end_stall(id);
        }
        if confirms {
            self.confirm(id, now_ns, oracle);
        }
        if withheld > 0 {
            self.open_window(id, withheld);
        }
        for (number, segment) in stalled {
            self.dispatch_segment(id, number, segment, now_ns, oracle);
        }
    }

    /// Delivers a segment of `id` to its peer.
    fn deliver(
        &mut self,
        id: EndId,
        segment: Segment,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        self.log_segment(MessageFate::Arrived, id, &segment);
        let peer = id.peer();
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let is_forgotten = connection.listener.is_none();
        let end = &mut connection.ends[peer.side];
        let (socket, host, is_shut) = (end.socket, end.host, end.is_shut);
        match segment {
            Segment::Syn => self.arrive_syn(id, now_ns, oracle),
            Segment::Accepted if is_forgotten => {}
            Segment::Accepted if end.is_connecting() => {
                end.is_established = true;
                self.stop_timers(peer);
                self.set_ready(socket, Readiness::WRITABLE);
                self.confirm(peer, now_ns, oracle);
            }
            Segment::Refused => self.fail_end(peer, Errno::CONNREFUSED, now_ns, oracle),
            Segment::Accepted => self.transmit(peer, Segment::Reset, now_ns, oracle),
            Segment::Data(_) if end.is_closed || end.is_reset => {
                self.transmit(peer, Segment::Reset, now_ns, oracle);
            }
            Segment::Data(bytes) => {
                end.received.extend(&bytes);
                self.out.delivered.push((host, hash_of(&bytes)));
                self.set_ready(socket, Readiness::READABLE);
            }
            Segment::Fin if !end.is_closed && !end.is_reset => {
                end.has_ended = true;
                let closed = if is_shut { BOTH_CLOSED } else { Readiness::READ };
                self.set_ready(socket, closed);
            }
            Segment::Reset => {
                let error = if end.has_ended { Errno::PIPE } else { Errno::CONNRESET };
                self.fail_end(peer, error, now_ns, oracle);
            }
            Segment::Fin => {}
        }
        self.remove_if_over(id);
    }
}

/// Hashes the bytes of a delivery.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash =
            (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash
}
