//! Loom models of the io_uring keeper's gate: every operation has a thread that completes it.

use crate::runtime::uring_keeper::gate::{KeeperExit, KeeperGate, KeeperRequest};
use crate::sys::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, Mutex, thread};
use crate::task::models::scheduler::{model, start};

/// A runtime and its ring, whose operations complete as soon as a thread drives it.
struct ModelRuntime {
    keeper_gate: KeeperGate,
    operations: Mutex<usize>,
    /// Equal to `operations`, but readable without the lock.
    in_flight: AtomicUsize,
    is_held: AtomicBool,
}

impl ModelRuntime {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            keeper_gate: KeeperGate::new(),
            operations: Mutex::new(0),
            in_flight: AtomicUsize::new(0),
            is_held: AtomicBool::new(true),
        })
    }

    fn set_operations(&self, count: usize) {
        let mut operations = self.operations.lock();
        *operations = count;
        self.in_flight.store(count, Release);
    }

    fn is_busy(&self) -> bool {
        self.in_flight.load(Acquire) > 0
    }

    fn is_needed(&self) -> bool {
        self.is_busy() && (!self.is_held.load(SeqCst) || self.keeper_gate.has_outside_waiter())
    }
}

/// Starts a keeper if one is needed. Returns its thread.
fn start_keeper(runtime: &Arc<ModelRuntime>) -> Option<thread::JoinHandle<()>> {
    if !runtime.is_busy() || runtime.keeper_gate.request() == KeeperRequest::AlreadyRunning {
        return None;
    }
    let runtime = runtime.clone();
    Some(thread::spawn(move || {
        loop {
            while runtime.is_needed() {
                runtime.set_operations(0);
            }
            if runtime.keeper_gate.try_end(|| runtime.is_needed()) == KeeperExit::End {
                return;
            }
        }
    }))
}

fn join(keepers: impl IntoIterator<Item = Option<thread::JoinHandle<()>>>) {
    for keeper in keepers.into_iter().flatten() {
        keeper.join().unwrap();
    }
}

/// The second operation is submitted while the keeper of the first is about to end.
#[test]
fn operations_left_by_two_block_ons_complete() {
    model(4, || {
        let runtime = ModelRuntime::new();
        let keepers = [1, 2].map(|_| {
            runtime.is_held.store(true, SeqCst);
            runtime.set_operations(1);
            runtime.is_held.store(false, SeqCst);
            start_keeper(&runtime)
        });
        join(keepers);
        assert!(!runtime.is_busy(), "an operation was left to a keeper that has ended");
    });
}

#[test]
fn outside_waiter_has_a_keeper_during_block_on() {
    model(4, || {
        let runtime = ModelRuntime::new();
        runtime.set_operations(1);
        let outside = {
            let runtime = runtime.clone();
            thread::spawn(move || {
                runtime.keeper_gate.set_outside_waiter();
                join([start_keeper(&runtime)]);
            })
        };
        start();
        // Meanwhile `block_on` ends, and begins once more.
        runtime.is_held.store(false, SeqCst);
        let keeper = start_keeper(&runtime);
        runtime.is_held.store(true, SeqCst);
        outside.join().unwrap();
        join([keeper]);
        assert!(!runtime.is_busy(), "no thread completes the operation of the outside waiter");
    });
}
