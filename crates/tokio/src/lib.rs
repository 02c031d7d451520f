//! wakeful under tokio's name, so that programs written for tokio run on it unmodified.
//!
//! ```toml
//! [patch.crates-io]
//! tokio = { path = "…/wakeful/crates/tokio" }
//! ```
//!
//! Everything here is wakeful's: this crate has no logic of its own. It names what tokio 1.54 names, under the same
//! features, and leaves out what only wakeful has. For that, depend on `wakeful` beside it: the types are the same, and
//! so is the runtime.
//!
//! ```
//! # #[cfg(feature = "full")]
//! #[tokio::main]
//! async fn main() {
//!     let answer = tokio::spawn(async { 6 * 7 });
//!     assert_eq!(answer.await.unwrap(), 42);
//! }
//! # #[cfg(not(feature = "full"))]
//! # fn main() {}
//! ```
//!
//! What only wakeful has is not here:
//!
//! ```compile_fail
//! use tokio::inspect;
//! ```
//!
//! ```compile_fail
//! use tokio::task::may_wait_forever;
//! ```
//!
//! # What is left out
//!
//! tokio's unstable API (`--cfg tokio_unstable`) is here only where wakeful has the same thing: `task::Builder`,
//! `task::join_set`, `runtime::UnhandledPanic`, `runtime::RngSeed`. Not here are the unstable metrics and
//! histograms, task dumps, hooks with `TaskMeta`, and events for `tracing`: what wakeful knows of its tasks is in
//! `wakeful::inspect`, without a flag. `net::windows`, `signal::windows` and `io::bsd` are not here: wakeful
//! runs on Linux.

#[cfg(feature = "fs")]
pub mod fs;
pub mod io;
#[doc(hidden)]
pub mod macros;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "rt")]
pub mod runtime;
#[cfg(feature = "signal")]
pub mod signal;
#[cfg(feature = "sync")]
pub mod sync;
#[cfg(feature = "rt")]
pub mod task;
#[cfg(feature = "time")]
pub mod time;

/// Empty: streams are in the crate `tokio-stream`.
pub mod stream {}

pub use wakeful::pin;

#[cfg(feature = "rt")]
pub use wakeful::{spawn, task_local};

#[cfg(feature = "macros")]
pub use wakeful::{join, select, try_join};
#[cfg(feature = "macros")]
pub use wakeful_macros::{tokio_main as main, tokio_test as test};
