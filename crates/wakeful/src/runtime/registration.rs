//! The registration of a descriptor with a poller: how sockets, pipes and `AsyncFd` wait.

use super::context::{self, RuntimeRef};
use super::shutdown_error::shutting_down;
use crate::driver::io_readiness::{Direction, Readiness, ReadinessSnapshot};
use crate::driver::poller::{Poller, RegisteredSource};
use crate::runtime::task_api::spawn::no_runtime;
use crate::sim::network::SimulatedSocket;
use crate::task::coop;
use crate::task::futile::{self, FutileKind};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::wait;
use crate::wait::list::Waiter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

/// The registration of one descriptor with a worker's poller.
///
/// The owner of the descriptor must call [`deregister`](Self::deregister) before it closes the
/// descriptor or passes it to other code.
pub(crate) struct Registration {
    registered: RegisteredSource,
    origin: ReadinessOrigin,
    /// The descriptor, or the number of a simulated socket.
    fd: RawFd,
    /// Set once a read has returned the end of the data.
    has_reached_eof: AtomicBool,
    /// Where the descriptor was registered, for diagnostics.
    site: &'static Location<'static>,
    /// Keeps the runtime's drivers alive.
    _runtime: Arc<RuntimeRef>,
}

/// The origin of a registration's readiness.
enum ReadinessOrigin {
    Poller(Arc<Poller>),
    /// The source is a simulated socket, which has no descriptor.
    Simulation(SimulatedSocket),
}

/// The origin of an I/O operation, which decides what its `WouldBlock` proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpSource {
    /// This crate: the direction is known, and the operation does not block at the end of the data.
    Library,
    /// A closure of the user: neither the direction nor the behavior at the end of the data is
    /// known.
    User,
}

// Only the runtime changes the shared state, so a panic in user code cannot leave that state half
// changed.
impl UnwindSafe for Registration {}
impl RefUnwindSafe for Registration {}

impl Registration {
    /// Registers a descriptor with the poller of this thread's worker.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime, or if that runtime has no I/O.
    #[track_caller]
    pub(crate) fn new(
        fd: RawFd,
        interest: mio::Interest,
        site: &'static Location<'static>,
    ) -> io::Result<Self> {
        let runtime = runtime_ref_with_io();
        if runtime.shared.config().env.simulated.is_some() {
            let what =
                format!("what {site} registers (an `AsyncFd`, a pipe or a socket for `from_std`)");
            runtime.shared.refuse_in_simulation(&what)?;
        }
        let (poller, owner) = runtime.shared.poller()?;
        let poller = poller.clone();
        let registered = poller.register(fd, interest).inspect_err(|_| {
            // The failed registration may have counted as the first one. Then a later registration
            // did not count as the first, and did not wake the owner.
            runtime.shared.wake_poller(owner);
        })?;
        // This thread registers, then reads `is_closing`. The closing thread sets `is_closing`,
        // then visits all registrations. So at least one of the two threads sees the other's write.
        if runtime.shared.is_closing() {
            let _ = poller.deregister(fd, &registered);
            return Err(shutting_down());
        }
        if registered.is_first {
            runtime.shared.wake_poller(owner);
        }
        Ok(Self {
            registered,
            origin: ReadinessOrigin::Poller(poller),
            fd,
            has_reached_eof: AtomicBool::new(false),
            site,
            _runtime: runtime,
        })
    }

    /// Registers a simulated socket with the current runtime.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime, or if that runtime has no I/O.
    #[cold]
    #[track_caller]
    pub(crate) fn new_simulated(socket: SimulatedSocket, site: &'static Location<'static>) -> Self {
        let registered = RegisteredSource::without_poller();
        socket.attach(&registered.source);
        Self {
            registered,
            fd: socket.number(),
            origin: ReadinessOrigin::Simulation(socket),
            has_reached_eof: AtomicBool::new(false),
            site,
            _runtime: runtime_ref_with_io(),
        }
    }

    /// Returns the simulated socket that the registration is for.
    ///
    /// # Panics
    ///
    /// If the registration is for a descriptor.
    #[cold]
    #[inline(never)]
    pub(crate) fn simulated(&self) -> &SimulatedSocket {
        match &self.origin {
            ReadinessOrigin::Simulation(socket) => socket,
            ReadinessOrigin::Poller(_) => unreachable!("a descriptor is there until `into_inner`"),
        }
    }

    pub(crate) fn deregister(&self) -> io::Result<()> {
        match &self.origin {
            ReadinessOrigin::Poller(poller) => poller.deregister(self.fd, &self.registered),
            // It leaves the network when it is dropped, and its source with it.
            ReadinessOrigin::Simulation(_) => Ok(()),
        }
    }

    /// Records that the current task waits for this descriptor.
    #[inline]
    fn record_wait(&self, kind: WaitKind, site: &'static Location<'static>) {
        wait::record_wait_for_target(kind, TargetWord::of_u32(self.fd as u32), site);
    }

