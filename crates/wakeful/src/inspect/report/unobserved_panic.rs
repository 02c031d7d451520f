//! A panic that nobody was told of.

use crate::inspect::task_info::TaskInfo;
use crate::task::header::Header;
use crate::task::state::BLOCKING;
use std::any::Any;
use std::fmt;

/// A task panicked, and its JoinHandle was dropped without having been awaited.
#[derive(Clone, Debug)]
pub struct UnobservedPanic {
    task: TaskInfo,
    /// It is one of `spawn_blocking`.
    is_closure: bool,
    message: Option<String>,
}

impl UnobservedPanic {
    pub(crate) fn new(task: &Header, payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let is_closure = task.state.load().has(BLOCKING);
        Self { task: TaskInfo::of_task(task), is_closure, message }
    }

    /// The task.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// What it panicked with, if that is a text.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl fmt::Display for UnobservedPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} panicked and nobody looked", self.task)?;
        if let Some(message) = &self.message {
            write!(f, ": {message:?}")?;
        }
        write!(
            f,
            ".\n  spawned at {}\n  Its JoinHandle was dropped, so the panic ended with the task. Keep the \
             handle and await it, {}.",
            self.task.spawned_at(),
            match self.is_closure {
                true => "or collect closures in a JoinSet (JoinSet::spawn_blocking)",
                false =>
                    "collect tasks in a JoinSet, or let \
                     Builder::unhandled_panic(UnhandledPanic::ShutdownRuntime) end the program's \
                     runtime",
            }
        )
    }
}
