//! Station 6 for I/O: one worker's poller. The worker parks in it while there is
//! something to watch; descriptors are registered here by whoever makes them.
//!
//! Rules:
//! - P1. One thread at a time waits for events and passes them on: the holder of
//!   the lock of `turn`, or, of a poller that only one thread comes to, that one.
//! - P2. The number that the system keeps with a descriptor is the address of its
//!   [`IoReadiness`]. An event may be on its way while the descriptor is deregistered,
//!   so the source goes to `retired` after that, and is free for another descriptor from
//!   the start of the next turn on: events that were fetched before have been passed on by
//!   then (P1), and none is fetched after.
//! - P3. A source lives as long as its poller. Who closes a descriptor before it is
//!   deregistered, and has a duplicate of it, leaves the system with an address that it
//!   tells of for good. If it refuses to deregister it, nobody else gets that source; if the
//!   number is that of another descriptor by then, somebody may be woken for nothing.
//!
//! A poller may have a ring for files (`uring`): its descriptor is watched like any
//! other, and every turn passes on what the ring has completed.
//!
//! Registration and waiting are `mio`'s, except that on Linux the wait itself is
//! `epoll_pwait2` where the kernel has it: its time-out counts nanoseconds, and
//! that of `epoll_wait` milliseconds.

use super::alarm::Alarm;
use super::io_readiness::{IoReadiness, Readiness};
use super::uring::Ring;
use crate::sys::park::Interrupt;
use crate::sys::spin_lock::SpinLock;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use slab::Slab;
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of the descriptor that ends a wait.
const KICK: Token = Token(0);
/// The number of the ring's descriptor.
const RING: Token = Token(1);
/// The number of the alarm's descriptor.
const ALARM: Token = Token(2);
/// Numbers up to this one are the poller's own; no source has one for an address.
const LAST_OWN: usize = 2;

/// So many sources wait for the next turn before somebody asks for one.
const MANY_RETIRED: usize = 64;

/// How many events are fetched at once. The others stay with the system until the
/// next turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// By a thread that waits for them.
    pub(crate) waiting: usize,
    /// By a thread that looks in between, with tasks left to run; as many, if
    /// nothing is said.
    pub(crate) busy: Option<usize>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { waiting: 256, busy: None }
    }
}

pub(crate) struct Poller {
    registry: Registry,
    waker: Waker,
    turn: SpinLock<Turn>,
    /// What is registered here (P2).
    sources: Mutex<Slab<Arc<IoReadiness>>>,
    /// How many those are.
    count: AtomicUsize,
    /// What is not registered any more. Its lock is taken inside that of `sources`.
    unused: Mutex<Unused>,
    /// Whether any of it is retired. Set under the lock, after the source went in.
    has_retired: AtomicBool,
    /// Made for the first operation on a file; none, if there cannot be one.
    ring: OnceLock<Option<Arc<Ring>>>,
    /// Made when it is first set; none, if there cannot be one.
    alarm: OnceLock<Option<Alarm>>,
    /// The alarm rang. Written by those who turn (P1) and by who asks.
    rang: AtomicBool,
}

/// A place in a poller's list.
pub(crate) struct Registered {
    pub(crate) source: Arc<IoReadiness>,
    place: usize,
    /// There was nothing else: the poller's owner may be parked outside of it,
    /// and has to be told.
    pub(crate) is_first: bool,
}

/// Sources without a descriptor (P2).
#[derive(Default)]
struct Unused {
    /// From the next turn on they are free.
    retired: Vec<Arc<IoReadiness>>,
    free: Vec<Arc<IoReadiness>>,
    /// They never are (P3).
    kept: Vec<Arc<IoReadiness>>,
}

/// What the one who turns the poller needs.
struct Turn {
    poll: Poll,
    events: wait::Buffer,
}

