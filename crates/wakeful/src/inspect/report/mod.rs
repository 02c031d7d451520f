//! Reports: bugs that the runtime found in the program. Each kind is a type of its own.
//!
//! The `Display` of a report says what happened, to which task, where, why it is believed, and what
//! to do.

mod blocked;
mod certainty;
mod deadlock;
mod futile_loop;
mod orphan;
mod reporter;
mod spinning;
mod stuck_block_on;
mod text;
mod unobserved_panic;

use std::fmt;

pub use blocked::Blocked;
pub use certainty::Certainty;
pub(crate) use deadlock::Basis;
pub use deadlock::{Deadlock, Edge, Futurelock};
pub use futile_loop::FutileLoop;
pub use orphan::Orphan;
pub(crate) use reporter::{ReportHook, Reporter};
pub use spinning::Spinning;
pub(crate) use stuck_block_on::NoRescueReason;
pub use stuck_block_on::StuckBlockOn;
pub(crate) use stuck_block_on::{RootCause, StoryStep};
pub use unobserved_panic::UnobservedPanic;

/// A bug in the program that the runtime found while running it.
///
/// Its `Display` says what happened, to which task, where, and what to do. Pass a function to
/// [`Builder::on_report`](crate::runtime::Builder::on_report) to receive reports; without one they are
/// printed to stderr.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A task that waits although no waker for it exists.
    Orphan(Orphan),
    /// A task whose poll blocks its thread.
    Blocked(Blocked),
    /// A task that wakes itself in nearly every poll.
    Spinning(Spinning),
    /// A task that repeats a call whose result cannot change.
    FutileLoop(FutileLoop),
    /// Tasks that wait for each other in a cycle.
    Deadlock(Deadlock),
    /// Tasks that wait for a resource which was granted to a future that is no longer polled.
    Futurelock(Futurelock),
    /// A `block_on` that can never return.
    StuckBlockOn(StuckBlockOn),
    /// A task that panicked, and whose `JoinHandle` was dropped.
    UnobservedPanic(UnobservedPanic),
}

/// The names of the kinds, in the order of [`Report::index`].
pub(crate) const KINDS: [&str; 8] = [
    "orphan",
    "blocked",
    "spinning",
    "deadlock",
    "futurelock",
    "stuck_block_on",
    "unobserved_panic",
    "futile_loop",
];

impl Report {
    /// Returns the kind as an identifier.
    ///
    /// It is `"orphan"`, `"blocked"`, `"spinning"`, `"deadlock"`, `"futurelock"`, `"stuck_block_on"`,
    /// `"unobserved_panic"` or `"futile_loop"`.
    pub fn kind(&self) -> &'static str {
        KINDS[self.index()]
    }

    /// Returns how certain it is that the situation does not end by itself.
    ///
    /// An orphan, a stuck `block_on` and an unobserved panic are always proven. A blocked poll, a
    /// spinning task and a futile loop are always suspected. A deadlock or futurelock is either, and its text says why.
    /// See [`Certainty`] for examples.
    pub fn certainty(&self) -> Certainty {
        match self {
            Report::Orphan(_) | Report::StuckBlockOn(_) | Report::UnobservedPanic(_) => {
                Certainty::Proven
            }
            Report::Blocked(_) | Report::Spinning(_) | Report::FutileLoop(_) => {
                Certainty::Suspected
            }
            Report::Deadlock(deadlock) => deadlock.certainty(),
            Report::Futurelock(futurelock) => futurelock.certainty(),
        }
    }

    fn index(&self) -> usize {
        match self {
            Report::Orphan(_) => 0,
            Report::Blocked(_) => 1,
            Report::Spinning(_) => 2,
            Report::Deadlock(_) => 3,
            Report::Futurelock(_) => 4,
            Report::StuckBlockOn(_) => 5,
            Report::UnobservedPanic(_) => 6,
            Report::FutileLoop(_) => 7,
        }
    }

    /// Returns the number of the first task that it is about, or 0.
    fn task(&self) -> u64 {
        match self {
            Report::Orphan(orphan) => orphan.id().as_u64(),
            Report::UnobservedPanic(panic) => panic.task().number,
            other => other.finding().and_then(|tasks| tasks.first().copied()).unwrap_or(0),
        }
    }

    /// Returns a key that is equal for two reports of the same situation, or `None` if a situation
    /// is reported only once.
    fn finding(&self) -> Option<Vec<u64>> {
        match self {
            Report::Orphan(_) | Report::UnobservedPanic(_) => None,
            Report::Blocked(blocked) => Some(vec![blocked.task().number]),
            Report::Spinning(spinning) => Some(vec![spinning.task().number]),
            Report::FutileLoop(futile) => Some(futile.finding()),
            Report::Deadlock(deadlock) => Some(deadlock.finding()),
            Report::Futurelock(futurelock) => Some(futurelock.finding()),
            Report::StuckBlockOn(stuck) => {
                Some(vec![stuck.block_on().number, u64::from(stuck.rest)])
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Orphan(orphan) => orphan.fmt(f),
            Report::Blocked(blocked) => blocked.fmt(f),
            Report::Spinning(spinning) => spinning.fmt(f),
            Report::FutileLoop(futile) => futile.fmt(f),
            Report::Deadlock(deadlock) => deadlock.fmt(f),
            Report::Futurelock(futurelock) => futurelock.fmt(f),
            Report::StuckBlockOn(stuck) => stuck.fmt(f),
            Report::UnobservedPanic(panic) => panic.fmt(f),
        }
    }
}
