//! Models the sleep protocol of the watchdog: an event or a working thread races with the end of
//! the visits. Catches a change that the last scan misses and that wakes no thread.

use crate::sys::membarrier::Barriers;
use crate::sys::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::telemetry::scan_gate::ScanGate;

struct Scheduler {
    gate: ScanGate,
    /// Stuck tasks that a scan would find.
    stuck: AtomicUsize,
    /// Whether a thread is at work.
    is_working: AtomicBool,
}

impl Scheduler {
    fn new() -> Arc<Self> {
        let gate = ScanGate::new();
        gate.wake();
        let (stuck, is_working) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { gate, stuck, is_working })
    }

    /// A `block_on` ends, and leaves a task stuck.
    fn fail_block_ons(&self) {
        self.stuck.fetch_add(1, Relaxed);
        if self.gate.notify_progress() {
            self.gate.wake();
        }
    }

    /// A thread begins to work.
    fn begin_work(&self) {
        self.is_working.store(true, Release);
        Barriers::detect().light();
        if self.gate.is_asleep() {
            self.gate.wake();
        }
    }

    /// Visits like the watchdog in `watchdog::target`, until the gate sleeps or a thread works.
    /// Returns the number of stuck tasks that the last scan found.
    fn scan_until_asleep(&self) -> usize {
        loop {
            let progress = self.gate.progress();
            let found = self.stuck.load(Relaxed);
            if !self.gate.try_sleep(progress) {
                continue;
            }
            if !Barriers::detect().try_heavy() || self.is_working.load(Acquire) {
                self.gate.wake();
            }
            return found;
        }
    }
}

#[test]
fn events_are_seen_by_the_last_scan_or_wake_the_watchdog() {
    model(3, || {
        let scheduler = Scheduler::new();
        let events = [0, 1].map(|_| {
            let scheduler = scheduler.clone();
            thread::spawn(move || scheduler.fail_block_ons())
        });
        start();
        let found = scheduler.scan_until_asleep();
        events.into_iter().for_each(|event| event.join().unwrap());
        assert!(found == 2 || !scheduler.gate.is_asleep(), "it sleeps, and a task is stuck");
    });
}

#[test]
fn a_thread_at_work_is_seen_or_wakes_the_watchdog() {
    model(3, || {
        let scheduler = Scheduler::new();
        let worker = thread::spawn({
            let scheduler = scheduler.clone();
            move || scheduler.begin_work()
        });
        start();
        scheduler.scan_until_asleep();
        worker.join().unwrap();
        assert!(!scheduler.gate.is_asleep(), "it sleeps, and a thread works");
    });
}
