//! The network of a simulation: sockets, connections and links between hosts.
//!
//! Sockets of a simulated host are the types of [`crate::net`]. Such a socket has no descriptor, but a
//! [`SimulatedSocket`]. Its operations come here, where the real ones would call the kernel.
//!
//! ```text
//! diagram
//!   net::TcpStream ──► PollEvented ──► SimulatedSocket ──► Network ──► Net
//!                          ▲                                  │
//!                          │          readiness               ▼
//!                          └───────────────────────────── with_net() ──► the world's event heap
//! ```
//!
//! - `state`: [`Net`], the sockets and connections of all hosts. It uses no runtime.
//! - `stream`: how bytes travel. `connection`: the two ends. `listener`: how they begin. `datagram`: UDP.
//! - `timeout`: when an end gives up. `leave`: what remains between two runs.
//! - `ports`: addresses, ports and names. `links`: latencies and faults.
//! - `log`: the log of messages, if the run keeps one.
//! - `handle`: [`Network`], the lock around [`Net`], and what it wakes and schedules.
//! - `socket`: [`SimulatedSocket`].
//!
//! Every latency and fault is a choice of the oracle, and everything that arrives goes into the hash of
//! the run.

mod connection;
mod datagram;
mod handle;
mod leave;
mod links;
mod listener;
mod log;
mod ports;
mod socket;
mod state;
mod stream;
mod timeout;

pub(crate) use handle::Network;
pub(crate) use links::{Blocked, LinkRule, Route};
pub(crate) use log::{LoggedMessage, Passage};
pub(crate) use ports::ip_of;
pub(crate) use socket::{SimulatedSocket, inet};
pub(crate) use state::{Address, Dice, SocketKind};

#[cfg(all(test, not(loom)))]
mod tests;
