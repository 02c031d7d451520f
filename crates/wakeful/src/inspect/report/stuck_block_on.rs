//! A `block_on` that can never return.

use super::text::field;
use crate::inspect::Dump;
use crate::inspect::task_info::TaskInfo;
use std::fmt;

/// A `block_on` that provably can never return.
///
/// Its future waits for something that can never happen, and nothing else in the runtime can happen either. The
/// `block_on` ends with a panic whose message is this report. It is always [proven](super::Certainty::Proven).
#[derive(Clone, Debug)]
pub struct StuckBlockOn {
    root: TaskInfo,
    /// The rest of its future that it was found in.
    pub(crate) rest: u32,
    reason: NoRescueReason,
    dump: Dump,
}

/// Why no other thread could help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRescueReason {
    /// The future of the `block_on` has no waker.
    WakersGone,
    /// The process has no other threads.
    OwnThreadsOnly,
    /// The process has no other threads but the main thread of the test harness, which waits for their end.
    OwnThreadsAndHarness,
}

impl StuckBlockOn {
    pub(crate) fn new(root: TaskInfo, rest: u32, reason: NoRescueReason, dump: Dump) -> Self {
        Self { root, rest, reason, dump }
    }

    /// The future of the `block_on`.
    pub fn root(&self) -> &TaskInfo {
        &self.root
    }

    /// Everything that was there.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }
}

impl fmt::Display for StuckBlockOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_helper = match self.reason {
            NoRescueReason::WakersGone => "and no waker of its future is left",
            NoRescueReason::OwnThreadsOnly => {
                "and the process has no threads but those of this runtime"
            }
            NoRescueReason::OwnThreadsAndHarness => {
                "and the process has no threads but those of this runtime and the test harness"
            }
        };
        writeln!(f, "stuck block_on (proven): {} can never return", self.root)?;
        field(f, "    ", "called", format_args!("at {}", self.root.spawned_at()))?;
        write!(
            f,
            "  why: everything waits, and nothing can wake any of it: no timer, no descriptor, no closure, {no_helper}.\n\
             {}  fix: look at what the first line of the dump waits for. What should provide it is gone, or waits \
             itself.",
            self.dump
        )
    }
}
