//! The failure of a run, and the result of a run.

use crate::sim::hash::RunHash;
use crate::sim::network::LoggedMessage;
use crate::sim::oracle::{ChoiceKind, Choices, HostId};
use crate::sim::world::World;
use crate::sys::unwind::catch_and_forget;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Why a simulated run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// A task panicked.
    Panic,
    /// A task can never be woken again: no live waker of it exists.
    Orphan,
    /// Tasks wait for each other.
    Deadlock,
    /// The program has not returned, but there is no ready task, no timer and no message.
    Stuck,
    /// Too many polls were made without progress of the simulated time.
    Livelock,
    /// The simulated time exceeded its limit.
    TimeLimit,
    /// A poll blocked its thread for too much real time.
    BlockedPoll,
    /// A condition of `Sim::always` was false.
    Always,
    /// A condition of `Sim::eventually` was not true in time.
    Eventually,
    /// A thread outside the simulation woke one of its tasks, or used one of its sockets.
    ForeignThread,
    /// The program of a host returned an error.
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
            FailureKind::TimeLimit => "time limit",
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
    /// The simulated time of the failure.
    pub(crate) at: Duration,
    /// A description in sentences.
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
    /// The number of choices that were made, including usual ones.
    pub(crate) choice_count: u64,
    pub(crate) polls: u64,
    /// The spawn sites of the tasks that a choice was about.
    pub(crate) task_sites: BTreeMap<u64, &'static Location<'static>>,
    /// Describes the choices of chaos, by kind and number in its stream.
    pub(crate) fault_texts: BTreeMap<(ChoiceKind, u32), String>,
    /// The names of the hosts, the world first.
    pub(crate) hosts: Vec<Arc<str>>,
    /// The simulated time.
    pub(crate) elapsed: Duration,
    /// The log of messages, if the run kept one.
    pub(crate) messages: Vec<LoggedMessage>,
}

impl World {
    /// Calls code of the program outside of a task. A panic fails the run.
    pub(crate) fn call_program<R>(&self, host: HostId, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.fail_panic(host, "code outside of a task", payload);
                None
            }
        }
    }

    /// Fails the run because `what` panicked.
    pub(crate) fn fail_panic(&self, host: HostId, what: &str, payload: Box<dyn Any + Send>) {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let message = text.map_or(String::new(), |text| format!(": {text}"));
        self.fail(FailureKind::Panic, host, format!("{what} panicked{message}"));
        // The payload's destructor may panic as well.
        catch_and_forget(|| drop(payload));
    }
}
