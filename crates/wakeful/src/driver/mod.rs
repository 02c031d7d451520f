//! Station 6, the driver: what a thread waits in when it has nothing to do.
//!
//! So far this is the clock; threads park in `sys::park`.

pub(crate) mod clock;
