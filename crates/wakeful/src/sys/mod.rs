//! Operating system and synchronization primitives for the other modules.
//!
//! - [`sync`]: the switch between std's primitives and loom's. [`spin_lock`], [`membarrier`]: locks
//!   and barriers for hot paths.
//! - [`park`]: parks a thread. [`adaptive_spin`]: decides when to spin before parking. [`timer_slack`]:
//!   how late the kernel may wake the thread. [`timer_fd`]: a timeout that other threads can change.
//! - [`thread_registry`]: the threads of runtimes. [`thread_state`], [`backtrace`], [`system_call`]:
//!   what a thread is doing, its stack, and the system call that blocks it. [`join`]: joins ended
//!   threads. [`signal_mask`]: the signals with handlers. `thread_image`: detects changes of
//!   thread-locals.
//! - [`eintr`]: repeats interrupted system calls. [`unwind`]: catches panics of foreign code.
//! - [`own_memory`]: reads memory through the kernel. [`mapped_file`]: a file in memory. [`descriptor`]:
//!   describes a file descriptor.
//! - [`rng`]: seeded random numbers. [`sort`]: sorts with little machine code. [`real_time`]: time that
//!   no runtime can pause. [`spin_window`]: how long a task spins before it is reported.
//!
//! This is the only module that reads `cfg(loom)` outside of tests. All others take atomics, cells
//! and locks from [`sync`], so the code that ships is the code that is model-checked.

pub(crate) mod adaptive_spin;
pub(crate) mod backtrace;
pub(crate) mod descriptor;
pub(crate) mod eintr;
pub(crate) mod join;
pub(crate) mod mapped_file;
pub(crate) mod membarrier;
#[cfg(any(all(test, loom), miri))]
pub(crate) mod no_thread_state;
pub(crate) mod own_memory;
pub(crate) mod park;
pub(crate) mod real_time;
pub(crate) mod rng;
pub(crate) mod signal_mask;
pub(crate) mod sort;
pub(crate) mod spin_lock;
pub(crate) mod spin_window;
pub(crate) mod sync;
pub(crate) mod system_call;
#[cfg(all(feature = "rt", feature = "sync"))]
pub(crate) mod thread_image;
pub(crate) mod thread_registry;
#[cfg(not(any(all(test, loom), miri)))]
pub(crate) mod thread_state;
pub(crate) mod timer_fd;
pub(crate) mod timer_slack;
pub(crate) mod unwind;
#[cfg(any(all(test, loom), miri))]
pub(crate) use no_thread_state as thread_state;

/// Whether this is a build of the loom models, where types are larger and capacities smaller.
pub(crate) const IS_MODEL: bool = cfg!(all(test, loom));
