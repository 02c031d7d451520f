//! Random choices that a printed seed repeats.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::hash::{BuildHasher, RandomState};

/// A pseudo-random number generator (splitmix64).
#[derive(Clone)]
pub struct TestRng(u64);

impl TestRng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns true with probability 1/n.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns an independent generator, for a thread or a task.
    pub fn branch(&mut self) -> Self {
        Self(self.next())
    }
}

/// Returns and prints the seed of this run: `WAKEFUL_TEST_SEED`, or a random one.
pub fn seed() -> u64 {
    let seed = match std::env::var("WAKEFUL_TEST_SEED") {
        Ok(text) => text.parse().expect("WAKEFUL_TEST_SEED is a number"),
        Err(_) => RandomState::new().hash_one("seed"),
    };
    println!("to repeat this run: WAKEFUL_TEST_SEED={seed}");
    seed
}
