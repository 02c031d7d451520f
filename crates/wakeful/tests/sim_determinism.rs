//! Equal seeds give equal runs, in one process and in other processes with other addresses.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use wakeful::sim::{self, Outcome, Sim, Simulation};
use wakeful::sync::{Mutex, Notify, RwLock, broadcast, mpsc};
use wakeful::task::{JoinSet, spawn_blocking, yield_now};
use wakeful::time::{interval, sleep, timeout};

/// Uses as much of the runtime as possible, on three hosts that share channels.
async fn program(sim: Sim) {
    let (tx, mut rx) = mpsc::channel(3);
    let (to_all, _) = broadcast::channel(64);
    let shared = Arc::new((Mutex::new(0u64), RwLock::new(0u64), Notify::new()));
    let mut hosts = Vec::new();
    for n in 0..3u64 {
        let (tx, to_all, shared) = (tx.clone(), to_all.clone(), shared.clone());
        hosts.push(sim.host(format!("n{n}"), move || {
            let (tx, to_all, shared) = (tx.clone(), to_all.clone(), shared.clone());
            async move {
                let mut all = to_all.subscribe();
                let mut set = JoinSet::new();
                for m in 0..4u64 {
                    let (tx, shared, to_all) = (tx.clone(), shared.clone(), to_all.clone());
                    set.spawn(async move {
                        *shared.0.lock().await += m;
                        *shared.1.write().await += *shared.0.lock().await;
                        yield_now().await;
                        let value = spawn_blocking(move || n * 10 + m).await.unwrap();
                        let _ = tx.send(value + sim::choose(5)).await;
                        let _ = to_all.send(value);
                        shared.2.notify_one();
                    });
                }
                let mut ticks = interval(Duration::from_millis(7 + n));
                loop {
                    wakeful::select! {
                        _ = set.join_next(), if !set.is_empty() => {}
                        _ = all.recv() => {}
                        _ = ticks.tick() => {}
                        () = shared.2.notified() => {}
                    }
                }
            }
        }));
    }
    drop(tx);
    let mut sum = 0;
    for n in 0..9 {
        sum += timeout(Duration::from_secs(1), rx.recv()).await.unwrap().unwrap();
        if n == 4 && sim::maybe("restart") {
            hosts[1].restart();
        }
    }
    hosts[2].clock().drift_ppm(300);
    hosts[0].pause(Duration::from_millis(20));
    sleep(Duration::from_millis(100 + sum % 7)).await;
}

fn run(seed: u64) -> Outcome {
    Simulation::new(seed).run(program)
}

#[test]
fn equal_seeds_give_equal_hashes_and_other_seeds_give_others() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (one, other) = (run(seed), run(seed));
        assert_eq!(one.first_difference(&other), None, "seed {seed}");
        assert_eq!((one.hash(), one.polls()), (other.hash(), other.polls()));
        assert_eq!(one.choices(), other.choices());
        one.unwrap();
        hashes.insert(other.hash());
    }
    assert_eq!(hashes.len(), 50);
}

#[test]
fn a_replay_of_the_choices_gives_the_hash_again() {
    for seed in 0..10 {
        let recorded = run(seed);
        let replayed = Simulation::new(seed).replay(&recorded.choices()).unwrap().run(program);
        assert_eq!(replayed.hash(), recorded.hash(), "seed {seed}");
        assert_eq!(replayed.choices(), recorded.choices());
    }
}

#[test]
fn another_number_of_choices_is_told_with_its_place() {
    let (one, other) = (run(1), run(2));
    let difference = one.first_difference(&other).expect("other seeds");
    assert!(difference.contains("step ") && difference.contains("host "), "{difference}");
}

/// Set in the child process, to the seed to run.
const CHILD: &str = "WAKEFUL_TEST_SIM_CHILD";

#[test]
fn another_process_gives_the_same_hash() {
    if let Ok(seed) = std::env::var(CHILD) {
        println!("hash {:#x}", run(seed.parse().unwrap()).hash());
        return;
    }
    for seed in [3, 11] {
        let here = format!("hash {:#x}", run(seed).hash());
        for _ in 0..2 {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["another_process_gives_the_same_hash", "--exact", "--nocapture"])
                .env(CHILD, seed.to_string())
                .output()
                .unwrap();
            let printed = String::from_utf8(child.stdout).unwrap();
            assert!(printed.contains(&here), "{here} is not in {printed}");
        }
    }
}

/// Two tasks wait for each other's locks, and other tasks for events that never happen.
async fn stuck(_sim: Sim) {
    let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let never = Arc::new((Notify::new(), Notify::new()));
    for (first, second) in [(a.clone(), b.clone()), (b, a)] {
        let never = never.clone();
        wakeful::spawn(async move {
            let _first = first.lock().await;
            yield_now().await;
            let _second = second.lock().await;
            never.0.notified().await;
        });
    }
    let other = never.clone();
    wakeful::spawn(async move { other.1.notified().await });
    never.0.notified().await;
}

/// Set in the child process.
const TEXT_CHILD: &str = "WAKEFUL_TEST_SIM_TEXT_CHILD";

#[test]
fn another_process_prints_the_same_text() {
    let here = Simulation::new(5).run(stuck).to_string();
    if std::env::var_os(TEXT_CHILD).is_some() {
        println!("{here}");
        return;
    }
    assert!(here.contains("#1") && here.contains("#2"), "no numbers of resources: {here}");
    for _ in 0..2 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["another_process_prints_the_same_text", "--exact", "--nocapture"])
            .env(TEXT_CHILD, "1")
            .output()
            .unwrap();
        let printed = String::from_utf8(child.stdout).unwrap();
        assert!(printed.contains(&here), "{here}\n\nis not in\n\n{printed}");
    }
}