    /// Records that the current task waits for this descriptor, in a poll that has no site.
    #[inline]
    fn record_polled_wait(&self, kind: WaitKind) {
        wait::record_wait_at_resource(kind, TargetWord::of_u32(self.fd as u32), self.site);
    }

    /// Counts a read that returns the end of the data again.
    #[cold]
    pub(crate) fn count_eof(&self, kind: FutileKind, site: Option<&'static Location<'static>>) {
        // Relaxed: at worst the count is off by one.
        if self.has_reached_eof.swap(true, Relaxed) {
            futile::count(kind, self.fd as u64, site);
        }
    }

    /// Counts that a read returns the end of the data again, and returns that.
    #[cold]
    #[inline(never)]
    pub(crate) fn return_eof(
        &self,
        kind: FutileKind,
        site: Option<&'static Location<'static>>,
    ) -> io::Result<usize> {
        self.count_eof(kind, site);
        Ok(0)
    }

    /// Counts an error of `accept`; most such errors persist for some time.
    #[cfg(feature = "net")]
    #[inline]
    pub(crate) fn inspect_accepted<R>(
        &self,
        accepted: io::Result<R>,
        site: &'static Location<'static>,
    ) -> io::Result<R> {
        accepted.inspect_err(|error| {
            if let Some(number) = error.raw_os_error() {
                futile::count(FutileKind::Accept(number), self.fd as u64, Some(site));
            }
        })
    }

    /// Returns the known readiness, restricted to `mask`.
    #[inline]
    pub(crate) fn readiness(&self, mask: Readiness) -> ReadinessSnapshot {
        self.registered.source.load(mask)
    }

    /// Clears readiness that an operation has disproved, but keeps closed directions.
    #[inline]
    pub(crate) fn clear(&self, seen: ReadinessSnapshot) {
        self.registered.source.clear_except_closed(seen);
    }

    /// Clears the readiness after an operation that transferred less than it could have.
    #[inline]
    pub(crate) fn mark_drained(&self, direction: Direction, seen: ReadinessSnapshot) {
        self.registered.source.mark_drained(direction, seen);
    }

    /// Clears the readiness of a snapshot after an operation that would block.
    ///
    /// Also clears closed directions: a message in the error queue looks like a closed direction,
    /// and so does a named pipe between two writers. For an operation of the library, the direction
    /// is known, and the operation does not block at the end of the data. For a user's operation
    /// neither is known, so directions that the kernel still reports as closed stay closed.
    #[inline]
    fn clear_after_would_block(&self, seen: ReadinessSnapshot, author: OpSource) {
        let asks_kernel = seen.is_closed() && author == OpSource::User;
        let seen = if asks_kernel { seen.without(self.closed_directions()) } else { seen };
        self.registered.source.clear_if_unchanged(seen);
    }

