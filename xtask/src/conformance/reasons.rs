//! The tests that are known to fail, each with the deliberate difference that causes it.
//!
//! A test that fails and is not listed makes the run fail.

/// The suite, the file, the test, the reason. A file's reason may stand for all of its tests (`*`).
const REASONS: &[(&str, &str, &str, &str)] = &[
    (
        "tokio",
        "rt_metrics",
        "worker_total_busy_duration",
        "Fails sometimes on a busy machine. The test expects a busy time for every worker. On wakeful a worker that ran \
         no task has none, and one of two workers may run all five tasks.",
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
