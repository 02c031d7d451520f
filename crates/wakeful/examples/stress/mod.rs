//! The kinds of stress: hostile but safe programs made of random choices that a seed repeats, each with an oracle.
//!
//! `cargo xtask stress` runs them for long under the address sanitizer; `tests/stress_kinds.rs` runs a few rounds of
//! each. A kind is one file with one function, `round`. [`round`] has the shared support, [`runner`] runs rounds and
//! compares the process before and after each: threads, descriptors, children, memory.
//!
//! Two cases have their own tests and are left out here: `block_on` inside `block_in_place` while the runtime closes,
//! and deadlines that are millions of years away.

#[path = "../../tests/support/counting.rs"]
pub mod counting;
pub mod process_state;
#[path = "../../tests/support/rng.rs"]
pub mod rng;
pub mod round;
pub mod runner;
pub mod watchdog;

mod files;
mod forks;
mod future_list;
mod futures;
mod inspection;
mod io_objects;
mod local_sets;
mod processes;
mod runtimes;
mod signals;
mod thread_locals;

use round::Round;

/// One way to attack the runtime.
pub struct Kind {
    pub name: &'static str,
    /// A description of the rounds, for `--list`.
    pub about: &'static str,
    /// Runs one round. Panics if the kind's oracle finds a fault.
    pub round: fn(&mut Round),
    /// Whether rounds leak memory on purpose, so that the runner does not compare it.
    pub forgets: bool,
}

macro_rules! kind {
    ($name:ident, $about:literal) => {
        Kind { name: stringify!($name), about: $about, round: $name::round, forgets: false }
    };
}

pub const KINDS: &[Kind] = &[
    kind!(
        runtimes,
        "runtimes end in seven ways; wakers, handles and panicking destructors outlive them"
    ),
    Kind {
        forgets: true,
        ..kind!(futures, "futures are forgotten or dropped after a poll; wakers panic and reenter")
    },
    kind!(io_objects, "sockets, pipes and timers move between runtimes that end"),
    kind!(thread_locals, "destructors of thread-locals use runtimes, tasks and channels"),
    kind!(local_sets, "local sets are nested and dropped out of order"),
    kind!(inspection, "dumps, diagnoses, traces and metrics are taken while tasks churn"),
    kind!(files, "reads and writes are in flight on a ring or the pool when everything is dropped"),
    kind!(processes, "child processes are killed, dropped and orphaned"),
    kind!(signals, "signals are raised while listeners come, go and lose their runtime"),
    kind!(forks, "the process forks while its runtime works"),
];
