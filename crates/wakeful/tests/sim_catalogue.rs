//! The bugs of the catalogue are found within the stated number of seeds, and their fixed twins are
//! silent.

use std::process::Command;
use wakeful::sim::{ExploreError, Explorer, FailureKind, Outcome, Simulation};

#[path = "../examples/simulation/mod.rs"]
#[allow(dead_code, reason = "the example prints what a bug is about")]
mod catalogue;

use catalogue::{CATALOGUE, Entry, Twin};

/// The number of searches of a bug, each from another first seed.
const SEARCHES: u64 = 20;

fn entry(name: &str) -> &'static Entry {
    CATALOGUE.iter().find(|entry| entry.name == name).expect("a bug of the catalogue")
}

fn search(entry: &'static Entry, first_seed: u64) -> ExploreError {
    let explorer = Explorer::new(entry.name).first_seed(first_seed).seeds(entry.seeds);
    let found = explorer.run(|sim| (entry.program)(sim, Twin::Buggy));
    found.expect_err("the bug is found within the stated number of seeds")
}

/// Asserts that every search finds the bug, as a failure of one of these kinds, and that the first
/// search shrinks it to at most `choices` choices.
#[track_caller]
fn assert_found(name: &str, kinds: &[FailureKind], choices: usize) {
    let entry = entry(name);
    let mut runs: Vec<u64> = Vec::new();
    for number in 0..SEARCHES {
        let error = search(entry, number * 1_000_000);
        assert!(error.kind().is_some_and(|kind| kinds.contains(&kind)), "{error}");
        if number == 0 {
            println!("{error}");
            assert!(error.choices().is_some_and(|it| it <= choices), "{error}");
            assert!(
                error.to_string().contains("confirmed alone in a new process: 3 of 3"),
                "{error}"
            );
        }
        runs.push(error.runs());
    }
    runs.sort_unstable();
    let [median, p90] = [5, 9].map(|tenths| runs[runs.len() * tenths / 10]);
    println!("{name}: median {median} runs, p90 {p90}, at most {}", runs[runs.len() - 1]);
}

/// Asserts that the fixed version never fails.
#[track_caller]
fn assert_silent(name: &str) {
    let entry = entry(name);
    let seeds = std::env::var("WAKEFUL_TWINS").ok().map_or(1_000, |it| it.parse().unwrap());
    let explorer = Explorer::new(format!("{name}_fixed")).seeds(seeds);
    explorer.run(|sim| (entry.program)(sim, Twin::Fixed)).unwrap();
}

macro_rules! tests {
    ($($name:ident: $($kind:ident)|+, $choices:literal;)+) => {
        /// Every bug of the catalogue has a test.
        #[test]
        fn the_catalogue_is_complete() {
            let tested = [$(stringify!($name)),+];
            assert!(CATALOGUE.iter().map(|entry| entry.name).eq(tested));
        }

        $(mod $name {
            use super::*;

            #[test]
            fn bug() {
                assert_found(stringify!($name), &[$(FailureKind::$kind),+], $choices);
            }

            #[test]
            fn fixed() {
                assert_silent(stringify!($name));
            }
        })+
    };
}

tests! {
    lost_wakeup: Stuck | Orphan | Deadlock, 2;
    stale_waker: Orphan, 2;
    abba: Deadlock, 1;
    futurelock: Deadlock, 1;
    order_across_senders: Panic, 1;
    lost_update: Always, 2;
    expired_lease: Always, 2;
    read_exact_in_select: Panic, 2;
    one_read_one_message: Panic, 2;
    applied_twice: Always, 2;
    no_quorum: Always, 2;
    retry_storm: Eventually, 2;
}

/// Set in a child process, to the bug and the seed to run.
const CHILD: &str = "WAKEFUL_TEST_SIM_CHILD";

/// Returns the hash, the choices and the text of a run.
fn text_of(outcome: &Outcome) -> String {
    format!("hash {:016x}\n{}\n{outcome}\nend", outcome.hash(), outcome.choices())
}

fn run_buggy(name: &str, seed: u64) -> Outcome {
    let entry = entry(name);
    Simulation::new(seed).run(|sim| (entry.program)(sim, Twin::Buggy))
}

/// Asserts that the first failing seed of a bug is the same run in new processes. `WAKEFUL_REPLAYS`
/// sets their number, three by default.
#[track_caller]
fn assert_replays(test: &str, name: &str) {
    if let Ok(seed) = std::env::var(CHILD) {
        println!("{}", text_of(&run_buggy(name, seed.parse().unwrap())));
        return;
    }
    let fails = |seed: &u64| run_buggy(name, *seed).failure().is_some();
    let seed = (0..500).find(fails).expect("the bug is found within 500 seeds");
    let expected = text_of(&run_buggy(name, seed));
    let replays = std::env::var("WAKEFUL_REPLAYS").map_or(3, |it| it.parse().unwrap());
    for _ in 0..replays {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(CHILD, seed.to_string())
            .output()
            .unwrap();
        let printed = String::from_utf8(child.stdout).unwrap();
        assert!(printed.contains(&expected), "{expected}\nis not in\n{printed}");
    }
    println!("{name}: {replays} equal replays of seed {seed}");
}

#[test]
fn replays_of_bytes_that_are_lost_are_equal() {
    assert_replays("replays_of_bytes_that_are_lost_are_equal", "read_exact_in_select");
}

#[test]
fn replays_of_a_payment_that_is_made_twice_are_equal() {
    assert_replays("replays_of_a_payment_that_is_made_twice_are_equal", "applied_twice");
}

#[test]
fn replays_of_two_leaders_are_equal() {
    assert_replays("replays_of_two_leaders_are_equal", "no_quorum");
}
