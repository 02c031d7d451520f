//! wakeful: an async runtime that is fast, and can tell why a task is not running.
//!
//! The API has the shape of tokio's. What is different: a task that can never
//! run again, because no waker for it is left, is named instead of hanging
//! silently, and so are deadlocks, blocked threads and lost panics; see [`inspect`].
//!
//! ```
//! #[wakeful::main]
//! async fn main() {
//!     let answer = wakeful::spawn(async { 6 * 7 });
//!     assert_eq!(answer.await.unwrap(), 42);
//! }
//! ```
//!
//! The Cargo features are tokio's. `full` is on by default. `test-util` is not part of it: enable it
//! for the paused clock, usually under `[dev-dependencies]`.
//!
//! The walk of a task through the code is drawn in ARCHITECTURE.md; every file on it
//! opens with the station that it serves.
#![deny(unsafe_code)]
// Without some of the features, some of what the others share has no use.
#![cfg_attr(not(all(feature = "full", feature = "test-util")), allow(dead_code, unused_imports))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "wakeful runs on Linux only: it needs epoll, io_uring, eventfd, timerfd and /proc. On other systems, use tokio: \
     leave out the `[patch.crates-io]` entry, or make the dependency on wakeful one of `cfg(target_os = \"linux\")`."
);

#[cfg(feature = "fs")]
pub mod fs;
pub mod inspect;
pub mod io;
#[macro_use]
#[doc(hidden)]
pub mod macros;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "process")]
pub mod process;
pub mod runtime;
#[cfg(feature = "signal")]
pub mod signal;
#[cfg(feature = "sync")]
pub mod sync;
pub mod task;
#[cfg(feature = "time")]
pub mod time;

mod driver;
mod queue;
mod scheduler;
mod sys;
mod telemetry;
mod wait;
mod watchdog;

#[cfg(feature = "rt")]
pub use task::spawn;

#[cfg(feature = "macros")]
pub use wakeful_macros::{main, test};
