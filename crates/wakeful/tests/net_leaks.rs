//! Sockets that are made and dropped leave nothing behind while their runtime goes on.

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

/// In one round.
const SOCKETS: usize = 2_000;

/// All are gone before the next, so there is never one to wait for.
async fn round() -> usize {
    for _ in 0..SOCKETS / 2 {
        drop(UnixStream::pair().unwrap());
        yield_now().await;
    }
    MEMORY.bytes()
}

async fn rounds() -> [usize; 4] {
    [round().await, round().await, round().await, round().await]
}

fn check(name: &str, after: [usize; 4]) {
    println!("{name}: bytes in use after each round: {after:?}");
    // A few may wait for the next turn of their poller; others may allocate.
    let grown = after[3].saturating_sub(after[0]);
    assert!(
        grown < 32 * SOCKETS,
        "{name}: {grown} bytes more for 3 rounds of {SOCKETS}: {after:?}"
    );
}

#[test]
fn memory_is_the_same_however_many_sockets_there_were() {
    support::runtimes::bound_this_binary();
    let build = |builder: &mut Builder| -> Runtime { builder.enable_all().build().unwrap() };
    let runtime = build(&mut Builder::new_current_thread());
    check("current_thread, block_on", runtime.block_on(rounds()));
    check("current_thread, task", runtime.block_on(runtime.spawn(rounds())).unwrap());
    for workers in [1, 2] {
        let runtime = build(Builder::new_multi_thread().worker_threads(workers));
        check("multi_thread, task", runtime.block_on(runtime.spawn(rounds())).unwrap());
    }
}
