//! Models POSTPONE-1: a worker that parks postpones a visit, while another one begins a poll.
//!
//! Catches a worker that reads the time only after it has checked that all are parked: the visit would
//! come later than the delay after the poll began.

use crate::scheduler::multi_thread::idle::Idle;
use crate::sys::sync::atomic::{AtomicU64, Ordering::*};
use crate::sys::sync::{Arc, Mutex, thread};
use crate::task::models::scheduler::{model, start};
use crate::telemetry::scan_gate::if_parked;
use crate::watchdog::delayed_visit::DelayedVisit;
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_secs(50);

struct Model {
    idle: Idle,
    epoch: Instant,
    /// Seconds since `epoch`. The steps of the second worker take one each.
    clock: AtomicU64,
    visit: Mutex<DelayedVisit>,
}

impl Model {
    fn now(&self) -> Instant {
        self.epoch + Duration::from_secs(self.clock.load(SeqCst))
    }
}

#[test]
fn a_poll_is_visited_within_the_delay_after_it_began() {
    model(4, || {
        let epoch = Instant::now();
        let model = Arc::new(Model {
            idle: Idle::new(2),
            epoch,
            clock: AtomicU64::new(0),
            visit: Mutex::new(DelayedVisit::new(epoch, DELAY)),
        });
        assert!(model.idle.cancel_sleep(0), "the first worker is at work");
        let parks = thread::spawn({
            let model = model.clone();
            move || {
                let _ = model.idle.sleep(0, false);
                if let Some(parked_at) = if_parked(|| model.now(), || model.idle.all_asleep()) {
                    model.visit.lock().postpone(parked_at);
                }
            }
        });
        start();
        assert!(model.idle.cancel_sleep(1), "no thread wakes the second worker");
        let began = model.now();
        model.clock.fetch_add(1, SeqCst);
        parks.join().unwrap();
        let due_at = model.visit.lock().due_at;
        assert!(due_at <= began + DELAY, "the poll is visited too late");
    });
}
