//! Station 6, the driver: what a thread waits in when it has nothing to do.
//!
//! - [`clock`]: what time it is, as this runtime sees it; [`tsc`] answers faster,
//!   a little late, or about right; a [`clock_ns`] is a moment of it in one word.
//! - [`poller`]: one worker's I/O; a [`io_readiness`] is one descriptor in it.
//! - [`alarm`]: ends a wait in a poller after some time, whichever wait it is then.
//! - [`uring`]: one worker's ring for files, inside its poller; [`in_flight`] has
//!   the operations that the kernel works on.
//! - [`timers`]: one worker's timers, behind a small lock; [`wheel`] is the data
//!   structure inside.
//!
//! A worker parks until its next timer: in its poller while that has something
//! to watch or to let go of, in `sys::park` otherwise. Control enters by the poll of a future that
//! registers, and by `Timers::turn` and `Poller::turn`, which a worker calls once
//! per turn of its loop; it leaves through the wakers.
#![allow(unsafe_code)]

pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod in_flight;
pub(crate) mod io_readiness;
pub(crate) mod poller;
pub(crate) mod timers;
pub(crate) mod uring;
pub(crate) mod wheel;

#[cfg(all(test, loom))]
mod models;
