//! Station 6 for I/O: the epoll loop of one worker, its poller.
//!
//! A worker parks in its poller while the poller has file descriptors to watch. Sockets, pipes and
//! other descriptors are registered by the code that creates them. Each registered descriptor has
//! an [`IoReadiness`], the *source* of its events.
//!
//! - POLLER-1. One thread at a time waits for events and delivers them. It holds the lock of
//!   `poll_state`, or is the only thread that ever polls this poller.
//! - POLLER-2. The token that epoll keeps with a descriptor is the address of its [`IoReadiness`].
//!   An event may have been fetched while the descriptor is deregistered. So a deregistered source
//!   is retired first, and free for another descriptor only from the start of the next poll. By
//!   then all previously fetched events have been delivered (POLLER-1), and no later wait fetches
//!   an event for it.
//! - POLLER-3. A source lives as long as its poller. If a program closes a descriptor before it is
//!   deregistered, and has a duplicate of it, epoll reports the old token forever. If epoll then
//!   refuses to deregister the descriptor, its source is never reused. If the number already
//!   belongs to another registered descriptor, epoll deregisters that descriptor instead, and a
//!   later owner of the source may see a spurious wake-up.
//!
//! A poller may have a ring for files ([`uring`](super::uring)). The ring's descriptor is
//! registered like any other, and every poll processes the ring's completions.
//!
//! Registration is mio's. The wait itself is in [`event_buffer`](super::event_buffer).

use super::event_buffer::EventBuffer;
pub(crate) use super::event_buffer::EventLimits;
use super::io_readiness::IoReadiness;
use super::uring::Ring;
use crate::sys::park::Interrupt;
use crate::sys::spin_lock::SpinLock;
use crate::sys::sync::ignore_poison;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token, Waker};
use slab::Slab;
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The token of the eventfd that interrupts a wait.
const INTERRUPT: Token = Token(0);
/// The token of the ring's file descriptor.
const RING: Token = Token(1);
/// Tokens up to this one are the poller's own. No source has such a low address.
const LAST_OWN: usize = 1;

/// The number of retired sources after which a poll is requested to free them.
const MANY_RETIRED: usize = 64;

/// An epoll instance with the sources that are registered with it.
pub(crate) struct Poller {
    registry: Registry,
    waker: Waker,
    poll_state: SpinLock<PollState>,
    /// The registered sources (POLLER-2).
    sources: Mutex<Slab<Arc<IoReadiness>>>,
    /// The length of `sources`.
    count: AtomicUsize,
    counters: PollerCounters,
    /// Sources without a descriptor. Its lock is taken inside the lock of `sources`.
    unused: Mutex<UnusedSources>,
    /// Whether `UnusedSources::retired` is not empty. Set under its lock, after a source was added.
    has_retired: AtomicBool,
    /// Created for the first operation on a file. `Some(None)` if that failed.
    ring: OnceLock<Option<Arc<Ring>>>,
}

/// Lifetime counters of a poller, for metrics.
#[derive(Default)]
pub(crate) struct PollerCounters {
    /// The number of descriptors registered so far.
    pub(crate) registered: AtomicU64,
    /// The number of descriptors deregistered so far.
    pub(crate) deregistered: AtomicU64,
    /// The number of events delivered so far. Written under POLLER-1.
    pub(crate) events: AtomicU64,
}

/// The source of a registered file descriptor, held by the descriptor's owner.
pub(crate) struct RegisteredSource {
    pub(crate) source: Arc<IoReadiness>,
    key: usize,
    /// Whether no other source was registered. Then the poller's owner may be parked outside the
    /// poller and must be woken.
    pub(crate) is_first: bool,
}

impl RegisteredSource {
    /// Creates a source of a simulated socket, which no poller watches.
    pub(crate) fn without_poller() -> Self {
        Self { source: Arc::new(IoReadiness::new()), key: usize::MAX, is_first: false }
    }
}

/// Sources that belong to no descriptor (POLLER-2).
#[derive(Default)]
struct UnusedSources {
    /// Sources that become free at the next poll.
    retired: Vec<Arc<IoReadiness>>,
    free: Vec<Arc<IoReadiness>>,
    /// Sources that never become free, because epoll may still report them (POLLER-3).
    quarantined: Vec<Arc<IoReadiness>>,
}

/// The state that only the polling thread accesses (POLLER-1).
struct PollState {
    poll: Poll,
    events: EventBuffer,
}

