//! The programs on wakeful.

#[path = "../../programs/clocks.rs"]
mod clocks;
#[path = "../../programs/harness.rs"]
mod harness;
#[path = "../../programs/mod.rs"]
mod programs;
#[path = "../../programs/races.rs"]
mod races;
mod rt;
#[path = "../../programs/waits.rs"]
mod waits;

#[path = "../../programs/heartbeats.rs"]
mod heartbeats;
#[path = "../../programs/net.rs"]
mod net;

use harness::{Tool, seed};
use programs::{Bug, System, Twin, bugs};
use wakeful::sim::{Explorer, Sim};

/// `STRATEGY`: as for `Explorer::strategy`, `swarm` by default.
struct Wakeful {
    strategy: String,
}

/// Starts the hosts, and waits for the client, which also runs on a host.
async fn run(sim: Sim, System { hosts, client }: System) {
    if hosts.is_empty() {
        return client.await;
    }
    rt::set_latency(&sim);
    for host in hosts {
        sim.host(host.name, move || (host.program)());
    }
    sim.client("client", client).await;
}

impl Wakeful {
    fn explorer(&self, bug: &Bug, first_seed: u64, runs: u64) -> Explorer {
        let explorer = Explorer::new(format!("{}-{first_seed}", bug.name));
        explorer.first_seed(first_seed).seeds(runs).strategy(&self.strategy)
    }
}

impl Tool for Wakeful {
    const BUGS: &'static [Bug] = bugs![
        waits::lost_wakeup,
        waits::stale_waker,
        races::cancelled_read,
        waits::abba,
        waits::futurelock,
        races::order_across_senders,
        races::lost_update,
        net::one_read,
        net::applied_twice,
        net::two_leaders,
        clocks::expired_lease,
        net::retry_storm,
    ];

    fn search(&mut self, bug: &Bug, master: u64, max_runs: u64) -> Option<u64> {
        let make = bug.system;
        let explorer = self.explorer(bug, seed(master, 0), max_runs);
        match explorer.run(move |sim| run(sim, make(Twin::Buggy))) {
            Ok(_) => None,
            Err(error) => {
                assert!(error.kind().is_some(), "not deterministic: {error}");
                Some(error.runs())
            }
        }
    }

    fn twins(&mut self, bug: &Bug, first_seed: u64, runs: u64) -> u64 {
        let make = bug.system;
        let (mut made, mut alarms) = (0, 0);
        while made < runs {
            let explorer = self.explorer(bug, first_seed + made, runs - made);
            match explorer.run(move |sim| run(sim, make(Twin::Fixed))) {
                Ok(_) => break,
                Err(error) => {
                    eprintln!("{error}");
                    made += error.runs();
                    alarms += 1;
                }
            }
        }
        alarms
    }

    fn heartbeats(&mut self, hosts: usize, simulated: std::time::Duration) {
        use wakeful::sim::Simulation;
        let simulation = Simulation::new(seed(1, 0)).time_limit(2 * simulated);
        simulation.run(move |sim| run(sim, heartbeats::heartbeats(hosts, simulated))).unwrap();
    }
}

fn main() {
    let strategy = std::env::var("STRATEGY").unwrap_or_else(|_| "swarm".to_owned());
    harness::main(Wakeful { strategy });
}
