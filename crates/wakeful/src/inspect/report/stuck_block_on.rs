//! A `block_on` that can never return.

use super::text::field;
use crate::inspect::Dump;
use crate::inspect::task_info::TaskInfo;
use std::fmt;

/// A `block_on` that provably can never return.
///
/// Its future waits for an event that can never happen, and no other task of the runtime can run. The
/// `block_on` ends with a panic whose message is this report. It is always
/// [proven](super::Certainty::Proven).
#[derive(Clone, Debug)]
pub struct StuckBlockOn {
    block_on: TaskInfo,
    /// The number of the wait in which its future was found.
    pub(crate) rest: u32,
    reason: NoRescueReason,
    dump: Dump,
}

/// Why no other thread can end the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRescueReason {
    /// The future of the `block_on` has no waker.
    WakersGone,
    /// The process has no other threads.
    RuntimeThreadsOnly,
    /// The only other thread is the main thread of the test harness, which waits for its tests.
    RuntimeThreadsAndHarness,
}

impl StuckBlockOn {
    pub(crate) fn new(block_on: TaskInfo, rest: u32, reason: NoRescueReason, dump: Dump) -> Self {
        Self { block_on, rest, reason, dump }
    }

    /// Returns the future of the `block_on`.
    pub fn block_on(&self) -> &TaskInfo {
        &self.block_on
    }

    /// Returns a dump of the runtime, taken when the `block_on` was found stuck.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }
}

impl fmt::Display for StuckBlockOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_helper = match self.reason {
            NoRescueReason::WakersGone => "and no waker of its future is left",
            NoRescueReason::RuntimeThreadsOnly => {
                "and the process has no threads but those of this runtime"
            }
            NoRescueReason::RuntimeThreadsAndHarness => {
                "and the process has no threads but those of this runtime and the test harness"
            }
        };
        writeln!(f, "stuck block_on (proven): {} can never return", self.block_on)?;
        field(f, "    ", "called", format_args!("at {}", self.block_on.spawned_at()))?;
        write!(
            f,
            "  why: every task waits, and nothing can wake one: no timer, no descriptor, no blocking closure, {no_helper}.\n\
             {}  fix: see what the first task of the dump waits for. Whatever should wake it has ended, or waits \
             too.",
            self.dump
        )
    }
}
