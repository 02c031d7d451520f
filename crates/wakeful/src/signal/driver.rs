//! Station 7 for signals: those of one runtime, and the tasks that wait for them.
//!
//! Actors: a *handler* runs wherever the system interrupts a thread, and may do next
//! to nothing there; the *hub* is woken by the runtime's poller, as a task would be;
//! *listeners* wait for a kind.
//!
//! ```text
//! diagram
//!   handler: set PENDING, then ring ──► poller ──► wake: deliver ──► listeners
//! ```
//!
//! The rules of handlers and the hub are in `slot`.
//!
//! A listener remembers how many deliveries there had been when it was made. A signal
//! that came before, but after the poller was last asked, is still delivered to it: who
//! listens again and again, by `ctrl_c` in a loop, misses nothing while it is busy on
//! a current-thread runtime.

use super::slot::Slot;
use crate::driver::io_readiness::Direction;
use crate::runtime::Id;
use crate::runtime::dump_signal;
use crate::runtime::poll_evented::PollEvented;
use crate::runtime::registration::keeper_with_io;
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

/// The signals of one runtime.
pub(super) struct SignalDriver {
    runtime: Id,
    /// The handlers ring it; the runtime's poller watches it.
    bell: Arc<OwnedFd>,
    watched: Mutex<Option<PollEvented<Arc<OwnedFd>>>>,
    /// By the number of the signal, with the handler that was enlisted for it.
    slots: Mutex<BTreeMap<c_int, (Arc<Slot>, SigId)>>,
    delivery: RerunGate,
}

/// The hubs of this process: signals are the whole process's.
static HUBS: std::sync::Mutex<Vec<Arc<SignalDriver>>> = std::sync::Mutex::new(Vec::new());

fn hubs() -> MutexGuard<'static, Vec<Arc<SignalDriver>>> {
    ignore_poison(HUBS.lock())
}

impl SignalDriver {
    /// That of the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, or on one without I/O.
    #[track_caller]
    pub(super) fn current() -> io::Result<Arc<SignalDriver>> {
        let runtime = keeper_with_io().shared.id;
        let mut hubs = hubs();
        if let Some(hub) = hubs.iter().find(|hub| hub.runtime == runtime) {
            return Ok(hub.clone());
        }
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let watched = PollEvented::new(bell.clone(), mio::Interest::READABLE)?;
        let hub = Arc::new(SignalDriver {
            runtime,
            bell,
            watched: Mutex::new(Some(watched)),
            slots: Mutex::new(BTreeMap::new()),
            delivery: RerunGate::new(),
        });
        hubs.push(hub.clone());
        drop(hubs);
        hub.deliver();
        Ok(hub)
    }

    /// Listens for signals of that number, from now on.
    pub(super) fn slot(&self, number: c_int) -> io::Result<Arc<Slot>> {
        let mut slots = self.slots.lock();
        if let Some((slot, _)) = slots.get(&number) {
            return Ok(slot.clone());
        }
        let slot = Arc::new(Slot::new());
        // `close` takes this away before the slots: a slot that came later would be
        // nobody's.
        if self.watched.lock().is_none() {
            slot.close();
            return Ok(slot);
        }
        let (handed, bell) = (slot.clone(), self.bell.clone());
        // It fails only when the bell has rung 2^64 - 2 times already.
        let ring = move || _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        let handler = move || handed.notice(&ring);
        // SAFETY: G2; the registry keeps `errno` as it was.
        let id = unsafe { signal_hook_registry::register(number, handler) }?;
        if number == libc::SIGQUIT {
            dump_signal::leave_to_program();
        }
        slots.insert(number, (slot.clone(), id));
        Ok(slot)
    }

    /// Passes on what has come, and waits for more, with the poller.
    fn deliver(self: &Arc<Self>) {
        self.delivery.run(|| self.deliver_alone());
    }

    fn deliver_alone(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        loop {
            match self.poll_bell(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => self.pass_on(),
                // The runtime is gone.
                Poll::Ready(Err(_)) => return self.close(),
            }
        }
    }

    /// Waits until it rings, and silences it.
    fn poll_bell(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let watched = self.watched.lock();
        let Some(bell) = &*watched else { return Poll::Pending };
        let registration = bell.registration();
        registration.poll_seen(Direction::Read, cx).map(|seen| {
            registration.clear(seen?);
            // G1. It would block if it was silenced already.
            let _ = rustix::io::read(&**bell, &mut [0; 8]);
            Ok(())
        })
    }

    fn pass_on(&self) {
        let all: Vec<Arc<Slot>> =
            self.slots.lock().values().map(|(slot, _)| slot.clone()).collect();
        let mut panics = PanicSink::default();
        all.iter().for_each(|slot| panics.catch(|| slot.pass_on()));
        panics.forget();
    }

    /// There will be no more signals here.
    fn close(&self) {
        hubs().retain(|hub| hub.runtime != self.runtime);
        let watched = self.watched.lock().take();
        let slots = std::mem::take(&mut *self.slots.lock());
        let mut panics = PanicSink::default();
        for (slot, handler) in slots.into_values() {
            signal_hook_registry::unregister(handler);
            panics.catch(|| slot.close());
        }
        panics.forget();
        // Holds the runtime, and is perhaps the last to do so.
        drop(watched);
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
    use crate::signal::slot::CLOSED;

    /// As if the runtime had ended between the two steps of listening.
    #[test]
    fn who_comes_to_a_hub_that_has_closed_is_told_so() {
        let rt = Builder::new_current_thread().enable_all().build().unwrap();
        let hub = rt.block_on(async { SignalDriver::current() }).unwrap();
        let early = hub.slot(libc::SIGUSR2).unwrap();
        assert_eq!(early.deliveries.get(), 0);
        drop(rt);
        assert_eq!(early.deliveries.get(), CLOSED, "with the runtime");
        let late = hub.slot(libc::SIGWINCH).unwrap();
        assert_eq!(late.deliveries.get(), CLOSED, "nobody would close it any more");
        assert!(hub.slots.lock().is_empty(), "nor is a handler left behind");
    }
}
