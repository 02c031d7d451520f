//! Models of one timer: a sleeper registers, moves or cancels it, or changes its
//! waker, while another thread turns the timers or closes them.
//!
//! Each ends with a look at what is left: the timer fired once or never as it
//! should, and no waker stays behind. An entry that is the sleeper's alone again
//! is touched without the lock, so that loom reports whoever still uses it.

use super::{RegisterOutcome, TimerEntry, TimerState, Timers};
use crate::sys::park::Parker;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};

/// A waker that counts. The count is std's, so that it orders nothing.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Bell {
    fn new() -> (Arc<Bell>, Waker) {
        let bell = Arc::new(Bell::default());
        (bell.clone(), Waker::from(bell))
    }

    fn rung(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Timers, one entry, and the waker it is registered with first.
struct Scene {
    timers: Timers,
    entry: Pin<Box<TimerEntry>>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl Scene {
    fn new() -> Scene {
        let (bell, waker) = Bell::new();
        Scene { timers: Timers::new(0), entry: Box::pin(TimerEntry::new()), bell, waker }
    }

    /// With the entry registered.
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

    /// What `Sleep::reset` does.
    fn reset(&self, tick: u64) -> Option<RegisterOutcome> {
        let waits = self.entry.state() == TimerState::Waiting;
        waits.then(|| self.timers.rearm(self.entry(), tick))
    }

    /// I2: the entry is the caller's alone.
    fn assert_own(&self) {
        self.entry.waker.with_mut(|_| ());
    }

    /// Nothing waits here any more, and `rung` wake-ups were made in all.
    fn assert_over(&self, rung: usize) {
        assert_eq!((self.timers.len(), self.timers.next()), (0, None));
        assert_eq!(self.bell.rung(), rung);
        // Ours and the one in `waker`.
        assert_eq!(Arc::strong_count(&self.bell), 2, "a waker was kept");
        self.assert_own();
    }
}

/// Runs `sleeper` on a thread of its own, and `turner` here.
fn race<R: 'static>(
    scene: &Arc<Scene>,
    sleeper: impl FnOnce(&Scene) -> R + 'static,
    turner: impl FnOnce(&Scene),
) -> R {
    let other = thread::spawn({
        let scene = scene.clone();
        move || sleeper(&scene)
    });
    start();
    turner(scene);
    other.join().unwrap()
}

/// A timer is registered while the wheel is turned to just before it and then to
/// it. Catches a timer that is early, and one that neither side fires.
#[test]
fn a_timer_is_registered_during_a_turn() {
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
        scene.assert_over(usize::from(registered != RegisterOutcome::Due));
    });
}

/// A timer is registered from elsewhere while the owner, with nothing to wait
/// for, goes to park. Catches an owner that sleeps on: loom finds every thread
/// blocked.
#[test]
fn an_owner_about_to_park_hears_of_a_timer() {
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
        scene.assert_over(1);
    });
}

/// The same with a timer that is there and moves to an earlier time, for an
/// owner that parks until the later one.
#[test]
fn an_owner_about_to_park_hears_of_an_earlier_time() {
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
                    parker.park(None); // until 9, which is never
                }
                assert_eq!(scene.timers.fire_due(3), 1);
            },
        );
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_over(1);
    });
}

/// A deadline moves later (I3) while the old one comes up. Catches a timer that
/// fires for both, that is lost in between, and a waker that is.
#[test]
fn a_deadline_moves_later_as_it_comes_up() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let reset = race(
            &scene,
            |scene| scene.reset(9),
            |scene| {
                scene.timers.fire_due(5);
            },
        );
        let fired_before = scene.bell.rung();
        if reset.is_none() {
            assert_eq!(fired_before, 1, "it was seen to have fired");
            return scene.assert_over(1);
        }
        // Woken or not, it waits for the new deadline; who is woken polls.
        assert_eq!(scene.entry.state(), TimerState::Waiting);
        scene.timers.update_waker(scene.entry(), &scene.waker);
        scene.timers.fire_due(8);
        assert_eq!((scene.entry.state(), scene.bell.rung()), (TimerState::Waiting, fired_before));
        scene.timers.fire_due(9);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_over(fired_before + 1);
    });
}

