//! The rolling hash of a simulated run, which is equal for equal runs.
//!
//! One 64-bit hash covers all events of a run: polls, clock advances, bytes that arrive. Two runs with
//! equal hashes made the same steps. If the hashes differ, [`first_difference`] finds the first event
//! that differs:
//!
//! - The hash after every [`BLOCK`] events is kept, so two runs of any length can be compared by block.
//! - The events of a *window* are kept as well, if one is set. Two runs that are repeated with a window
//!   at the first block that differs show the event.

use crate::sim::oracle::HostId;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The number of events per kept hash.
pub(crate) const BLOCK: u64 = 256;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// A task is polled. The payload is its budget.
    Poll,
    /// The future of `block_on` is polled.
    PollBlockOn,
    /// The clock moves to the event's time.
    Advance,
    /// Timers of the host fired. The payload is their number.
    Timers,
    /// An entry of the event heap fires. The payload is its token.
    Event,
    /// A choice of the runtime or of the program was made. The payload is its value.
    Choice,
    /// A host starts, stops, pauses or resumes. The payload says which.
    Host,
    /// Bytes or a datagram arrive. The payload is their hash.
    Delivery,
    /// Routes are blocked or opened. The payload says whether any route is still blocked.
    Network,
}

/// One event of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The number of polls and clock advances before the event.
    pub(crate) step: u64,
    /// The time of the world.
    pub(crate) at_ns: u64,
    pub(crate) host: HostId,
    /// The task that the event concerns, or 0.
    pub(crate) task: u64,
    pub(crate) kind: EventKind,
    pub(crate) payload: u64,
    /// The site in the program, which is not part of the hash.
    pub(crate) site: Option<&'static Location<'static>>,
}

impl Event {
    /// Returns the words that the hash covers.
    fn words(&self) -> [u64; 5] {
        let kind_and_host = u64::from(self.kind as u8) << 32 | u64::from(self.host.0);
        [self.step, self.at_ns, kind_and_host, self.task, self.payload]
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Duration::from_nanos(self.at_ns);
        write!(f, "step {} at {at:?}, host {}, ", self.step, self.host.0)?;
        if self.task > 0 {
            write!(f, "task {}, ", self.task)?;
        }
        write!(f, "{:?} {:#x}", self.kind, self.payload)?;
        match self.site {
            Some(site) => write!(f, " at {site}"),
            None => Ok(()),
        }
    }
}

/// The hash of the events of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunHash {
    hash: u64,
    events: u64,
    /// The hash after each full block of events.
    blocks: Vec<u64>,
    /// The number of the first event to keep, and how many to keep.
    window: Option<(u64, usize)>,
    kept: Vec<Event>,
}

/// Mixes a word into a hash.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

impl RunHash {
    /// Creates a hash that keeps the events of `window`: the number of the first one, and how many.
    pub(crate) fn new(window: Option<(u64, usize)>) -> Self {
        Self { hash: 0, events: 0, blocks: Vec::new(), window, kept: Vec::new() }
    }

    pub(crate) fn record(&mut self, event: Event) {
        self.hash = event.words().iter().fold(self.hash, |hash, word| mix(hash, *word));
        if let Some((first, len)) = self.window
            && self.events >= first
            && self.kept.len() < len
        {
            self.kept.push(event);
        }
        self.events += 1;
        if self.events.is_multiple_of(BLOCK) {
            self.blocks.push(self.hash);
        }
    }

    /// A window that keeps all events, for a timeline.
    pub(crate) const ALL: (u64, usize) = (0, usize::MAX);

    /// Returns whether all events are kept.
    pub(crate) fn keeps_all(&self) -> bool {
        self.window == Some(Self::ALL)
    }

    /// Returns the events of the window so far.
    pub(crate) fn kept(&self) -> &[Event] {
        &self.kept
    }

    /// Returns the hash of all events so far.
    pub(crate) fn value(&self) -> u64 {
        self.hash
    }
}

/// The first difference between two runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Difference {
    /// The runs differ at this event. `None` is the end of a run.
    Event(Option<Event>, Option<Event>),
    /// The runs differ in an event from this number on, in a block that was not kept. Repeating both
    /// runs with a window of [`BLOCK`] events from there shows the event.
    Block(u64),
}

/// Returns the first difference between two runs, or `None` if they are equal.
pub(crate) fn first_difference(one: &RunHash, other: &RunHash) -> Option<Difference> {
    if (one.hash, one.events) == (other.hash, other.events) {
        return None;
    }
    let equal_blocks = one.blocks.iter().zip(&other.blocks).take_while(|(a, b)| a == b).count();
    let first = equal_blocks as u64 * BLOCK;
    let after = |run: &RunHash, number: u64| {
        let (kept_from, _) = run.window?;
        let event = run.kept.get(usize::try_from(number.checked_sub(kept_from)?).ok()?)?;
        Some(*event)
    };
    for number in first..first + BLOCK {
        match (after(one, number), after(other, number)) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => break,
            // One run may have ended; otherwise the event lies outside of a window.
            (None, _) if number < one.events => break,
            (_, None) if number < other.events => break,
            (a, b) => return Some(Difference::Event(a, b)),
        }
    }
    Some(Difference::Block(first))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn event(step: u64) -> Event {
        Event {
            step,
            at_ns: step * 10,
            host: HostId(1),
            task: 3,
            kind: EventKind::Poll,
            payload: 0,
            site: None,
        }
    }

    fn run(len: u64, window: Option<(u64, usize)>, odd: Option<u64>) -> RunHash {
        let mut hash = RunHash::new(window);
        for step in 0..len {
            hash.record(Event { payload: u64::from(odd == Some(step)), ..event(step) });
        }
        hash
    }

    #[test]
    fn every_part_of_an_event_counts_but_its_place() {
        let base = event(5);
        let of = |event: Event| {
            let mut hash = RunHash::new(None);
            hash.record(event);
            hash.value()
        };
        let others = [
            Event { step: 6, ..base },
            Event { at_ns: 1, ..base },
            Event { host: HostId(2), ..base },
            Event { task: 4, ..base },
            Event { kind: EventKind::Choice, ..base },
            Event { payload: 1, ..base },
        ];
        assert!(others.iter().all(|other| of(*other) != of(base)));
        assert_eq!(of(Event { site: Some(std::panic::Location::caller()), ..base }), of(base));
    }

    #[test]
    fn equal_runs_have_no_difference() {
        assert_eq!(first_difference(&run(1_000, None, None), &run(1_000, None, None)), None);
    }

    #[test]
    fn the_first_difference_is_found_by_its_block_and_then_by_a_window() {
        let (one, other) = (run(1_000, None, None), run(1_000, None, Some(700)));
        let Some(Difference::Block(first)) = first_difference(&one, &other) else {
            panic!("no events were kept")
        };
        assert_eq!(first, 512);
        let window = Some((first, BLOCK as usize));
        let found = first_difference(&run(1_000, window, None), &run(1_000, window, Some(700)));
        let Some(Difference::Event(Some(a), Some(b))) = found else { panic!("{found:?}") };
        assert_eq!((a.step, b.step, a.payload, b.payload), (700, 700, 0, 1));
    }

    #[test]
    fn a_run_that_ends_early_differs_at_its_end() {
        let window = Some((0, 100));
        let found = first_difference(&run(10, window, None), &run(11, window, None));
        assert_eq!(found, Some(Difference::Event(None, Some(event(10)))));
    }
}
