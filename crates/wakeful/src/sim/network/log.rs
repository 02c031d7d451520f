//! The log of the messages of a run, if the run keeps one.

use super::connection::Segment;
use super::links::Route;
use super::state::{Address, EndId, Net};
use std::fmt::Write;
use std::net::SocketAddrV4;

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageFate {
    Sent,
    Arrived,
    /// No copy of the datagram will arrive.
    Lost,
    /// The message waits for the end of a partition or a hold.
    Stalled,
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct LoggedMessage {
    pub(crate) at_ns: u64,
    /// The step of the run, which orders entries of the same time.
    pub(crate) step: u64,
    pub(crate) fate: MessageFate,
    pub(crate) route: Route,
    /// The addresses, and a description of the content.
    pub(crate) text: String,
}

/// A log entry without its time and step.
pub(crate) type Logged = (MessageFate, Route, String);

impl Net {
    /// Logs a segment that this end sends.
    pub(super) fn log_segment(&mut self, fate: MessageFate, from: EndId, segment: &Segment) {
        if !self.is_logged {
            return;
        }
        let Some(connection) = self.connections.get(&from.connection) else { return };
        let [near, far] = [from, from.peer()].map(|end| &connection.ends[end.side]);
        let route = (near.host, far.host);
        let kind = if connection.is_unix { "unix" } else { "tcp" };
        let number = from.connection.0;
        let what = match segment {
            Segment::Syn => "connect".to_owned(),
            Segment::Accepted => "accepted".to_owned(),
            Segment::Refused => "refused".to_owned(),
            Segment::Data(bytes) => bytes_text(bytes.len()),
            Segment::Fin => "end".to_owned(),
            Segment::Reset => "reset".to_owned(),
        };
        let addresses = format!("{} -> {}", shown(&near.address), shown(&far.address));
        self.out.logged.push((fate, route, format!("{kind} {number}, {addresses}: {what}")));
    }

    /// Logs a datagram.
    pub(super) fn log_datagram(
        &mut self,
        fate: MessageFate,
        route: Route,
        (from, to): (SocketAddrV4, SocketAddrV4),
        len: usize,
    ) {
        if self.is_logged {
            let text = format!("udp, {from} -> {to}: {}", bytes_text(len));
            self.out.logged.push((fate, route, text));
        }
    }
}

fn bytes_text(len: usize) -> String {
    if len == 1 { "1 byte".to_owned() } else { format!("{len} bytes") }
}

/// Formats an address for the log. An abstract name starts with `@`.
fn shown(address: &Address) -> String {
    match address {
        Address::Inet(addr) => addr.to_string(),
        Address::Unix(name) if name.is_empty() => "unnamed".to_owned(),
        Address::Unix(name) => {
            let (mark, name) = match name.strip_prefix(b"\0") {
                Some(name) => ("@", name),
                None => ("", &name[..]),
            };
            let mut text = mark.to_owned();
            let _ = write!(text, "{}", name.escape_ascii());
            text
        }
    }
}
