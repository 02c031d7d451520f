//! Tests of searches through small programs.

use super::*;
use crate::sim::Sim;
use crate::sys::sync::ignore_poison;
use crate::task::yield_now;
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Mutex;

/// Two tasks add to a counter, and each one yields between reading and writing.
async fn lost_update(_sim: Sim) {
    let counter = Rc::new(Cell::new(0));
    let add = |counter: Rc<Cell<u32>>| async move {
        let before = counter.get();
        yield_now().await;
        counter.set(before + 1);
    };
    let one = crate::task::spawn_local(add(counter.clone()));
    let other = crate::task::spawn_local(add(counter.clone()));
    one.await.unwrap();
    other.await.unwrap();
    assert_eq!(counter.get(), 2, "an update is lost");
}

/// Fails only if the second task runs first.
async fn order(_sim: Sim) {
    let first = Rc::new(Cell::new(0));
    let tasks = [1, 2].map(|number| {
        let first = first.clone();
        crate::task::spawn_local(async move {
            if first.get() == 0 {
                first.set(number);
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(first.get(), 1, "the second was the first");
}

#[test]
fn a_failure_is_found_shrunk_and_confirmed() {
    let error = Explorer::new("explore::tests::a_failure_is_found").run(order).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), Some(FailureKind::Panic), "{text}");
    assert_eq!(error.choices(), Some(1), "{text}");
    assert!(error.runs() < 20, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(": panic after 0 s simulated; strategy "), "{text}");
    assert!(lines[1].contains("shrunk from") && lines[1].contains("to 1 ("), "{text}");
    assert!(lines[2].contains("    1. task ") && lines[2].ends_with(") runs first"), "{text}");
    assert!(text.contains("the second was the first"), "{text}");
    assert!(text.contains("panicked    at crates/wakeful/src/sim/explore/tests.rs:"), "{text}");
    assert!(text.contains("  again:  WAKEFUL_SIM_SEED=0x"), "{text}");
    assert!(text.contains("  short:  WAKEFUL_SIM_REPLAY="), "{text}");
    let hash = error.hash().unwrap();
    let confirmed = format!("  confirmed alone in a new process: 3 of 3, hash {hash:016x}");
    assert!(text.ends_with(&confirmed), "{text}");
}

#[test]
fn a_program_without_a_bug_passes_under_every_order() {
    for strategy in ["swarm", "fifo", "random", "pct(3)", "delay(2)", "urw"] {
        let explorer = Explorer::new("explore::tests::no_bug").seeds(40).strategy(strategy);
        let explored = explorer.run(|_| async {
            let tasks = (0..3).map(|_| crate::spawn(yield_now()));
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        assert_eq!(explored.unwrap().runs(), 40, "{strategy}");
    }
}

#[test]
fn depth_first_search_finds_a_failure_or_ends() {
    let found = Explorer::new("explore::tests::dfs").strategy("dfs(1)").run(order);
    assert_eq!(found.unwrap_err().choices(), Some(1));
    let ended = Explorer::new("explore::tests::dfs").strategy("dfs(2)").run(|_| async {
        crate::spawn(yield_now()).await.unwrap();
    });
    let ended = ended.unwrap();
    assert!(ended.is_exhaustive() && ended.runs() > 1, "{} runs", ended.runs());
}

#[test]
fn two_runs_of_a_seed_that_differ_are_reported_with_the_first_event() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let error = Explorer::new("explore::tests::static").seeds(10).run(|_| async {
        // The static keeps its value from run to run.
        let time = RUNS.fetch_add(1, Relaxed);
        crate::time::sleep(Duration::from_millis(time.into())).await;
    });
    let error = error.unwrap_err();
    let text = error.to_string();
    assert_eq!((error.kind(), error.runs()), (None, 1), "{text}");
    assert!(text.starts_with("seed 0x0: two of its runs differ; strategy "), "{text}");
    assert!(text.contains("the first event that differs:") && text.contains("Advance"), "{text}");
    assert!(text.contains("static"), "{text}");
}

#[test]
fn a_lost_update_needs_no_unusual_choice() {
    let error = Explorer::new("explore::tests::lost_update").run(lost_update).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.choices(), Some(0), "{text}");
    assert!(text.contains("to 0 (") && text.contains("it fails with no unusual choice"), "{text}");
}

#[test]
fn failures_are_alike_if_their_texts_differ_in_numbers_only() {
    assert_eq!(without_numbers("task 12 of 3\nat a.rs:12:5"), "task # of #\nat a.rs:12:5");
    assert_ne!(without_numbers("task 1\nat a.rs:1"), without_numbers("task 1\nat a.rs:2"));
}

/// Two bugs with different panics. A run of usual choices has the other one.
#[test]
fn shrinking_does_not_replace_a_failure_by_another() {
    let program = |_sim: Sim| async {
        let order = Rc::new(Cell::new(0));
        let tasks = [1, 2, 3].map(|number| {
            let order = order.clone();
            crate::task::spawn_local(async move { order.set(order.get() * 10 + number) })
        });
        for task in tasks {
            task.await.unwrap();
        }
        assert_ne!(order.get(), 321, "from the last to the first");
        assert!(order.get() >= 200, "another failure");
    };
    let explorer = || Explorer::new("explore::tests::two_failures").strategy("random");
    let usual = explorer().run(program).unwrap_err();
    assert!(usual.to_string().contains("another failure"), "{usual}");
    let rare = (0..100).find_map(|seed| {
        let error = explorer().first_seed(seed).seeds(1).run(program).err()?;
        error.to_string().contains("from the last to the first").then_some(error)
    });
    assert!(rare.unwrap().choices().is_some_and(|choices| choices > 0));
}

/// Returns the number of threads that make the runs of a search.
fn threads_of(seeds: u64, program: fn()) -> usize {
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let seen = threads.clone();
    let explorer = Explorer::new("explore::tests::threads").seeds(seeds);
    let explored = explorer.run(move |_sim| {
        ignore_poison(seen.lock()).insert(std::thread::current().id());
        program();
        yield_now()
    });
    assert_eq!(explored.unwrap().runs(), seeds);
    let threads = ignore_poison(threads.lock());
    threads.len()
}

#[test]
fn a_thread_makes_many_runs_unless_one_changes_a_thread_local() {
    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }
    let threads = threads_of(50, || ());
    assert!(threads <= 6, "{threads}: one or two for each run that is made twice");
    let threads = threads_of(50, || assert_eq!(COUNT.replace(1), 0));
    assert!(threads >= 50, "{threads}");
}

#[test]
fn a_state_of_the_thread_that_its_image_does_not_show_is_found_by_comparing() {
    static RUNS: Mutex<BTreeMap<i32, u32>> = Mutex::new(BTreeMap::new());
    let program = || {
        let mut runs = ignore_poison(RUNS.lock());
        let runs = runs.entry(crate::sys::backtrace::current_tid()).or_default();
        *runs += 1;
        // A choice that only later runs of the thread make.
        let _ = *runs > 50 && crate::sim::maybe("later");
    };
    let threads = threads_of(150, program);
    assert!((50..120).contains(&threads), "{threads}: the first 101 runs have few");
}

#[test]
fn a_blocked_poll_ends_the_search_and_its_thread_makes_no_further_run() {
    static GATE: Mutex<()> = Mutex::new(());
    static LAST_SEED: AtomicU64 = AtomicU64::new(0);
    let gate = ignore_poison(GATE.lock());
    let explorer = Explorer::new("explore::tests::blocked").seeds(10).strategy("fifo");
    let explorer = explorer.configure(|run| run.blocked_after(Duration::from_secs(1)));
    let found = explorer.run(|sim| async move {
        LAST_SEED.store(sim.seed(), Relaxed);
        if sim.seed() == 3 {
            drop(ignore_poison(GATE.lock()));
        }
    });
    let error = found.unwrap_err();
    assert_eq!((error.kind(), error.runs()), (Some(FailureKind::BlockedPoll), 4), "{error}");
    drop(gate);
    // Real time: a run that must not begin gives no signal.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(LAST_SEED.load(Relaxed), 3);
}
