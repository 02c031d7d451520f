//! Models of signal delivery: no signal is lost, and every listener is woken.

use crate::signal::event::SignalEvent;
use crate::sys::sync::atomic::{AtomicU64, Ordering::*};
use crate::sys::sync::{Arc, thread};
use crate::task::models::scheduler::{model, start};
use crate::wait::list::Waiter;
use crate::wait::wait_counter::NotEqual;
use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicBool as StdBool;
use std::task::{Context, Poll, Wake, Waker};

/// A signal event, and a counter in place of the wake_fd that the poller watches.
struct ModelDriver {
    event: SignalEvent,
    wake_fd: AtomicU64,
}

impl ModelDriver {
    fn new() -> Arc<Self> {
        Arc::new(Self { event: SignalEvent::new(), wake_fd: AtomicU64::new(0) })
    }

    /// Acts as a signal handler.
    fn handle(&self) {
        self.event.notify(|| _ = self.wake_fd.fetch_add(1, AcqRel));
    }

    /// Acts as the driver when the poller wakes it. Returns whether the wake_fd was readable.
    fn poll_wake_fd(&self) -> bool {
        let was_signalled = self.wake_fd.swap(0, AcqRel) > 0;
        if was_signalled {
            self.event.deliver();
        }
        was_signalled
    }
}

/// Signals arrive while the driver delivers.
///
/// Catches a signal that is pending without making the wake_fd readable.
#[test]
fn signal_during_delivery_is_delivered() {
    model(4, || {
        let model_driver = ModelDriver::new();
        let handlers = [1, 2].map(|_| {
            let model_driver = model_driver.clone();
            thread::spawn(move || {
                model_driver.handle();
                // Earlier deliveries cannot include the next signal.
                let before = model_driver.event.deliveries.get();
                model_driver.handle();
                before
            })
        });
        start();
        // Only once: loom may order a store between an exchange and the value that it read.
        model_driver.poll_wake_fd();
        let before = handlers.map(|handler| handler.join().unwrap());
        // The poller wakes the driver while the wake_fd is readable.
        while model_driver.poll_wake_fd() {}
        let delivered = model_driver.event.deliveries.get();
        assert!(before.iter().all(|before| delivered > *before), "{before:?}, {delivered}");
    });
}

struct Flag(StdBool);

impl Wake for Flag {
    fn wake(self: StdArc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A task starts to listen while a signal arrives or the runtime shuts down.
///
/// Catches a listener that is not woken.
#[test]
fn listener_is_woken_by_a_signal_and_by_close() {
    for shuts_down in [false, true] {
        model(4, move || {
            let model_driver = ModelDriver::new();
            let handler = {
                let model_driver = model_driver.clone();
                thread::spawn(move || match shuts_down {
                    false => model_driver.handle(),
                    true => model_driver.event.close(),
                })
            };
            let driver = {
                let model_driver = model_driver.clone();
                thread::spawn(move || _ = model_driver.poll_wake_fd())
            };
            start();
            let (waiter, flag) = (Box::pin(Waiter::new()), StdArc::new(Flag(StdBool::new(false))));
            let (waker, deliveries) = (Waker::from(flag.clone()), &model_driver.event.deliveries);
            let mut cx = Context::from_waker(&waker);
            let polled = deliveries.poll(waiter.as_ref(), NotEqual(0), &mut cx);
            handler.join().unwrap();
            driver.join().unwrap();
            while model_driver.poll_wake_fd() {}
            let woken = flag.0.load(SeqCst);
            assert_eq!(woken, polled.is_pending(), "woken if and only if it waits");
            let polled = deliveries.poll(waiter.as_ref(), NotEqual(0), &mut cx);
            assert!(matches!(polled, Poll::Ready(number) if number != 0));
        });
    }
}
