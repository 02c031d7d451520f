//! Simulation: tasks, time and network of many hosts on one thread, in an order that a seed decides.
//!
//! A simulated runtime is one more flavor of the runtime: its types are those of the other flavors.
//! Every host has a current-thread scheduler, timers and a clock of its own. Instead of the scheduler's
//! loop, the world decides which task is polled next.
//!
//! ```text
//!   block_on ──► World::step ──► Oracle: which host, which task, which budget
//!                  │    ▲                    └► recorded, hashed, replayed
//!      HostRunner::poll │
//!                  ▼    │
//!   host 1 (runtime)  host 2 (runtime)  host 3 …      each: tasks, timers, HostTime
//!                  │    ▲
//!    World::schedule    EventTarget::fire
//!                  ▼    │
//!              event heap ◄── network
//! ```
//!
//! - [`oracle`]: makes every choice of a run, by a strategy or from a recorded list.
//! - [`hash`]: the rolling hash of a run, and where two runs differ.
//! - [`world`]: the hosts, the event heap, the time, and the step that the run repeats.
//! - [`socket`]: how the sockets of `net` reach the network of the world.
//!
//! The world holds the runners of its hosts, which hold the runtimes. A runtime holds its world in its
//! environment, and lets go of it when its host goes down.

#![allow(dead_code)]

pub(crate) mod hash;
pub(crate) mod oracle;
pub(crate) mod socket;
pub(crate) mod world;
