//! The tests that are known to fail, and the kinds of reports that are known to come, each with its reason.
//!
//! A test that fails and is not listed makes the run fail. So does a report.

/// The reason of tests that watch an operation in tokio's io_uring.
const READY_AT_ONCE: &str = "The test expects that a poll of a file operation is pending. On wakeful the operation is \
     ready at once if the kernel can complete it without waiting.";

/// The suite, the file, the test, the reason. A file's reason may stand for all of its tests (`*`).
const REASONS: &[(&str, &str, &str, &str)] = &[
    ("tokio", "fs_uring_cancel_open", "*", READY_AT_ONCE),
    ("tokio", "fs_uring_completed_then_dropped_before_repoll", "*", READY_AT_ONCE),
    ("tokio", "fs_uring_read", "cancel_op_future", READY_AT_ONCE),
    ("tokio", "fs_uring_read", "shutdown_runtime_while_performing_io_uring_ops", READY_AT_ONCE),
    ("tokio", "fs_uring_rename", "cancel_op_future", READY_AT_ONCE),
    ("tokio", "fs_uring_rename", "shutdown_runtime_while_performing_io_uring_ops", READY_AT_ONCE),
    ("tokio", "fs_uring_runtime_shutdown", "*", READY_AT_ONCE),
    ("tokio", "fs_uring_statx", "cancel_op_future", READY_AT_ONCE),
    ("tokio", "fs_uring_statx", "shutdown_runtime_while_performing_io_uring_ops", READY_AT_ONCE),
    ("tokio", "fs_uring_statx_fd_leak_test", "*", READY_AT_ONCE),
    (
        "tokio",
        "fs_uring",
        "completion_waker_panic_preserves_uring",
        "The test expects that an operation is pending at first, and that its waker panics inside of `block_on`. On \
         wakeful the page cache or a thread of the pool may serve it.",
    ),
    (
        "tokio",
        "rt_metrics",
        "worker_total_busy_duration",
        "Fails sometimes on a busy machine. The test expects a busy time for every worker. On wakeful a worker that ran \
         no task has none, and one of two workers may run all five tasks.",
    ),
    (
        "tokio",
        "rt_unstable_metrics",
        "worker_overflow_count",
        "The test expects that the queue of a worker overflows with 300 tasks. On wakeful it holds 2048.",
    ),
    (
        "tokio",
        "rt_unstable_metrics",
        "schedule_latency_lifo_polls_are_recorded_individually",
        "A task blocks the only worker for 50 ms, and the test expects that another task waits behind it. On wakeful a \
         spare worker runs that task after 20 ms, and its polls are counted separately. With `rescue_after(None)` the counts \
         are tokio's.",
    ),
    (
        "tokio",
        "task_hooks",
        "task_hook_schedule_latency_multi_thread_lifo",
        "Fails sometimes. A spare worker may run the task that waits behind a blocked one before the 25 ms that the test \
         expects.",
    ),
    (
        "tokio",
        "rt_unstable_eager_driver_handoff",
        "deadlocks_consistently",
        "The test expects a deadlock: a task that blocks its worker blocks the driver too. On wakeful other workers \
         poll that driver, so there is no deadlock.",
    ),
];

pub fn reason(suite: &str, file: &str, test: &str) -> Option<&'static str> {
    let is_it = |entry: &&(&str, &str, &str, &str)| {
        entry.0 == suite && entry.1 == file && (entry.2 == test || entry.2 == "*")
    };
    REASONS.iter().find(is_it).map(|entry| entry.3)
}

/// The suite, the kind of report, and why the suite's tests cause it.
const REPORTS: &[(&str, &str, &str)] = &[
    (
        "tokio",
        "never polled",
        "Tests of shutdown spawn a task and drop the runtime at once. One test does so with a thousand runtimes.",
    ),
    (
        "tokio",
        "orphan",
        "The task awaits `pending()`, or a future that stores no waker. The test aborts it, or drops it with its set or \
         runtime.",
    ),
    (
        "tokio",
        "slow shutdown",
        "`rt_common::shutdown_timeout` leaves a closure behind that sleeps for hours.",
    ),
    (
        "tokio",
        "unobserved panic",
        "A task without a JoinHandle panics, in its poll or in its destructor. The test is about the destructor, or it fails \
         by that panic.",
    ),
    ("actix-rt", "blocked", "`join_another_arbiter` joins a thread inside of `block_on`, twice."),
    (
        "actix-server",
        "orphan",
        "The service awaits `pending()` after its reply, to be dropped with its server.",
    ),
    ("axum", "orphan", "The test's listener accepts one connection and then awaits `pending()`."),
    (
        "bb8",
        "blocked",
        "One poll of `join_all` polls 25,000 receivers, which takes more than 100 ms in a debug build.",
    ),
    (
        "hyper-util",
        "never polled",
        "A test ends right after its client or server has spawned a task of a connection.",
    ),
    ("hyper-util", "orphan", "A connection awaits `pending()`, to be dropped with its runtime."),
    (
        "hyper-util",
        "unobserved panic",
        "The client speaks the other version of HTTP, and the server's task unwraps the error.",
    ),
    (
        "quinn",
        "never polled",
        "A test makes an endpoint, which spawns a task, and ends without an await.",
    ),
    ("tokio-util", "never polled", "`runtime_gone` drops a runtime right after the spawn."),
    (
        "tokio-util",
        "orphan",
        "The task awaits `pending()`. The test aborts it, or drops it with its set.",
    ),
];

pub fn report_reason(suite: &str, kind: &str) -> Option<&'static str> {
    REPORTS.iter().find(|entry| entry.0 == suite && entry.1 == kind).map(|entry| entry.2)
}
