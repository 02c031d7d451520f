//! The duties of callers after transitions of the state word.
//!
//! Each transition of `state` returns one of these enums, so that no caller forgets its duty.

/// The duty of a worker with a task that it took from a queue.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Poll,
    /// Poll; a spare waker was counted (TASK-6).
    PollWithSpare,
    /// Drop the future instead of polling it.
    Cancel,
}

/// The duty of a worker after a poll that returned `Pending`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndPoll {
    /// The task waits. The caller must not access it again.
    Idle,
    /// The task was woken during the poll: push its entry to a queue.
    Requeue,
    /// The task was cancelled during the poll, and is still RUNNING: drop the future.
    Cancel,
    /// The task waits and has no waker: report an orphan, for which a handle was counted.
    Orphan,
}

/// The duty of a worker after the output is stored.
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

/// The duty of the caller of a wake or an abort.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Nothing,
    /// A queue entry was created: push it.
    Schedule,
    /// This was the last reference: free the cell.
    Free,
}

/// The duty of a caller that drops a reference.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Nothing,
    Free,
    /// The last waker of a waiting task was dropped: report an orphan, for which a handle was
    /// counted.
    Orphan,
}

/// The duty of a JoinHandle that is being dropped.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DropJoin {
    /// Nothing: the reference is already released.
    Nothing,
    Free,
    /// Drop the join waker (TASK-2), then call `drop_handle`.
    DropWaker,
    /// Drop the output (TASK-1), then call `drop_handle`.
    DropOutput,
}

/// The duty of the thread that shuts a scheduler down, for one cell.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Nothing: there is no future, or a poll is running.
    Nothing,
    /// The caller has the right of TASK-1: drop the future and complete the task.
    DropFuture,
}