    /// Queries the kernel for the directions that are currently closed.
    #[cold]
    fn closed_directions(&self) -> Readiness {
        if let ReadinessOrigin::Simulation(socket) = &self.origin {
            return socket.readiness().and(Readiness::READ_CLOSED | Readiness::WRITE_CLOSED);
        }
        // SAFETY: the descriptor was just used. If it was closed while still registered, the kernel
        // describes another file or none, and the result does not matter.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let events = match poll(&mut polled, Some(&now)) {
            Ok(_) => polled[0].revents(),
            // Unknown, so both directions stay closed.
            Err(_) => PollFlags::HUP,
        };
        let when = |flags, closed| if events.intersects(flags) { closed } else { Readiness::NONE };
        // POLLERR means a pipe without a reader, or an error of one packet on a socket.
        let error = when(PollFlags::ERR, Readiness::WRITE_CLOSED);
        let is_socket = || rustix::net::sockopt::socket_type(fd).is_ok();
        when(PollFlags::HUP | PollFlags::RDHUP, Readiness::READ_CLOSED)
            | when(PollFlags::HUP, Readiness::WRITE_CLOSED)
            | if error.is_empty() || is_socket() { Readiness::NONE } else { error }
    }

    /// Assumes readiness that the kernel has not reported yet, as for a new socket.
    ///
    /// A wrong assumption costs one operation that would block.
    #[cfg(feature = "net")]
    pub(crate) fn assume(&self, ready: Readiness) {
        self.registered.source.add(ready);
    }

    /// Waits until one direction is ready, outside of a task's accounting.
    ///
    /// Uses no budget and records no wait. The only possible error is that the runtime has shut
    /// down.
    #[inline]
    pub(crate) fn poll_ready_unbudgeted(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<ReadinessSnapshot>> {
        let seen = ready!(self.registered.source.poll_ready(direction, cx));
        Poll::Ready(if seen.is_shut_down() { Err(shutting_down()) } else { Ok(seen) })
    }

    /// Waits until one direction is ready, and records `kind` as the reason of the wait.
    #[inline]
    pub(crate) fn poll_ready(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        kind: WaitKind,
    ) -> Poll<io::Result<ReadinessSnapshot>> {
        ready!(coop::poll_budget_available(cx));
        match self.poll_ready_unbudgeted(direction, cx) {
            Poll::Ready(seen) => {
                coop::spend();
                Poll::Ready(seen)
            }
            Poll::Pending => {
                self.record_polled_wait(kind);
                Poll::Pending
            }
        }
    }

    /// Repeats an operation of the library until it does not block, waiting for readiness in between.
    #[inline(always)]
    pub(crate) fn poll_io<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        kind: WaitKind,
        mut operation: impl FnMut(&ReadinessSnapshot) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            ready!(coop::poll_budget_available(cx));
            let seen = match self.poll_ready_unbudgeted(direction, cx) {
                Poll::Ready(seen) => seen?,
                Poll::Pending => {
                    self.record_polled_wait(kind);
                    return Poll::Pending;
                }
            };
            let result = operation(&seen);
            let would_block = is_would_block(&result);
            // A closed direction also uses budget, because it may be reported again at once.
            if !would_block || seen.is_closed() {
                coop::spend();
            }
            if !would_block {
                return Poll::Ready(result);
            }
            self.clear_after_would_block(seen, OpSource::Library);
        }
    }

    /// Tries `operation` once, if the descriptor is known to be ready for any of `mask`.
    #[inline(always)]
    pub(crate) fn try_io<R>(
        &self,
        author: OpSource,
        mask: Readiness,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let seen = self.readiness(mask);
        if seen.ready().is_empty() {
            return if seen.is_shut_down() { refuse() } else { would_block() };
        }
        match operation() {
            Ok(done) => Ok(done),
            Err(error) => self.fail(error, seen, author),
        }
    }

    /// Returns the error of an operation. If it would block, clears the readiness that it saw.
    ///
    /// It is out of line, so that an operation that succeeds saves few registers for it.
    #[inline(never)]
    fn fail<R>(
        &self,
        error: io::Error,
        seen: ReadinessSnapshot,
        author: OpSource,
    ) -> io::Result<R> {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(error);
        }
        self.clear_after_would_block(seen, author);
        would_block()
    }

    /// Repeats `operation` until it does not block, and waits for any of `mask` in between.
    ///
    /// Any number of tasks may wait, whereas [`poll_io`](Self::poll_io) has one waker per
    /// direction.
    pub(crate) async fn async_io<R>(
        &self,
        author: OpSource,
        mask: Readiness,
        kind: WaitKind,
        site: &'static Location<'static>,
        mut operation: impl FnMut(&ReadinessSnapshot) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let seen = self.ready(mask, kind, site).await?;
            let progress = poll_fn(coop::poll_proceed).await;
            let result = operation(&seen);
            let would_block = is_would_block(&result);
            if !would_block || seen.is_closed() {
                progress.made_progress();
            }
            if !would_block {
                return result;
            }
            self.clear_after_would_block(seen, author);
        }
    }

    /// Waits until the descriptor is ready for any of `mask`; any number of tasks may wait.
    ///
    /// Uses no budget, because the operation that follows does.
    pub(crate) fn ready(
        &self,
        mask: Readiness,
        kind: WaitKind,
        site: &'static Location<'static>,
    ) -> Ready<'_> {
        Ready { registration: self, waiter: Waiter::new(), mask, kind, site }
    }
}

fn would_block<R>() -> io::Result<R> {
    Err(io::ErrorKind::WouldBlock.into())
}

#[cold]
#[inline(never)]
fn refuse<R>() -> io::Result<R> {
    Err(shutting_down())
}

#[inline]
fn is_would_block<R>(result: &io::Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

pin_project_lite::pin_project! {
    /// The future of [`Registration::ready`].
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct Ready<'a> {
        registration: &'a Registration,
        #[pin]
        waiter: Waiter<Readiness>,
        mask: Readiness,
        kind: WaitKind,
        site: &'static Location<'static>,
    }

    impl PinnedDrop for Ready<'_> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.registration.registered.source.cancel_wait(this.waiter.into_ref());
        }
    }
}

impl Future for Ready<'_> {
    type Output = io::Result<ReadinessSnapshot>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<ReadinessSnapshot>> {
        let this = self.project();
        let source = &this.registration.registered.source;
        match source.poll_listed(this.waiter.into_ref(), *this.mask, cx) {
            Poll::Ready(seen) => {
                Poll::Ready(if seen.is_shut_down() { Err(shutting_down()) } else { Ok(seen) })
            }
            Poll::Pending => {
                this.registration.record_wait(*this.kind, this.site);
                Poll::Pending
            }
        }
    }
}

/// Returns a reference to the current runtime, and checks that it has I/O.
///
/// # Panics
///
/// If the thread has no current runtime, or if that runtime has no I/O.
#[track_caller]
pub(crate) fn runtime_ref_with_io() -> Arc<RuntimeRef> {
    let runtime = match context::runtime_ref() {
        Ok(runtime) => runtime,
        Err(_) => no_runtime(),
    };
    if !runtime.shared.has_io() {
        no_io();
    }
    runtime
}

#[cold]
#[track_caller]
fn no_io() -> ! {
    panic!(
        "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime \
         builder to enable IO."
    )
}
