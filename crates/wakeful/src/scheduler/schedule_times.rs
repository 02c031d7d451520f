//! The times at which tasks were scheduled, if the builder enabled schedule latencies.
//!
//! A task's latency is the time from its schedule to the poll that follows. A cell has no space for
//! this time, so the scheduler keeps a table of times. Only runtimes that track latencies have one.
//!
//! The life of an entry. All transitions are on rare paths, taken because each event is observed:
//!
//! ```text
//!   spawn, wake-up ─► Scheduled(time) ─► start_poll ─► Polled ─► end_poll ─► Scheduled(time)
//!                                                        │ the task has ended: no entry
//! ```
//!
//! A task that yields is queued inside its poll. So another worker may poll the task, or even
//! complete it, before the first worker calls [`end_poll`](ScheduleTimes::end_poll). Polls are
//! numbered, and that call changes an entry only if it is still the entry of its own poll. It never
//! restores a removed entry.

use crate::driver::clock::clock_ns::ClockNs;
use crate::sys::sync::ignore_poison;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
// std's mutex even in models, which track no latencies.
use std::sync::Mutex;
use std::time::Duration;

/// The schedule times of a scheduler's tasks, by task id.
#[derive(Default)]
pub(crate) struct ScheduleTimes {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    tasks: HashMap<u64, Since>,
    last_poll: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Scheduled(ClockNs),
    /// In the poll with this number, or queued by it.
    Polled(u64),
}

/// A poll of a task, to be passed to [`ScheduleTimes::end_poll`].
#[derive(Clone, Copy)]
pub(crate) struct TrackedPoll {
    task: u64,
    number: u64,
    /// How long the task has waited for this poll.
    pub(crate) latency: Duration,
}

impl ScheduleTimes {
    fn with_table<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = ignore_poison(self.table.lock());
        f(&mut table)
    }

    /// Records that a task is about to be queued.
    pub(crate) fn schedule(&self, task: u64, now: ClockNs) {
        self.with_table(|table| _ = table.tasks.insert(task, Since::Scheduled(now)));
    }

    /// Records that the poll of a task starts.
    pub(crate) fn start_poll(&self, task: u64, now: ClockNs) -> TrackedPoll {
        self.with_table(|table| {
            table.last_poll += 1;
            let number = table.last_poll;
            let latency = match table.tasks.insert(task, Since::Polled(number)) {
                Some(Since::Scheduled(since)) => now.since(since),
                // The task has just yielded on another worker.
                Some(Since::Polled(_)) | None => Duration::ZERO,
            };
            TrackedPoll { task, number, latency }
        })
    }

    /// Records that a poll has ended. If the task yielded, its wait starts now.
    pub(crate) fn end_poll(&self, poll: TrackedPoll, now: ClockNs) {
        self.with_table(|table| {
            if let Entry::Occupied(mut entry) = table.tasks.entry(poll.task)
                && *entry.get() == Since::Polled(poll.number)
            {
                entry.insert(Since::Scheduled(now));
            }
        });
    }

    /// Removes the entry of a task that has ended.
    pub(crate) fn remove(&self, task: u64) {
        self.with_table(|table| _ = table.tasks.remove(&task));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ClockNs, ScheduleTimes};
    use std::time::Duration;

    const AT: fn(u64) -> ClockNs = ClockNs::from_ns;
    const NS: fn(u64) -> Duration = Duration::from_nanos;

    fn len(times: &ScheduleTimes) -> usize {
        times.with_table(|table| table.tasks.len())
    }

    #[test]
    fn a_latency_begins_with_the_last_schedule() {
        let times = ScheduleTimes::default();
        times.schedule(1, AT(100));
        let first = times.start_poll(1, AT(130));
        assert_eq!(first.latency, NS(30));
        times.end_poll(first, AT(150));
        assert_eq!(times.start_poll(1, AT(155)).latency, NS(5), "it yielded");
        times.schedule(1, AT(200));
        assert_eq!(times.start_poll(1, AT(201)).latency, NS(1), "it was woken");
        times.remove(1);
        assert_eq!(len(&times), 0);
    }

    /// Another worker takes a task that yielded before the first worker has ended the poll.
    #[test]
    fn a_late_end_of_a_poll_changes_nothing() {
        let times = ScheduleTimes::default();
        times.schedule(1, AT(100));
        let first = times.start_poll(1, AT(110));
        let second = times.start_poll(1, AT(120));
        assert_eq!(second.latency, NS(0));
        times.end_poll(first, AT(130));
        times.end_poll(second, AT(140));
        assert_eq!(times.start_poll(1, AT(145)).latency, NS(5));
        times.remove(1);
        times.end_poll(second, AT(150));
        assert_eq!(len(&times), 0, "a task that has ended stays away");
    }
}
