//! Chaos: faults that the seed draws, their limits, and the healing at the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream, UdpSocket};
use wakeful::sim::{self, Chaos, Explorer, FailureKind, Host, Sim, Simulation};
use wakeful::sync::Notify;
use wakeful::time::{sleep, timeout};

#[path = "support/sim_net.rs"]
mod sim_net;
use sim_net::{echo, ms, secs};

/// How long the chaos of most tests takes.
const CHAOS: Duration = Duration::from_secs(4);

/// Sends one byte to the server and receives it back.
async fn exchange(server: &str) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(format!("{server}:80")).await?;
    stream.write_u8(7).await?;
    stream.read_u8().await
}

/// Three servers and a client that asks all of them during a chaos.
async fn asked_servers(sim: Sim, chaos: Chaos) -> Vec<Host> {
    let hosts: Vec<Host> = (0..3).map(|n| sim.host(format!("n{n}"), echo)).collect();
    sim.chaos(chaos.until(CHAOS));
    sim.client("client", async {
        for _ in 0..20 {
            for server in ["n0", "n1", "n2"] {
                let _ = timeout(ms(100), exchange(server)).await;
            }
            sleep(ms(50)).await;
        }
    })
    .await;
    hosts
}

fn swarm(seed: u64) -> Simulation {
    Simulation::new(seed)
}

async fn swarm_program(sim: Sim) {
    asked_servers(sim, Chaos::swarm()).await;
}

#[test]
fn equal_seeds_have_equal_chaos_and_a_replay_repeats_it() {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let (one, other) = (swarm(seed).run(swarm_program), swarm(seed).run(swarm_program));
        assert_eq!(one.first_difference(&other), None, "seed {seed}");
        let replay = swarm(seed).replay(&one.choices()).unwrap().run(swarm_program);
        assert_eq!(replay.hash(), one.hash(), "seed {seed}");
        hashes.insert(one.hash());
        one.unwrap();
    }
    assert_eq!(hashes.len(), 20);
}

#[test]
fn the_usual_choices_are_no_fault() {
    let outcome = Simulation::new(1).fifo().run(|sim| async move {
        for host in asked_servers(sim.clone(), Chaos::swarm()).await {
            assert!(host.is_up());
        }
        assert_eq!(exchange("n0").await.unwrap(), 7);
    });
    assert!(outcome.to_string().contains("fifo; faults {}"), "{outcome}");
    outcome.unwrap();
}

#[test]
fn the_outcome_names_the_kinds_and_rates_that_were_drawn() {
    let all: String = (0..40).map(|seed| swarm(seed).run(swarm_program).to_string()).collect();
    for kind in [
        "loss 20 %",
        "duplicate ",
        "reorder ",
        "partition ~",
        "latency_spike ~",
        "kill ~",
        "pause ~",
        "clock_step ~",
        "clock_drift ~",
    ] {
        assert!(all.contains(kind), "{kind} is not drawn: {all}");
    }
    let none = Simulation::new(1).run(|_| async {});
    assert!(!none.to_string().contains("faults"), "{none}");
}

/// What a test has seen of the hosts during a chaos.
#[derive(Default)]
struct Seen {
    most_down: usize,
    downs: BTreeSet<String>,
}

/// Observes which hosts are down, after each poll.
fn observe(sim: &Sim, hosts: &[Host]) -> Arc<Mutex<Seen>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (observed, hosts) = (seen.clone(), hosts.to_vec());
    let names: Vec<String> = hosts.iter().map(Host::name).collect();
    sim.always("observes", move || {
        let down = hosts.iter().zip(&names).filter(|(host, _)| !host.is_up());
        let down: Vec<String> = down.map(|(_, name)| name.clone()).collect();
        let mut seen = observed.lock().unwrap();
        seen.most_down = seen.most_down.max(down.len());
        seen.downs.extend(down);
        true
    });
    seen
}

/// Ticks often, so that conditions are checked often.
async fn tick(time: Duration) {
    for _ in 0..time.as_millis() / 10 {
        sleep(ms(10)).await;
    }
}

