//! A guided run of the runtime: `cargo run --release --example tour`.
//!
//! Chapters 1 to 10 teach futures, wakers, executors and timers; their programs are in `programs.rs`.
//! In chapters 11 to 13 tasks wait for each other, in 14 and 15 for the network, in 16 for files.
//! Chapter 17 and later show the strengths of the runtime; the last four are bugs that it reports.
//! Each chapter checks what it shows. The tour returns an error if a check fails.

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
mod simulation;
mod strengths;
mod together;
mod tutorial;
mod why;

/// Counts bytes, for the chapter on memory.
#[global_allocator]
static MEMORY: counting::Counting = counting::Counting::new();

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == why::EVERYTHING_WAITS) {
        return why::everything_waits();
    }
    let mut guide = guide::Guide::new();
    if simulation::is_repeated() {
        simulation::chapters(&mut guide);
        return guide.farewell();
    }
    tutorial::chapters(&mut guide);
    together::chapters(&mut guide);
    network::chapters(&mut guide);
    files::chapters(&mut guide);
    strengths::chapters(&mut guide);
    simulation::chapters(&mut guide);
    why::chapters(&mut guide);
    guide.farewell()
}
