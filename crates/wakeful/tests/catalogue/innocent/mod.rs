//! Programs that look suspicious and are not.
//!
//! Each one ends by itself after [`LONG`]. No report about it may be proven. A suspected one may come only
//! where the table says so, because its text is then literally true.

mod guards;
mod queues;
mod threads;
mod work;

use std::thread;
use std::time::Duration;

use super::program::Innocent;

/// How long a suspicious situation lasts: longer than any detector waits before it reports.
const LONG: Duration = Duration::from_millis(2500);

/// Runs a function on a thread of its own, after [`LONG`].
fn later(run: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        // The situation lasts in real time, and no result depends on how long.
        thread::sleep(LONG);
        run();
    });
}

pub fn all() -> Vec<Innocent> {
    [guards::all(), queues::all(), threads::all(), work::all()].into_iter().flatten().collect()
}
