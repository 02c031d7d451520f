//! The attribute macros of wakeful: `#[main]` and `#[test]`.
//!
//! Use them as `wakeful::main` and `wakeful::test`. `tokio_main` and `tokio_test` are the same for the drop-in crate
//! named `tokio`: a macro of this kind cannot know under which name it was called, so there is one entry for each.
//!
//! | file | what it does |
//! | --- | --- |
//! | `token.rs` | tokens as plain data, so that the parsing can be tested |
//! | `args.rs` | the arguments: read, checked |
//! | `function.rs` | the function: its parts |
//! | `expand.rs` | the way in and out: from the compiler's tokens, through the two above, to the expansion |
//!
//! There is no dependency on a general parser of Rust: an attribute on a function needs to know where its parts are,
//! not what they mean, and everybody who uses wakeful would wait for that parser to be compiled.

use proc_macro::TokenStream;

use args::{Entry, Face, Kind};

mod args;
mod expand;
mod function;
mod token;

/// Runs an `async fn` on a new runtime: turns it into an ordinary function.
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
///         .root_name("main")
///         .dump_on_signal(true)
///         .build()
///         .expect("Failed building the Runtime");
///     runtime.block_on(async {
///         println!("awake");
///     })
/// }
/// ```
///
/// Two of these settings are not defaults of the builder. `root_name` names the future of `block_on`
/// after the function, for dumps and reports. `dump_on_signal` installs a handler for SIGQUIT (Ctrl-\\ on
/// a terminal) that prints a dump of the runtime to stderr, and the program goes on. A program that
/// handles SIGQUIT itself keeps its own handler. Use the builder for a runtime without the handler.
///
/// The function may return anything, so `-> Result<(), Box<dyn std::error::Error>>` and `?` work as in any `main`. It
/// need not be called `main`, and may then have parameters; each call starts a runtime and ends it, so a function that
/// is called often had better be given a `Handle`.
///
/// The body runs on the thread that called, not on a worker. Spawn tasks for work that should be spread over them.
///
/// # Arguments
///
/// | argument | meaning |
/// | --- | --- |
/// | `flavor = "multi_thread"` | several worker threads: the default; needs the feature `rt-multi-thread` |
/// | `flavor = "current_thread"` | everything on the thread that called |
/// | `flavor = "local"` | the same, and `spawn_local` works everywhere |
/// | `worker_threads = 4` | how many workers, for `multi_thread`; by default one for each processor |
/// | `start_paused = true` | the clock is paused, for `current_thread` and `local`; needs the feature `test-util` |
/// | `unhandled_panic = "ignore"` | what a panic in a task does to the runtime: nothing (the default), or |
/// | `unhandled_panic = "shutdown_runtime"` | end it; for `current_thread` and `local` |
/// | `name = "…"` | a name for the runtime |
/// | `crate = "path"` | where to find the crate wakeful, if not under that name |
///
/// ```ignore (needs the crate wakeful)
/// #[wakeful::main(flavor = "multi_thread", worker_threads = 2)]
/// async fn main() {}
/// ```
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Main, face: Face::Wakeful }, args, item)
}

/// Runs an `async fn` as a test, on a runtime of its own.
///
/// ```ignore (needs the crate wakeful)
/// #[wakeful::test]
/// async fn one_and_one() {
///     let task = wakeful::spawn(async { 1 + 1 });
///     assert_eq!(task.await.unwrap(), 2);
/// }
/// ```
///
/// Other attributes are kept: `#[should_panic]`, `#[ignore]`, `#[cfg(…)]`. The test may return what any test may return.
///
/// The arguments are those of [`main`](macro@main), but the default flavor is `current_thread`.
///
/// A task that nothing in the world can wake any more makes the test panic, with the task's name and where it waits,
/// instead of hanging it (`Builder::on_orphan`). For a task that is meant to wait forever, say so with
/// `task::may_wait_forever`.
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Test, face: Face::Wakeful }, args, item)
}

/// Runs an `async fn` on a new runtime: [`main`](macro@main) for the crate named `tokio`.
///
/// The expansion says `tokio::runtime::Builder`, with whatever `tokio` means where the function is.
#[proc_macro_attribute]
pub fn tokio_main(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Main, face: Face::Tokio }, args, item)
}

/// Runs an `async fn` as a test: [`test`](macro@test) for the crate named `tokio`.
///
/// It does exactly what tokio's does; in particular a task that can never be woken is reported but does not end the
/// test.
#[proc_macro_attribute]
pub fn tokio_test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Entry { kind: Kind::Test, face: Face::Tokio }, args, item)
}
