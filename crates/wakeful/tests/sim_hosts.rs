//! Hosts of a simulation: killed, restarted and paused, and with wrong clocks.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wakeful::sim::{self, Sim, Simulation};
use wakeful::sync::mpsc;
use wakeful::time::{Instant, sleep};

const SEEDS: u64 = 20;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs the program with several seeds, none of which may fail.
fn runs<F, Fut>(program: F)
where
    F: Fn(Sim) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for seed in 0..SEEDS {
        Simulation::new(seed).run(program.clone()).unwrap();
    }
}

/// A value whose destructor writes to the log, and tries to affect other hosts.
struct Destructor {
    log: Arc<Mutex<Vec<String>>>,
    name: &'static str,
}

impl Drop for Destructor {
    fn drop(&mut self) {
        let host = Sim::current().current_host().name();
        self.log.lock().unwrap().push(format!("{} dropped on {host}", self.name));
        let log = self.log.clone();
        wakeful::spawn(async move { log.lock().unwrap().push("a task ran".to_owned()) });
    }
}

#[test]
fn a_killed_host_runs_nothing_any_more() {
    runs(|sim| async move {
        let log = Arc::new(Mutex::new(Vec::new()));
        let beats = Arc::new(AtomicU32::new(0));
        let (host_log, counter) = (log.clone(), beats.clone());
        let host = sim.host("h", move || {
            let (log, counter) = (host_log.clone(), counter.clone());
            async move {
                let kept = Destructor { log: log.clone(), name: "program" };
                wakeful::spawn(async move {
                    let _kept = Destructor { log, name: "task" };
                    loop {
                        counter.fetch_add(1, SeqCst);
                        sleep(secs(1)).await;
                    }
                });
                sleep(secs(1_000)).await;
                drop(kept);
            }
        });
        sleep(Duration::from_millis(4_500)).await;
        assert_eq!(beats.load(SeqCst), 5);
        assert!(host.is_up());
        host.kill();
        sleep(secs(10)).await;
        assert!(!host.is_up());
        assert_eq!(beats.load(SeqCst), 5);
        let mut log = log.lock().unwrap().clone();
        log.sort();
        assert_eq!(log, ["program dropped on h", "task dropped on h"]);
    });
}

#[test]
fn a_host_can_kill_itself() {
    runs(|sim| async move {
        let after = Arc::new(AtomicU32::new(0));
        let counter = after.clone();
        let host = sim.host("h", move || {
            let counter = counter.clone();
            async move {
                Sim::current().current_host().kill();
                // The rest of the poll still runs.
                wakeful::task::yield_now().await;
                counter.fetch_add(1, SeqCst);
            }
        });
        sleep(secs(1)).await;
        assert!(!host.is_up());
        assert_eq!(after.load(SeqCst), 0);
    });
}

#[test]
fn a_restart_begins_with_a_new_runtime_and_clock() {
    runs(|sim| async move {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let host = sim.host("h", move || {
            let tx = tx.clone();
            async move {
                let began = Instant::now();
                sleep(secs(3)).await;
                tx.send((began.elapsed(), Sim::current().elapsed())).unwrap();
                sleep(secs(100)).await;
            }
        });
        assert_eq!(rx.recv().await, Some((secs(3), secs(3))));
        host.restart();
        assert_eq!(rx.recv().await, Some((secs(3), secs(6))));
        host.kill();
        host.restart();
        assert_eq!(rx.recv().await, Some((secs(3), secs(9))));
    });
}

#[test]
fn a_paused_host_is_late_and_then_goes_on() {
    runs(|sim| async move {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let host = sim.host("h", move || {
            let tx = tx.clone();
            async move {
                for n in 0..3 {
                    sleep(secs(1)).await;
                    tx.send((n, Sim::current().elapsed())).unwrap();
                }
                sleep(secs(1_000)).await;
            }
        });
        assert_eq!(rx.recv().await, Some((0, secs(1))));
        host.pause(secs(100));
        host.pause(secs(10));
        assert_eq!(rx.recv().await, Some((1, secs(11))));
        assert_eq!(rx.recv().await, Some((2, secs(12))));
    });
}

#[test]
fn clocks_drift_and_step_on_their_own_host_only() {
    runs(|sim| async move {
        let began = (Instant::now(), sim::system_time());
        let (tx, mut rx) = mpsc::unbounded_channel();
        let host = sim.host("h", move || {
            let tx = tx.clone();
            async move {
                let began = (Instant::now(), sim::system_time());
                sleep(secs(100)).await;
                let wall = sim::system_time().duration_since(began.1).unwrap();
                tx.send((began.0.elapsed(), wall)).unwrap();
                sleep(secs(1_000)).await;
            }
        });
        host.clock().drift_ppm(-500_000);
        sleep(secs(50)).await;
        host.clock().step(secs(7));
        assert_eq!(rx.recv().await, Some((secs(100), secs(107))));
        assert_eq!(began.0.elapsed(), secs(200));
        assert_eq!(sim::system_time().duration_since(began.1).unwrap(), secs(200));
    });
}

#[test]
fn the_wall_clock_goes_on_over_a_restart() {
    runs(|sim| async move {
        let (tx, mut rx) = mpsc::unbounded_channel();
        let host = sim.host("h", move || {
            let tx = tx.clone();
            async move {
                tx.send(sim::system_time()).unwrap();
                sleep(secs(1_000)).await;
            }
        });
        let first = rx.recv().await.unwrap();
        host.clock().step(secs(5));
        sleep(secs(10)).await;
        host.restart();
        assert_eq!(rx.recv().await.unwrap(), first + secs(15));
    });
}

#[test]
fn a_client_that_is_killed_tells_its_caller() {
    let outcome = Simulation::new(1).run(|sim| async move {
        let client = sim.client("c", sleep(secs(100)));
        sim.client("killer", async {
            sleep(secs(1)).await;
            Sim::current().host_named("c").unwrap().kill();
        })
        .await;
        client.await;
    });
    let text = outcome.to_string();
    assert!(text.contains("the client \\\"c\\\" was killed"), "{text}");
}

#[test]
fn the_host_of_the_test_itself_cannot_be_killed() {
    let outcome = Simulation::new(1).run(|sim| async move { sim.current_host().kill() });
    let text = outcome.to_string();
    assert!(text.contains("cannot be killed: the test itself runs on it"), "{text}");
}

#[test]
fn two_hosts_cannot_have_one_name() {
    let outcome = Simulation::new(1).run(|sim| async move {
        sim.host("h", || async {});
        sim.host("h", || async {});
    });
    assert!(outcome.to_string().contains("already has a host named"), "{outcome}");
}

#[test]
fn all_hosts_end_with_the_program() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let host_log = log.clone();
    let outcome = Simulation::new(1).run(move |sim| async move {
        sim.host("h", move || {
            let kept = Destructor { log: host_log.clone(), name: "program" };
            async move {
                sleep(secs(100)).await;
                drop(kept);
            }
        });
        sleep(secs(1)).await;
    });
    outcome.unwrap();
    assert_eq!(*log.lock().unwrap(), ["program dropped on h"]);
}
