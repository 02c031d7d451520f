//! `thread_state` for loom models and Miri, where the kernel cannot be asked about a thread.

use std::time::Duration;

/// The CPU time and the run-queue time of a thread. No thread has any here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunTimes {
    pub(crate) had: Duration,
    pub(crate) delayed: Duration,
}

pub(crate) fn is_waiting(_thread: i32) -> bool {
    true
}

pub(crate) fn is_ready(_thread: i32) -> bool {
    false
}

pub(crate) fn waits_for_no_thread(_thread: i32) -> bool {
    false
}

pub(crate) fn starts_process(_thread: i32) -> bool {
    false
}

pub(crate) fn run_times(_thread: i32) -> Option<RunTimes> {
    None
}

pub(crate) fn threads() -> impl Iterator<Item = i32> {
    std::iter::empty()
}

pub(crate) fn processor_time(_thread: i32) -> Option<Duration> {
    None
}
