//! The tokio shim: wakeful under tokio's name, for programs that were written for tokio.
//!
//! Such programs run on wakeful unmodified, with this patch in their `Cargo.toml`:
//!
//! ```toml
//! [patch.crates-io]
//! tokio = { path = "…/wakeful/crates/tokio" }
//! ```
//!
//! `cargo wakeful` adds the patch by itself, for one command.
//!
//! This crate only re-exports items of wakeful. It has the names of tokio 1.54, under the same
//! features, and not the names that only wakeful has. For those, depend on `wakeful` as well: the
//! types and the runtime are the same.
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
//! `#[tokio::test]` has the arguments of tokio's. A test that provably can never return fails with the
//! proof and a dump of its tasks. A time limit for tests comes from the environment
//! variable `WAKEFUL_TEST_TIMEOUT`:
//!
//! ```compile_fail
//! #[tokio::test(timeout = "5s")]
//! async fn limited() {}
//! ```
//!
//! # What is left out
//!
//! - Of tokio's unstable API (`--cfg tokio_unstable`): events for `tracing`, and the stacks of task
//!   dumps. The rest is there: hooks with `TaskMeta`, all of `RuntimeMetrics` with its histograms,
//!   `task::Builder`, `UnhandledPanic`, `RngSeed`. `Handle::dump` can be awaited, and `trace()` of a
//!   task says what it waits for. `Trace::capture`, `Trace::root`, `resolve_backtraces` and
//!   `Handle::is_tracing` do not exist, and `id()` of a dumped task is an `Option`. The eager hand-off of the driver and the sharded queue of the blocking pool can be
//!   enabled and change nothing. Methods of the unstable API exist without the flag as well.
//! - `net::windows`, `signal::windows` and `io::bsd`: wakeful runs on Linux.

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