impl Poller {
    pub(crate) fn new(limits: EventLimits) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, INTERRUPT)?;
        let events = EventBuffer::new(&poll, limits)?;
        Ok(Self {
            registry,
            waker,
            poll_state: SpinLock::new(PollState { poll, events }),
            sources: Mutex::new(Slab::new()),
            count: AtomicUsize::new(0),
            counters: PollerCounters::default(),
            unused: Mutex::new(UnusedSources::default()),
            ring: OnceLock::new(),
            has_retired: AtomicBool::new(false),
        })
    }

    /// Returns whether there is a reason to poll: sources, retired sources or file operations.
    #[inline]
    pub(crate) fn needs_poll(&self) -> bool {
        // A thread that sees the count of a removed source also sees that it is retired: `retire`
        // stores the count last.
        self.count.load(SeqCst) > 0 || self.has_retired.load(Relaxed) || self.is_ring_busy()
    }

    /// Returns the ring for files, which the first call creates with `make`.
    ///
    /// Returns `None` if the ring could not be created.
    pub(crate) fn ring_or_init(
        &self,
        make: impl FnOnce() -> io::Result<Ring>,
    ) -> Option<&Arc<Ring>> {
        let register = |ring: Ring| {
            let fd = ring.fd();
            self.registry.register(&mut SourceFd(&fd), RING, Interest::READABLE)?;
            Ok(Arc::new(ring))
        };
        self.ring.get_or_init(|| make().and_then(register).ok()).as_ref()
    }

    /// Returns whether the ring was created, or could not be created.
    pub(crate) fn ring_was_tried(&self) -> bool {
        self.ring.get().is_some()
    }

    /// Returns the ring, if it was created.
    pub(crate) fn existing_ring(&self) -> Option<&Arc<Ring>> {
        self.ring.get().and_then(Option::as_ref)
    }

    #[inline]
    fn is_ring_busy(&self) -> bool {
        self.existing_ring().is_some_and(|ring| ring.is_busy())
    }

    /// Processes the ring's completions. Returns their number.
    fn process_ring(&self) -> usize {
        self.existing_ring().map_or(0, |ring| ring.process_completions())
    }

    /// Returns how many descriptors are registered.
    pub(crate) fn source_count(&self) -> usize {
        self.count.load(SeqCst)
    }

    pub(crate) fn counters(&self) -> &PollerCounters {
        &self.counters
    }

    /// Registers a descriptor. Its owner must deregister it before closing it.
    pub(crate) fn register(&self, fd: RawFd, interest: Interest) -> io::Result<RegisteredSource> {
        let registered = {
            let mut sources = lock(&self.sources);
            let source = self.unused_source();
            let key = sources.insert(source.clone());
            self.count.store(sources.len(), SeqCst);
            RegisteredSource { source, key, is_first: sources.len() == 1 }
        };
        let token = Token(Arc::as_ptr(&registered.source).expose_provenance());
        match self.registry.register(&mut SourceFd(&fd), token, interest) {
            Ok(()) => {
                self.counters.registered.fetch_add(1, Relaxed);
                Ok(registered)
            }
            Err(error) => {
                self.retire(&registered);
                Err(error)
            }
        }
    }

    fn unused_source(&self) -> Arc<IoReadiness> {
        match lock(&self.unused).free.pop() {
            Some(source) => {
                source.reset_for_reuse();
                source
            }
            None => Arc::new(IoReadiness::new()),
        }
    }

    /// Deregisters a descriptor (POLLER-2).
    ///
    /// The owner must call this when no task can start to wait for the descriptor. Registered
    /// wakers are dropped.
    pub(crate) fn deregister(&self, fd: RawFd, registered: &RegisteredSource) -> io::Result<()> {
        let deregistered = self.registry.deregister(&mut SourceFd(&fd));
        // Called without a lock, because it runs foreign code.
        registered.source.drop_wakers();
        self.counters.deregistered.fetch_add(1, Relaxed);
        match deregistered {
            Ok(()) => self.retire(registered),
            Err(_) => self.quarantine(registered),
        }
        deregistered
    }

    /// Removes a source that epoll may keep reporting (POLLER-3), because its descriptor was closed
    /// before it was deregistered.
    #[cold]
    fn quarantine(&self, registered: &RegisteredSource) {
        let mut sources = lock(&self.sources);
        lock(&self.unused).quarantined.push(sources.remove(registered.key));
        self.count.store(sources.len(), SeqCst);
    }

    /// Removes a source that epoll no longer reports (POLLER-2).
    fn retire(&self, registered: &RegisteredSource) {
        let mut sources = lock(&self.sources);
        let retired = self.push_retired(sources.remove(registered.key));
        // Stored last, so that a thread that sees this count also sees `has_retired`.
        self.count.store(sources.len(), SeqCst);
        drop(sources);
        // The polling thread may be asleep, and no event may ever wake it.
        if retired.is_multiple_of(MANY_RETIRED) {
            self.interrupt();
        }
    }

    /// Adds a retired source, and returns the number of retired sources.
    fn push_retired(&self, source: Arc<IoReadiness>) -> usize {
        let mut unused = lock(&self.unused);
        unused.retired.push(source);
        self.has_retired.store(true, Relaxed);
        unused.retired.len()
    }

    /// Waits for events, for at most `limit`, and delivers them. Returns their number.
    ///
    /// Returns 0 at once if another thread is polling.
    pub(crate) fn poll(&self, limit: Option<Duration>) -> usize {
        self.try_poll(limit).unwrap_or(0)
    }

    /// Waits for events, for at most `limit`, and delivers them. Returns their number.
    ///
    /// Returns `None` at once if another thread is polling.
    pub(crate) fn try_poll(&self, limit: Option<Duration>) -> Option<usize> {
        self.poll_state.try_with(|state| self.poll_locked(state, limit))
    }

    /// Polls like [`try_poll`](Self::try_poll), but does not wait if `is_notified` returns true.
    ///
    /// `is_notified` is called after the lock is taken.
    pub(crate) fn try_poll_unless(
        &self,
        limit: Option<Duration>,
        is_notified: impl FnOnce() -> bool,
    ) -> Option<usize> {
        self.poll_state.try_with(|state| {
            let limit = if is_notified() { Some(Duration::ZERO) } else { limit };
            self.poll_locked(state, limit)
        })
    }

    /// Polls like [`poll`](Self::poll), without taking the lock.
    ///
    /// # Safety
    ///
    /// No other thread may poll this poller meanwhile (POLLER-1).
    pub(crate) unsafe fn poll_exclusive(&self, limit: Option<Duration>) -> usize {
        // SAFETY: the caller guarantees POLLER-1, so no other thread accesses `poll_state`.
        unsafe { self.poll_state.with_exclusive(|state| self.poll_locked(state, limit)) }
    }

    fn poll_locked(&self, state: &mut PollState, limit: Option<Duration>) -> usize {
        // POLLER-2. A source whose flag is not seen yet becomes free in a later poll.
        if self.has_retired.load(Relaxed) {
            self.free_retired();
        }
        let PollState { poll, events } = state;
        let mut count = self.process_ring();
        let ring_events = count;
        let limit = if count > 0 { Some(Duration::ZERO) } else { limit };
        events.wait(poll, limit, |token, ready| {
            if token <= LAST_OWN {
                return;
            }
            count += 1;
            let source = std::ptr::with_exposed_provenance::<IoReadiness>(token);
            // SAFETY: the token is the address of a source of this poller, which lives as long as
            // the poller (POLLER-2, POLLER-3).
            let source = unsafe { &*source };
            // epoll reports each event once. So a foreign waker that panics must not keep the
            // other events from their tasks. The panic hook has printed the panic.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| source.add(ready))) {
                std::mem::forget(payload);
                source.wake_remaining(ready);
            }
        });
        if count > ring_events {
            let events = self.counters.events.load(Relaxed) + (count - ring_events) as u64;
            self.counters.events.store(events, Relaxed);
        }
        // The ring's descriptor may have ended the wait.
        count + self.process_ring()
    }

    #[cold]
    fn free_retired(&self) {
        let mut unused = lock(&self.unused);
        let UnusedSources { retired, free, .. } = &mut *unused;
        free.append(retired);
        self.has_retired.store(false, Relaxed);
    }

    /// Wakes all tasks that wait for a source, which then see that the runtime has shut down.
    pub(crate) fn shut_down(&self) {
        let all: Vec<Arc<IoReadiness>> =
            lock(&self.sources).iter().map(|(_, source)| source.clone()).collect();
        all.iter().for_each(|source| source.shut_down());
    }
}

impl Interrupt for Poller {
    fn interrupt(&self) {
        // This fails only if the kernel is out of memory. Then a waiting thread wakes up at its
        // time limit, and the watchdog polls the drivers that no worker polls.
        let _ = self.waker.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

#[cfg(all(test, not(loom)))]
#[path = "poller_tests.rs"]
mod poller_tests;
