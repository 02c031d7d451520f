//! A guided run of the runtime: `cargo run --release --example tour`.
//!
//! Chapters 1 to 10 are the programs by which one learns what a future, a waker, an executor and a timer are; they live
//! in `programs.rs`. From chapter 11 on the runtime shows what it is made for. Each chapter checks what it shows, and the
//! tour ends with an error if anything is not as promised.

use std::process::ExitCode;

#[path = "../../tests/support/counting.rs"]
mod counting;
mod guide;
mod programs;
mod strengths;
mod teaching;

/// Counts bytes, for the chapter on memory.
#[global_allocator]
static MEMORY: counting::Counting = counting::Counting::new();

fn main() -> ExitCode {
    let mut guide = guide::Guide::new();
    teaching::chapters(&mut guide);
    strengths::chapters(&mut guide);
    guide.farewell()
}
