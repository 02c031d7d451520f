//! A few rounds of each kind of stress. `cargo xtask stress` runs them for long.

#[path = "../examples/stress/mod.rs"]
#[allow(dead_code, reason = "the stress program uses the rest")]
mod stress;

use stress::KINDS;
use stress::counting::Counting;
use stress::runner::{Amount, run};

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// A fixed seed: every run makes the same choices, although threads interleave differently.
const SEED: u64 = 21;
const ROUNDS: u64 = 24;

/// One test, since a round compares threads, descriptors and children of the whole process before and after it.
#[test]
fn every_kind_passes_a_few_rounds() {
    for kind in KINDS {
        let passed = run(kind, SEED, Amount::Rounds(ROUNDS), &MEMORY, |_, _| ());
        let passed = passed.unwrap_or_else(|failed| {
            panic!("{}: {}\nto repeat it: {}", kind.name, failed.message, failed.repeat)
        });
        println!("{}: {:?}", kind.name, passed.counts);
        assert_eq!(passed.rounds, ROUNDS);
        assert!(!passed.counts.is_empty(), "{} has done nothing", kind.name);
    }
}
