//! A ring buffer of a worker's last scheduling events, for the trace of a runtime.
//!
//! The buffer is off until tracing is enabled. One thread writes it with plain stores; any thread
//! may read it.
//!
//! An entry is four words, so a reader may see an entry that is half overwritten. Therefore the
//! reader reads the count of entries before and after it copies them, and drops the entries that
//! may have been overwritten in between.

use crate::sys::sync::ignore_poison;
use crate::task::runnable::Runnable;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering::*};
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

/// The bits of a site's address that hold the event.
const EVENT_BITS: usize = 0b111;
const _: () = assert!(align_of::<Location<'static>>() > EVENT_BITS);

impl Event {
    fn from_bits(event: usize) -> Self {
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
    /// The start of the event, on the runtime's clock.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// The task's id, or 0 if the event has no task.
    pub(crate) task: u64,
    /// The spawn site of the task. Set only for polls while the live page is served.
    pub(crate) spawned_at: Option<&'static Location<'static>>,
}

/// A part of a trace, as read.
pub(crate) struct TracePart {
    /// The entries, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// The number of entries ever written, from which the next part is read.
    pub(crate) next: u64,
    /// The number of entries at the start of this part that were overwritten.
    pub(crate) dropped: u64,
}

impl Entry {
    /// Describes the wake-up of a task, or its spawn if it was never polled.
    pub(crate) fn woken(task: &Runnable, at: Duration) -> Self {
        let event = if task.was_never_polled() { Event::Spawn } else { Event::Wake };
        let (_, task) = task.cell_and_id();
        Self { event, at, took: Duration::ZERO, task, spawned_at: None }
    }
}

/// The trace of one worker.
///
/// A flag says whether every event is also observed for another reason, known when the scheduler
/// starts: hooks or exact histograms.
pub(crate) struct TraceBuffer {
    /// [`RECORD`] and [`OBSERVE`].
    flags: AtomicU8,
    /// Allocated when tracing is first enabled.
    ring: OnceLock<Box<Ring>>,
}

/// Events are recorded.
const RECORD: u8 = 1;
/// Events are observed, whether they are recorded or not.
const OBSERVE: u8 = 2;

struct Ring {
    /// The number of entries ever written.
    count: AtomicU64,
    entries: [Slot; CAPACITY],
}

/// An entry of four words.
struct Slot {
    at_ns: AtomicU64,
    took_ns: AtomicU64,
    task: AtomicU64,
    /// The site or null, with the event in its lowest bits. It is one word, so that no reader sees
    /// half of it.
    site_and_event: AtomicPtr<Location<'static>>,
}

impl Slot {
    const fn empty() -> Self {
        Self {
            at_ns: AtomicU64::new(0),
            took_ns: AtomicU64::new(0),
            task: AtomicU64::new(0),
            site_and_event: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn write(&self, entry: Entry) {
        self.at_ns.store(entry.at.as_nanos() as u64, Relaxed);
        self.took_ns.store(entry.took.as_nanos() as u64, Relaxed);
        self.task.store(entry.task, Relaxed);
        let site = entry.spawned_at.map_or(ptr::null(), ptr::from_ref).cast_mut();
        self.site_and_event.store(site.map_addr(|it| it | entry.event as usize), Relaxed);
    }

    fn read(&self) -> Entry {
        let tagged = self.site_and_event.load(Relaxed);
        let site = tagged.map_addr(|it| it & !EVENT_BITS);
        Entry {
            event: Event::from_bits(tagged.addr() & EVENT_BITS),
            at: Duration::from_nanos(self.at_ns.load(Relaxed)),
            took: Duration::from_nanos(self.took_ns.load(Relaxed)),
            task: self.task.load(Relaxed),
            // SAFETY: only `write` stores here: null or a `&'static`, with bits that are cleared above. A
            // site of the compiler is never written, so no ordering is needed to read it.
            spawned_at: unsafe { site.as_ref() },
        }
    }
}

impl TraceBuffer {
    pub(crate) fn new() -> Self {
        Self::observing(false)
    }

    /// Creates a trace that is off. With `observe`, events are to be observed nevertheless.
    pub(crate) fn observing(observe: bool) -> Self {
        let flags = if observe { OBSERVE } else { 0 };
        Self { flags: AtomicU8::new(flags), ring: OnceLock::new() }
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        if enabled {
            self.ring.get_or_init(|| {
                let entries = [const { Slot::empty() }; CAPACITY];
                Box::new(Ring { count: AtomicU64::new(0), entries })
            });
        }
        // Release pairs with the Acquire in `record`, which uses the ring.
        if enabled {
            self.flags.fetch_or(RECORD, Release);
        } else {
            self.flags.fetch_and(!RECORD, Release);
        }
    }

    /// Returns whether every event is to be observed, to record it or for another reason.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.flags.load(Relaxed) != 0
    }

    /// Appends an entry, if tracing is enabled. Only the thread that holds the worker's core may
    /// call it.
    pub(crate) fn record(&self, entry: Entry) {
        if self.flags.load(Acquire) & RECORD == 0 {
            return;
        }
        let Some(ring) = self.ring.get() else { return };
        let count = ring.count.load(Relaxed);
        // Pairs with the fence of `read_from`. A reader that sees a part of this entry sees the
        // count before it, and drops the old entry of this slot.
        std::sync::atomic::fence(Release);
        ring.entries[count as usize % CAPACITY].write(entry);
        // Release pairs with the Acquire in `read_from`: a reader that sees the count sees the entry.
        ring.count.store(count + 1, Release);
    }

    /// Copies the entries, oldest first.
    #[cfg(test)]
    fn read(&self) -> Vec<Entry> {
        self.read_from(0).entries
    }

    /// Copies the entries after the first `position` that were ever written.
    pub(crate) fn read_from(&self, position: u64) -> TracePart {
        let Some(ring) = self.ring.get() else {
            return TracePart { entries: Vec::new(), next: 0, dropped: 0 };
        };
        let next = ring.count.load(Acquire);
        let first = next.saturating_sub(CAPACITY as u64).max(position.min(next));
        let read = |nth: u64| (nth, ring.entries[nth as usize % CAPACITY].read());
        let entries: Vec<(u64, Entry)> = (first..next).map(read).collect();
        std::sync::atomic::fence(Acquire);
        // The entry after the last counted one may be half written.
        let intact = (ring.count.load(Relaxed) + 1).saturating_sub(CAPACITY as u64);
        let entries = entries.into_iter().filter(|(nth, _)| *nth >= intact).map(|(_, entry)| entry);
        let entries: Vec<Entry> = entries.collect();
        let dropped = next.saturating_sub(position) - entries.len() as u64;
        TracePart { entries, next, dropped }
    }
}

/// The trace of all threads that are not workers. A lock lets one thread write at a time.
pub(crate) struct SharedTraceBuffer {
    trace: TraceBuffer,
    writer: Mutex<()>,
}

impl SharedTraceBuffer {
    /// Creates a trace that is off. With `observe`, events are to be observed nevertheless.
    pub(crate) fn observing(observe: bool) -> Self {
        Self { trace: TraceBuffer::observing(observe), writer: Mutex::new(()) }
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

    pub(crate) fn read_from(&self, position: u64) -> TracePart {
        self.trace.read_from(position)
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Entry, Event, TraceBuffer};
    use std::panic::Location;
    use std::time::Duration;

    fn entry(task: u64) -> Entry {
        let at = Duration::from_nanos(task);
        Entry { event: Event::Wake, at, took: Duration::ZERO, task, spawned_at: None }
    }

    #[test]
    fn an_entry_keeps_its_event_and_its_site() {
        let trace = TraceBuffer::new();
        trace.set_enabled(true);
        let events =
            [Event::Poll, Event::Spawn, Event::Wake, Event::Park, Event::Steal, Event::Report];
        let sites = [None, Some(Location::caller())];
        let written = sites.iter().flat_map(|site| events.map(|event| (event, *site)));
        let written = written.map(|(event, spawned_at)| Entry { event, spawned_at, ..entry(1) });
        let written: Vec<Entry> = written.collect();
        written.iter().for_each(|entry| trace.record(*entry));
        assert_eq!(trace.read(), written);
    }

    #[test]
    fn parts_are_consecutive_and_count_overwritten_entries() {
        let trace = TraceBuffer::new();
        assert_eq!((trace.read_from(0).next, trace.read_from(7).dropped), (0, 0));
        trace.set_enabled(true);
        (1..=3).for_each(|task| trace.record(entry(task)));
        let part = trace.read_from(0);
        assert_eq!((part.entries.len(), part.next, part.dropped), (3, 3, 0));
        assert!(trace.read_from(part.next).entries.is_empty());
        (4..=10).for_each(|task| trace.record(entry(task)));
        let part = trace.read_from(part.next);
        assert_eq!((part.entries[0], part.entries.len(), part.dropped), (entry(4), 7, 0));
        let many = CAPACITY as u64 + 99;
        (11..11 + many).for_each(|task| trace.record(entry(task)));
        let part = trace.read_from(part.next);
        // One less than the buffer holds: the oldest may be half overwritten.
        assert_eq!((part.entries.len(), part.dropped), (CAPACITY - 1, 100));
        assert_eq!(part.entries.last(), Some(&entry(10 + many)));
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
