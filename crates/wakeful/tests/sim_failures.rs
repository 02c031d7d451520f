//! Every kind of failure of a simulated run, and its text.

use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;
use wakeful::sim::{FailureKind, Outcome, Sim, Simulation};
use wakeful::sync::{Mutex, Notify};
use wakeful::task::yield_now;
use wakeful::time::sleep;

const SEEDS: u64 = 20;

/// Runs the program with several seeds, each of which must fail with this kind. Returns the
/// texts.
fn fails<F, Fut>(kind: FailureKind, program: F) -> Vec<String>
where
    F: Fn(Sim) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let run = |seed| {
        let outcome = Simulation::new(seed).run(program.clone());
        assert_eq!(outcome.failure(), Some(kind), "seed {seed}: {outcome}");
        let text = outcome.to_string();
        assert!(text.contains(&format!("seed {seed:#x}")), "{text}");
        text
    };
    (0..SEEDS).map(run).collect()
}

fn all_contain(texts: &[String], parts: &[&str]) {
    for text in texts {
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }
}

#[test]
fn a_panic_of_any_task() {
    let texts = fails(FailureKind::Panic, |_| async {
        // The panic is a failure, although the handle is awaited.
        let _ = wakeful::spawn(async { panic!("planted") }).await;
    });
    all_contain(&texts, &["on host \"main\"", "panicked", "planted", "sim_failures.rs:"]);
}

#[test]
fn a_panic_of_a_host_and_of_a_closure() {
    let texts = fails(FailureKind::Panic, |sim| async move {
        sim.client("c", async { assert!(std::env::args().count() == 0, "planted") }).await;
    });
    all_contain(&texts, &["on host \"c\"", "planted"]);
    let texts = fails(FailureKind::Panic, |_| async {
        let _ = wakeful::task::spawn_blocking(|| panic!("planted")).await;
    });
    all_contain(&texts, &["the closure of", "planted"]);
}

#[test]
fn an_orphan() {
    let texts = fails(FailureKind::Orphan, |_| async {
        wakeful::spawn(std::future::poll_fn(|_| Poll::<()>::Pending)).await.unwrap();
    });
    all_contain(&texts, &["can never run again", "sim_failures.rs:"]);
}

