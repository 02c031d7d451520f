//! Station 6, the driver: what a thread waits in when it has nothing to do.
//!
//! - [`clock`]: what time it is, as this runtime sees it; [`soon`] answers faster
//!   and a little late.
//! - [`timers`]: one worker's timers, behind a small lock; [`wheel`] is the data
//!   structure inside.
//!
//! A worker parks (in `sys::park`) until its next timer. Control enters by the
//! poll of a `Sleep`, which registers, and by `Timers::turn`, which a worker
//! calls once per turn of its loop; it leaves through the wakers.
#![allow(unsafe_code)]

pub(crate) mod clock;
mod soon;
pub(crate) mod timers;
pub(crate) mod wheel;
