//! Models of shutdown: whoever is last drops what is left, however late somebody comes with
//! a task in hand. The threads here take the steps of `MultiThread::{while_seated, leave}`,
//! `monitor::rescue` and `worker::block_in_place`.

use crate::scheduler::multi_thread::shutdown::{Left, ShutdownGate};
use crate::sys::sync::{Mutex, thread};
use crate::task::models::scheduler::model;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct ModelScheduler {
    attendance: ShutdownGate,
    /// A worker's queue, from which the monitor may take.
    ring: Mutex<usize>,
    /// None: closed.
    injector: Mutex<Option<usize>>,
    /// Not part of the model: what came of the tasks, and of the house.
    cancelled: AtomicUsize,
    closed_up: AtomicUsize,
}

impl ModelScheduler {
    fn new(workers: usize, tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            attendance: ShutdownGate::new(workers),
            ring: Mutex::new(tasks),
            injector: Mutex::new(Some(0)),
            cancelled: AtomicUsize::new(0),
            closed_up: AtomicUsize::new(0),
        })
    }

    /// As `MultiThread::drop_tasks`.
    fn drop_tasks(&self) {
        let ring = std::mem::take(&mut *self.ring.lock());
        let injected = self.injector.lock().take().unwrap_or(0);
        self.cancelled.fetch_add(ring + injected, Relaxed);
    }

    fn close_up(&self) {
        self.drop_tasks();
        self.closed_up.fetch_add(1, Relaxed);
    }

    fn leave_inside(&self) {
        if self.attendance.leave_inside() == Left::Nobody {
            self.close_up();
        }
    }

    fn leave_seat(&self) {
        if self.attendance.leave_seat() == Left::Nobody {
            self.drop_tasks();
        }
    }

    fn leave(&self) {
        self.leave_seat();
        self.leave_inside();
    }

    /// As a look of the monitor.
    fn rescue(&self) {
        if !self.attendance.try_enter_inside() {
            return;
        }
        // As `MultiThread::while_seated`.
        if self.attendance.try_take_seat() {
            let moved = std::mem::take(&mut *self.ring.lock());
            // A1: seated, so it is open.
            *self.injector.lock().as_mut().expect("open while a thread is seated") += moved;
            self.leave_seat();
        }
        self.leave_inside();
    }

    /// As the end of a poll that has blocked in place.
    fn put_back(&self) {
        let mut injector = self.injector.lock();
        match injector.as_mut() {
            Some(tasks) => *tasks += 1,
            None => drop(self.cancelled.fetch_add(1, Relaxed)),
        }
    }

    fn check(&self, tasks: usize) {
        assert_eq!(self.closed_up.load(Relaxed), 1, "the last of all closes up, once");
        assert_eq!(self.cancelled.load(Relaxed), tasks, "every task is found");
    }
}

#[test]
fn what_the_monitor_moves_is_found_by_the_last_to_leave() {
    model(3, || {
        let house = ModelScheduler::new(2, 2);
        let (other, monitor) = (house.clone(), house.clone());
        let threads =
            [thread::spawn(move || other.leave()), thread::spawn(move || monitor.rescue())];
        house.leave();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        house.check(2);
    });
}

#[test]
fn a_poll_that_blocks_in_place_puts_its_task_back_after_the_others_left() {
    model(3, || {
        let house = ModelScheduler::new(1, 1);
        // The worker blocks in place, and another thread has its seat.
        house.attendance.stay_in_poll();
        let (successor, monitor) = (house.clone(), house.clone());
        let threads =
            [thread::spawn(move || successor.leave()), thread::spawn(move || monitor.rescue())];
        house.put_back();
        house.leave_inside();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        house.check(2);
    });
}

/// A poll that blocks in place while the runtime closes gets no successor, and gives its seat up
/// itself; the other worker leaves meanwhile. Catches a seat that is given up twice or never.
#[test]
fn a_poll_that_blocks_in_place_while_the_runtime_closes_gives_its_seat_up() {
    model(3, || {
        let house = ModelScheduler::new(2, 1);
        let (other, monitor) = (house.clone(), house.clone());
        let threads =
            [thread::spawn(move || other.leave()), thread::spawn(move || monitor.rescue())];
        house.attendance.stay_in_poll();
        house.leave();
        // The closure ends, and then the poll.
        house.put_back();
        house.leave_inside();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        house.check(2);
    });
}
