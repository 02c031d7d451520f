//! Loom models of the synchronization primitives.

mod broadcast;
mod counting_waker;
mod locks;
mod mpsc;
mod notify;
mod once_cell;
mod oneshot;
mod raw_semaphore;
mod watch;
