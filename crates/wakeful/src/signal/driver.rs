//! The signal driver of one runtime, which forwards signals from the handlers to the listening
//! tasks.
//!
//! Actors: a *handler* runs on any thread that the kernel interrupts, and may do almost nothing
//! there. The *driver* is woken by the runtime's poller. *Listeners* are tasks that wait for a kind
//! of signal.
//!
//! ```text
//! diagram
//!   handler: set pending, write to wake_fd ──► poller ──► wake() ──► deliver() ──► listeners
//! ```
//!
//! The rules for handlers and the driver are in `event.rs`.
//!
//! A listener stores the number of deliveries at its creation. A signal that arrived earlier, but
//! after the last poll of the poller, is still delivered to it. So a loop over `ctrl_c` on a busy
//! current-thread runtime misses no signal.

use super::event::SignalEvent;
use crate::driver::io_readiness::Direction;
use crate::runtime::Id;
use crate::runtime::dump_signal;
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::runtime_ref_with_io;
use crate::sys::sync::{Mutex, ignore_poison};
use crate::wait::rerun_gate::RerunGate;
use crate::wait::wake_batch::PanicSink;
use rustix::event::{EventfdFlags, eventfd};
use signal_hook_registry::SigId;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

/// The signal driver of one runtime.
pub(super) struct SignalDriver {
    runtime: Id,
    /// Eventfd that the handlers write to and the runtime's poller watches.
    wake_fd: Arc<OwnedFd>,
    /// The registration of the wake_fd with the poller; `None` once closed.
    registered: Mutex<Option<PollEvented<Arc<OwnedFd>>>>,
    /// The event and the registered handler of each signal number.
    events: Mutex<BTreeMap<c_int, (Arc<SignalEvent>, SigId)>>,
    delivery: RerunGate,
}

/// The drivers of all runtimes. Signals are delivered to the process, so each driver is notified.
static DRIVERS: std::sync::Mutex<Vec<Arc<SignalDriver>>> = std::sync::Mutex::new(Vec::new());

fn drivers() -> MutexGuard<'static, Vec<Arc<SignalDriver>>> {
    ignore_poison(DRIVERS.lock())
}

impl SignalDriver {
    /// Returns the driver of the current runtime.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled.
    #[track_caller]
    pub(super) fn current() -> io::Result<Arc<SignalDriver>> {
        let runtime = runtime_ref_with_io();
        runtime.shared.refuse_in_simulation("a listener for signals")?;
        let runtime = runtime.shared.id;
        let mut drivers = drivers();
        if let Some(driver) = drivers.iter().find(|driver| driver.runtime == runtime) {
            return Ok(driver.clone());
        }
        let wake_fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let registered = PollEvented::new(wake_fd.clone(), mio::Interest::READABLE)?;
        let driver = Arc::new(SignalDriver {
            runtime,
            wake_fd,
            registered: Mutex::new(Some(registered)),
            events: Mutex::new(BTreeMap::new()),
            delivery: RerunGate::new(),
        });
        drivers.push(driver.clone());
        drop(drivers);
        driver.deliver();
        Ok(driver)
    }

    /// Returns the event of a signal number, installing a handler on the first call.
    pub(super) fn event_for(&self, number: c_int) -> io::Result<Arc<SignalEvent>> {
        let mut events = self.events.lock();
        if let Some((event, _)) = events.get(&number) {
            return Ok(event.clone());
        }
        let event = Arc::new(SignalEvent::new());
        // `close` clears `registered` before it takes the events. An event that is added after that
        // would never be closed.
        if self.registered.lock().is_none() {
            event.close();
            return Ok(event);
        }
        let (handler_event, wake_fd) = (event.clone(), self.wake_fd.clone());
        // Fails only if the counter would exceed 2^64 - 2; the wake_fd is readable then.
        let signal_wake_fd = move || _ = rustix::io::write(&wake_fd, &1u64.to_ne_bytes());
        let handler = move || handler_event.notify(&signal_wake_fd);
        // SAFETY: SIGNAL-2; the registry preserves `errno`.
        let id = unsafe { signal_hook_registry::register(number, handler) }?;
        if number == libc::SIGQUIT {
            dump_signal::leave_to_program();
        }
        events.insert(number, (event.clone(), id));
        Ok(event)
    }

    /// Delivers pending signals and registers the driver's waker with the poller.
    fn deliver(self: &Arc<Self>) {
        self.delivery.run(|| self.deliver_once());
    }

    fn deliver_once(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        loop {
            match self.poll_wake_fd(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => self.deliver_events(),
                // The runtime has shut down.
                Poll::Ready(Err(_)) => return self.close(),
            }
        }
    }

    /// Polls the wake_fd until it is readable, and drains it.
    fn poll_wake_fd(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let registered = self.registered.lock();
        let Some(wake_fd) = &*registered else { return Poll::Pending };
        let registration = wake_fd.registration();
        registration.poll_ready_unbudgeted(Direction::Read, cx).map(|seen| {
            registration.clear(seen?);
            // SIGNAL-1. Fails with `WouldBlock` if it was already drained.
            let _ = rustix::io::read(&**wake_fd, &mut [0; 8]);
            Ok(())
        })
    }

    /// Delivers the pending signals of every kind.
    fn deliver_events(&self) {
        let all: Vec<Arc<SignalEvent>> =
            self.events.lock().values().map(|(event, _)| event.clone()).collect();
        let mut panics = PanicSink::default();
        all.iter().for_each(|event| panics.catch(|| event.deliver()));
        panics.forget();
    }

    /// Closes all events and removes the handlers: the runtime has shut down.
    fn close(&self) {
        drivers().retain(|driver| driver.runtime != self.runtime);
        let registered = self.registered.lock().take();
        let events = std::mem::take(&mut *self.events.lock());
        let mut panics = PanicSink::default();
        for (event, handler) in events.into_values() {
            signal_hook_registry::unregister(handler);
            panics.catch(|| event.close());
        }
        panics.forget();
        // May hold the last reference to the runtime, so it is dropped without a lock held.
        drop(registered);
    }
}

impl Wake for SignalDriver {
    fn wake(self: Arc<Self>) {
        self.deliver();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.deliver();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SignalDriver;
    use crate::runtime::Builder;
    use crate::signal::event::CLOSED;

    /// The runtime shuts down between the two steps of `signal`.
    #[test]
    fn events_of_a_closed_driver_are_closed() {
        let rt = Builder::new_current_thread().enable_all().build().unwrap();
        let driver = rt.block_on(async { SignalDriver::current() }).unwrap();
        let early = driver.event_for(libc::SIGUSR2).unwrap();
        assert_eq!(early.deliveries.get(), 0);
        drop(rt);
        assert_eq!(early.deliveries.get(), CLOSED, "closed with the runtime");
        let late = driver.event_for(libc::SIGWINCH).unwrap();
        assert_eq!(late.deliveries.get(), CLOSED, "closed at its creation");
        assert!(driver.events.lock().is_empty(), "no handler is left behind");
    }
}
