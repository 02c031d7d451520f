//! Writes a run as a timeline for Perfetto, with a row for each host, and as a log of its messages.

use crate::inspect::{TraceEvent, write_trace};
use crate::sim::hash::{Event, EventKind};
use crate::sim::network::{LoggedMessage, MessageFate};
use crate::sim::oracle::{ChoiceKind, HostId};
use crate::sim::world::{RunResult, host_event_name};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The drawn duration of a poll, which takes no simulated time.
const DRAWN_NS: u64 = 1;

/// An event in the row of a host.
struct Drawn {
    host: HostId,
    /// Orders the events.
    step: u64,
    at_ns: u64,
    event: TraceEvent,
}

/// Writes the timeline to `path`, and the message log to a file beside it with the extension `log`.
pub(in crate::sim) fn write(run: &RunResult, path: &Path) -> io::Result<()> {
    fs::write(path, timeline(run))?;
    fs::write(path.with_extension("log"), message_log(run))
}

/// Returns the run as JSON for Perfetto.
fn timeline(run: &RunResult) -> String {
    let events = run.hash.kept().iter().filter_map(|event| draw(event, run));
    let messages = run.messages.iter().flat_map(|message| draw_message(message, run));
    let mut all: Vec<Drawn> = events.chain(messages).collect();
    all.sort_by_key(|drawn| drawn.step);
    let mut rows: Vec<(String, Vec<TraceEvent>)> =
        run.hosts.iter().map(|name| (name.to_string(), Vec::new())).collect();
    let (mut last, mut shown_ns) = (None, 0);
    for Drawn { host, step, at_ns, mut event } in all {
        // Polls at one time are drawn side by side.
        shown_ns = match last {
            Some(last) if last == step => shown_ns,
            Some(_) => at_ns.max(shown_ns + DRAWN_NS),
            None => at_ns,
        };
        last = Some(step);
        event.at = Duration::from_nanos(shown_ns);
        rows[host.index()].1.push(event);
    }
    // The row of the world is kept only if something happened to the network.
    rows.retain(|(name, events)| !events.is_empty() || name != &*run.hosts[0]);
    write_trace(&rows, TraceEvent::clone)
}

fn drawn(event: &Event, name: String, category: &'static str, took: Option<Duration>) -> Drawn {
    let Event { host, step, at_ns, .. } = *event;
    Drawn { host, step, at_ns, event: TraceEvent { name, category, at: Duration::ZERO, took } }
}

/// Converts an event of the run to its drawing. Returns `None` for events that don't help a reader.
fn draw(event: &Event, run: &RunResult) -> Option<Drawn> {
    let instant = |name: String, category| Some(drawn(event, name, category, None));
    match event.kind {
        EventKind::Poll | EventKind::PollBlockOn => {
            let site = run.task_sites.get(&event.task);
            let site = site.map_or(String::new(), |it| format!(" ({}:{})", it.file(), it.line()));
            let name = match event.kind {
                EventKind::Poll => format!("task {}{site}", event.task),
                _ => "block_on".to_owned(),
            };
            Some(drawn(event, name, "poll", Some(Duration::from_nanos(DRAWN_NS))))
        }
        EventKind::Timers => instant(format!("timers: {}", event.payload), "timer"),
        EventKind::Choice => {
            let (kind, value) = ((event.payload & 0xff) as usize, event.payload >> 8);
            let kind = ChoiceKind::ALL.get(kind)?;
            let is_unusual = value > 0;
            is_unusual.then(|| drawn(event, format!("{} {value}", kind.name()), "choice", None))
        }
        EventKind::Host => instant(host_event_name(event.payload).to_owned(), "host"),
        EventKind::Network => {
            let name = if event.payload > 0 { "routes blocked" } else { "routes open" };
            instant(name.to_owned(), "network")
        }
        EventKind::Advance | EventKind::Event | EventKind::Delivery => None,
    }
}

/// Converts a message to its drawing, in the row of the host that notices it.
fn draw_message(message: &LoggedMessage, run: &RunResult) -> Option<Drawn> {
    let (from, to) = message.route;
    let (host, peer, word) = match message.fate {
        MessageFate::Sent => (from, to, "to"),
        MessageFate::Lost => (from, to, "lost, to"),
        MessageFate::Stalled => (from, to, "stalled, to"),
        MessageFate::Arrived => (to, from, "from"),
    };
    let name = format!("{word} {}: {}", run.hosts.get(peer.index())?, message.text);
    let event = TraceEvent { name, category: "message", at: Duration::ZERO, took: None };
    Some(Drawn { host, step: message.step, at_ns: message.at_ns, event })
}

/// Returns the messages of the run, one per line.
fn message_log(run: &RunResult) -> String {
    let mut text = String::new();
    for message in &run.messages {
        let (from, to) = message.route;
        let name = |host: HostId| run.hosts.get(host.index()).map_or("unknown", |name| name);
        let fate = match message.fate {
            MessageFate::Sent => "sent",
            MessageFate::Arrived => "arrived",
            MessageFate::Lost => "lost",
            MessageFate::Stalled => "stalled",
        };
        let seconds = Duration::from_nanos(message.at_ns).as_secs_f64();
        let _ = writeln!(
            text,
            "{seconds:>16.9} s  {} -> {}  {fate}: {}",
            name(from),
            name(to),
            message.text
        );
    }
    text
}
