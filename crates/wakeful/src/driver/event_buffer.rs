//! The epoll wait of a poller, and the buffer that it fills with events.
//!
//! The wait is `epoll_pwait2` where the kernel has it, because its time-out has a resolution of
//! nanoseconds. Otherwise it is mio's `epoll_wait`, with a resolution of milliseconds.

use super::io_readiness::Readiness;
use mio::{Events, Poll};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The number of events that one wait fetches; others stay in the kernel until the next wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventLimits {
    /// For a thread that blocks until there are events.
    pub(crate) waiting: usize,
    /// For a thread that polls without blocking, with tasks left to run. `None` means `waiting`.
    pub(crate) busy: Option<usize>,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { waiting: 256, busy: None }
    }
}

/// A buffer for events, and the wait that fills it.
pub(super) struct EventBuffer {
    events: Vec<Event>,
    /// The limit of a wait that blocks.
    waiting: usize,
    /// The limit of a wait that does not block.
    busy: usize,
    /// Set if the kernel has no `epoll_pwait2`.
    fallback: Option<MioWait>,
}

// SAFETY: an event's data may be a pointer in other programs. Here it is a number, and a wait
// clears the previous events without reading them.
unsafe impl Send for EventBuffer {}

impl EventBuffer {
    /// Creates a buffer, and checks whether the kernel has `epoll_pwait2`.
    pub(super) fn new(poll: &Poll, limits: EventLimits) -> io::Result<Self> {
        let busy = limits.busy.unwrap_or(limits.waiting);
        let events = Vec::with_capacity(limits.waiting.max(busy));
        let mut buffer = Self { events, waiting: limits.waiting, busy, fallback: None };
        match buffer.fetch(poll, limits.waiting, Some(Duration::ZERO)) {
            Ok(()) => {}
            Err(Errno::NOSYS | Errno::PERM) => buffer.fallback = Some(MioWait::new(limits)),
            Err(error) => return Err(error.into()),
        }
        Ok(buffer)
    }

    fn fetch(&mut self, poll: &Poll, max: usize, limit: Option<Duration>) -> Result<(), Errno> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        self.events.clear();
        // SAFETY: `poll` is borrowed, so its file descriptor stays open.
        let epoll = unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) };
        let spare = &mut self.events.spare_capacity_mut()[..max];
        let count = epoll::wait(epoll, spare, limit.as_ref())?.0.len();
        // SAFETY: the kernel wrote `count` events to the start of the spare capacity.
        unsafe { self.events.set_len(count) };
        Ok(())
    }

    /// Waits for events, for at most `limit`, and calls `each` with every token and its readiness.
    ///
    /// A wait that a signal interrupts returns no events.
    pub(super) fn wait(
        &mut self,
        poll: &mut Poll,
        limit: Option<Duration>,
        mut each: impl FnMut(usize, Readiness),
    ) {
        if let Some(fallback) = &mut self.fallback {
            return fallback.wait(poll, limit, each);
        }
        let is_busy = limit == Some(Duration::ZERO);
        let max = if is_busy { self.busy } else { self.waiting };
        match self.fetch(poll, max, limit) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll_pwait2 failed: {error}"),
        }
        for &epoll::Event { flags, data, .. } in &self.events {
            each(data.u64() as usize, from_flags(flags));
        }
    }
}

#[inline]
fn from_flags(flags: EventFlags) -> Readiness {
    let has = |flag| flags.contains(flag);
    // Most events are exactly these two.
    if flags == EventFlags::IN | EventFlags::OUT {
        return Readiness::READABLE | Readiness::WRITABLE;
    }
    let hung_up = has(EventFlags::HUP);
    let mut ready = Readiness::NONE;
    if has(EventFlags::IN) || has(EventFlags::PRI) {
        ready = ready | Readiness::READABLE;
    }
    if has(EventFlags::OUT) {
        ready = ready | Readiness::WRITABLE;
    }
    if hung_up || (has(EventFlags::IN) && has(EventFlags::RDHUP)) {
        ready = ready | Readiness::READ_CLOSED;
    }
    if hung_up || (has(EventFlags::OUT) && has(EventFlags::ERR)) || flags == EventFlags::ERR {
        ready = ready | Readiness::WRITE_CLOSED;
    }
    if has(EventFlags::PRI) {
        ready = ready | Readiness::PRIORITY;
    }
    if has(EventFlags::ERR) {
        ready = ready | Readiness::ERROR;
    }
    ready
}

/// The wait on kernels without `epoll_pwait2`, through mio.
struct MioWait {
    waiting: Events,
    busy: Option<Events>,
}

impl MioWait {
    fn new(limits: EventLimits) -> Self {
        let waiting = Events::with_capacity(limits.waiting);
        Self { waiting, busy: limits.busy.map(Events::with_capacity) }
    }

    fn wait(
        &mut self,
        poll: &mut Poll,
        limit: Option<Duration>,
        mut each: impl FnMut(usize, Readiness),
    ) {
        let events = match &mut self.busy {
            Some(busy) if limit == Some(Duration::ZERO) => busy,
            _ => &mut self.waiting,
        };
        match poll.poll(events, limit) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("epoll_wait failed: {error}"),
        }
        events.iter().for_each(|event| each(event.token().0, from_mio(event)));
    }
}

fn from_mio(event: &mio::event::Event) -> Readiness {
    let kinds = [
        (event.is_readable(), Readiness::READABLE),
        (event.is_writable(), Readiness::WRITABLE),
        (event.is_read_closed(), Readiness::READ_CLOSED),
        (event.is_write_closed(), Readiness::WRITE_CLOSED),
        (event.is_priority(), Readiness::PRIORITY),
        (event.is_error(), Readiness::ERROR),
    ];
    let present = kinds.iter().filter(|(present, _)| *present);
    present.fold(Readiness::NONE, |all, (_, kind)| all | *kind)
}
