//! Models of coming and going: whoever relies on an attendant has one.

use crate::runtime::uring_keeper::gate::{Called, KeeperGate, Leaving};
use crate::sys::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, Mutex, thread};
use crate::task::models::scheduler::{model, start};

/// A ring with operations that are done as soon as somebody looks, and its runtime.
struct World {
    attendance: KeeperGate,
    operations: Mutex<usize>,
    /// The same, to be looked at without the lock.
    in_flight: AtomicUsize,
    held: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attendance: KeeperGate::new(),
            operations: Mutex::new(0),
            in_flight: AtomicUsize::new(0),
            held: AtomicBool::new(true),
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
        self.is_busy() && (!self.held.load(SeqCst) || self.attendance.is_waited_for())
    }
}

/// Answers the attendant's thread, if one was sent.
fn send_attendant(world: &Arc<World>) -> Option<thread::JoinHandle<()>> {
    if !world.is_busy() || world.attendance.call() == Called::IsThere {
        return None;
    }
    let world = world.clone();
    Some(thread::spawn(move || {
        loop {
            while world.is_needed() {
                world.set_operations(0);
            }
            if world.attendance.leave(|| world.is_needed()) == Leaving::Go {
                return;
            }
        }
    }))
}

fn wait_for(attendants: impl IntoIterator<Item = Option<thread::JoinHandle<()>>>) {
    for attendant in attendants.into_iter().flatten() {
        attendant.join().unwrap();
    }
}

/// The second time while the attendant of the first is about to leave.
#[test]
fn what_is_left_behind_twice_is_looked_after_twice() {
    model(4, || {
        let world = World::new();
        let attendants = [1, 2].map(|_| {
            world.held.store(true, SeqCst);
            world.set_operations(1);
            world.held.store(false, SeqCst);
            send_attendant(&world)
        });
        wait_for(attendants);
        assert!(!world.is_busy(), "an operation was left to an attendant that has gone");
    });
}

#[test]
fn who_waits_outside_has_an_attendant_although_somebody_drives() {
    model(4, || {
        let world = World::new();
        world.set_operations(1);
        let outside = {
            let world = world.clone();
            thread::spawn(move || {
                world.attendance.wait_outside();
                wait_for([send_attendant(&world)]);
            })
        };
        start();
        // Meanwhile `block_on` ends, and begins once more.
        world.held.store(false, SeqCst);
        let attendant = send_attendant(&world);
        world.held.store(true, SeqCst);
        outside.join().unwrap();
        wait_for([attendant]);
        assert!(!world.is_busy(), "nobody looks after the one who waits");
    });
}
