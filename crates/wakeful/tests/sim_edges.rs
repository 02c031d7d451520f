//! Edge cases of simulations: panics outside of tasks, limits, deadlines, leaks and foreign threads.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wakeful::runtime::{Builder, Handle, UnhandledPanic};
use wakeful::sim::{self, FailureKind, Outcome, Sim, Simulation};
use wakeful::sync::mpsc;
use wakeful::task::{spawn_blocking, yield_now};
use wakeful::time::sleep;

const SEEDS: u64 = 10;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs the program with several seeds, each of which must fail with this kind and this text.
fn fails<F, Fut>(kind: FailureKind, part: &str, program: F)
where
    F: Fn(Sim) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for seed in 0..SEEDS {
        fails_with(kind, part, &Simulation::new(seed).run(program.clone()));
    }
}

fn fails_with(kind: FailureKind, part: &str, outcome: &Outcome) {
    assert_eq!(outcome.failure(), Some(kind), "{outcome}");
    assert!(outcome.to_string().contains(part), "{part:?} is missing: {outcome}");
}

#[test]
fn a_program_that_panics_at_a_start_fails_the_run_and_names_the_host() {
    fails(FailureKind::Panic, "on host \"server\"", |sim| async move {
        let mut once = Some(());
        let host = sim.host("server", move || {
            once.take().expect("planted");
            async {}
        });
        sleep(secs(1)).await;
        host.restart();
        sleep(secs(1)).await;
    });
}

#[test]
fn the_closure_of_the_program_itself_may_panic() {
    let outcome = Simulation::new(1).run(|_| {
        assert!(std::env::args().count() == 0, "planted");
        async {}
    });
    fails_with(FailureKind::Panic, "planted", &outcome);
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("planted in a destructor");
    }
}

#[test]
fn a_destructor_of_what_a_host_captured_fails_the_run() {
    fails(FailureKind::Panic, "planted in a destructor", |sim| async move {
        let captured = PanicsOnDrop;
        sim.host("a", move || {
            let _ = &captured;
            async { sleep(secs(100)).await }
        });
        sim.host("b", || async { sleep(secs(100)).await });
        sleep(secs(1)).await;
    });
}

#[test]
fn a_heartbeat_does_not_let_a_run_go_on_for_ever() {
    let simulation = Simulation::new(1).time_limit(secs(60));
    let outcome = simulation.run(|sim| async move {
        sim.host("beating", || async {
            loop {
                sleep(secs(1)).await;
            }
        });
        let (_tx, mut rx) = mpsc::channel::<()>(1);
        rx.recv().await;
    });
    fails_with(FailureKind::TimeLimit, "within 60s of simulated time", &outcome);
    assert!(outcome.to_string().contains("mpsc"), "it shows what the tasks wait for: {outcome}");
    assert_eq!(outcome.elapsed(), secs(60));
}

#[test]
fn a_run_leaves_nothing_behind() {
    let shared = Arc::new(());
    let kept = shared.clone();
    let outcome = Simulation::new(1).run(move |sim| async move {
        let host = sim.host("h", || async { sleep(secs(100)).await });
        for _ in 0..3 {
            let (sim, host, kept) = (sim.clone(), host.clone(), kept.clone());
            sim.clone().always("captures", move || {
                let _ = (&sim, &host, &kept);
                true
            });
        }
        let (handle, in_host) = (sim.clone(), kept.clone());
        sim.host("captures", move || {
            let _ = (&handle, &in_host);
            async { sleep(secs(100)).await }
        });
        host.pause(secs(1_000));
        sleep(secs(1)).await;
    });
    outcome.unwrap();
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn what_a_condition_asks_for_happens_after_it() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let starts = Arc::new(AtomicU32::new(0));
            let counter = starts.clone();
            let host = sim.host("h", move || {
                let counter = counter.clone();
                async move {
                    counter.fetch_add(1, SeqCst);
                    sleep(secs(1_000)).await;
                }
            });
            let (mut is_asked, begun) = (false, starts.clone());
            sim.always("restarts once", move || {
                if begun.load(SeqCst) == 1 && !is_asked {
                    is_asked = true;
                    host.restart();
                }
                true
            });
            sleep(secs(1)).await;
            assert_eq!(starts.load(SeqCst), 2);
        });
        outcome.unwrap();
    }
}

#[test]
fn an_eventual_condition_is_decided_although_the_program_returns() {
    fails(FailureKind::Eventually, "\"never\"", |sim| async move {
        sim.eventually(secs(5), "never", || false);
    });
    let outcome = Simulation::new(1).run(|sim| async move {
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        sim.eventually(secs(30), "later", move || seen.load(SeqCst));
        sim.host("h", move || {
            let done = done.clone();
            async move {
                sleep(secs(20)).await;
                done.store(true, SeqCst);
            }
        });
    });
    assert_eq!(outcome.elapsed(), secs(20));
    outcome.unwrap();
}

#[test]
fn what_happens_at_the_deadline_still_counts() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let done = Arc::new(AtomicBool::new(false));
            let seen = done.clone();
            sim.eventually(secs(5), "at the deadline", move || seen.load(SeqCst));
            sleep(secs(5)).await;
            yield_now().await;
            done.store(true, SeqCst);
            yield_now().await;
        });
        outcome.unwrap();
    }
}

#[test]
fn a_condition_that_panics_fails_the_run() {
    fails(FailureKind::Eventually, "\"sound\"", |sim| async move {
        sim.eventually(secs(5), "sound", || panic!("planted"));
        sleep(secs(1)).await;
    });
}

