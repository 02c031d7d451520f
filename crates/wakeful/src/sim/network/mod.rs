//! The network of a simulation: sockets, connections and links between hosts.
//!
//! The sockets of a simulated host are the types of [`crate::net`]. Instead of a descriptor, such a
//! socket has a [`SimulatedSocket`], whose operations call this module instead of the kernel.
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
//! - `stream`: the transfer of bytes. `connection`: the two ends. `listener`: connecting and accepting.
//!   `datagram`: UDP.
//! - `timeout`: the time limits of an end. `disconnect`: the cleanup between two runs.
//! - `ports`: addresses, ports and names. `links`: latencies and faults.
//! - `peers`: the other ends of streams, for reports of deadlocks.
//! - `log`: the log of messages, if the run keeps one.
//! - `handle`: [`Network`], the lock around [`Net`], which also wakes tasks and schedules messages.
//! - `socket`: [`SimulatedSocket`].
//!
//! Every latency and fault is a choice of the oracle, and everything that arrives goes into the hash of
//! the run.

mod connection;
mod datagram;
mod disconnect;
mod handle;
mod links;
mod listener;
mod log;
mod peers;
mod ports;
mod socket;
mod state;
mod stream;
mod timeout;

pub(crate) use handle::Network;
pub(crate) use links::{Blocked, ChaosFaults, LinkRule, Route};
pub(crate) use log::{LoggedMessage, MessageFate};
pub(crate) use peers::StreamPeer;
pub(crate) use ports::ip_of;
pub(crate) use socket::{SimulatedSocket, inet};
pub(crate) use state::{Address, NetworkOracle, SocketKind};

#[cfg(all(test, not(loom)))]
mod tests;
