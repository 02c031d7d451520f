//! Dropped sockets leak neither memory nor descriptors while their runtime lives.

use wakeful::net::UnixStream;
use wakeful::runtime::{Builder, Runtime};
use wakeful::task::yield_now;

mod support {
    pub mod counting;
    pub mod runtimes;
}
use support::counting::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// Sockets per round.
const SOCKETS: usize = 2_000;

/// Opens and drops sockets, each before the next. Returns the bytes in use.
async fn round() -> usize {
    for _ in 0..SOCKETS / 2 {
        drop(UnixStream::pair().unwrap());
        yield_now().await;
    }
    MEMORY.bytes()
}

async fn rounds() -> Vec<usize> {
    let mut after = Vec::new();
    for _ in 0..8 {
        after.push(round().await);
    }
    after
}

fn check(name: &str, after: &[usize]) {
    println!("{name}: bytes in use after each round: {after:?}");
    // Dropped sources wait for the next poll of their poller, and other threads may allocate. A leak grows in every
    // round.
    let grown = after.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min().unwrap();
    assert!(
        grown < 8 * SOCKETS,
        "{name}: {grown} bytes more in every round of {SOCKETS}: {after:?}"
    );
}

#[test]
fn memory_is_the_same_however_many_sockets_there_were() {
    support::runtimes::bound_this_binary();
    let build = |builder: &mut Builder| -> Runtime { builder.enable_all().build().unwrap() };
    let runtime = build(&mut Builder::new_current_thread());
    check("current_thread, block_on", &runtime.block_on(rounds()));
    check("current_thread, task", &runtime.block_on(runtime.spawn(rounds())).unwrap());
    for workers in [1, 2] {
        let runtime = build(Builder::new_multi_thread().worker_threads(workers));
        check("multi_thread, task", &runtime.block_on(runtime.spawn(rounds())).unwrap());
    }
}
