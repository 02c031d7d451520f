//! Station 3, the queues: where a runnable task waits for a worker.
//!
//! - [`ring`]: each worker's own, fixed size; the worker pushes and pops, thieves
//!   take half.
//! - [`lifo_slot`]: each worker's run-next slot: the task woken last runs first, while
//!   what it needs is still in the cache.
//! - [`injector`]: shared by all; for wakes from outside and for what does not
//!   fit into a ring.
//!
//! Each file keeps its protocol at its top. What goes in is a `Runnable`, and
//! what comes out is the same, exactly once.
#![allow(unsafe_code)]

pub(crate) mod injector;
pub(crate) mod lifo_slot;
pub(crate) mod ring;

#[cfg(all(test, loom))]
mod models;
