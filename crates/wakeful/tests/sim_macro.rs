//! `#[wakeful::sim]`, which runs a test under many seeds.

use std::time::Duration;
use wakeful::sim::Sim;
use wakeful::time::{Instant, sleep};

#[wakeful::sim(seeds = 50)]
async fn a_test_gets_its_simulation(sim: Sim) {
    let host = sim.host("server", || async { sleep(Duration::from_secs(5)).await });
    sleep(Duration::from_secs(9)).await;
    assert_eq!(host.name(), "server");
}

#[wakeful::sim(seeds = 10, strategy = "pct(2)", crate = wakeful)]
async fn the_argument_may_be_left_out() -> Result<(), String> {
    let before = Instant::now();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(before.elapsed(), Duration::from_secs(3_600));
    Ok(())
}

/// The test panics with the text of the failure, which has the commands that repeat it.
#[wakeful::sim]
#[should_panic(expected = "cargo test a_failing_seed_fails_the_test")]
async fn a_failing_seed_fails_the_test() {
    let wins = wakeful::select! {
        () = async {} => true,
        () = async {} => false,
    };
    assert!(wins, "the other branch was first");
}

#[wakeful::sim(seeds = 10)]
#[should_panic(expected = "error of a host")]
async fn an_error_fails_the_test(_sim: Sim) -> Result<(), String> {
    Err("no".to_owned())
}

#[wakeful::sim(strategy = "luck")]
#[should_panic(expected = "\"luck\" is not a strategy")]
async fn a_strategy_that_does_not_exist_is_named() {}
