//! Time limits of connections, and the failure of an end.
//!
//! - An end that connects has 127 s. Only its peer's answer stops that timer.
//! - An end that answered a request waits 63 s for the confirmation.
//! - An end whose segments or window probes do not get through has 924.6 s. Each partition starts a
//!   new limit.

use super::state::{EndId, Message, Net, NetworkOracle};
use super::stream::BOTH_CLOSED;
use crate::driver::io_readiness::Readiness;
use rustix::io::Errno;

/// The limit for a connection whose segments do not get through: 924.6 s, as on Linux.
pub(crate) const STALL_LIMIT_NS: u64 = 924_600_000_000;

/// The limit for a connection attempt: 127 s, as on Linux.
pub(crate) const CONNECT_LIMIT_NS: u64 = 127_000_000_000;

/// How long a listener's host repeats its answer: 63 s, as on Linux.
pub(crate) const ANSWER_LIMIT_NS: u64 = 63_000_000_000;

impl Net {
    /// Starts the handshake timer of this end, unless its handshake is over.
    pub(super) fn start_handshake_timer(&mut self, id: EndId) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        let (is_open, limit_ns) = match id.side {
            0 => (connection.ends[0].is_connecting(), CONNECT_LIMIT_NS),
            _ => (connection.listener.is_some(), ANSWER_LIMIT_NS),
        };
        if is_open {
            let timer = self.send(limit_ns, connection.ends[id.side].host, Message::Timeout(id));
            if let Ok(end) = self.end_mut(id) {
                end.handshake_timer = Some(timer);
            }
        }
    }

    /// Starts the stall timer of this end, unless it is running.
    pub(super) fn begin_stall(&mut self, id: EndId) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        let end = &connection.ends[id.side];
        // A handshake has its own time limit.
        let is_unconfirmed = id.side == 1 && connection.listener.is_some();
        let is_excluded = is_unconfirmed || !end.is_established || end.is_reset;
        if is_excluded || connection.is_unix || end.stall_timer.is_some() {
            return;
        }
        let timer = self.send(STALL_LIMIT_NS, end.host, Message::Timeout(id));
        if let Ok(end) = self.end_mut(id) {
            end.stall_timer = Some(timer);
        }
    }

    /// Starts the stall timer of this end if a route between the ends is blocked.
    pub(super) fn begin_stall_if_blocked(&mut self, id: EndId) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        let routes = [connection.route(0), connection.route(1)];
        if routes.iter().any(|route| self.links.blocked(*route).is_some()) {
            self.begin_stall(id);
        }
    }

    /// Stops the stall timer of this end, because its segments get through again.
    pub(super) fn end_stall(&mut self, id: EndId) {
        let timer = self.end_mut(id).ok().and_then(|end| end.stall_timer.take());
        if let Some(timer) = timer {
            self.cancel(timer);
        }
    }

    /// Stops all timers of this end.
    pub(super) fn stop_timers(&mut self, id: EndId) {
        self.end_stall(id);
        let timer = self.end_mut(id).ok().and_then(|end| end.handshake_timer.take());
        if let Some(timer) = timer {
            self.cancel(timer);
        }
    }

    /// Handles an expired timer of this end, which gives up.
    pub(crate) fn expire(&mut self, id: EndId, now_ns: u64, oracle: &mut dyn NetworkOracle) {
        let Some(connection) = self.connections.get(&id.connection) else { return };
        if id.side == 1 && connection.listener.is_some() {
            self.forget_request(id.connection, now_ns, oracle);
        } else {
            self.fail_end(id, Errno::TIMEDOUT, now_ns, oracle);
        }
    }

    /// Fails this end without a message to its peer.
    pub(crate) fn fail_end(
        &mut self,
        id: EndId,
        error: Errno,
        now_ns: u64,
        oracle: &mut dyn NetworkOracle,
    ) {
        self.stop_timers(id);
        let Ok(end) = self.end_mut(id) else { return };
        end.drop_stalled();
        if !end.is_closed {
            end.is_reset = true;
            end.error = Some(error);
            let (socket, has_given_up) = (end.socket, end.has_given_up());
            self.set_ready(socket, BOTH_CLOSED | Readiness::ERROR);
            if id.side == 1 {
                self.forget_request(id.connection, now_ns, oracle);
            } else if has_given_up {
                self.abandon_request(id.connection);
            }
        }
        self.remove_if_over(id);
    }
}