#[test]
fn kills_have_a_limit_and_spare_exempt_hosts_and_clients() {
    let total = Arc::new(Mutex::new(BTreeSet::new()));
    for seed in 0..60 {
        let total = total.clone();
        let outcome = Simulation::new(seed).run(move |sim| async move {
            let hosts = ["a", "b", "c", "spared"]
                .map(|name| sim.host(name, || async { sleep(secs(1_000)).await }));
            let client = sim.client("client", tick(CHAOS));
            sleep(ms(1)).await;
            let seen = observe(&sim, &hosts);
            sim.chaos(Chaos::none().kills(2).exempt(["spared"]).until(CHAOS));
            client.await;
            let seen = seen.lock().unwrap();
            assert!(seen.most_down <= 2);
            total.lock().unwrap().extend(seen.downs.clone());
            total.lock().unwrap().insert(seen.most_down.to_string());
        });
        outcome.unwrap();
    }
    let expected = ["0", "1", "2", "a", "b", "c"].map(str::to_owned);
    assert_eq!(*total.lock().unwrap(), expected.into());
}

#[test]
fn all_is_healed_at_the_end() {
    let mut faults = 0;
    for seed in 0..60 {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let hosts: Vec<Host> = (0..3).map(|n| sim.host(format!("n{n}"), echo)).collect();
            let clock = Arc::new(Mutex::new(SystemTime::UNIX_EPOCH));
            let shown = clock.clone();
            sim.host("clock", move || {
                let shown = shown.clone();
                async move {
                    loop {
                        *shown.lock().unwrap() = sim::system_time();
                        sleep(ms(1)).await;
                    }
                }
            });
            // Without drift, because a drift that has ended leaves the clocks apart.
            let chaos = Chaos::swarm().drift_ppm(0);
            sim.chaos(chaos.until(CHAOS));
            sleep(CHAOS).await;
            sleep(ms(5)).await;
            for host in hosts {
                assert!(host.is_up());
                let answer = timeout(ms(50), exchange(&host.name())).await;
                assert_eq!(answer.expect("no fault is left").unwrap(), 7);
            }
            let apart = sim::system_time().duration_since(*clock.lock().unwrap()).unwrap();
            assert!(apart <= ms(2), "the clocks are {apart:?} apart");
        });
        faults += u32::from(!outcome.to_string().contains("faults {}"));
        outcome.unwrap();
    }
    assert!(faults > 50, "{faults} of 60 seeds have faults");
}

#[test]
fn drift_ends_with_the_chaos_and_the_drift_of_the_program_returns() {
    let has_drifted = Arc::new(AtomicBool::new(false));
    for seed in 0..20 {
        let has_drifted = has_drifted.clone();
        let outcome = Simulation::new(seed).run(move |sim| async move {
            let ticks = Arc::new(AtomicU32::new(0));
            let counter = ticks.clone();
            let host = sim.host("a", move || {
                let counter = counter.clone();
                async move {
                    loop {
                        sleep(ms(100)).await;
                        counter.fetch_add(1, SeqCst);
                    }
                }
            });
            host.clock().drift_ppm(100_000);
            sim.chaos(Chaos::none().drift_ppm(500_000).until(CHAOS));
            sleep(CHAOS).await;
            let during = ticks.swap(0, SeqCst);
            has_drifted.fetch_or(!(43..=44).contains(&during), SeqCst);
            sleep(secs(10)).await;
            let after = ticks.load(SeqCst);
            assert!((109..=111).contains(&after), "{after} ticks in 10 s at 110 %");
        });
        outcome.unwrap();
    }
    assert!(has_drifted.load(SeqCst));
}

