//! A guided run of the runtime: `cargo run --release --example tour`.
//!
//! Chapters 1 to 10 are the programs by which one learns what a future, a waker, an executor and a timer are; they live
//! in `programs.rs`. In chapters 11 to 13 tasks wait for each other, in 14 and 15 for the network, in 16 for files. From
//! chapter 17 on the runtime shows what it is made for; the last four are bugs that it names. Each chapter checks what
//! it shows, and the tour ends with an error if anything is not as promised.

use std::process::ExitCode;

#[path = "../../tests/support/counting.rs"]
mod counting;
mod files;
#[path = "../gallery/mod.rs"]
#[allow(dead_code, reason = "the tour shows a part of the gallery")]
mod gallery;
mod guide;
mod network;
mod programs;
mod strengths;
mod teaching;
mod together;
mod why;

/// Counts bytes, for the chapter on memory.
#[global_allocator]
static MEMORY: counting::Counting = counting::Counting::new();

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == why::EVERYTHING_WAITS) {
        return why::everything_waits();
    }
    let mut guide = guide::Guide::new();
    teaching::chapters(&mut guide);
    together::chapters(&mut guide);
    network::chapters(&mut guide);
    files::chapters(&mut guide);
    strengths::chapters(&mut guide);
    why::chapters(&mut guide);
    guide.farewell()
}
