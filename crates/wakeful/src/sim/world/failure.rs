//! Why a run has failed, and the result of a run.

use crate::sim::hash::RunHash;
use crate::sim::oracle::{Choices, HostId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a simulated run has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// A task panicked.
    Panic,
    /// A task can never be woken again.
    Orphan,
    /// Tasks wait for each other.
    Deadlock,
    /// There is no ready task, no timer and no message.
    Stuck,
    /// Tasks were polled very often while the time stood still.
    Livelock,
    /// A poll did not return for a long time, in real time.
    BlockedPoll,
    /// A condition that has to hold at all times did not.
    Always,
    /// A condition that has to hold at some time did not.
    Eventually,
    /// A thread outside of the simulation woke a task of it.
    ForeignThread,
    /// The program of a host ended with an error.
    HostError,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureKind::Panic => "panic",
            FailureKind::Orphan => "orphan",
            FailureKind::Deadlock => "deadlock",
            FailureKind::Stuck => "stuck",
            FailureKind::Livelock => "livelock",
            FailureKind::BlockedPoll => "blocked poll",
            FailureKind::Always => "a condition did not always hold",
            FailureKind::Eventually => "a condition did not eventually hold",
            FailureKind::ForeignThread => "foreign thread",
            FailureKind::HostError => "error of a host",
        })
    }
}

/// The failure of a run.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) host: HostId,
    pub(crate) host_name: Arc<str>,
    /// The simulated time.
    pub(crate) at: Duration,
    /// What happened, in sentences.
    pub(crate) text: String,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunResult {
    pub(crate) seed: u64,
    pub(crate) strategy: String,
    pub(crate) failure: Option<Failure>,
    pub(crate) hash: RunHash,
    pub(crate) choices: Choices,
    /// How many choices were made, benign ones included.
    pub(crate) choice_count: u64,
    pub(crate) polls: u64,
    /// The simulated time.
    pub(crate) elapsed: Duration,
}
