//! Programs that look suspicious and are not.
//!
//! Each one ends by itself after [`LONG`] or [`VERY_LONG`]. No report about it may be proven. A suspected one may come only
//! where the table says so, because its text is then literally true.

mod guards;
mod queues;
mod stalls;
mod threads;
mod work;

use std::thread;
use std::time::Duration;

use super::child::SPIN_WINDOW;
use super::program::Innocent;

/// How long a suspicious situation lasts: longer than any detector waits before it reports, except for
/// situations that last.
const LONG: Duration = Duration::from_millis(2500);

/// How long a busy program goes on: longer than a task spins before it is reported.
const BUSY: Duration = SPIN_WINDOW.saturating_mul(2);

/// How long a suspicious wait lasts: longer than it takes to call it stalled.
const VERY_LONG: Duration = Duration::from_secs(11);

/// Runs a function on a thread of its own, after [`LONG`].
fn later(run: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        // The situation lasts in real time, and no result depends on how long.
        thread::sleep(LONG);
        run();
    });
}

pub fn all() -> Vec<Innocent> {
    let tables = [stalls::all(), guards::all(), queues::all(), threads::all(), work::all()];
    tables.into_iter().flatten().collect()
}
