//! The catalogue: bugs that simulations find, each with a fixed twin.

pub mod clocks;
pub mod clusters;
pub mod history;
pub mod races;
pub mod register;
pub mod streams;
pub mod waits;

use std::pin::Pin;
use wakeful::sim::Sim;

/// The version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    Buggy,
    Fixed,
}

impl Twin {
    pub fn is_fixed(self) -> bool {
        self == Twin::Fixed
    }
}

type Program = fn(Sim, Twin) -> Pin<Box<dyn Future<Output = ()>>>;

/// One bug of the catalogue.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    /// The bug is found within this number of seeds.
    pub seeds: u64,
    pub program: Program,
}

macro_rules! entries {
    ($($module:ident::$name:ident, $seeds:literal, $about:literal;)+) => {
        /// All bugs.
        pub const CATALOGUE: &[Entry] = &[$(Entry {
            name: stringify!($name),
            about: $about,
            seeds: $seeds,
            program: |sim, twin| Box::pin($module::$name(sim, twin)),
        }),+];
    };
}

entries! {
    waits::lost_wakeup, 50, "a check, then a `notified()` created after the `notify_waiters` it needs";
    waits::stale_waker, 50, "a waker that is kept after the future moved to another task";
    waits::abba, 50, "two locks, taken in two orders";
    waits::futurelock, 50, "a future that is not polled any more keeps its place in the queue of a lock";
    races::order_across_senders, 50, "an order that is assumed across two senders";
    races::lost_update, 50, "read, await, write";
    clocks::expired_lease, 50, "a lease by wall clock, without a fencing token";
    streams::read_exact_in_select, 50, "`read_exact` in a loop with `select!`, which drops it with bytes that it has read";
    streams::one_read_one_message, 50, "one read is taken for one message";
    streams::applied_twice, 100, "a request that is repeated after a time-out is applied twice";
    clusters::no_quorum, 50, "a leader that is elected without a quorum";
    clusters::retry_storm, 50, "clients that repeat their requests without waiting longer each time";
}