/// A deadline moves later twice, while the wheel passes over where it was.
#[test]
fn a_deadline_moves_on_and_on() {
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
        let fired_before = scene.bell.rung();
        if scene.entry.state() == TimerState::Fired {
            return scene.assert_over(fired_before);
        }
        assert!(fired_before <= 1);
        scene.timers.update_waker(scene.entry(), &scene.waker);
        scene.timers.fire_due(9);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_over(fired_before + 1);
    });
}

/// A deadline moves earlier, or into the past, during a turn. Catches a sleeper
/// that is not woken although its time has come.
#[test]
fn a_deadline_moves_earlier_during_a_turn() {
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
        scene.assert_over(1);
    });
}

/// A timer is cancelled as it comes up. Catches a turn that uses the entry after
/// its sleeper took it back.
#[test]
fn a_timer_is_cancelled_as_it_fires() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        race(
            &scene,
            |scene| {
                scene.timers.cancel(scene.entry());
                scene.assert_own();
            },
            |scene| {
                scene.timers.fire_due(5);
            },
        );
        let rung = scene.bell.rung();
        assert!(rung <= 1);
        scene.timers.fire_due(5);
        scene.assert_over(rung);
    });
}

/// The waker changes as the timer fires. Catches a wake-up that goes to the old
/// one after the new one was accepted, and one that is kept.
#[test]
fn the_waker_changes_as_the_timer_fires() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let (second, waker) = Bell::new();
        let waits = race(
            &scene,
            move |scene| {
                scene.timers.update_waker(scene.entry(), &waker);
                let waits = scene.entry.state() == TimerState::Waiting;
                if !waits {
                    scene.assert_own();
                }
                waits
            },
            |scene| {
                scene.timers.fire_due(5);
            },
        );
        assert_eq!(scene.entry.state(), TimerState::Fired);
        assert_eq!(scene.bell.rung() + second.rung(), 1);
        assert!(!waits || second.rung() == 1, "the sleeper waits with its second waker");
        assert_eq!(Arc::strong_count(&second), 1);
        scene.assert_over(scene.bell.rung());
    });
}

/// Two threads turn the same timers: the owner and the monitor.
#[test]
fn two_threads_turn() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let turn = |scene: &Scene| scene.timers.fire_due(6);
        let fired = AtomicUsize::new(0);
        let other = race(&scene, turn, |scene| {
            fired.fetch_add(turn(scene), Relaxed);
        });
        assert_eq!(other + fired.load(Relaxed), 1);
        assert_eq!(scene.entry.state(), TimerState::Fired);
        scene.assert_over(1);
    });
}

/// The runtime goes as a timer is registered. Catches one that stays behind in
/// a wheel nobody turns.
#[test]
fn the_end_comes_during_a_registration() {
    model(4, || {
        let scene = Arc::new(Scene::new());
        let registered = race(&scene, |scene| scene.register(5), |scene| scene.timers.close());
        assert_eq!(scene.entry.state(), TimerState::ShutDown);
        scene.assert_over(usize::from(registered != RegisterOutcome::ShutDown));
    });
}

/// The runtime goes as a deadline moves: later, which takes no lock, or earlier.
#[test]
fn the_end_comes_as_a_deadline_moves() {
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
            scene.assert_over(1);
        });
    }
}

/// The runtime goes as the sleeper does, or as it changes its waker.
#[test]
fn the_end_comes_as_the_sleeper_goes() {
    model(4, || {
        let scene = Scene::waiting_for(5);
        let (second, waker) = Bell::new();
        race(
            &scene,
            move |scene| {
                scene.timers.update_waker(scene.entry(), &waker);
                scene.timers.cancel(scene.entry());
                scene.assert_own();
            },
            |scene| scene.timers.close(),
        );
        assert!(scene.bell.rung() + second.rung() <= 1);
        assert_eq!(Arc::strong_count(&second), 1);
        scene.assert_over(scene.bell.rung());
    });
}
