//! What the caller of a transition of the state word has to do next.
//!
//! Each transition of `state` returns one of these, so that no caller forgets its part.

/// What the worker does with a task that it took from a queue.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Poll,
    /// Poll; a spare waker was counted (TASK-6).
    PollWithSpare,
    /// Drop the future instead of polling it.
    Cancel,
}

/// What the worker does after a poll that returned `Pending`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndPoll {
    /// The task waits. The caller must not access it any more.
    Idle,
    /// The task was woken during the poll: push its entry to a queue.
    Requeue,
    /// The task was cancelled during the poll, and is still RUNNING: drop the future.
    Cancel,
    /// The task waits and nothing can wake it. A handle was counted for the report.
    Orphan,
}

/// What the worker does after the output is stored.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Complete {
    /// Nothing: the output is for the JoinHandle.
    Done,
    /// Take the join waker and wake it, then call `release_running`.
    WakeJoiner,
    /// There is no JoinHandle: drop the output, then call `release_running`.
    DropOutput,
}

/// What the caller of a wake or an abort has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Nothing,
    /// A queue entry was made: push it.
    Schedule,
    /// This was the last reference: free the cell.
    Free,
}

/// What the caller that drops a reference has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Nothing,
    Free,
    /// The last waker was dropped while the task waits. A handle was counted for the report.
    Orphan,
}

/// What a JoinHandle that is dropped has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DropJoin {
    /// Nothing: its reference is already released.
    Nothing,
    Free,
    /// Drop the join waker (TASK-2), then call `drop_handle`.
    DropWaker,
    /// Drop the output (TASK-1), then call `drop_handle`.
    DropOutput,
}

/// What the thread that shuts a scheduler down has to do with a cell.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Nothing: there is no future, or a poll is running.
    Nothing,
    /// The caller has the right of TASK-1: drop the future and complete the task.
    DropFuture,
}