#[test]
fn a_deadlock_that_the_program_ends_itself_is_none() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|_| async {
            let one = Arc::new(wakeful::sync::Mutex::new(()));
            let other = Arc::new(wakeful::sync::Mutex::new(()));
            let lock = |first: Arc<wakeful::sync::Mutex<()>>,
                        second: Arc<wakeful::sync::Mutex<()>>| {
                wakeful::spawn(async move {
                    let _first = first.lock().await;
                    sleep(secs(1)).await;
                    let _second = second.lock().await;
                })
            };
            let (a, b) = (lock(one.clone(), other.clone()), lock(other, one));
            sleep(secs(100)).await;
            a.abort();
            assert!(a.await.unwrap_err().is_cancelled());
            b.await.unwrap();
        });
        outcome.unwrap();
    }
}

#[test]
fn the_slowest_clock_and_the_farthest_deadline_end() {
    let simulation = Simulation::new(1).time_limit(secs(1_000));
    let outcome = simulation.run(|sim| async move {
        let host = sim.host("slow", || async { sleep(Duration::MAX).await });
        host.clock().drift_ppm(-999_999);
        sleep(secs(10)).await;
    });
    outcome.unwrap();
    let runtime = Builder::new_simulated(1).enable_all().build().unwrap();
    let is_late = runtime
        .block_on(async { wakeful::time::timeout(secs(1), sleep(Duration::MAX)).await.is_err() });
    assert!(is_late);
}

#[test]
fn steps_that_do_not_move_the_time_are_a_livelock() {
    fails(FailureKind::Livelock, "without progress of simulated time", |sim| async move {
        let host = sim.host("h", || async {});
        loop {
            host.pause(Duration::ZERO);
            yield_now().await;
        }
    });
}

#[test]
fn a_foreign_thread_may_not_choose() {
    fails(FailureKind::ForeignThread, "made a choice for it", |_| async {
        let handle = Handle::current();
        let foreign = move || {
            let _entered = handle.enter();
            sim::maybe("foreign")
        };
        assert!(!std::thread::spawn(foreign).join().unwrap_or_default());
        sleep(secs(1)).await;
    });
}

#[test]
fn destructors_of_a_killed_host_change_nothing() {
    struct Meddles(Arc<Mutex<Vec<u64>>>);
    impl Drop for Meddles {
        fn drop(&mut self) {
            let sim = Sim::current();
            sim.host("ghost", || async { panic!("a ghost runs") });
            sim.host_named("other").unwrap().kill();
            self.0.lock().unwrap().push(sim::choose(1_000));
        }
    }
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let chosen = Arc::new(Mutex::new(Vec::new()));
            let in_host = chosen.clone();
            let host = sim.host("h", move || {
                let meddles = Meddles(in_host.clone());
                async move {
                    sleep(secs(1_000)).await;
                    drop(meddles);
                }
            });
            let other = sim.host("other", || async { sleep(secs(1_000)).await });
            sleep(secs(1)).await;
            host.kill();
            sleep(secs(1)).await;
            assert!(other.is_up());
            assert_eq!(*chosen.lock().unwrap(), [0]);
        });
        outcome.unwrap();
    }
}

#[test]
fn a_panic_that_shuts_a_runtime_down_ends_the_block_on_from_any_host() {
    let mut builder = Builder::new_simulated(1);
    let runtime = builder.unhandled_panic(UnhandledPanic::ShutdownRuntime).build().unwrap();
    let run = || {
        runtime.block_on(async {
            Sim::current().client("c", async { panic!("planted") }).await;
        });
    };
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    let text = payload.downcast::<String>().unwrap();
    assert!(text.contains("on host \"c\"") && text.contains("planted"), "{text}");
}

#[test]
fn tasks_of_programs_are_named_by_the_place_of_the_user() {
    let outcome = Simulation::new(1).run(|sim| async move {
        sim.client("waits", async {
            std::sync::Arc::new(wakeful::sync::Notify::new()).notified().await
        })
        .await;
    });
    let text = outcome.to_string();
    assert_eq!(outcome.failure(), Some(FailureKind::Stuck));
    assert!(!text.contains("spawned at crates/wakeful/src"), "{text}");
    assert!(text.contains("spawned at crates/wakeful/tests/sim_edges.rs"), "{text}");
}

#[test]
fn a_restart_ends_a_pause() {
    let outcome = Simulation::new(1).run(|sim| async move {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let host = sim.host("h", move || {
            let tx = tx.clone();
            async move {
                tx.send(Sim::current().elapsed()).unwrap();
                sleep(secs(1_000)).await;
            }
        });
        rx.recv().await.unwrap();
        host.pause(secs(100));
        sleep(secs(1)).await;
        host.restart();
        assert_eq!(rx.recv().await.unwrap(), secs(1));
    });
    outcome.unwrap();
}

#[test]
fn a_second_block_on_begins_without_the_hosts_and_conditions_of_the_first() {
    let runtime = Builder::new_simulated(1).enable_all().build().unwrap();
    for _ in 0..2 {
        runtime.block_on(async {
            let sim = Sim::current();
            let is_over = Arc::new(AtomicBool::new(false));
            let seen = is_over.clone();
            sim.always("of this block_on", move || !seen.load(SeqCst));
            sim.host("h", || async { sleep(secs(1_000)).await });
            sleep(secs(1)).await;
            assert!(sim.host_named("h").unwrap().is_up());
            spawn_blocking(move || is_over.store(false, SeqCst)).await.unwrap();
        });
    }
}

#[test]
fn a_run_inside_of_a_task_is_refused() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let run = || runtime.block_on(async { Simulation::new(1).run(|_| async {}).unwrap() });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}