impl Poller {
    pub(crate) fn new(batch: Batch) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, KICK)?;
        let events = wait::Buffer::new(&poll, batch)?;
        Ok(Self {
            registry,
            waker,
            turn: SpinLock::new(Turn { poll, events }),
            sources: Mutex::new(Slab::new()),
            count: AtomicUsize::new(0),
            unused: Mutex::new(Unused::default()),
            ring: OnceLock::new(),
            alarm: OnceLock::new(),
            rang: AtomicBool::new(false),
            has_retired: AtomicBool::new(false),
        })
    }

    /// Whether there is reason to turn it: something to wait for in here, or to set free.
    #[inline]
    pub(crate) fn has_sources(&self) -> bool {
        // Who finds a count without a source finds that it is retired, too (`forget`).
        self.count.load(SeqCst) > 0 || self.has_retired.load(Relaxed) || self.is_ring_busy()
    }

    /// The ring for files of this poller's owner, which makes it if there is none
    /// yet and there can be one.
    pub(crate) fn ring(&self, make: impl FnOnce() -> io::Result<Ring>) -> Option<&Arc<Ring>> {
        let watched = |ring: Ring| {
            let fd = ring.fd();
            self.registry.register(&mut SourceFd(&fd), RING, Interest::READABLE)?;
            Ok(Arc::new(ring))
        };
        self.ring.get_or_init(|| make().and_then(watched).ok()).as_ref()
    }

    /// Whether the ring was made, or found out to be impossible.
    pub(crate) fn is_ring_made(&self) -> bool {
        self.ring.get().is_some()
    }

    /// The ring, if it was made.
    pub(crate) fn made_ring(&self) -> Option<&Arc<Ring>> {
        self.ring.get().and_then(Option::as_ref)
    }

    #[inline]
    fn is_ring_busy(&self) -> bool {
        self.made_ring().is_some_and(|ring| ring.is_busy())
    }

    /// Ends a wait in here after so long, once, whichever wait it is then. False:
    /// there is no such alarm.
    #[must_use]
    pub(crate) fn set_alarm(&self, after: Duration) -> bool {
        let watched = |alarm: Alarm| {
            self.registry.register(&mut SourceFd(&alarm.fd()), ALARM, Interest::READABLE)?;
            Ok(alarm)
        };
        let alarm = self.alarm.get_or_init(|| Alarm::new().and_then(watched).ok());
        alarm.as_ref().is_some_and(|alarm| alarm.set(after).is_ok())
    }

    /// Whether the alarm rang since this was asked last.
    #[inline]
    pub(crate) fn has_rung(&self) -> bool {
        self.rang.load(Relaxed) && self.rang.swap(false, Relaxed)
    }

    /// Passes on what the ring has completed; answers how much that was.
    fn turn_ring(&self) -> usize {
        self.made_ring().map_or(0, |ring| ring.turn())
    }

    /// How many descriptors it watches.
    pub(crate) fn sources(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Watches a descriptor. Its owner deregisters it before it closes it.
    pub(crate) fn register(&self, fd: RawFd, interest: Interest) -> io::Result<Registered> {
        let registered = {
            let mut sources = lock(&self.sources);
            let source = self.unused_source();
            let place = sources.insert(source.clone());
            self.count.store(sources.len(), SeqCst);
            Registered { source, place, is_first: sources.len() == 1 }
        };
        let token = Token(Arc::as_ptr(&registered.source).expose_provenance());
        match self.registry.register(&mut SourceFd(&fd), token, interest) {
            Ok(()) => Ok(registered),
            Err(error) => {
                self.forget(&registered);
                Err(error)
            }
        }
    }

    fn unused_source(&self) -> Arc<IoReadiness> {
        match lock(&self.unused).free.pop() {
            Some(source) => {
                source.renew();
                source
            }
            None => Arc::new(IoReadiness::new()),
        }
    }

    /// Watches it no longer (P2). By its owner: nobody begins
    /// to wait for it any more, and who has left a waker is let go of.
    pub(crate) fn deregister(&self, fd: RawFd, registered: &Registered) -> io::Result<()> {
        let deregistered = self.registry.deregister(&mut SourceFd(&fd));
        // Foreign code, so without a lock.
        registered.source.let_wakers_go();
        match deregistered {
            Ok(()) => self.forget(registered),
            Err(_) => self.keep(registered),
        }
        deregistered
    }

    /// The system refuses, as it was closed before, and may tell of it for good (P3): nobody else
    /// gets it.
    #[cold]
    fn keep(&self, registered: &Registered) {
        let mut sources = lock(&self.sources);
        lock(&self.unused).kept.push(sources.remove(registered.place));
        self.count.store(sources.len(), SeqCst);
    }

    /// P2: the system does not tell of it any more.
    fn forget(&self, registered: &Registered) {
        let mut sources = lock(&self.sources);
        let left = self.retire(sources.remove(registered.place));
        // After that, so that who sees the one sees the other.
        self.count.store(sources.len(), SeqCst);
        drop(sources);
        // Who turns it may sleep in here, and nothing may happen.
        if left.is_multiple_of(MANY_RETIRED) {
            self.kick();
        }
    }

    /// Answers how many wait to be set free.
    fn retire(&self, source: Arc<IoReadiness>) -> usize {
        let mut unused = lock(&self.unused);
        unused.retired.push(source);
        self.has_retired.store(true, Relaxed);
        unused.retired.len()
    }

    /// Waits for events, at most `limit`, and passes them on; at once, if
    /// another thread is at it. Answers how many there were.
    pub(crate) fn turn(&self, limit: Option<Duration>) -> usize {
        self.try_turn(limit).unwrap_or(0)
    }

    /// As `turn`; none, if another thread is at it.
    pub(crate) fn try_turn(&self, limit: Option<Duration>) -> Option<usize> {
        self.turn.try_with(|turn| self.turn_alone(turn, limit))
    }

    /// The same; without waiting, if there is a reason not to by the time when it could.
    pub(crate) fn try_turn_unless(
        &self,
        limit: Option<Duration>,
        is_called: impl FnOnce() -> bool,
    ) -> Option<usize> {
        self.turn.try_with(|turn| {
            let limit = if is_called() { Some(Duration::ZERO) } else { limit };
            self.turn_alone(turn, limit)
        })
    }

    /// As `turn`, without a lock.
    ///
    /// # Safety
    ///
    /// P1: nobody else turns it meanwhile.
    pub(crate) unsafe fn turn_own(&self, limit: Option<Duration>) -> usize {
        // SAFETY: by contract.
        unsafe { self.turn.with_own(|turn| self.turn_alone(turn, limit)) }
    }

    fn turn_alone(&self, turn: &mut Turn, limit: Option<Duration>) -> usize {
        // P2. What is not seen yet is set free by a later turn.
        if self.has_retired.load(Relaxed) {
            self.free_retired();
        }
        let Turn { poll, events } = turn;
        let mut count = self.turn_ring();
        let limit = if count > 0 { Some(Duration::ZERO) } else { limit };
        events.wait(poll, limit, |token, ready| {
            if token <= LAST_OWN {
                if token == ALARM.0 {
                    self.rang.store(true, Relaxed);
                }
                return;
            }
            count += 1;
            let source = std::ptr::with_exposed_provenance::<IoReadiness>(token);
            // SAFETY: P3: there was one at that address, and it lives as long as we do.
            let source = unsafe { &*source };
            // The system tells of each event once: a foreign waker that panics must not keep
            // the others from those who wait for them. Its panic was printed.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| source.add(ready))) {
                std::mem::forget(payload);
                source.call_others(ready);
            }
        });
        // The system told of completions, or there are some that it will tell of.
        count + self.turn_ring()
    }

    #[cold]
    fn free_retired(&self) {
        let mut unused = lock(&self.unused);
        let Unused { retired, free, .. } = &mut *unused;
        free.append(retired);
        self.has_retired.store(false, Relaxed);
    }

    /// Everybody who waits for something here is told that it will not come.
    pub(crate) fn shut_down(&self) {
        let all: Vec<Arc<IoReadiness>> =
            lock(&self.sources).iter().map(|(_, source)| source.clone()).collect();
        all.iter().for_each(|source| source.shut_down());
    }
}

