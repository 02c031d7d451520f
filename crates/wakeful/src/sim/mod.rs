//! Deterministic simulation: runs a whole system on one thread, in an order that a seed decides.
//!
//! A bug that needs a rare order of events appears once in a thousand runs, and never under a debugger.
//! In a simulation the seed decides the order, so the same seed repeats the failure. Tasks, timers,
//! locks, channels, sockets and blocking closures are the production types; no type is replaced by a
//! mock.
//!
//! - [`Simulation`] runs a program once. Its [`Outcome`] says why the run failed.
//! - [`Sim`] is the program's handle to the simulation. It adds hosts, and checks conditions.
//! - [`Host`] is a machine with its own tasks, timers and [clock](HostClock). It can be killed,
//!   restarted and paused.
//! - [`Network`] connects the hosts. It sets latencies and faults, and makes partitions.
//! - [`Chaos`] selects the faults that strike hosts and the network at random times.
//! - [`choose`], [`maybe`] and [`system_time`] are for code that also runs outside a simulation.
//! - [`Builder::new_simulated`](crate::runtime::Builder::new_simulated) builds a simulated runtime, for
//!   a program that has its own `block_on`.
//!
//! # Examples
//!
//! Twenty runs of a thousand simulated seconds each, which take no real time:
//!
//! ```
//! use std::time::Duration;
//! use wakeful::sim::Simulation;
//! use wakeful::time::{sleep, timeout};
//!
//! for seed in 0..20 {
//!     let outcome = Simulation::new(seed).run(|sim| async move {
//!         let (tx, rx) = wakeful::sync::oneshot::channel();
//!         sim.client("slow", async move {
//!             sleep(Duration::from_secs(1_000)).await;
//!             tx.send("done").unwrap();
//!         });
//!         assert_eq!(timeout(Duration::from_secs(2_000), rx).await, Ok(Ok("done")));
//!     });
//!     outcome.unwrap();
//! }
//! ```
//!
//! # Limits
//!
//! - Files, pipes, `UnixDatagram`, `AsyncFd`, IPv6, multicast, child processes, signals and
//!   `block_in_place` are refused, each with an error or a panic that names it.
//! - A simulated socket has no descriptor. `as_fd` lends another socket, which is not connected and
//!   only keeps the options that the program sets.
//! - Code between two awaits is atomic, so races on `std` atomics do not show.
//! - Closures of `spawn_blocking` run in one poll on the simulation's thread, and must not block.
//! - Statics are shared by all hosts, and by all runs of a process.
//! - The seed does not decide what the standard library returns: `std::time::Instant::now`,
//!   `SystemTime::now`, and the order of a `HashMap` with the default hasher. Use [`crate::time`],
//!   [`system_time`] and a `BTreeMap`.
//!
//! # For readers of the source
//!
//! A simulated runtime is one more flavor of the runtime, and shares its types with the other flavors.
//! Each host has a current-thread scheduler, timers and a clock. The world replaces the scheduler's loop:
//! it decides which task is polled next.
//!
//! ```text
//! diagram
//!   block_on ──► poll_next(), else advance() ──► choose(): which host, which task, which budget
//!                  │    ▲                         └► recorded, hashed, replayed
//!               poll()  │
//!                  ▼    │
//!   host 1 (runtime)   host 2 (runtime)   host 3 …      each: tasks, timers, HostTime
//!                  │    ▲
//!          schedule()   fire()
//!                  ▼    │
//!               event heap
//! ```
//!
//! - `oracle`: makes every choice of a run, by a strategy or from a recorded list.
//! - `hash`: the rolling hash of a run, and the first difference between two runs.
//! - `network`: sockets, connections, and the links between hosts.
//! - `world`: the hosts, the event heap, the time, and the step that the run repeats.
//! - `strategy`: the order of tasks, the polls that are cut short, and the faults that happen.
//! - `shrink`: reduces the choices of a failing run.
//! - `shown_numbers`: the names of resources in the texts of a run.
//! - `api`: the public types of one run. `explore`: runs many seeds, and shrinks a failure. Only these
//!   two modules use the runtime.
//!
//! The world holds the runners of its hosts, which hold the runtimes. A runtime holds its world in its
//! environment. The world breaks the cycle: it drops a runner when the host goes down, and all runners at
//! the end of `block_on`.

#[cfg(all(feature = "rt", feature = "sync"))]
mod api;
#[cfg(all(feature = "rt", feature = "sync"))]
mod explore;
pub(crate) mod hash;
pub(crate) mod network;
pub(crate) mod oracle;
pub(crate) mod shown_numbers;
pub(crate) mod shrink;
pub(crate) mod strategy;
pub(crate) mod world;

#[cfg(all(feature = "rt", feature = "sync"))]
pub use api::{
    Chaos, Host, HostClock, Outcome, ProgramOutput, Sim, Simulation, choose, maybe, system_time,
};
#[cfg(all(feature = "rt", feature = "sync", feature = "net"))]
pub use api::{Link, NamedHost, Network};
#[cfg(all(feature = "rt", feature = "sync"))]
#[doc(hidden)]
pub use explore::run_test;
#[cfg(all(feature = "rt", feature = "sync"))]
pub use explore::{ExploreError, Explored, Explorer};
pub use world::FailureKind;
