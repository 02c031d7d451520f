//! A ring buffer of a worker's last scheduling events, for the trace of a runtime.
//!
//! It is off until tracing is enabled. One thread writes it with plain stores; any thread may read
//! it.
//!
//! An entry is four words, so a reader may see an entry that is half overwritten. Therefore the
//! reader reads the count of entries before and after it copies them, and drops those that may have
//! been overwritten in between.

use crate::sys::sync::ignore_poison;
use crate::task::runnable::Runnable;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// The number of entries that a buffer holds.
pub(crate) const CAPACITY: usize = 4096;

/// The kind of a traced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    /// A task was polled for `took`.
    Poll = 0,
    Spawn = 1,
    Wake = 2,
    /// The worker was parked for `took`.
    Park = 3,
    Steal = 4,
    /// A report about the task was made.
    Report = 5,
}

impl Event {
    fn from_u64(event: u64) -> Self {
        match event {
            0 => Event::Poll,
            1 => Event::Spawn,
            2 => Event::Wake,
            3 => Event::Park,
            4 => Event::Steal,
            _ => Event::Report,
        }
    }
}

/// A traced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    /// When it began, on the runtime's clock.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// The task's id, or 0 if the event has no task.
    pub(crate) task: u64,
}

impl Entry {
    /// Describes the wake-up of a task, or its spawn if it was never polled.
    pub(crate) fn woken(task: &Runnable, at: Duration) -> Self {
        let event = if task.is_new() { Event::Spawn } else { Event::Wake };
        Self { event, at, took: Duration::ZERO, task: task.cell_and_id().1 }
    }
}

/// The trace of one worker.
pub(crate) struct TraceBuffer {
    enabled: AtomicBool,
    /// Allocated when tracing is first enabled.
    ring: OnceLock<Box<Ring>>,
}

struct Ring {
    /// The number of entries ever written.
    count: AtomicU64,
    entries: [[AtomicU64; 4]; CAPACITY],
}

impl TraceBuffer {
    pub(crate) fn new() -> Self {
        Self { enabled: AtomicBool::new(false), ring: OnceLock::new() }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        if enabled {
            self.ring.get_or_init(|| {
                let entries = [const { [const { AtomicU64::new(0) }; 4] }; CAPACITY];
                Box::new(Ring { count: AtomicU64::new(0), entries })
            });
        }
        self.enabled.store(enabled, Release);
    }

    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Appends an entry, if tracing is enabled. Only the thread that holds the worker's core may
    /// call it.
    pub(crate) fn record(&self, entry: Entry) {
        if !self.enabled.load(Acquire) {
            return;
        }
        let Some(ring) = self.ring.get() else { return };
        let count = ring.count.load(Relaxed);
        let words = &ring.entries[count as usize % CAPACITY];
        words[0].store(entry.at.as_nanos() as u64, Relaxed);
        words[1].store(entry.took.as_nanos() as u64, Relaxed);
        words[2].store(entry.task, Relaxed);
        words[3].store(entry.event as u64, Relaxed);
        // Release pairs with the Acquire in `read`: a reader that sees the count sees the entry.
        ring.count.store(count + 1, Release);
    }

    /// Copies the entries, oldest first.
    pub(crate) fn read(&self) -> Vec<Entry> {
        let Some(ring) = self.ring.get() else { return Vec::new() };
        let before = ring.count.load(Acquire);
        let first = before.saturating_sub(CAPACITY as u64);
        let entries: Vec<(u64, Entry)> = (first..before)
            .map(|nth| {
                let [at, took, task, event] =
                    ring.entries[nth as usize % CAPACITY].each_ref().map(|word| word.load(Relaxed));
                let (at, took) = (Duration::from_nanos(at), Duration::from_nanos(took));
                (nth, Entry { event: Event::from_u64(event), at, took, task })
            })
            .collect();
        std::sync::atomic::fence(Acquire);
        // The entry after the last counted one may be half written.
        let intact = (ring.count.load(Relaxed) + 1).saturating_sub(CAPACITY as u64);
        entries.into_iter().filter(|(nth, _)| *nth >= intact).map(|(_, entry)| entry).collect()
    }
}

/// The trace of all threads that are not workers. A lock lets one thread write at a time.
pub(crate) struct SharedTraceBuffer {
    trace: TraceBuffer,
    writer: Mutex<()>,
}

impl SharedTraceBuffer {
    pub(crate) fn new() -> Self {
        Self { trace: TraceBuffer::new(), writer: Mutex::new(()) }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.trace.set_enabled(enabled);
    }

    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.trace.is_enabled()
    }

    pub(crate) fn record(&self, entry: Entry) {
        let _writer = ignore_poison(self.writer.lock());
        self.trace.record(entry);
    }

    pub(crate) fn read(&self) -> Vec<Entry> {
        self.trace.read()
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Entry, Event, TraceBuffer};
    use std::time::Duration;

    fn entry(task: u64) -> Entry {
        let at = Duration::from_nanos(task);
        Entry { event: Event::Wake, at, took: Duration::ZERO, task }
    }

    #[test]
    fn keeps_the_last_entries_while_enabled() {
        let trace = TraceBuffer::new();
        trace.record(entry(1));
        assert_eq!(trace.read(), []);
        trace.set_enabled(true);
        (1..=3).for_each(|task| trace.record(entry(task)));
        assert_eq!(trace.read(), [entry(1), entry(2), entry(3)]);
        (4..=10_000).for_each(|task| trace.record(entry(task)));
        let read = trace.read();
        assert_eq!((read.len(), read.last()), (CAPACITY - 1, Some(&entry(10_000))));
        assert!(read.is_sorted_by_key(|entry| entry.task));
        trace.set_enabled(false);
        trace.record(entry(0));
        assert_eq!(trace.read().len(), CAPACITY - 1);
    }
}
