//! Loom models of workers that lose their thread.
//!
//! They model the steps LOST-1 to LOST-3, the watchdog's sleep, and a thread that takes its worker
//! back while another thread wakes the worker.

use crate::scheduler::multi_thread::idle::{BeforeParking, Idle};
use crate::sys::park::Parker;
use crate::sys::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use crate::sys::sync::{Mutex, thread};
use crate::task::models::scheduler::{model, start};
use crate::telemetry::scan_gate::ScanGate;
use std::sync::Arc;

/// A timer is registered with a worker that is losing its thread. Catches a helper that does not
/// wake up for the timer: it would park forever, which loom reports as a deadlock.
#[test]
fn a_helper_sees_what_is_registered_with_a_lost_worker() {
    struct Model {
        is_lost: AtomicBool,
        /// The timers of the worker; 0 means none.
        next: AtomicU32,
        helper: Parker,
    }
    model(6, || {
        let shared = Arc::new(Model {
            is_lost: AtomicBool::new(false),
            next: AtomicU32::new(0),
            helper: Parker::for_current_thread(),
        });
        let loses = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.is_lost.store(true, SeqCst);
                shared.helper.unpark();
            }
        });
        let registers = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.next.store(1, SeqCst);
                if shared.is_lost.load(SeqCst) {
                    shared.helper.unpark();
                }
            }
        });
        start();
        while !(shared.is_lost.load(SeqCst) && shared.next.load(SeqCst) == 1) {
            shared.helper.park(None);
        }
        loses.join().unwrap();
        registers.join().unwrap();
    });
}

/// A timer is registered with a lost worker while the watchdog goes to sleep. Catches a watchdog
/// that reads the timers before it reads the progress count: it would sleep forever, which loom
/// reports as a deadlock.
#[test]
fn the_watchdog_sees_what_is_registered_with_a_lost_worker() {
    struct Model {
        gate: ScanGate,
        /// The timers of the worker; 0 means none.
        next: AtomicU32,
        watchdog: Parker,
    }
    model(6, || {
        let shared = Arc::new(Model {
            gate: ScanGate::new(),
            next: AtomicU32::new(0),
            watchdog: Parker::for_current_thread(),
        });
        let registers = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.next.store(1, SeqCst);
                if shared.gate.notify_progress() && shared.gate.wake() {
                    shared.watchdog.unpark();
                }
            }
        });
        start();
        loop {
            let progress = shared.gate.progress();
            if shared.next.load(SeqCst) == 1 {
                break;
            }
            if shared.gate.try_sleep(progress) {
                while shared.gate.is_asleep() {
                    shared.watchdog.park(None);
                }
            }
        }
        registers.join().unwrap();
    });
}

/// The thread slot of a lost worker, with the worker's token unless a thread has taken it.
struct ThreadSlot {
    idle: Idle,
    has_token: Mutex<bool>,
}

/// Takes the steps of `MultiThread::start_thread` when no thread can be started.
///
/// `Ok` means that the worker's thread has taken the token back. The worker is woken, and counts as
/// a searcher.
fn try_to_start(
    slot: &ThreadSlot,
    worker: usize,
    tried: &mut Vec<usize>,
) -> Result<(), Option<usize>> {
    let has_token = slot.has_token.lock();
    if !*has_token {
        return Ok(());
    }
    Err(slot.idle.choose_other(worker, tried))
}

/// A thread takes its lost worker back, while a pusher wakes that worker and fails to start a
/// thread for it. Catches a worker that is awake but still on the list of sleepers, and a searcher
/// that is counted but does not exist. Such counts would keep workers asleep forever.
#[test]
fn a_worker_is_taken_back_while_no_thread_starts_for_it() {
    model(6, || {
        let slot = Arc::new(ThreadSlot { idle: Idle::new(1), has_token: Mutex::new(false) });
        assert!(slot.idle.cancel_sleep(0));
        {
            let mut has_token = slot.has_token.lock();
            *has_token = true;
            assert_eq!(slot.idle.lose(0, false), BeforeParking::SearchAgain);
        }
        let pusher = thread::spawn({
            let slot = slot.clone();
            move || {
                if let Some(worker) = slot.idle.claim_sleeper() {
                    assert!(!matches!(try_to_start(&slot, worker, &mut Vec::new()), Err(Some(_))));
                }
            }
        });
        start();
        let searching = {
            let mut has_token = slot.has_token.lock();
            *has_token = false;
            !slot.idle.cancel_sleep(0)
        };
        pusher.join().unwrap();
        assert!(!slot.idle.is_asleep(0));
        if searching {
            assert!(slot.idle.found_work(), "it was the only searcher");
        }
        assert_eq!(slot.idle.sleep(0, false), BeforeParking::SearchAgain);
        assert_eq!(slot.idle.claim_sleeper(), Some(0));
    });
}
