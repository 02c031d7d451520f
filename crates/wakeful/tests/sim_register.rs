//! The replicated register of `examples/simulation`: its planted election bugs are found, and the correct
//! version is silent.

use std::time::Duration;
use wakeful::sim::{Explorer, FailureKind};

#[path = "../examples/simulation/mod.rs"]
#[allow(dead_code, reason = "the register is a part of the example")]
mod catalogue;

use catalogue::history::{History, Operation};
use catalogue::register::{Election, register};

/// The seeds within which a planted bug is found.
const SEEDS: u64 = 100;

fn operation(written: Option<u64>, read: Option<u64>, began: u64, ended: Option<u64>) -> Operation {
    let (began, ended) = (Duration::from_millis(began), ended.map(Duration::from_millis));
    Operation { written, read, began, ended }
}

fn write(value: u64, began: u64, ended: impl Into<Option<u64>>) -> Operation {
    operation(Some(value), None, began, ended.into())
}

fn read(value: u64, began: u64, ended: u64) -> Operation {
    operation(None, Some(value), began, Some(ended))
}

fn is_linearizable(operations: &[Operation]) -> bool {
    let mut history = History::default();
    operations.iter().for_each(|operation| history.add(*operation));
    history.is_linearizable()
}

#[test]
fn the_check_accepts_orders_that_one_register_can_have() {
    for history in [
        &[][..],
        &[read(0, 0, 1), write(1, 2, 3), read(1, 4, 5)],
        // At the same time: before or after the write.
        &[write(1, 0, 10), read(0, 1, 2), read(1, 3, 4)],
        &[write(1, 0, 10), write(2, 0, 10), read(2, 1, 2), read(1, 3, 4)],
        // A write whose end is not known: it happens late, or not at all.
        &[write(1, 0, None), read(0, 5, 6), read(1, 7, 8)],
        &[write(1, 0, None), write(2, 1, 2), read(2, 5, 6)],
    ] {
        assert!(is_linearizable(history), "{history:?}");
    }
}

#[test]
fn the_check_refuses_what_no_register_can_do() {
    for history in [
        &[read(1, 0, 1)][..],
        &[write(1, 0, 1), read(0, 2, 3)],
        &[write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)],
        // The new value was seen before the old one.
        &[write(1, 0, 10), read(1, 1, 2), read(0, 3, 4)],
        &[write(1, 0, None), read(1, 1, 2), read(0, 3, 4)],
        // A value that was read before it was written.
        &[read(1, 0, 1), write(1, 2, 3)],
    ] {
        assert!(!is_linearizable(history), "{history:?}");
    }
}

/// Asserts that the bug is found, and that the failing run is shrunk to at most this number of choices: to
/// 2, unless a slow machine reaches the time limit of the shrinking.
fn assert_found(name: &str, election: Election, choices: usize) {
    let explorer = Explorer::new(name).seeds(SEEDS);
    let error = explorer.run(move |sim| register(sim, election)).unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), Some(FailureKind::Panic), "{error}");
    assert!(error.to_string().contains("the history is not linearizable"), "{error}");
    assert!(error.choices().is_some_and(|it| it <= choices), "{error}");
    assert!(error.to_string().contains("confirmed alone in a new process: 3 of 3"), "{error}");
}

#[test]
fn a_vote_for_an_old_version() {
    assert_found("a_vote_for_an_old_version", Election::OldVersion, 50);
}

#[test]
fn a_leader_without_a_quorum() {
    assert_found("a_leader_without_a_quorum", Election::NoQuorum, 50);
}

/// 20 seeds, since a run of a debug build takes up to 0.1 s. `WAKEFUL_TWINS` says how many for a longer check.
#[test]
fn the_correct_register() {
    let seeds = std::env::var("WAKEFUL_TWINS").ok().map_or(20, |it| it.parse().unwrap());
    let began = std::time::Instant::now();
    let explorer = Explorer::new("the_correct_register").seeds(seeds);
    let explored = explorer.run(|sim| register(sim, Election::Correct)).unwrap();
    let (runs, real) = (explored.runs() as f64, began.elapsed().as_secs_f64());
    let simulated = explored.simulated_time().as_secs_f64();
    println!(
        "{:.0} runs per second, {:.0} simulated seconds per second",
        runs / real,
        simulated / real
    );
}
