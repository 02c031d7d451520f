//! Models of the way of a signal: no handler's is left behind, no listener is left out.

use crate::signal::slot::Slot;
use crate::sys::sync::atomic::{AtomicU64, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::list::Waiter;
use crate::wait::wait_counter::NotEqual;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicBool as StdBool;
use std::task::{Context, Poll, Wake, Waker};

/// A slot, and a bell that a poller watches: it counts, as the kernel's does.
struct Scene {
    slot: Slot,
    bell: AtomicU64,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self { slot: Slot::new(), bell: AtomicU64::new(0) })
    }

    /// What a handler does.
    fn handle(&self) {
        self.slot.notice(|| _ = self.bell.fetch_add(1, AcqRel));
    }

    /// What the hub does when the poller looks. True: the bell rang.
    fn look(&self) -> bool {
        let rang = self.bell.swap(0, AcqRel) > 0;
        if rang {
            self.slot.pass_on();
        }
        rang
    }
}

/// Signals come while the hub delivers. Catches one that is noted, but rings no more.
#[test]
fn what_comes_while_the_hub_delivers_is_delivered() {
    model(4, || {
        let scene = Scene::new();
        let handlers = [1, 2].map(|_| {
            let scene = scene.clone();
            thread::spawn(move || {
                scene.handle();
                // What was delivered by now is not what comes now.
                let before = scene.slot.deliveries.get();
                scene.handle();
                before
            })
        });
        start();
        // Once: for loom, a store may lie between an exchange and what that has read.
        scene.look();
        let before = handlers.map(|handler| handler.join().unwrap());
        // The poller looks as long as it rings.
        while scene.look() {}
        let delivered = scene.slot.deliveries.get();
        assert!(before.iter().all(|before| delivered > *before), "{before:?}, {delivered}");
    });
}

struct Flag(StdBool);

impl Wake for Flag {
    fn wake(self: StdArc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Somebody begins to listen while a signal comes, and the runtime goes down. Catches a
/// listener that nobody tells.
#[test]
fn who_listens_is_told_of_the_signal_and_of_the_end() {
    for goes_down in [false, true] {
        model(4, move || {
            let scene = Scene::new();
            let handler = {
                let scene = scene.clone();
                thread::spawn(move || match goes_down {
                    false => scene.handle(),
                    true => scene.slot.close(),
                })
            };
            let hub = {
                let scene = scene.clone();
                thread::spawn(move || _ = scene.look())
            };
            start();
            let (waiter, flag) = (Box::pin(Waiter::new()), StdArc::new(Flag(StdBool::new(false))));
            let (waker, deliveries) = (Waker::from(flag.clone()), &scene.slot.deliveries);
            let mut cx = Context::from_waker(&waker);
            let polled = deliveries.poll(waiter.as_ref(), NotEqual(0), &mut cx);
            handler.join().unwrap();
            hub.join().unwrap();
            while scene.look() {}
            let told = flag.0.load(SeqCst);
            assert_eq!(told, polled.is_pending(), "it is told if it waits, and only then");
            let polled = deliveries.poll(waiter.as_ref(), NotEqual(0), &mut cx);
            assert!(matches!(polled, Poll::Ready(number) if number != 0));
        });
    }
}
