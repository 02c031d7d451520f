//! Loom models of one timer.
//!
//! A sleeper registers, moves or cancels the timer, or changes its waker, while another thread
//! fires or closes the timers.
//!
//! Each model ends with checks of the final state: the timer fired as often as it should, and no
//! waker is left. An entry that belongs to the sleeper alone is accessed without the lock, so that
//! loom reports a thread that still uses it.

use super::{RegisterOutcome, TimerEntry, TimerState, Timers};
use crate::sys::park::Parker;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};

/// A waker that counts its wakes with a std atomic, which creates no ordering in the model.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl CountingWaker {
    fn new() -> (Arc<CountingWaker>, Waker) {
        let counter = Arc::new(CountingWaker::default());
        (counter.clone(), Waker::from(counter))
    }

    fn wakes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Timers, one entry, and the waker that it is first registered with.
struct Scene {
    timers: Timers,
    entry: Pin<Box<TimerEntry>>,
    counter: Arc<CountingWaker>,
    waker: Waker,
}

impl Scene {
    fn new() -> Scene {
        let (counter, waker) = CountingWaker::new();
        Scene { timers: Timers::new(0), entry: Box::pin(TimerEntry::new()), counter, waker }
    }

    /// Creates timers with the entry registered for `tick`.
    fn waiting_for(tick: u64) -> Arc<Scene> {
        let scene = Scene::new();
        assert_eq!(scene.register(tick), RegisterOutcome::WaitingFirst);
        Arc::new(scene)
    }

    fn entry(&self) -> Pin<&TimerEntry> {
        self.entry.as_ref()
    }

    fn register(&self, tick: u64) -> RegisterOutcome {
        self.timers.register(self.entry(), tick, &self.waker)
    }

    /// Takes the steps of `Sleep::reset`.
    fn reset(&self, tick: u64) -> Option<RegisterOutcome> {
        let is_waiting = self.entry.state() == TimerState::Waiting;
        is_waiting.then(|| self.timers.rearm(self.entry(), tick))
    }

    /// Checks that the entry belongs to the caller alone (TIMER-2).
    fn assert_exclusive(&self) {
        self.entry.waker.with_mut(|_| ());
    }

    /// Checks that no timer waits, and that there were `wakes` wake-ups.
    fn assert_finished(&self, wakes: usize) {
        assert_eq!((self.timers.len(), self.timers.next()), (0, None));
        assert_eq!(self.counter.wakes(), wakes);
        // One reference of the scene, and one in `waker`.
        assert_eq!(Arc::strong_count(&self.counter), 2, "a waker is left");
        self.assert_exclusive();
    }
}

/// Runs `sleeper` on another thread, and `driver` on this one.
fn race<R: 'static>(
    scene: &Arc<Scene>,
    sleeper: impl FnOnce(&Scene) -> R + 'static,
    driver: impl FnOnce(&Scene),
) -> R {
    let other = thread::spawn({
        let scene = scene.clone();
        move || sleeper(&scene)
    });
    start();
    driver(scene);
    other.join().unwrap()
}

/// A timer is registered while the wheel advances to the tick before the deadline, and then to the
/// deadline. Catches a timer that fires early, and a timer that neither thread fires.
#[test]
fn register_while_firing() {
    model(4, || {
        let scene = Arc::new(Scene::new());
        let registered = race(
            &scene,
            |scene| scene.register(5),
            |scene| {
                scene.timers.fire_due(4);
                assert_ne!(scene.entry.state(), TimerState::Fired, "early");
                scene.timers.fire_due(5);
            },
        );
        scene.timers.fire_due(5);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(usize::from(registered != RegisterOutcome::Due));
    });
}

/// Another thread registers a timer while the owner, without timers, is about to park. Catches an
/// owner that is not woken: loom finds all threads blocked.
#[test]
fn register_wakes_an_owner_about_to_park() {
    model(4, || {
        let scene = Arc::new(Scene::new());
        let parker = Arc::new(Parker::for_current_thread());
        let unparker = parker.clone();
        race(
            &scene,
            move |scene| {
                if scene.register(5) == RegisterOutcome::WaitingFirst {
                    unparker.unpark();
                }
            },
            |scene| {
                loop {
                    match scene.timers.next() {
                        Some(tick) if scene.timers.fire_due(tick) > 0 => break,
                        Some(_) => {}
                        None => parker.park(None),
                    }
                }
            },
        );
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(1);
    });
}

/// Another thread moves a timer to an earlier tick while the owner is about to park until the later
/// one. Catches an owner that is not woken.
#[test]
fn earlier_deadline_wakes_an_owner_about_to_park() {
    model(4, || {
        let scene = Scene::waiting_for(9);
        let parker = Arc::new(Parker::for_current_thread());
        let unparker = parker.clone();
        race(
            &scene,
            move |scene| {
                assert_eq!(scene.reset(3), Some(RegisterOutcome::WaitingFirst));
                unparker.unpark();
            },
            |scene| {
                while scene.timers.next().is_some_and(|tick| tick > 3) {
                    parker.park(None); // until tick 9, which never comes
                }
                assert_eq!(scene.timers.fire_due(3), 1);
            },
        );
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(1);
    });
}

