//! `LocalSet` and `JoinSet` leak no memory: rounds leave no allocation behind.

use std::future::pending;
use std::rc::Rc;
use std::task::Waker;
use std::thread;

use futures::executor;
use wakeful::runtime::{Builder, Runtime};
use wakeful::task::{self, JoinSet, LocalSet, may_wait_forever, spawn_local, yield_now};

mod support {
    pub mod counting;
    pub mod panic_site;
    pub mod runtimes;
    pub mod waker_store;
}
use support::counting::Counting;
use support::panic_site::panic_site;
use support::runtimes::watch;
use support::waker_store::WakerStore;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Drops a set with tasks in every state. Wakers and handles outlive the set, and drops wake and spawn tasks.
fn set_that_goes_with_its_tasks(runtime: &Runtime) {
    struct Opens(Rc<WakerStore>);
    impl Drop for Opens {
        fn drop(&mut self) {
            self.0.open();
            drop(spawn_local(async {}));
        }
    }
    let store = Rc::new(WakerStore::default());
    let set = LocalSet::new();
    for _ in 0..5 {
        let opens = Opens(store.clone());
        let wait = store.wait();
        set.spawn_local(async move {
            wait.await;
            drop(opens);
        });
    }
    let other = WakerStore::default();
    let mut kept: Vec<_> = (0..5).map(|_| set.spawn_local(other.wait())).collect();
    kept.push(set.spawn_local(async {
        loop {
            yield_now().await;
        }
    }));
    let forever = task::Builder::new().name("a name of its own").forever();
    kept.push(forever.spawn_local_on(pending(), &set).unwrap());
    let large = set.spawn_local(async { [7u8; 5000] });
    set.block_on(runtime, yield_now());
    drop(set.spawn_local(may_wait_forever(pending::<()>())));
    let guard = set.enter();
    let mut wakers = other.take();
    let woken = wakers.split_off(3);
    thread::spawn(|| woken.into_iter().for_each(Waker::wake)).join().unwrap();
    drop(set);
    drop(spawn_local(async {}));
    drop(guard);
    thread::spawn(|| drop((kept, wakers))).join().unwrap();
    assert_eq!(executor::block_on(large).unwrap()[4999], 7);
}

/// Members that end, panic, are aborted, detached and dropped with the set.
fn members_that_end_in_every_way(runtime: &Runtime) {
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for n in 0..20 {
            set.spawn(async move {
                if n == 7 {
                    std::panic::resume_unwind(Box::new(n));
                }
                vec![n; 10]
            });
        }
        yield_now().await;
        for _ in 0..10 {
            drop(set.join_next().await);
        }
        set.detach_all();
        for _ in 0..10 {
            set.spawn(may_wait_forever(pending())).abort();
        }
        set.shutdown().await;
        for _ in 0..10 {
            set.spawn(may_wait_forever(pending()));
        }
        drop(set);
        yield_now().await;
    });
}

/// A set frees the memory of a burst although it lives on.
fn burst(runtime: &Runtime) {
    runtime.block_on(async {
        let mut set = JoinSet::new();
        set.spawn(async { 0 });
        set.join_next().await.unwrap().unwrap();
        // The runtime's arena keeps its memory, so it grows to its full size first.
        let batch: Vec<_> = (0..2000).map(|n| wakeful::spawn(async move { n })).collect();
        for task in batch {
            task.await.unwrap();
        }
        let before = ALLOCATOR.bytes();
        for n in 0..2000 {
            set.spawn(async move { n });
        }
        let during = ALLOCATOR.bytes().saturating_sub(before);
        while set.join_next().await.is_some() {}
        let after = ALLOCATOR.bytes().saturating_sub(before);
        assert!(during > 2000 * 32, "the burst took {during} bytes");
        assert!(after < during / 4, "of {during} bytes {after} are still there");
    });
}

/// Spawns named local tasks outside of a set, which is refused.
fn refused_by_name(_runtime: &Runtime) {
    let named = task::Builder::new().name("unpolled");
    let refused = panic_site(move || named.spawn_local(async {}));
    assert!(refused.message.contains("called from outside"), "{refused:?}");
}

/// One test, since others on other threads would be counted too.
#[test]
fn no_round_leaves_memory_behind() {
    let runtime = watch("current_thread", &mut Builder::new_current_thread());
    type Scenario = fn(&Runtime);
    let scenarios: [(&str, Scenario); 4] = [
        ("a set that goes with its tasks", set_that_goes_with_its_tasks),
        ("members that end in every way", members_that_end_in_every_way),
        ("a burst", burst),
        ("named tasks that are refused", refused_by_name),
    ];
    for (name, scenario) in scenarios {
        // The first rounds fill the caches: the arena's cells, and the thread's `block_on` state.
        for _ in 0..3 {
            scenario(&runtime);
        }
        // Other threads allocate too: a joined thread still frees its memory, and the watchdog keeps a bounded number
        // of samples. Neither grows with the rounds. A leak leaves at least one piece behind in each round.
        const ROUNDS: usize = 10;
        let growths: Vec<_> = (0..5)
            .map(|_| {
                let before = ALLOCATOR.pieces();
                (0..ROUNDS).for_each(|_| scenario(&runtime));
                ALLOCATOR.pieces().saturating_sub(before)
            })
            .take_while(|growth| *growth >= ROUNDS)
            .collect();
        assert!(
            growths.len() < 5,
            "{name}: every {ROUNDS} rounds leave pieces behind: {growths:?}"
        );
    }
}
