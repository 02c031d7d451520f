//! A stub of `thread_state` for loom models and Miri, where the kernel cannot be queried.

use std::time::Duration;

/// The CPU time and the run-queue time of a thread, which are not available here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) cpu: Duration,
    pub(crate) queued: Duration,
}

pub(crate) fn is_blocked(_thread: i32) -> bool {
    true
}

pub(crate) fn is_runnable(_thread: i32) -> bool {
    false
}

pub(crate) fn is_in_timed_sleep(_thread: i32) -> bool {
    false
}

pub(crate) fn is_starting_process(_thread: i32) -> bool {
    false
}

pub(crate) fn run_times(_thread: i32) -> Option<CpuTimes> {
    None
}

pub(crate) fn thread_ids() -> impl Iterator<Item = i32> {
    std::iter::empty()
}

pub(crate) fn cpu_time(_thread: i32) -> Option<Duration> {
    None
}