#[test]
fn a_deadlock_within_a_host() {
    let texts = fails(FailureKind::Deadlock, |_| async {
        let (one, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let lock = |first: Arc<Mutex<()>>, second: Arc<Mutex<()>>| async move {
            let _first = first.lock().await;
            sleep(Duration::from_millis(1)).await;
            let _second = second.lock().await;
        };
        let tasks =
            [wakeful::spawn(lock(one.clone(), other.clone())), wakeful::spawn(lock(other, one))];
        for task in tasks {
            task.await.unwrap();
        }
    });
    all_contain(&texts, &["deadlock (proven)", "sim_failures.rs:"]);
}

#[test]
fn a_deadlock_across_hosts_is_found_as_well() {
    let texts = fails(FailureKind::Deadlock, |sim| async move {
        let (one, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let lock = |first: Arc<Mutex<()>>, second: Arc<Mutex<()>>| async move {
            let _first = first.lock().await;
            sleep(Duration::from_millis(1)).await;
            let _second = second.lock().await;
        };
        let a = sim.client("a", lock(one.clone(), other.clone()));
        let b = sim.client("b", lock(other, one));
        a.await;
        b.await;
    });
    all_contain(&texts, &["deadlock"]);
}

#[test]
fn heartbeats_do_not_hide_a_deadlock() {
    let texts = fails(FailureKind::Deadlock, |sim| async move {
        let (one, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let lock = |first: Arc<Mutex<()>>, second: Arc<Mutex<()>>| async move {
            let _first = first.lock().await;
            sleep(Duration::from_millis(1)).await;
            let _second = second.lock().await;
        };
        wakeful::spawn(lock(one.clone(), other.clone()));
        wakeful::spawn(lock(other, one));
        sim.host("beating", || async {
            loop {
                sleep(Duration::from_millis(100)).await;
            }
        });
        sleep(Duration::from_secs(3600)).await;
    });
    all_contain(&texts, &["deadlock", "after 900ms", "sim_failures.rs:"]);
}

#[test]
fn a_wait_for_a_slow_holder_is_no_deadlock() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|_| async {
            let mutex = Arc::new(Mutex::new(()));
            let tasks = [1, 2, 3].map(|_| {
                let mutex = mutex.clone();
                wakeful::spawn(async move {
                    let _guard = mutex.lock().await;
                    sleep(Duration::from_secs(10)).await;
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
        });
        outcome.unwrap();
    }
}

#[test]
fn a_stuck_run_shows_what_every_host_waits_for() {
    let texts = fails(FailureKind::Stuck, |sim| async move {
        let notify = Arc::new(Notify::new());
        let kept = notify.clone();
        sim.client("waiter", async move { kept.notified().await }).await;
        drop(notify);
    });
    all_contain(&texts, &["no task is ready", "\"waiter\"", "Notify"]);
}

#[test]
fn a_loop_that_only_yields_is_a_livelock() {
    let outcome = Simulation::new(1).run(|_| async {
        loop {
            yield_now().await;
        }
    });
    assert_eq!(outcome.failure(), Some(FailureKind::Livelock));
    all_contain(&[outcome.to_string()], &["100000 polls without progress of simulated time"]);
}

#[test]
fn a_condition_that_does_not_always_hold() {
    let texts = fails(FailureKind::Always, |sim| async move {
        let value = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let seen = value.clone();
        sim.always("small", move || seen.load(std::sync::atomic::Ordering::SeqCst) < 3);
        sim.host("adder", move || {
            let value = value.clone();
            async move {
                for _ in 0..5 {
                    value.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    sleep(Duration::from_millis(10)).await;
                }
            }
        });
        sleep(Duration::from_secs(1)).await;
    });
    all_contain(&texts, &["after 20ms", "\"small\", at ", "is false"]);
}

#[test]
fn a_condition_that_does_not_come_true_in_time() {
    let texts = fails(FailureKind::Eventually, |sim| async move {
        let mut calls = 0;
        sim.eventually(Duration::from_secs(1), "soon", || true);
        sim.eventually(Duration::from_secs(2), "many polls", move || {
            calls += 1;
            calls > 1_000
        });
        sleep(Duration::from_secs(3)).await;
    });
    all_contain(&texts, &["after 2s", "\"many polls\", at ", "was not true within 2s"]);
}

#[test]
fn an_error_of_a_program() {
    let texts = fails(FailureKind::HostError, |sim| async move {
        sim.host("server", || async { Err::<(), _>(std::fmt::Error) });
        sleep(Duration::from_secs(1)).await;
    });
    all_contain(&texts, &["on host \"server\"", "the program of the host returned Error"]);
    let outcome = Simulation::new(1).run(|_| async { Err::<(), _>("planted") });
    assert_eq!(outcome.failure(), Some(FailureKind::HostError));
}

#[test]
fn a_thread_outside_of_the_simulation() {
    let texts = fails(FailureKind::ForeignThread, |_| async {
        let notify = Arc::new(Notify::new());
        let foreign = notify.clone();
        let waiting = wakeful::spawn(async move { notify.notified().await });
        sleep(Duration::from_millis(1)).await;
        std::thread::spawn(move || foreign.notify_one()).join().unwrap();
        waiting.await.unwrap();
    });
    all_contain(&texts, &["a thread outside of the simulation"]);
}

#[test]
fn a_poll_that_blocks() {
    let (end, ended) = mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let simulation = Simulation::new(1).blocked_after(Duration::from_millis(50));
    let outcome: Outcome = simulation.run(|sim| async move {
        sim.client("blocked", async move { _ = ended.lock().unwrap().recv() }).await;
    });
    assert_eq!(outcome.failure(), Some(FailureKind::BlockedPoll), "{outcome}");
    let text = outcome.to_string();
    assert!(text.contains("on host \"blocked\"") && text.contains("has not returned"), "{text}");
    assert!(text.contains("sim_failures"), "the stack names the place: {text}");
    drop(end);
}

#[test]
fn a_builder_gives_the_failure_as_a_panic_of_block_on() {
    let runtime = wakeful::runtime::Builder::new_simulated(0x77).build().unwrap();
    let run = || runtime.block_on(async { Notify::new().notified().await });
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    let text = payload.downcast::<String>().unwrap();
    assert!(text.contains("the simulation failed") && text.contains("seed 0x77"), "{text}");
}

#[test]
fn a_run_without_a_failure_says_so() {
    let outcome = Simulation::new(1).run(|_| sleep(Duration::from_secs(3)));
    let text = outcome.to_string();
    assert!(text.starts_with("the simulation ended after 3s, seed 0x1, random"), "{text}");
    outcome.unwrap();
}
