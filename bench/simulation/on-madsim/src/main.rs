//! The programs on madsim. Build with `RUSTFLAGS="--cfg madsim"`, because madsim does not simulate
//! without it.

#[path = "../../programs/clocks.rs"]
mod clocks;
#[path = "../../programs/harness.rs"]
mod harness;
#[path = "../../programs/heartbeats.rs"]
mod heartbeats;
#[path = "../../programs/net.rs"]
mod net;
#[path = "../../programs/mod.rs"]
mod programs;
#[path = "../../programs/races.rs"]
mod races;
mod rt;
#[path = "../../programs/waits.rs"]
mod waits;

use harness::{Tool, search_seeds, seed};
use madsim::Config;
use madsim::net::NetSim;
use madsim::runtime::{Handle, Runtime};
use programs::{Bug, System, Twin, bugs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

struct Madsim;

/// Starts the hosts, and waits for the client, which also runs on a host.
async fn run(System { hosts, client }: System) {
    if hosts.is_empty() {
        return client.await;
    }
    let handle = Handle::current();
    let mut nodes = Vec::new();
    for (number, host) in hosts.into_iter().enumerate() {
        let address = [10, 0, (number / 200) as u8, (number % 200) as u8 + 1].into();
        let program = Arc::new(host.program);
        let node = handle.create_node().name(host.name).ip(address);
        let node = node.init(move || program()).build();
        NetSim::current().add_dns_record(host.name, address);
        nodes.push((host.name, node.id()));
    }
    rt::set_nodes(nodes);
    let node = handle.create_node().name("client").ip([10, 0, 9, 1].into()).build();
    node.spawn(client).await.unwrap();
}

fn runtime(seed: u64) -> Runtime {
    let mut config = Config::default();
    config.net.send_latency = Duration::from_millis(1)..Duration::from_millis(20);
    Runtime::with_seed_and_config(seed, config)
}

fn fails(bug: &Bug, twin: Twin, seed: u64) -> bool {
    let run = || {
        let mut runtime = runtime(seed);
        runtime.set_time_limit(Duration::from_secs(3_600));
        runtime.block_on(run((bug.system)(twin)));
    };
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

impl Tool for Madsim {
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
        search_seeds(master, max_runs, |seed| fails(bug, Twin::Buggy, seed))
    }

    fn twins(&mut self, bug: &Bug, first_seed: u64, runs: u64) -> u64 {
        (0..runs).filter(|run| fails(bug, Twin::Fixed, first_seed + run)).count() as u64
    }

    fn heartbeats(&mut self, hosts: usize, simulated: Duration) {
        runtime(seed(1, 0)).block_on(run(heartbeats::heartbeats(hosts, simulated)));
    }
}

fn main() {
    harness::main(Madsim);
}
