//! Observation of task ends: the latest ones for the live page, and all of them for hooks.
//!
//! Recording a task takes a lock, which is too slow for a program in which a million tasks end per
//! second. So the page grants a number of records each second ([`grant`]). If fewer tasks end, all
//! are recorded; otherwise the first ones of each second. Without a page no record is granted.
//!
//! A runtime with a hook for the end of its tasks has an [`EndedWatch`]. While an `EndedWatch`
//! exists, each end of a task in the process is passed to the task's scheduler.
//!
//! Both states share one word, so without page and hooks the end of a task costs only one load.

use super::cell::outcome;
use super::header::Header;
use crate::sys::sync::ignore_poison;
use std::collections::VecDeque;
use std::panic::Location;
// Models also use std's atomics and locks here, because a model grants no record.
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The maximum number of recorded tasks that are kept.
const KEPT: usize = 500;

/// Lower half: the number of tasks that may still be recorded in this second. Upper half: the
/// number of live [`EndedWatch`]es.
static WATCHED: AtomicU64 = AtomicU64::new(0);
const ONE_WATCH: u64 = 1 << 32;
const GRANTED: u64 = ONE_WATCH - 1;
static ENDED: Mutex<VecDeque<EndedTask>> = Mutex::new(VecDeque::new());

/// A task that has ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedTask {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) spawned_at: &'static Location<'static>,
    /// The outcome, in one word.
    pub(crate) outcome: &'static str,
    pub(crate) polls: u32,
    pub(crate) busy: Duration,
    pub(crate) at: Instant,
}

/// Allows this many tasks to be recorded until the next call.
#[cfg(feature = "page")]
pub(crate) fn grant(count: u32) {
    let replace = |word: u64| Some(word & !GRANTED | u64::from(count));
    _ = WATCHED.fetch_update(Relaxed, Relaxed, replace);
}

/// A guard that has the end of each task passed to
/// [`Schedule::terminated`](super::schedule::Schedule::terminated).
#[derive(Debug)]
pub(crate) struct EndedWatch(());

impl EndedWatch {
    pub(crate) fn new() -> Self {
        // Relaxed: a task of the watching runtime is spawned after this, and its end sees the count.
        WATCHED.fetch_add(ONE_WATCH, Relaxed);
        Self(())
    }
}

impl Drop for EndedWatch {
    fn drop(&mut self) {
        WATCHED.fetch_sub(ONE_WATCH, Relaxed);
    }
}

/// Returns whether the end of a task must be recorded or passed to its scheduler.
#[inline]
pub(super) fn is_watched() -> bool {
    WATCHED.load(Relaxed) != 0
}

/// Returns whether the end of a task must be passed to its scheduler.
pub(super) fn is_scheduler_notified() -> bool {
    WATCHED.load(Relaxed) >= ONE_WATCH
}

/// Records a task that is about to complete, if granted. `busy` is its total poll time.
#[cold]
pub(super) fn record(header: &Header, busy: Duration) {
    let take = |word: u64| (word & GRANTED != 0).then(|| word - 1);
    if WATCHED.fetch_update(Relaxed, Relaxed, take).is_err() {
        return;
    }
    let origin = header.origin.get();
    let task = EndedTask {
        id: header.id.get(),
        name: origin.name().map(str::to_owned),
        spawned_at: origin.spawned_at(),
        outcome: match header.waiting.outcome() {
            outcome::PANIC => "panicked",
            outcome::CANCELLED => "aborted",
            outcome::ORPHANED => "orphaned",
            _ => "finished",
        },
        polls: header.polls(),
        busy,
        at: Instant::now(),
    };
    // A worker does not wait for the page, which may be reading, but drops this record.
    let Ok(mut ended) = ENDED.try_lock() else { return };
    if ended.len() == KEPT {
        ended.pop_front();
    }
    ended.push_back(task);
}

/// Returns the recorded tasks, the newest first.
#[cfg(feature = "page")]
pub(crate) fn last() -> Vec<EndedTask> {
    ignore_poison(ENDED.lock()).iter().rev().cloned().collect()
}
