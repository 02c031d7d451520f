//! An async runtime for Linux with tokio's API that reports why a task is not running.
//!
//! The API is tokio's: `spawn`, channels and locks, timers, sockets, files, processes and signals
//! have the same names and signatures. The runtime also monitors itself, even in release builds. It
//! reports deadlocks, blocked worker threads, unobserved panics, and tasks that nothing can wake
//! any more. Each report names the source line and suggests a fix. See [`inspect`].
//!
//! # When to use it
//!
//! - Depend on `wakeful` for a new program, or for one whose dependencies do not need tokio's
//!   runtime.
//! - Patch `tokio` with the package in `crates/tokio` if a dependency needs tokio's runtime, such
//!   as hyper or axum. `cargo wakeful test` does so for one command. The patched package re-exports
//!   wakeful, so the types of both crates are the same.
//!
//! Without the patch, a dependency that calls `tokio::spawn` or opens a tokio socket panics,
//! because there is no tokio runtime.
//!
//! # Examples
//!
//! ```
//! #[wakeful::main]
//! async fn main() {
//!     let answer = wakeful::spawn(async { 6 * 7 });
//!     assert_eq!(answer.await.unwrap(), 42);
//! }
//! ```
//!
//! A TCP server with one task per connection:
//!
//! ```no_run
//! use wakeful::io::{AsyncReadExt, AsyncWriteExt};
//! use wakeful::net::TcpListener;
//!
//! #[wakeful::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:8080").await?;
//!     loop {
//!         let (mut stream, _peer) = listener.accept().await?;
//!         wakeful::spawn(async move {
//!             let mut buf = [0; 1024];
//!             while let Ok(len @ 1..) = stream.read(&mut buf).await {
//!                 if stream.write_all(&buf[..len]).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         });
//!     }
//! }
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! | --- | --- |
//! | [`task`] | `spawn`, `spawn_blocking`, `JoinHandle`, `JoinSet`, `LocalSet` |
//! | [`runtime`] | `Builder`, `Runtime`, `Handle`, metrics |
//! | [`sync`] | `Mutex`, `RwLock`, `Semaphore`, `Notify`, `mpsc` and other channels |
//! | [`time`] | `sleep`, `interval`, `timeout` |
//! | [`net`] | TCP, UDP and Unix sockets, pipes |
//! | [`io`] | traits and helpers to read and write |
//! | [`fs`] | files and directories |
//! | [`process`] | child processes |
//! | [`signal`] | Ctrl-C and other signals |
//! | [`inspect`] | reports, dumps, and a live web page of the runtime |
//! | [`sim`](mod@sim) | deterministic simulation: a seed decides the order in which tasks run |
//!
//! Macros: [`select!`], [`join!`], [`try_join!`], [`pin!`], and the attributes
//! [`#[main]`](macro@main), [`#[test]`](macro@test) and [`#[sim]`](macro@crate::sim).
//!
//! # Cargo features
//!
//! The features have tokio's names. `full` is the default.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `full` | everything below except `test-util` |
//! | `rt` | `spawn`, the current-thread runtime, the blocking pool, `LocalSet` |
//! | `rt-multi-thread` | the multi-thread runtime |
//! | `macros` | `#[main]`, `#[test]`, `select!`, `join!`, `try_join!` |
//! | `sync` | locks and channels |
//! | `time` | `sleep`, `interval`, `timeout` |
//! | `net` | TCP, UDP and Unix sockets, pipes, `AsyncFd` |
//! | `io-util` | `AsyncReadExt`, `AsyncWriteExt`, buffers, `copy`, in-memory pipes |
//! | `io-std` | standard input, output and error |
//! | `fs` | files and directories |
//! | `process` | child processes |
//! | `signal` | signals, `ctrl_c` |
//! | `page` | the live web page |
//! | `test-util` | `time::pause`, `advance` and `resume`, `Builder::start_paused` |
//! | `parking_lot` | nothing; accepted because tokio has it |
//!
//! # Environment variables
//!
//! | variable | effect |
//! | --- | --- |
//! | `WAKEFUL_WORKER_THREADS` | number of workers, unless `Builder::worker_threads` is set |
//! | `TOKIO_WORKER_THREADS` | the same, if `WAKEFUL_WORKER_THREADS` is not set |
//! | `WAKEFUL_DUMP_AFTER` | prints a dump of each runtime once, after a duration such as `10s` |
//! | `WAKEFUL_DUMP` | `full`: dumps list each task |
//! | `WAKEFUL_PAGE` | `1` or an address: serves the live page, and prints its URL |
//! | `WAKEFUL_TEST_TIMEOUT` | time limit of each test, such as `30s` |
//! | `WAKEFUL_REPORT` | which reports are delivered, `off`, `proven` or `all`, and how, `text` or `json` |
//! | `WAKEFUL_REPORTS` | appends each report to this file |
//! | `WAKEFUL_BACKTRACE` | `full`: stacks in reports include library frames |
//! | `WAKEFUL_SIM_SEED` | runs simulations with this seed only |
//! | `WAKEFUL_SIM_SEEDS` | the seeds that each simulation search tries |
//! | `WAKEFUL_SIM_REPLAY` | replays a shrunk simulation failure |
//! | `WAKEFUL_FILE_BACKEND` | how file operations run: `auto`, `uring` or `pool` |
//!
//! `docs/CONFIGURATION.md` in the repository has the details. ARCHITECTURE.md draws how a task
//! moves through the code.
#![deny(unsafe_code)]
// With some features disabled, code that the others share is unused.
#![cfg_attr(not(all(feature = "full", feature = "test-util")), allow(dead_code, unused_imports))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "wakeful runs on Linux only: it needs epoll, io_uring, eventfd and /proc. On other systems, use tokio: \
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
pub mod sim;
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
pub use wakeful_macros::{main, sim, test};
