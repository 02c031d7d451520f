//! The progress line of a long search: seeds done, rate, time left.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A search that ends earlier prints no line.
const QUIET: Duration = Duration::from_secs(1);
/// The time between two updates of the line.
const INTERVAL: Duration = Duration::from_millis(200);

/// Prints the progress of a search if standard error is a terminal.
pub(super) struct Progress {
    name: String,
    seeds: u64,
    started: Instant,
    next: Duration,
    is_terminal: bool,
    is_printed: bool,
}

impl Progress {
    pub(super) fn new(name: &str, seeds: u64) -> Self {
        Self {
            name: name.to_owned(),
            seeds,
            started: Instant::now(),
            next: QUIET,
            is_terminal: std::io::stderr().is_terminal(),
            is_printed: false,
        }
    }

    /// Updates the line after `done` seeds.
    pub(super) fn advance(&mut self, done: u64) {
        if !self.is_terminal {
            return;
        }
        let elapsed = self.started.elapsed();
        if elapsed < self.next {
            return;
        }
        self.next = elapsed + INTERVAL;
        self.is_printed = true;
        let line = line(&self.name, done, self.seeds, elapsed);
        // Bypasses the test harness, which would capture the line. `\r` overwrites the previous
        // line.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_printed {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(name: &str, done: u64, seeds: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64();
    let left = seeds.saturating_sub(done) as f64 / rate;
    format!(
        "{name}: {} of {} seeds, {rate:.0}/s, {left:.0} s left",
        super::describe::with_commas(done),
        super::describe::with_commas(seeds)
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rate_and_the_time_that_is_left() {
        let line = line("one_leader", 1_500, 5_000, Duration::from_secs(3));
        assert_eq!(line, "one_leader: 1,500 of 5,000 seeds, 500/s, 7 s left");
    }
}
