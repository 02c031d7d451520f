//! The programs on turmoil and tokio.

#[path = "../../programs/clocks.rs"]
mod clocks;
#[path = "../../programs/disk.rs"]
mod disk;
#[path = "../../programs/harness.rs"]
mod harness;
#[path = "../../programs/heartbeats.rs"]
mod heartbeats;
#[path = "../../programs/net.rs"]
mod net;
#[path = "../../programs/mod.rs"]
mod programs;
mod rt;

use harness::{Tool, search_seeds, seed};
use programs::{Bug, System, Twin, bugs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// `STRATEGY`: the length of a tick, `1ms` by default.
struct Turmoil {
    tick: Duration,
}

impl Turmoil {
    fn run(&self, seed: u64, limit: Duration, System { hosts, client }: System) -> turmoil::Result {
        rt::seed(seed);
        let mut builder = turmoil::Builder::new();
        builder
            .rng_seed(seed)
            .enable_random_order()
            .tick_duration(self.tick)
            .simulation_duration(limit)
            .udp_capacity(1_000)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(20));
        builder.fs().block_size(rt::BLOCK);
        let mut sim = builder.build();
        for host in hosts {
            sim.host(host.name, move || {
                let program = (host.program)();
                async move {
                    program.await;
                    Ok(())
                }
            });
        }
        sim.client("client", async move {
            client.await;
            Ok(())
        });
        // The run ends when a client has returned.
        while !sim.step()? {
            for command in rt::commands() {
                match command {
                    rt::Command::Crash(host) => sim.crash(host),
                    rt::Command::Restart(host) => sim.bounce(host),
                }
            }
        }
        Ok(())
    }

    fn fails(&self, bug: &Bug, twin: Twin, seed: u64) -> bool {
        let run = || self.run(seed, Duration::from_secs(3_600), (bug.system)(twin));
        !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(())))
    }
}

impl Tool for Turmoil {
    const BUGS: &'static [Bug] = bugs![
        net::one_read,
        net::applied_twice,
        disk::early_answer,
        disk::torn_record,
        net::two_leaders,
        clocks::expired_lease,
        net::retry_storm,
    ];

    fn search(&mut self, bug: &Bug, master: u64, max_runs: u64) -> Option<u64> {
        search_seeds(master, max_runs, |seed| self.fails(bug, Twin::Buggy, seed))
    }

    fn twins(&mut self, bug: &Bug, first_seed: u64, runs: u64) -> u64 {
        (0..runs).filter(|run| self.fails(bug, Twin::Fixed, first_seed + run)).count() as u64
    }

    fn heartbeats(&mut self, hosts: usize, simulated: Duration) {
        let system = heartbeats::heartbeats(hosts, simulated);
        self.run(seed(1, 0), simulated * 2, system).unwrap();
    }
}

fn main() {
    let tick = std::env::var("STRATEGY").unwrap_or_else(|_| "1ms".to_owned());
    let tick = tick.strip_suffix("ms").and_then(|ms| ms.parse().ok()).expect("a tick");
    harness::main(Turmoil { tick: Duration::from_millis(tick) });
}
