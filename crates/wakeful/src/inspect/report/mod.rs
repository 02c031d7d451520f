//! Reports: what the runtime noticed and the user should know. Each kind has a type
//! of its own; its `Display` is a paragraph that ends with the likely way out.

mod blocked;
mod certainty;
mod deadlock;
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
pub use orphan::Orphan;
pub(crate) use reporter::{ReportHook, Reporter};
pub use spinning::Spinning;
pub(crate) use stuck_block_on::NoRescueReason;
pub use stuck_block_on::StuckBlockOn;
pub use unobserved_panic::UnobservedPanic;

/// Something that went wrong in the program, noticed by the runtime. Its
/// `Display` is a paragraph for a person.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A task that can never run again.
    Orphan(Orphan),
    /// A task that does not return from a poll, and has its thread wait with it.
    Blocked(Blocked),
    /// A task that wakes itself all the time.
    Spinning(Spinning),
    /// Tasks that wait for each other.
    Deadlock(Deadlock),
    /// Tasks that wait for what a future got that is not polled any more.
    Futurelock(Futurelock),
    /// A `block_on` that can never return.
    StuckBlockOn(StuckBlockOn),
    /// A task that panicked while nobody looked.
    UnobservedPanic(UnobservedPanic),
}

/// The kinds of reports, as they are counted.
pub(crate) const KINDS: [&str; 7] =
    ["orphan", "blocked", "spinning", "deadlock", "futurelock", "quiescent", "lost_panic"];

impl Report {
    /// The kind in one word: `"orphan"`, `"blocked"`, `"spinning"`, `"deadlock"`,
    /// `"futurelock"`, `"quiescent"` or `"lost_panic"`.
    pub fn kind(&self) -> &'static str {
        KINDS[self.index()]
    }

    /// How certain it is that this does not end by itself. See [`Certainty`] for examples.
    ///
    /// An orphan, a stuck `block_on` and a lost panic are always proven; a blocked poll and a spinning task are always
    /// suspected. A deadlock or futurelock is either, and its text says why.
    pub fn certainty(&self) -> Certainty {
        match self {
            Report::Orphan(_) | Report::StuckBlockOn(_) | Report::UnobservedPanic(_) => {
                Certainty::Proven
            }
            Report::Blocked(_) | Report::Spinning(_) => Certainty::Suspected,
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
        }
    }

    /// The task that it is about, or the first of them; 0 for none.
    fn task(&self) -> u64 {
        match self {
            Report::Orphan(orphan) => orphan.id().as_u64(),
            Report::UnobservedPanic(lost) => lost.task().number,
            other => other.finding().and_then(|tasks| tasks.first().copied()).unwrap_or(0),
        }
    }

    /// What makes it the same finding as another one of its kind; `None` for
    /// findings that cannot come twice.
    fn finding(&self) -> Option<Vec<u64>> {
        match self {
            Report::Orphan(_) | Report::UnobservedPanic(_) => None,
            Report::Blocked(blocked) => Some(vec![blocked.task().number]),
            Report::Spinning(spinning) => Some(vec![spinning.task().number]),
            Report::Deadlock(deadlock) => Some(deadlock.finding()),
            Report::Futurelock(futurelock) => Some(futurelock.finding()),
            Report::StuckBlockOn(quiescent) => {
                Some(vec![quiescent.root().number, u64::from(quiescent.rest)])
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
            Report::Deadlock(deadlock) => deadlock.fmt(f),
            Report::Futurelock(futurelock) => futurelock.fmt(f),
            Report::StuckBlockOn(quiescent) => quiescent.fmt(f),
            Report::UnobservedPanic(lost) => lost.fmt(f),
        }
    }
}
