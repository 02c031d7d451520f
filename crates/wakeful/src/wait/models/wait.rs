//! Loom models of the wait list, `AtomicWaker` and `RerunGate`.

use crate::sys::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::atomic_waker::{AtomicWaker, Registered};
use crate::wait::list::{Grant, Waiter, WaiterState, Waiters};
use crate::wait::rerun_gate::RerunGate;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize as StdUsize;
use std::task::{Wake, Waker};

/// A waker that counts its wakes. Not part of the model.
struct WakeCount(StdUsize);

impl Wake for WakeCount {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (StdArc<WakeCount>, Waker) {
    let count = StdArc::new(WakeCount(StdUsize::new(0)));
    (count.clone(), Waker::from(count))
}

struct Scene {
    list: Waiters<usize, ()>,
    waiter: Pin<Box<Waiter<()>>>,
}

/// A waiter cancels while it is granted.
///
/// Detects a lost grant, and a waiter that stays in the list.
#[test]
fn waiter_cancels_during_a_grant() {
    model(5, || {
        let scene = Arc::new(Scene { list: Waiters::new(0), waiter: Box::pin(Waiter::new()) });
        let (count, waker) = counter();
        scene.list.with(|list| list.push_back(scene.waiter.as_ref(), (), Some(waker)));
        let granter = thread::spawn({
            let scene = scene.clone();
            move || {
                let wake = scene.list.with(|list| list.pop_front(Grant::One));
                let given = wake.is_some();
                if let Some(wake) = wake {
                    wake.wake();
                }
                given
            }
        });
        start();
        let state = scene.list.cancel(scene.waiter.as_ref());
        let given = granter.join().unwrap();
        let granted = state == WaiterState::Granted(Grant::One);
        assert_eq!(given, granted, "a grant that the waiter does not see, or the reverse");
        assert_eq!(count.0.load(SeqCst), usize::from(given));
        assert!(scene.list.with(|list| list.is_empty()));
    });
}

/// Another task polls a waiter while it is granted. Either the waiter sees the grant, or the new
/// waker is woken.
#[test]
fn waker_changes_during_a_grant() {
    model(5, || {
        let scene = Arc::new(Scene { list: Waiters::new(0), waiter: Box::pin(Waiter::new()) });
        let ((old_count, old), (new_count, new)) = (counter(), counter());
        scene.list.with(|list| list.push_back(scene.waiter.as_ref(), (), Some(old)));
        let granter = thread::spawn({
            let scene = scene.clone();
            move || {
                let wake = scene.list.with(|list| list.pop_front(Grant::All));
                wake.expect("there is a waiter").wake();
            }
        });
        start();
        let state = scene.list.update_waker(scene.waiter.as_ref(), &new);
        granter.join().unwrap();
        let (old, new) = (old_count.0.load(SeqCst), new_count.0.load(SeqCst));
        assert_eq!(old + new, 1);
        assert!(new == 1 || state == WaiterState::Granted(Grant::All));
        assert_eq!(scene.waiter.state(), WaiterState::Granted(Grant::All));
    });
}

/// Two threads each enter the list, grant one waiter and cancel. No waiter is lost or granted
/// twice, and the threads share the state behind the lock.
#[test]
fn list_stays_consistent() {
    model(3, || {
        let list: Arc<Waiters<usize, ()>> = Arc::new(Waiters::new(1));
        let waits = |list: &Waiters<usize, ()>| {
            let waiter = Box::pin(Waiter::new());
            list.with(|list| list.push_back(waiter.as_ref(), (), None));
            let wake = list.with(|list| {
                if **list == 0 {
                    return None;
                }
                **list -= 1;
                list.pop_front(Grant::One)
            });
            if let Some(wake) = wake {
                wake.wake();
            }
            list.cancel(waiter.as_ref()) == WaiterState::Granted(Grant::One)
        };
        let other = thread::spawn({
            let list = list.clone();
            move || waits(&list)
        });
        start();
        let (mine, others) = (waits(&list), other.join().unwrap());
        assert!(!(mine && others), "there was one permit");
        assert_eq!(list.with(|list| (list.is_empty(), **list)), (true, 0));
    });
}

/// A notifier stores a value while the waiter registers.
///
/// Detects a notifier that finds no waker while the waiter finds no value.
#[test]
fn notification_is_never_missed() {
    model(5, || {
        let shared = Arc::new((AtomicWaker::new(), AtomicUsize::new(0)));
        let (count, waker) = counter();
        let granter = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.1.store(1, SeqCst);
                shared.0.take().wake();
            }
        });
        start();
        let registered = shared.0.register(&waker);
        let seen = shared.1.load(SeqCst) == 1;
        granter.join().unwrap();
        let woken = count.0.load(SeqCst) == 1;
        assert!(seen || woken, "{registered:?}");
        assert!(registered == Registered::Waiting || seen, "notified, so the value is visible");
    });
}

/// The waiter registers for another task, or deregisters, while two threads notify.
#[test]
fn two_notifiers_during_a_registration() {
    for deregisters in [false, true] {
        model(3, move || {
            let cell = Arc::new(AtomicWaker::new());
            let ((old_count, old), (new_count, new)) = (counter(), counter());
            assert_eq!(cell.register(&old), Registered::Waiting);
            let notifiers = [0, 1].map(|_| {
                let cell = cell.clone();
                thread::spawn(move || cell.take().wake())
            });
            start();
            let is_notified = if deregisters {
                cell.deregister();
                true
            } else {
                cell.register(&new) == Registered::Notified
            };
            notifiers.into_iter().for_each(|notifier| notifier.join().unwrap());
            let (old, new) = (old_count.0.load(SeqCst), new_count.0.load(SeqCst));
            assert!(is_notified || old + new >= 1, "two notifications, and no wake");
            assert!(old <= 1 && new <= 1);
            // A final notification takes a remaining waker.
            cell.take().wake();
        });
    }
}

/// Two threads each write a value and request a run.
///
/// Detects a request that comes after the last check of the running thread.
#[test]
fn a_run_starts_after_each_request() {
    model(5, || {
        let scene = Arc::new((RerunGate::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let request = |scene: &Arc<(RerunGate, AtomicUsize, AtomicUsize)>| {
            let (gate, written, seen) = &**scene;
            written.fetch_add(1, Relaxed);
            gate.run(|| {
                assert_eq!(seen.fetch_or(1 << 8, Relaxed) >> 8, 0, "one at a time");
                seen.store(written.load(Relaxed), Relaxed);
            });
        };
        let other = thread::spawn({
            let scene = scene.clone();
            move || request(&scene)
        });
        start();
        request(&scene);
        other.join().unwrap();
        assert_eq!(scene.2.load(Relaxed), 2, "a run saw both values");
    });
}
