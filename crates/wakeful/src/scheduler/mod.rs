//! Stations 3, 4 and 6: schedulers decide which task runs next on which thread,
//! and what a thread does that finds none.
//!
//! - [`multi`]: the work-stealing scheduler; [`worker`] is the loop of one of
//!   its threads, [`core`] what such a thread works with, [`idle`] the sleep protocol,
//!   [`monitor`] watches for workers that are stuck in a poll ([`watch`] is what it sees
//!   of them) and for tasks that spin ([`spinners`]), [`spare`] threads stand in for those
//!   workers, [`meter`] counts sleeps and time at work, in [`histogram`]s where it matters
//!   how they are spread ([`probe`] measures how long tasks wait for their turn),
//!   [`pace`] knows how long polls last, a [`recorder`] notes what happens if it is on, and
//!   [`attendance`] is who is still there at the end.
//! - [`current`]: everything on the thread that calls `block_on`; [`holder`] is what that
//!   works with, [`quiet`] knows when it has had nothing to do for long, and the [`warden`]
//!   watches all of these.
//! - [`local`]: sets of tasks that stay on one thread, whoever polls them there;
//!   [`pollers`] says how those are woken, [`inside`] how a thread finds its set.
//! - [`starvation`]: how long threads of the process lacked a CPU, which is not the fault of a poll.
//! - [`pool`]: threads for closures that block.
//! - [`root`]: the future of `block_on` itself, which is no task; a [`vigil`] is when whoever
//!   looks who waits for whom may stop.
//! - [`look`]: what those see who ask why a task does not run.
//! - [`config`]: what the builder decided, and the hooks to the rooms above.
//!
//! A scheduler is the home of its tasks (`task::heap::Home`): control enters by
//! `spawn`, by `schedule` from a waker, and by `block_on`; it leaves into
//! `Runnable::run`.
#![allow(unsafe_code)]

mod attendance;
pub(crate) mod config;
mod core;
pub(crate) mod current;
pub(crate) mod estate;
pub(crate) mod histogram;
mod holder;
pub(crate) mod idle;
pub(crate) mod inside;
pub(crate) mod local;
pub(crate) mod look;
mod lost;
pub(crate) mod meter;
pub(crate) mod monitor;
pub(crate) mod multi;
mod pace;
pub(crate) mod pollers;
pub(crate) mod pool;
mod probe;
mod quiet;
pub(crate) mod recorder;
pub(crate) mod root;
pub(crate) mod spare;
mod spinners;
mod starvation;
mod vigil;
pub(crate) mod warden;
pub(crate) mod watch;
pub(crate) mod worker;

#[cfg(all(test, loom))]
mod loom_attendance;
#[cfg(all(test, loom))]
mod loom_idle;
#[cfg(all(test, loom))]
mod loom_lost;
#[cfg(all(test, loom))]
mod loom_vigil;