/// A deadline moves to a later tick (TIMER-3) while the wheel reaches the old tick. Catches a timer
/// that fires at both ticks or at neither, and a lost waker.
#[test]
fn later_deadline_while_firing() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let reset = race(
            &scene,
            |scene| scene.reset(9),
            |scene| {
                scene.timers.fire_due(5);
            },
        );
        let fired_before = scene.counter.wakes();
        if reset.is_none() {
            assert_eq!(fired_before, 1, "the sleeper saw that it fired");
            return scene.assert_finished(1);
        }
        // Woken or not, the timer waits for the new deadline. A woken task polls again.
        assert_eq!(scene.entry.state(), TimerState::Waiting);
        scene.timers.update_waker(scene.entry(), &scene.waker);
        scene.timers.fire_due(8);
        assert_eq!(
            (scene.entry.state(), scene.counter.wakes()),
            (TimerState::Waiting, fired_before)
        );
        scene.timers.fire_due(9);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(fired_before + 1);
    });
}

/// A deadline moves to a later tick twice, while the wheel passes the earlier ones.
#[test]
fn later_deadline_twice_while_firing() {
    model(3, || {
        let scene = Scene::waiting_for(5);
        race(
            &scene,
            |scene| {
                let _ = (scene.reset(7), scene.reset(9));
            },
            |scene| {
                scene.timers.fire_due(5);
                scene.timers.fire_due(7);
            },
        );
        let fired_before = scene.counter.wakes();
        if scene.entry.state() == TimerState::Fired {
            return scene.assert_finished(fired_before);
        }
        assert!(fired_before <= 1);
        scene.timers.update_waker(scene.entry(), &scene.waker);
        scene.timers.fire_due(9);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(fired_before + 1);
    });
}

/// A deadline moves to an earlier tick, or into the past, while timers fire. Catches a sleeper that
/// is not woken although its deadline has passed.
#[test]
fn earlier_deadline_while_firing() {
    model(4, || {
        let scene = Scene::waiting_for(9);
        race(
            &scene,
            |scene| assert!(scene.reset(3).is_some()),
            |scene| {
                scene.timers.fire_due(4);
            },
        );
        scene.timers.fire_due(4);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(1);
    });
}

/// A timer is cancelled while it fires. Catches a driver that uses the entry after the sleeper owns
/// it again.
#[test]
fn cancel_while_firing() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        race(
            &scene,
            |scene| {
                scene.timers.cancel(scene.entry());
                scene.assert_exclusive();
            },
            |scene| {
                scene.timers.fire_due(5);
            },
        );
        let wakes = scene.counter.wakes();
        assert!(wakes <= 1);
        scene.timers.fire_due(5);
        scene.assert_finished(wakes);
    });
}

/// The waker changes while the timer fires. Catches a wake-up of the old waker after the new one
/// was stored, and a waker that is left behind.
#[test]
fn update_waker_while_firing() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let (second, waker) = CountingWaker::new();
        let is_waiting = race(
            &scene,
            move |scene| {
                scene.timers.update_waker(scene.entry(), &waker);
                let is_waiting = scene.entry.state() == TimerState::Waiting;
                if !is_waiting {
                    scene.assert_exclusive();
                }
                is_waiting
            },
            |scene| {
                scene.timers.fire_due(5);
            },
        );
        assert_eq!(scene.entry.state(), TimerState::Fired);
        assert_eq!(scene.counter.wakes() + second.wakes(), 1);
        assert!(!is_waiting || second.wakes() == 1, "the sleeper waits with its second waker");
        assert_eq!(Arc::strong_count(&second), 1);
        scene.assert_finished(scene.counter.wakes());
    });
}

/// Two threads fire the same timers: the owner and the watchdog.
#[test]
fn two_threads_fire() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let fire = |scene: &Scene| scene.timers.fire_due(6);
        let fired = AtomicUsize::new(0);
        let other = race(&scene, fire, |scene| {
            fired.fetch_add(fire(scene), Relaxed);
        });
        assert_eq!(other + fired.load(Relaxed), 1);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_finished(1);
    });
}

/// The runtime shuts down while a timer is registered. Catches a timer that stays in a wheel that
/// no thread drives.
#[test]
fn close_while_registering() {
    model(4, || {
        let scene = Arc::new(Scene::new());
        let registered = race(&scene, |scene| scene.register(5), |scene| scene.timers.close());
        assert_eq!(scene.entry.state(), TimerState::ShutDown);
        scene.assert_finished(usize::from(registered != RegisterOutcome::ShutDown));
    });
}

/// The runtime shuts down while a deadline moves: later, which takes no lock, or earlier.
#[test]
fn close_while_moving_a_deadline() {
    for to in [9, 3] {
        model(4, move || {
            let scene = Scene::waiting_for(5);
            race(
                &scene,
                move |scene| {
                    let _ = scene.reset(to);
                },
                |scene| scene.timers.close(),
            );
            assert_eq!(scene.entry.state(), TimerState::ShutDown);
            scene.assert_finished(1);
        });
    }
}

/// The runtime shuts down while the sleeper changes its waker and cancels.
#[test]
fn close_while_cancelling() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let (second, waker) = CountingWaker::new();
        race(
            &scene,
            move |scene| {
                scene.timers.update_waker(scene.entry(), &waker);
                scene.timers.cancel(scene.entry());
                scene.assert_exclusive();
            },
            |scene| scene.timers.close(),
        );
        assert!(scene.counter.wakes() + second.wakes() <= 1);
        assert_eq!(Arc::strong_count(&second), 1);
        scene.assert_finished(scene.counter.wakes());
    });
}