impl Interrupt for Poller {
    fn kick(&self) {
        // It fails only for want of memory in the kernel; then whoever waits has
        // its time-out, and the monitor turns what is left unturned.
        let _ = self.waker.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wait itself: with nanoseconds, where the system has them.
mod wait {
    use super::*;
    use rustix::event::epoll::{self, EventFlags};
    use rustix::event::{Timespec, epoll::Event};
    use rustix::io::Errno;
    use std::os::fd::{AsRawFd, BorrowedFd};

    pub(super) struct Buffer {
        events: Vec<Event>,
        /// How many a turn fetches that waits, and one that does not.
        waiting: usize,
        busy: usize,
        /// For kernels without `epoll_pwait2`.
        coarse: Option<Coarse>,
    }

    // SAFETY: an event's number may be a pointer for others; ours are numbers, and what a
    // turn leaves in the buffer is not looked at by the next.
    unsafe impl Send for Buffer {}

    impl Buffer {
        pub(super) fn new(poll: &Poll, batch: Batch) -> io::Result<Self> {
            let busy = batch.busy.unwrap_or(batch.waiting);
            let events = Vec::with_capacity(batch.waiting.max(busy));
            let mut buffer = Self { events, waiting: batch.waiting, busy, coarse: None };
            match buffer.fetch(poll, batch.waiting, Some(Duration::ZERO)) {
                Ok(()) => {}
                Err(Errno::NOSYS | Errno::PERM) => buffer.coarse = Some(Coarse::new(batch)),
                Err(error) => return Err(error.into()),
            }
            Ok(buffer)
        }

        fn fetch(
            &mut self,
            poll: &Poll,
            most: usize,
            limit: Option<Duration>,
        ) -> Result<(), Errno> {
            let limit = limit.map(|limit| Timespec {
                tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: limit.subsec_nanos().into(),
            });
            self.events.clear();
            // SAFETY: the poll is borrowed, so its descriptor is open.
            let epoll = unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) };
            let room = &mut self.events.spare_capacity_mut()[..most];
            let count = epoll::wait(epoll, room, limit.as_ref())?.0.len();
            // SAFETY: so many were written, to the beginning of the spare capacity.
            unsafe { self.events.set_len(count) };
            Ok(())
        }

        /// A wait that is interrupted has no events.
        pub(super) fn wait(
            &mut self,
            poll: &mut Poll,
            limit: Option<Duration>,
            mut each: impl FnMut(usize, Readiness),
        ) {
            if let Some(coarse) = &mut self.coarse {
                return coarse.wait(poll, limit, each);
            }
            let is_busy = limit == Some(Duration::ZERO);
            let most = if is_busy { self.busy } else { self.waiting };
            match self.fetch(poll, most, limit) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(error) => panic!("waiting for I/O failed: {error}"),
            }
            for &epoll::Event { flags, data, .. } in &self.events {
                each(data.u64() as usize, readiness(flags));
            }
        }
    }

    #[inline]
    fn readiness(flags: EventFlags) -> Readiness {
        let has = |flag| flags.contains(flag);
        // What most events say, at once.
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
}

/// The wait with the time-out that `mio` has.
struct Coarse {
    waiting: Events,
    busy: Option<Events>,
}

impl Coarse {
    fn new(batch: Batch) -> Self {
        let waiting = Events::with_capacity(batch.waiting);
        Self { waiting, busy: batch.busy.map(Events::with_capacity) }
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
            Err(error) => panic!("waiting for I/O failed: {error}"),
        }
        events.iter().for_each(|event| each(event.token().0, readiness(event)));
    }
}

fn readiness(event: &mio::event::Event) -> Readiness {
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

#[cfg(all(test, not(loom)))]
#[path = "poller_tests.rs"]
mod poller_tests;
