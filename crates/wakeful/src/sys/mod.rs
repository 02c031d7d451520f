//! What the other rooms stand on: the std/loom switch, memory barriers, a
//! parking spot for a thread, which threads are the runtimes' own, what another thread does and where it is, when to spin before parking and how late to wake up
//! after it, small random numbers, a descriptor in words, joining threads that have ended, and the
//! system's errors.
//!
//! This is the only room that reads `cfg(loom)`. Everything else takes its
//! atomics, cells and locks from [`sync`], so the code that ships is the code
//! that is model-checked.

pub(crate) mod adaptive_spin;
pub(crate) mod backtrace;
pub(crate) mod descriptor;
pub(crate) mod join;
pub(crate) mod membarrier;
#[cfg(any(all(test, loom), miri))]
pub(crate) mod no_thread_state;
pub(crate) mod park;
pub(crate) mod rng;
pub(crate) mod spin_lock;
pub(crate) mod sync;
pub(crate) mod thread_registry;
#[cfg(not(any(all(test, loom), miri)))]
pub(crate) mod thread_state;
pub(crate) mod timer_slack;
#[cfg(any(all(test, loom), miri))]
pub(crate) use no_thread_state as thread_state;

/// Whether this build is for the models: types are larger then, and what has a
/// size should have a small one.
pub(crate) const IS_MODEL: bool = cfg!(all(test, loom));
