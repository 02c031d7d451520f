//! A descriptor that a runtime watches: what sockets, pipes and `AsyncFd` wait
//! with.

use super::context::{self, RuntimeRef};
use super::shutdown_error::shutting_down;
use crate::driver::io_readiness::{Direction, Readiness, ReadinessSnapshot};
use crate::driver::poller::{Poller, RegisteredSource};
use crate::runtime::task_api::spawn::no_runtime;
use crate::task::coop;
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
use std::task::{Context, Poll, ready};

/// The registration of one descriptor. Whoever owns the descriptor calls
/// [`deregister`](Self::deregister) before it closes or gives it away.
pub(crate) struct Registration {
    registered: RegisteredSource,
    poller: Arc<Poller>,
    fd: RawFd,
    /// Where the descriptor came to the runtime.
    site: &'static Location<'static>,
    /// Keeps the runtime's drivers alive.
    _keeper: Arc<RuntimeRef>,
}

/// Who has written an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpSource {
    Ours,
    TheUsers,
}

// What is shared with the runtime is changed by the runtime, never by the code of
// the user that a panic cuts short.
impl UnwindSafe for Registration {}
impl RefUnwindSafe for Registration {}

impl Registration {
    /// Registers with the poller of this thread's worker.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, or on one without I/O.
    #[track_caller]
    pub(crate) fn new(
        fd: RawFd,
        interest: mio::Interest,
        site: &'static Location<'static>,
    ) -> io::Result<Self> {
        let keeper = keeper_with_io();
        let (poller, owner) = keeper.shared.poller()?;
        let poller = poller.clone();
        let registered = poller.register(fd, interest).inspect_err(|_| {
            // For a moment it may have been the first: then who came next told nobody.
            keeper.shared.wake_poller(owner);
        })?;
        // Registered first, then looked; whoever closes sets the sign first, and then
        // tells those who are registered.
        if keeper.shared.is_closing() {
            let _ = poller.deregister(fd, &registered);
            return Err(shutting_down());
        }
        if registered.is_first {
            keeper.shared.wake_poller(owner);
        }
        Ok(Self { registered, poller, fd, site, _keeper: keeper })
    }

    pub(crate) fn deregister(&self) -> io::Result<()> {
        self.poller.deregister(self.fd, &self.registered)
    }

    /// Notes that the current task waits for this descriptor.
    #[inline]
    fn note(&self, kind: WaitKind, site: &'static Location<'static>) {
        wait::record_wait_for_target(kind, TargetWord::of_u32(self.fd as u32), site);
    }

    /// What it is ready for, as far as is known.
    #[inline]
    pub(crate) fn look(&self, mask: Readiness) -> ReadinessSnapshot {
        self.registered.source.load(mask)
    }

    /// Somebody says that what was seen is no longer so; an end stays.
    #[inline]
    pub(crate) fn clear(&self, seen: ReadinessSnapshot) {
        self.registered.source.clear_except_closed(seen);
    }

    /// The same after an operation that was short of what it could have been.
    #[inline]
    pub(crate) fn use_up(&self, direction: Direction, seen: ReadinessSnapshot) {
        self.registered.source.mark_drained(direction, seen);
    }

    /// The same, the end of a direction included: a message in the error queue looks like one,
    /// and so does a named pipe between two writers. An operation of ours knows which direction
    /// it is about, and does not block at its end. Of one of the user's neither is known: what
    /// the system still tells of stays.
    #[inline]
    fn take_back(&self, seen: ReadinessSnapshot, whose: OpSource) {
        let asks = seen.is_closed() && whose == OpSource::TheUsers;
        let seen = if asks { seen.without(self.ends()) } else { seen };
        self.registered.source.clear_if_unchanged(seen);
    }

