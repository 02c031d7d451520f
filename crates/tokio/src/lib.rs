//! The tokio shim: wakeful under tokio's name, for programs that are written for tokio.
//!
//! With this patch in their `Cargo.toml`, such programs run on wakeful unmodified:
//!
//! ```toml
//! [patch.crates-io]
//! tokio = { path = "…/wakeful/crates/tokio" }
//! ```
//!
//! `cargo wakeful` applies the patch for a single command, without editing `Cargo.toml`.
//!
//! This crate only re-exports items of wakeful. It has the names of tokio 1.54, under the same
//! features. To use the names that only wakeful has, depend on `wakeful` as well: the types and the
//! runtime are the same.
//!
//! # Examples
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
//! Names that only wakeful has do not exist here:
//!
//! ```compile_fail
//! use tokio::inspect;
//! ```
//!
//! ```compile_fail
//! use tokio::task::may_wait_forever;
//! ```
//!
//! `#[tokio::test]` accepts the arguments of tokio's macro. A test that provably can never return fails
//! with the proof and a dump of its tasks. The environment variable `WAKEFUL_TEST_TIMEOUT` sets a time
//! limit for tests; there is no argument for it:
//!
//! ```compile_fail
//! #[tokio::test(timeout = "5s")]
//! async fn limited() {}
//! ```
//!
//! # Missing parts
//!
//! Of tokio's unstable API (`--cfg tokio_unstable`), only `tracing` events and the stacks of task dumps
//! are missing. In detail:
//!
//! - Hooks with `TaskMeta`, all of `RuntimeMetrics` with its histograms, `task::Builder`,
//!   `UnhandledPanic` and `RngSeed` are included. Methods of the unstable API also exist without the
//!   flag.
//! - `Handle::dump` can be awaited, and `trace()` of a task shows what the task waits for.
//!   `Trace::capture`, `Trace::root`, `resolve_backtraces` and `Handle::is_tracing` do not exist, and
//!   `id()` of a dumped task is an `Option`.
//! - The eager hand-off of the driver and the sharded queue of the blocking pool can be enabled and
//!   change nothing.
//!
//! `net::windows`, `signal::windows` and `io::bsd` are missing because wakeful runs on Linux only.

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

/// Empty, as in tokio: streams are in the crate `tokio-stream`.
pub mod stream {}

pub use wakeful::pin;

#[cfg(feature = "rt")]
pub use wakeful::{spawn, task_local};

#[cfg(feature = "macros")]
pub use wakeful::{join, select, try_join};
#[cfg(feature = "macros")]
pub use wakeful_macros::{tokio_main as main, tokio_test as test};