#[test]
fn an_eventually_starts_when_the_chaos_ends() {
    let has_been_late = Arc::new(AtomicBool::new(false));
    for seed in 0..40 {
        let has_been_late = has_been_late.clone();
        let outcome = Simulation::new(seed).run(move |sim| async move {
            let started = Arc::new(AtomicU32::new(0));
            let (counter, seen) = (started.clone(), started.clone());
            let host = sim.host("a", move || {
                let counter = counter.clone();
                async move {
                    sleep(secs(1)).await;
                    counter.fetch_add(1, SeqCst);
                    sleep(secs(1_000)).await;
                }
            });
            sim.chaos(Chaos::none().kills(1).until(CHAOS));
            let begin = sim.clone();
            let late = has_been_late.clone();
            // Restarts may delay it for the whole chaos.
            sim.eventually(ms(1_100), "starts", move || {
                let has_started = seen.load(SeqCst) > 0;
                late.fetch_or(has_started && begin.elapsed() > ms(1_100), SeqCst);
                has_started
            });
            sleep(CHAOS + secs(3)).await;
            assert!(host.is_up() && started.load(SeqCst) > 0);
        });
        outcome.unwrap();
    }
    assert!(has_been_late.load(SeqCst), "a kill delays it past its time in some seed");
    let never = Simulation::new(1).run(|sim| async move {
        sim.chaos(Chaos::swarm().until(CHAOS));
        sim.eventually(secs(1), "never", || false);
        sleep(secs(100)).await;
    });
    assert_eq!(never.failure(), Some(FailureKind::Eventually));
    assert_eq!(never.elapsed(), CHAOS + secs(1));
}

#[test]
fn the_chaos_ends_when_the_program_returns() {
    for seed in 0..20 {
        let outcome = Simulation::new(seed).run(|sim| async move {
            sim.host("a", echo);
            let asked = sim.clone();
            sim.chaos(Chaos::swarm().until(secs(1_000)));
            let has_answered = Arc::new(AtomicBool::new(false));
            let seen = has_answered.clone();
            sim.eventually(secs(20), "answers", move || seen.load(SeqCst));
            asked.host("asks", move || {
                let has_answered = has_answered.clone();
                async move {
                    while !matches!(timeout(secs(1), exchange("a")).await, Ok(Ok(7))) {
                        sleep(ms(10)).await;
                    }
                    has_answered.store(true, SeqCst);
                }
            });
            sleep(ms(100)).await;
        });
        assert!(outcome.elapsed() < secs(30), "{outcome}");
        outcome.unwrap();
    }
}

#[test]
fn a_host_that_the_program_kills_stays_down() {
    for seed in 0..40 {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let host = sim.host("a", || async { sleep(secs(1_000)).await });
            sim.chaos(Chaos::none().kills(1).until(CHAOS));
            sleep(CHAOS / 2).await;
            host.kill();
            sleep(ms(1)).await;
            let (is_up, killed) = (Arc::new(AtomicBool::new(false)), host.clone());
            let seen = is_up.clone();
            sim.always("stays down", move || {
                seen.fetch_or(killed.is_up(), SeqCst);
                true
            });
            tick(CHAOS).await;
            assert!(!is_up.load(SeqCst));
        });
        outcome.unwrap();
    }
}

#[test]
fn a_second_chaos_replaces_the_first() {
    for seed in 0..20 {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let host = sim.host("a", || async { sleep(secs(1_000)).await });
            sim.chaos(Chaos::none().kills(1));
            sleep(secs(2)).await;
            sim.chaos(Chaos::none());
            sleep(ms(1)).await;
            let is_down = observe(&sim, &[host]);
            tick(secs(10)).await;
            assert_eq!(is_down.lock().unwrap().most_down, 0);
        });
        outcome.unwrap();
    }
}

#[test]
fn routes_that_the_program_opens_stay_open_until_the_next_strike() {
    for seed in 0..20 {
        let outcome = Simulation::new(seed).run(|sim| async move {
            sim.host("a", echo);
            sim.chaos(Chaos::none().partitions(1).until(CHAOS));
            let until = sim.elapsed() + CHAOS + ms(500);
            while sim.elapsed() < until {
                sim.network().heal_all();
                sleep(ms(40)).await;
            }
            assert_eq!(exchange("a").await.unwrap(), 7);
        });
        outcome.unwrap();
    }
}

