//! CPU load on every core, and the number of rounds of a fixed twin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::{self, JoinHandle};

/// Returns the number of rounds: `WAKEFUL_TWINS`, or `usually` if it is not set.
pub fn rounds(usually: usize) -> usize {
    match std::env::var("WAKEFUL_TWINS") {
        Ok(rounds) => rounds.parse().expect("WAKEFUL_TWINS is a number"),
        Err(_) => usually,
    }
}

/// Threads that keep every core busy until this value is dropped.
pub struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn on_every_core() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let burn = |over: Arc<AtomicBool>| move || while !over.load(Relaxed) {};
        let threads = (0..cores).map(|_| thread::spawn(burn(over.clone()))).collect();
        Self { over, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}
