//! The load generator: one thread and one epoll, the same for both runtimes.
//!
//! The closed loop keeps a fixed number of requests in flight, and finds the highest rate. The open loop starts
//! requests at times that a [`schedule`] fixes beforehand. Its latencies count from those times, so a server that
//! stalls cannot hide the requests that were due meanwhile (no coordinated omission).
//!
//! | file | what it is |
//! | --- | --- |
//! | `schedule.rs` | when requests are due |
//! | `backlog.rs` | requests that are due, and their latencies |
//! | `histogram.rs` | latencies in buckets |
//! | `protocol/` | requests and answers as bytes |
//! | `connection.rs` | one connection, with TLS if the row says so |
//! | `driver.rs` | the two loops |
//! | `idle.rs` | connections that stay open and do nothing |

mod backlog;
pub mod connection;
pub mod driver;
pub mod histogram;
pub mod idle;
pub mod protocol;
mod schedule;