/// Counts in memory, so that a restart of the server loses the count.
async fn forgets_its_count(sim: Sim) {
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        for count in 1.. {
            listener.accept().await?.0.write_u8(count).await?;
        }
        std::io::Result::Ok(())
    });
    sim.chaos(Chaos::swarm().until(secs(2)));
    let mut last = 0;
    for _ in 0..20 {
        let asking = async {
            let mut stream = TcpStream::connect("server:80").await?;
            stream.read_u8().await
        };
        if let Ok(Ok(count)) = timeout(ms(300), asking).await {
            assert!(count > last, "{count} after {last}");
            last = count;
        }
        sleep(ms(100)).await;
    }
}

#[test]
fn a_bug_that_needs_a_restart_is_found_and_told() {
    let explorer = Explorer::new("forgets_its_count").seeds(50);
    let error = explorer.run(forgets_its_count).unwrap_err();
    let text = error.to_string();
    println!("{text}");
    assert!(text.contains("faults {") && text.contains("kill ~"), "{text}");
    assert!(text.contains("the fault kill is on"), "{text}");
    assert!(text.contains("server is killed, and stays down for "), "{text}");
    assert!(error.choices().is_some_and(|choices| choices <= 3), "{text}");
}

#[test]
fn excluded_kinds_never_strike() {
    for seed in 0..30 {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let hosts = asked_servers(sim.clone(), Chaos::swarm().kills(0).pauses(0)).await;
            drop(hosts);
        });
        let text = outcome.to_string();
        assert!(!text.contains("kill") && !text.contains("pause"), "{text}");
        outcome.unwrap();
    }
}

/// Returns how many of ten seeds fail.
fn failing(chaos: fn() -> Chaos) -> usize {
    let run = |seed| Simulation::new(seed).run(move |sim| datagrams(sim, chaos()));
    (0..10).map(run).filter(|outcome| outcome.failure().is_some()).count()
}

/// Sends 200 numbered datagrams, and panics at the first that is lost, late, or arrives twice.
async fn datagrams(sim: Sim, chaos: Chaos) {
    let ready = Arc::new(Notify::new());
    let is_bound = ready.clone();
    let received = sim.client("receiver", async move {
        let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
        is_bound.notify_one();
        for expected in 0..200u8 {
            let mut buf = [0];
            timeout(ms(200), socket.recv(&mut buf)).await.expect("lost or late").unwrap();
            assert!(buf[0] <= expected, "overtaken");
            assert!(buf[0] >= expected, "twice");
        }
    });
    ready.notified().await;
    sim.chaos(chaos.until(secs(1)));
    let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    for number in 0..200u8 {
        socket.send_to(&[number], "receiver:53").await.unwrap();
        sleep(ms(3)).await;
    }
    received.await;
}

#[test]
fn each_fault_of_the_network_has_its_effect() {
    assert!(failing(|| Chaos::none().loss(0.2)) > 3);
    assert!(failing(|| Chaos::none().duplicate(0.2)) > 3);
    assert!(failing(|| Chaos::none().reorder(0.2)) > 3);
    assert!(failing(|| Chaos::none().latency_spikes(secs(2))) > 3);
    assert!(failing(|| Chaos::none().partitions(1)) > 3);
    assert_eq!(failing(Chaos::none), 0);
}

#[test]
fn a_chaos_ends_with_its_runtime() {
    use wakeful::runtime::{Builder, LocalOptions};
    for seed in 0..5 {
        let builder =
            || Builder::new_simulated(seed).enable_all().build_local(LocalOptions::default());
        let runtime = builder().unwrap();
        for _ in 0..2 {
            runtime.block_on(async {
                let sim = Sim::current();
                sim.chaos(Chaos::swarm().until(CHAOS));
                sleep(CHAOS / 2).await;
            });
        }
        runtime.block_on(async {
            sleep(secs(100)).await;
        });
    }
}
