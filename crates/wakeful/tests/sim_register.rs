//! The replicated register of `examples/simulation`: the search finds its planted election bugs, and the
//! correct version causes no failure.

use std::time::Duration;
use wakeful::sim::{Explorer, FailureKind};

#[path = "../examples/simulation/mod.rs"]
#[allow(dead_code, reason = "the register is a part of the example")]
mod catalogue;

use catalogue::history::{History, Operation};
use catalogue::register::{Election, register};

/// The number of seeds within which a planted bug is found.
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
        // Concurrent with the write: before or after it.
        &[write(1, 0, 10), read(0, 1, 2), read(1, 3, 4)],
        &[write(1, 0, 10), write(2, 0, 10), read(2, 1, 2), read(1, 3, 4)],
        // A write with an unknown end: it happens late, or not at all.
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
        // The new value is read before the old one.
        &[write(1, 0, 10), read(1, 1, 2), read(0, 3, 4)],
        &[write(1, 0, None), read(1, 1, 2), read(0, 3, 4)],
        // A value is read before it is written.
        &[read(1, 0, 1), write(1, 2, 3)],
    ] {
        assert!(!is_linearizable(history), "{history:?}");
    }
}

/// Asserts that the bug is found, and that shrinking leaves at most `choices` choices. It leaves about 6, unless
/// a slow machine reaches the time limit.
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
    assert_found("a_vote_for_an_old_version", Election::OldVersion, 200);
}

#[test]
fn a_leader_without_a_quorum() {
    assert_found("a_leader_without_a_quorum", Election::NoQuorum, 200);
}

/// 20 seeds, since a run of a debug build takes up to 0.1 s. `WAKEFUL_TWINS` sets the number for a longer
/// check.
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
