//! Station 3, the run queues: where a runnable task waits for a worker.
//!
//! - [`ring`]: a worker's local queue, of fixed size. The worker pushes and pops; thieves steal
//!   half of it.
//! - [`lifo_slot`]: the LIFO slot of a worker. The task that was woken last runs next, while its
//!   data is still in the cache.
//! - [`injector`]: the queue that all workers share, for wakes from other threads and for tasks
//!   that do not fit into a ring.
//!
//! Each file describes its protocol at the top. A `Runnable` that enters a queue leaves it exactly once.
#![allow(unsafe_code)]

pub(crate) mod injector;
pub(crate) mod lifo_slot;
pub(crate) mod ring;

#[cfg(all(test, loom))]
mod models;
