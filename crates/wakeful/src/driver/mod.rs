//! Station 6, the driver: timers and I/O, and the poller that an idle thread waits in.
//!
//! - [`clock`]: the runtime's time, which may be paused. [`clock::tsc`] reads it faster, as an
//!   upper bound or approximately. A [`ClockNs`](clock::clock_ns::ClockNs) is a time in one word.
//! - [`poller`]: one worker's epoll instance. [`io_readiness`] is one descriptor registered with
//!   it; [`event_buffer`] is the epoll wait.
//! - [`uring`]: one worker's io_uring for files, registered with its poller. [`in_flight`] holds
//!   the operations that the kernel is executing.
//! - [`timers`]: one worker's timers, behind a spin lock. [`wheel`] is the data structure inside.
//!
//! A worker parks until its next timer is due: in its poller if [`Poller::needs_poll`], otherwise
//! in [`sys::park`](crate::sys::park). Control enters in two ways. The poll of a future registers a
//! timer or a descriptor. A worker calls [`Timers::fire_due`] and [`Poller::poll`] in each round.
//! Control leaves through the wakers.
//!
//! [`Poller::needs_poll`]: poller::Poller::needs_poll
//! [`Poller::poll`]: poller::Poller::poll
//! [`Timers::fire_due`]: timers::Timers::fire_due
#![allow(unsafe_code)]

pub(crate) mod clock;
mod event_buffer;
pub(crate) mod in_flight;
pub(crate) mod io_readiness;
pub(crate) mod poller;
pub(crate) mod timers;
pub(crate) mod uring;
pub(crate) mod wheel;

#[cfg(all(test, loom))]
mod models;
