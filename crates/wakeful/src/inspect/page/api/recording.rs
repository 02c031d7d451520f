//! Recordings of the workers' events, a few seconds each.
//!
//! A recorder of the runtime keeps the last 4,096 events of a worker. While a recording runs, a thread
//! copies them at short intervals, so that a recording can hold more. Events that arrive too fast are
//! dropped and counted.

use crate::inspect::runtimes::{self, InspectedRuntime};
use crate::sys::sync::ignore_poison;
use crate::sys::thread_registry::{ALL_RUNTIMES, RuntimeThread};
use crate::sys::unwind::catch_and_forget;
use crate::telemetry::trace_buffer::{Entry, TracePart};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum length of a recording, in seconds.
const MAX_SECONDS: u64 = 30;
/// The maximum number of events in a recording. Beyond it, the oldest events of each row are
/// dropped.
const MAX_EVENTS: usize = 200_000;
/// The time between two copies of the recorders.
const STEP: Duration = Duration::from_millis(10);

/// The events of one thread.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) runtime: u64,
    pub(super) name: String,
    /// The events, on the clock of the oldest runtime, oldest first.
    pub(super) entries: VecDeque<Entry>,
    /// The number of dropped events before these.
    pub(super) dropped: u64,
}

/// The running recording, or the last one.
#[derive(Clone, Default)]
pub(super) struct Recording {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ends_at: Option<Instant>,
    recorded: Option<Vec<RecordedRuntime>>,
}

/// The rows of a runtime.
struct RecordedRuntime {
    id: u64,
    /// The position up to which each recorder has been copied.
    positions: Vec<u64>,
    /// The age of the oldest runtime minus the age of this one.
    younger_by: Duration,
    /// Whether this recording turned the recorders on.
    is_own: bool,
    rows: Vec<Row>,
}

impl RecordedRuntime {
    fn new(runtime: &dyn InspectedRuntime, oldest: Duration) -> Self {
        let is_own = !runtime.is_recording();
        let younger_by = oldest.saturating_sub(age(runtime));
        let row =
            |(name, _)| Row { runtime: runtime.id(), name, entries: VecDeque::new(), dropped: 0 };
        let before = runtime.recorded(&[]);
        let positions = before.iter().map(|(_, part)| part.next).collect();
        let rows = before.into_iter().map(row).collect();
        Self { id: runtime.id(), positions, younger_by, is_own, rows }
    }

    /// Copies the events recorded since the last call. Keeps up to `most` events of each row.
    fn copy(&mut self, runtime: &dyn InspectedRuntime, most: usize) {
        let parts = runtime.recorded(&self.positions).into_iter();
        for ((row, position), (_, part)) in self.rows.iter_mut().zip(&mut self.positions).zip(parts)
        {
            *position = part.next;
            row.add(part, self.younger_by, most);
        }
    }
}

impl Row {
    fn add(&mut self, part: TracePart, younger_by: Duration, most: usize) {
        self.dropped += part.dropped;
        let moved = |entry: Entry| Entry { at: entry.at + younger_by, ..entry };
        self.entries.extend(part.entries.into_iter().map(moved));
        let surplus = self.entries.len().saturating_sub(most);
        self.entries.drain(..surplus);
        self.dropped += surplus as u64;
    }
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    /// Returns the remaining time of the running recording.
    pub(super) fn left(&self) -> Option<Duration> {
        self.lock().ends_at.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Turns the recorders of all runtimes on, and off again after some seconds.
    ///
    /// A running recording is not extended. Recorders that the program has turned on stay on.
    pub(super) fn start(&self, seconds: Option<u64>) {
        let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(5).clamp(1, MAX_SECONDS));
        let mut state = self.lock();
        if state.ends_at.is_some() {
            return;
        }
        let runtimes = runtimes::all();
        let oldest = runtimes.iter().map(|it| age(&**it)).max().unwrap_or_default();
        let new = |runtime: &Arc<dyn InspectedRuntime>| RecordedRuntime::new(&**runtime, oldest);
        let recorded: Vec<_> = runtimes.iter().map(new).collect();
        for (runtime, recorded) in runtimes.iter().zip(&recorded) {
            if recorded.is_own {
                runtime.set_recording(true);
            }
        }
        (state.ends_at, state.recorded) = (Some(end), Some(recorded));
        drop(state);
        let recording = self.clone();
        let run = move || {
            let _own = RuntimeThread::new(ALL_RUNTIMES);
            while Instant::now() < end {
                thread::sleep(STEP.min(end.saturating_duration_since(Instant::now())));
                // A panic, of a destructor for example, must not leave the recorders on.
                catch_and_forget(|| recording.copy());
            }
            recording.finish();
        };
        if thread::Builder::new().name("wakeful-recorder".to_owned()).spawn(run).is_err() {
            self.finish();
        }
        // Last: this may drop a runtime, with destructors of the program that may panic.
        drop(runtimes);
    }

