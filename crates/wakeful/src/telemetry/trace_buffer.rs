//! The flight recorder: what a worker did last, in a ring of fixed size. Off until it
//! is switched on; written by one thread with plain stores, read by anybody.
//!
//! An event is a few words. Whoever reads them while they are written over gets
//! something mixed; so it looks at the count before and after, and leaves out what
//! may have been written over meanwhile.

use crate::sys::sync::ignore_poison;
use crate::task::runnable::Runnable;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Events that a ring has room for.
pub(crate) const ROOM: usize = 4096;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    /// A task was polled; `took` is how long.
    Poll = 0,
    Spawn = 1,
    Wake = 2,
    /// The worker slept; `took` is how long.
    Park = 3,
    Steal = 4,
    /// Something was reported of the task.
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

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    /// On the runtime's clock.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// 0 if it is about no task.
    pub(crate) task: u64,
}

impl Entry {
    /// A task was woken, or spawned, at this moment.
    pub(crate) fn woken(task: &Runnable, at: Duration) -> Self {
        let event = if task.is_new() { Event::Spawn } else { Event::Wake };
        Self { event, at, took: Duration::ZERO, task: task.cell_and_id().1 }
    }
}

/// One worker's recorder.
pub(crate) struct TraceBuffer {
    on: AtomicBool,
    ring: OnceLock<Box<Ring>>,
}

struct Ring {
    /// Entries ever written.
    count: AtomicU64,
    words: [[AtomicU64; 4]; ROOM],
}

impl TraceBuffer {
    pub(crate) fn new() -> Self {
        Self { on: AtomicBool::new(false), ring: OnceLock::new() }
    }

    pub(crate) fn switch(&self, on: bool) {
        if on {
            self.ring.get_or_init(|| {
                let words = [const { [const { AtomicU64::new(0) }; 4] }; ROOM];
                Box::new(Ring { count: AtomicU64::new(0), words })
            });
        }
        self.on.store(on, Release);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// By the thread that has the worker's key.
    pub(crate) fn note(&self, entry: Entry) {
        if !self.on.load(Acquire) {
            return;
        }
        let Some(ring) = self.ring.get() else { return };
        let count = ring.count.load(Relaxed);
        let words = &ring.words[count as usize % ROOM];
        words[0].store(entry.at.as_nanos() as u64, Relaxed);
        words[1].store(entry.took.as_nanos() as u64, Relaxed);
        words[2].store(entry.task, Relaxed);
        words[3].store(entry.event as u64, Relaxed);
        // Release: who sees the count sees the entry.
        ring.count.store(count + 1, Release);
    }

    /// What is in the ring, the oldest first.
    pub(crate) fn read(&self) -> Vec<Entry> {
        let Some(ring) = self.ring.get() else { return Vec::new() };
        let before = ring.count.load(Acquire);
        let first = before.saturating_sub(ROOM as u64);
        let entries: Vec<(u64, Entry)> = (first..before)
            .map(|nth| {
                let [at, took, task, event] =
                    ring.words[nth as usize % ROOM].each_ref().map(|word| word.load(Relaxed));
                let (at, took) = (Duration::from_nanos(at), Duration::from_nanos(took));
                (nth, Entry { event: Event::from_u64(event), at, took, task })
            })
            .collect();
        std::sync::atomic::fence(Acquire);
        // One more than was counted may be half written.
        let safe = (ring.count.load(Relaxed) + 1).saturating_sub(ROOM as u64);
        entries.into_iter().filter(|(nth, _)| *nth >= safe).map(|(_, entry)| entry).collect()
    }
}

/// The recorder of all threads that are not at a worker's place: one of them at a time notes
/// something.
pub(crate) struct SharedTraceBuffer {
    recorder: TraceBuffer,
    turn: Mutex<()>,
}

impl SharedTraceBuffer {
    pub(crate) fn new() -> Self {
        Self { recorder: TraceBuffer::new(), turn: Mutex::new(()) }
    }

    pub(crate) fn switch(&self, on: bool) {
        self.recorder.switch(on);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.recorder.is_on()
    }

    pub(crate) fn note(&self, entry: Entry) {
        let _turn = ignore_poison(self.turn.lock());
        self.recorder.note(entry);
    }

    pub(crate) fn read(&self) -> Vec<Entry> {
        self.recorder.read()
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Event, ROOM, TraceBuffer};
    use std::time::Duration;

    fn entry(task: u64) -> Entry {
        let at = Duration::from_nanos(task);
        Entry { event: Event::Wake, at, took: Duration::ZERO, task }
    }

    #[test]
    fn keeps_the_last_and_only_while_it_is_on() {
        let recorder = TraceBuffer::new();
        recorder.note(entry(1));
        assert_eq!(recorder.read(), []);
        recorder.switch(true);
        (1..=3).for_each(|task| recorder.note(entry(task)));
        assert_eq!(recorder.read(), [entry(1), entry(2), entry(3)]);
        (4..=10_000).for_each(|task| recorder.note(entry(task)));
        let read = recorder.read();
        assert_eq!((read.len(), read.last()), (ROOM - 1, Some(&entry(10_000))));
        assert!(read.is_sorted_by_key(|entry| entry.task));
        recorder.switch(false);
        recorder.note(entry(0));
        assert_eq!(recorder.read().len(), ROOM - 1);
    }
}
