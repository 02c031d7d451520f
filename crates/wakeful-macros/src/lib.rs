//! The attribute macros of wakeful: `#[main]`, `#[test]` and `#[sim]`.
//!
//! Use them as `wakeful::main`, `wakeful::test` and `wakeful::sim`. The tokio shim re-exports
//! `tokio_main` and `tokio_test`: an attribute macro does not know under which name it was called, so
//! each crate needs its own macros.
//!
//! | file | purpose |
//! | --- | --- |
//! | `token.rs` | tokens as plain data, so that the parser can be tested |
//! | `args.rs` | parses and checks the arguments |
//! | `sim_args.rs` | parses the arguments of `#[sim]` |
//! | `function.rs` | finds the parts of the function |
//! | `expand.rs` | converts the compiler's tokens, and assembles the expansion |
//!
//! The macros do not depend on a general Rust parser, which every user of wakeful would have to
//! compile. They only need to know where the parts of a function are, not what they mean.

use proc_macro::TokenStream;

use args::{Entry, Kind, TargetCrate};

mod args;
mod expand;
mod function;
mod sim_args;
mod token;

/// Turns an `async fn` into a function that runs its body on a new runtime.
///
/// ```ignore (needs the crate wakeful)
/// #[wakeful::main]
/// async fn main() {
///     println!("awake");
/// }
/// ```
///
/// expands to
///
/// ```ignore (needs the crate wakeful)
/// fn main() {
///     let runtime = wakeful::runtime::Builder::new_multi_thread()
///         .enable_all()
///         .block_on_name("main")
///         .dump_on_signal(true)
///         .build()
///         .expect("Failed building the Runtime");
///     runtime.block_on(async {
///         println!("awake");
///     })
/// }
/// ```
///
/// Two of these settings are not defaults of the builder. `block_on_name` names the future of
/// `block_on` after the function, for dumps and reports. `dump_on_signal` installs a handler for
/// SIGQUIT (Ctrl-\\ on a terminal) that prints a dump of all runtimes to stderr and lets the program
/// continue. A program that handles SIGQUIT itself keeps its own handler. For a runtime without the
/// handler, use the builder.
///
/// The function may return any type, so `-> Result<(), Box<dyn std::error::Error>>` and `?` work as
/// in any `main`. A function with another name may have parameters. Each call starts a runtime and
/// shuts it down, so a function that is called often should get a `Handle` instead.
///
/// The body runs on the calling thread, not on a worker. Spawn tasks for work that should run in
/// parallel.
///
/// # Arguments
///
/// | argument | meaning |
/// | --- | --- |
/// | `flavor = "multi_thread"` | several worker threads: the default; needs the feature `rt-multi-thread` |
/// | `flavor = "current_thread"` | all tasks run on the calling thread |
/// | `flavor = "local"` | like `current_thread`, but `spawn_local` works anywhere on the runtime |
/// | `worker_threads = 4` | the number of workers, for `multi_thread`; the default is one for each CPU |
/// | `start_paused = true` | the clock is paused, for `current_thread` and `local`; needs the feature `test-util` |
/// | `unhandled_panic = "ignore"` | a panic in a task does not affect the runtime: the default |
/// | `unhandled_panic = "shutdown_runtime"` | a panic in a task shuts the runtime down, for `current_thread` and `local` |
/// | `name = "…"` | the name of the runtime |
/// | `crate = "path"` | the path of the crate wakeful, if it has another name |
///
/// # Examples
///
/// ```ignore (needs the crate wakeful)
/// #[wakeful::main(flavor = "multi_thread", worker_threads = 2)]
/// async fn main() {}
/// ```
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Main, target: TargetCrate::Wakeful }, args, item)
}

/// Runs an `async fn` as a test, on a runtime of its own.
///
/// # Examples
///
/// ```ignore (needs the crate wakeful)
/// #[wakeful::test]
/// async fn one_and_one() {
///     let task = wakeful::spawn(async { 1 + 1 });
///     assert_eq!(task.await.unwrap(), 2);
/// }
/// ```
///
/// Other attributes such as `#[should_panic]`, `#[ignore]` and `#[cfg(…)]` are kept. The test may
/// return any type that a `#[test]` may return.
///
/// The arguments of [`main`](macro@main) are accepted, but the default flavor is `current_thread`. One
/// argument is additional:
///
/// | argument | meaning |
/// | --- | --- |
/// | `timeout = "5s"` | fails the test with a dump if it takes longer; also `500ms`, `1.5s`, `2m` |
///
/// # Tests that would hang
///
/// The macro sets some options of the builder, so that a test that would hang fails with a report:
///
/// - `test_timeout`: the time limit of the argument `timeout`, or of the environment variable
///   `WAKEFUL_TEST_TIMEOUT` for tests without one. It counts real time, even if the clock is paused.
///   The panic message has the deadlocks found, and the dump of all tasks. If the test's thread is
///   blocked inside a poll, it cannot panic, so the process prints the message and aborts. A test with
///   `#[should_panic]` needs `expected = "…"` to distinguish that panic from its own.
/// - `dump_on_signal(true)`: SIGQUIT (Ctrl-\\ on a terminal, `kill -QUIT`) prints a dump of all
///   runtimes of the process to stderr, even if the harness captures output. The tests continue.
/// - `on_orphan(OrphanPolicy::Panic)`: a waiting task without a live waker fails the test. Wrap a
///   future that may wait forever in `task::may_wait_forever`.
/// - `always_end_stuck_block_on(true)`: a `block_on` that can never return fails the test in more
///   cases than outside of tests.
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Test, target: TargetCrate::Wakeful }, args, item)
}

/// Runs an `async fn` as a test in a simulation, under many seeds.
///
/// # Examples
///
/// ```ignore (needs the crate wakeful)
/// use wakeful::sim::Sim;
///
/// #[wakeful::sim(seeds = 5_000)]
/// async fn the_counter_is_exact(sim: Sim) {
///     let server = sim.host("server", || async { /* … */ });
///     // …
/// }
/// ```
///
/// The function may have one argument, the `Sim`, and may return `()` or a `Result`. Other attributes
/// such as `#[should_panic]`, `#[ignore]` and `#[cfg(…)]` are kept.
///
/// The test fails at the first seed whose run fails: by a panic, a deadlock, a task that can never be
/// woken, and so on. The failure is shrunk to the choices that cause it, and printed with the commands
/// that replay it. docs/SIMULATION.md in the repository explains the text.
///
/// # Arguments
///
/// | argument | meaning |
/// | --- | --- |
/// | `seeds = 5_000` | the number of seeds; the default is 1,000 |
/// | `strategy = "pct(3)"` | the order of the tasks, instead of an order that each seed draws; `sim::Explorer::strategy` lists the strategies |
/// | `crate = "path"` | the path of the crate wakeful, if it has another name |
#[proc_macro_attribute]
pub fn sim(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand_sim(args, item)
}

/// [`main`](macro@main) for the tokio shim, the crate named `tokio`.
///
/// The expansion uses the path `tokio::runtime::Builder`, resolved where the function is.
#[proc_macro_attribute]
pub fn tokio_main(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Main, target: TargetCrate::Tokio }, args, item)
}

/// [`test`](macro@test) for the tokio shim, the crate named `tokio`.
///
/// A test that provably can never return fails with the proof, as with [`test`](macro@test). A task that
/// can never be woken is reported, but does not fail the test. There is no argument `timeout`, because
/// tokio's macro has none; `WAKEFUL_TEST_TIMEOUT` sets a time limit.
#[proc_macro_attribute]
pub fn tokio_test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Test, target: TargetCrate::Tokio }, args, item)
}