    /// The ends that the system tells of now.
    #[cold]
    fn ends(&self) -> Readiness {
        // SAFETY: it was just used; if it was closed although it is registered, another is
        // asked, or none, and we are told what does not matter.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let told = match poll(&mut asked, Some(&now)) {
            Ok(_) => asked[0].revents(),
            // Not known, so they stay.
            Err(_) => PollFlags::HUP,
        };
        let when = |flags, ends| if told.intersects(flags) { ends } else { Readiness::NONE };
        // A pipe that nobody reads any more is told of as an error, and so is one packet's.
        let error = when(PollFlags::ERR, Readiness::WRITE_CLOSED);
        let is_socket = || rustix::net::sockopt::socket_type(fd).is_ok();
        when(PollFlags::HUP | PollFlags::RDHUP, Readiness::READ_CLOSED)
            | when(PollFlags::HUP, Readiness::WRITE_CLOSED)
            | if error.is_empty() || is_socket() { Readiness::NONE } else { error }
    }

    /// Takes it to be ready before the system has said so, as a new socket is. If
    /// it is not, that costs one operation that would block.
    #[cfg(feature = "net")]
    pub(crate) fn assume(&self, ready: Readiness) {
        self.registered.source.add(ready);
    }

    /// Waits until one direction is ready, without a budget, and notes nothing: for
    /// those who are no task. The only error is that the runtime is gone.
    #[inline]
    pub(crate) fn poll_seen(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<ReadinessSnapshot>> {
        let seen = ready!(self.registered.source.poll_ready(direction, cx));
        Poll::Ready(if seen.is_shut_down { Err(shutting_down()) } else { Ok(seen) })
    }

    /// Waits until one direction is ready; `kind` says what for.
    #[inline]
    pub(crate) fn poll_ready(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        kind: WaitKind,
    ) -> Poll<io::Result<ReadinessSnapshot>> {
        ready!(coop::poll_budget_available(cx));
        match self.poll_seen(direction, cx) {
            Poll::Ready(seen) => {
                coop::spend();
                Poll::Ready(seen)
            }
            Poll::Pending => {
                self.note(kind, self.site);
                Poll::Pending
            }
        }
    }

    /// Repeats `operation`, one of ours, until it would not block, waiting in between.
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
            let seen = match self.poll_seen(direction, cx) {
                Poll::Ready(seen) => seen?,
                Poll::Pending => {
                    self.note(kind, self.site);
                    return Poll::Pending;
                }
            };
            let result = operation(&seen);
            let would_block = is_would_block(&result);
            // Also for an end that stays, and is seen again at once.
            if !would_block || seen.is_closed() {
                coop::spend();
            }
            if !would_block {
                return Poll::Ready(result);
            }
            self.take_back(seen, OpSource::Ours);
        }
    }

    /// Tries `operation` once, if the descriptor is known to be ready for it.
    pub(crate) fn try_io<R>(
        &self,
        whose: OpSource,
        mask: Readiness,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let seen = self.look(mask);
        if seen.ready.is_empty() {
            let gone = seen.is_shut_down.then(shutting_down);
            return Err(gone.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()));
        }
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.take_back(seen, whose);
                Err(io::ErrorKind::WouldBlock.into())
            }
            result => result,
        }
    }

    /// As [`poll_io`](Self::poll_io), for any of `mask` and any number of tasks.
    pub(crate) async fn async_io<R>(
        &self,
        whose: OpSource,
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
            self.take_back(seen, whose);
        }
    }

    /// Waits until it is ready for any of `mask`; any number of tasks may. That
    /// costs no budget: the operation that follows does.
    pub(crate) fn ready(
        &self,
        mask: Readiness,
        kind: WaitKind,
        site: &'static Location<'static>,
    ) -> Ready<'_> {
        Ready { registration: self, waiter: Waiter::new(), mask, kind, site }
    }
}

#[inline]
fn is_would_block<R>(result: &io::Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

pin_project_lite::pin_project! {
    /// See [`Registration::ready`].
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
                Poll::Ready(if seen.is_shut_down { Err(shutting_down()) } else { Ok(seen) })
            }
            Poll::Pending => {
                this.registration.note(*this.kind, this.site);
                Poll::Pending
            }
        }
    }
}

/// The current runtime, which has I/O.
///
/// # Panics
///
/// Outside of a runtime, or on one without I/O.
#[track_caller]
pub(crate) fn keeper_with_io() -> Arc<RuntimeRef> {
    let keeper = match context::keeper() {
        Ok(keeper) => keeper,
        Err(_) => no_runtime(),
    };
    if !keeper.shared.has_io() {
        no_io();
    }
    keeper
}

#[cold]
#[track_caller]
fn no_io() -> ! {
    panic!(
        "A Tokio 1.x context was found, but IO is disabled. Call `enable_io` on the runtime \
         builder to enable IO."
    )
}