    /// Copies the new events of all recorders.
    fn copy(&self) {
        let runtimes = runtimes::all();
        let mut state = self.lock();
        let Some(recorded) = &mut state.recorded else { return };
        let rows: usize = recorded.iter().map(|runtime| runtime.rows.len()).sum();
        let most = MAX_EVENTS / rows.max(1);
        for own in recorded {
            // Runtimes are sorted by id. The copied events of an ended runtime are kept.
            if let Ok(at) = runtimes.binary_search_by_key(&own.id, |runtime| runtime.id()) {
                own.copy(&*runtimes[at], most);
            }
        }
    }

    /// Turns off the recorders that this recording turned on.
    fn finish(&self) {
        let runtimes = runtimes::all();
        let mut state = self.lock();
        for own in state.recorded.iter().flatten().filter(|own| own.is_own) {
            if let Ok(at) = runtimes.binary_search_by_key(&own.id, |runtime| runtime.id()) {
                runtimes[at].set_recording(false);
            }
        }
        state.ends_at = None;
    }

    /// Returns the rows of the last recording.
    ///
    /// Without a recording, returns what the recorders hold that the program itself has turned on.
    pub(super) fn rows(&self) -> Vec<Row> {
        if let Some(recorded) = &self.lock().recorded {
            return recorded.iter().flat_map(|runtime| runtime.rows.iter().cloned()).collect();
        }
        let runtimes = runtimes::all();
        let oldest = runtimes.iter().map(|it| age(&**it)).max().unwrap_or_default();
        let rows = runtimes.iter().flat_map(|runtime| {
            let mut own = RecordedRuntime::new(&**runtime, oldest);
            own.positions.fill(0);
            own.copy(&**runtime, MAX_EVENTS);
            own.rows
        });
        rows.collect()
    }
}

/// Returns the age of a runtime, on its own clock.
fn age(runtime: &dyn InspectedRuntime) -> Duration {
    runtime.inspectable().base().config.env.clock.elapsed()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::telemetry::trace_buffer::Event;

    #[test]
    fn a_row_keeps_the_newest_events_and_counts_the_others() {
        let mut row = Row { runtime: 1, name: String::new(), entries: VecDeque::new(), dropped: 0 };
        let ms = Duration::from_millis;
        let part = |times: std::ops::Range<u64>, dropped| TracePart {
            entries: times
                .map(|at| Entry {
                    event: Event::Wake,
                    at: ms(at),
                    took: ms(0),
                    task: at,
                    spawned_at: None,
                })
                .collect(),
            next: 0,
            dropped,
        };
        row.add(part(0..4, 0), ms(100), 6);
        assert_eq!((row.entries.len(), row.dropped, row.entries[0].at), (4, 0, ms(100)));
        row.add(part(9..13, 5), ms(100), 6);
        assert_eq!((row.entries.len(), row.dropped, row.entries[0].at), (6, 7, ms(102)));
    }
}
