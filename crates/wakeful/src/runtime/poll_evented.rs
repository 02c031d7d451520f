//! An I/O object with a descriptor, together with its registration.

use super::registration::{OpSource, Registration};
use crate::driver::io_readiness::{Direction, Readiness, ReadinessSnapshot};
use crate::runtime::simulated::refused;
use crate::sim::network::SimulatedSocket;
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::Location;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An I/O object that a [`PollEvented`] holds.
pub(crate) trait IoObject: AsFd + Sized {
    /// Returns a descriptor that substitutes for a simulated socket.
    fn stand_in(socket: &SimulatedSocket) -> &Self;
}

macro_rules! without_simulation {
    ($($object:ty),+) => {$(
        impl IoObject for $object {
            fn stand_in(_: &SimulatedSocket) -> &Self {
                unreachable!("a simulated socket is a socket")
            }
        }
    )+};
}
without_simulation!(OwnedFd, Arc<OwnedFd>);

/// The target of an operation: an I/O object or a simulated socket.
pub(crate) enum Io<'a, S> {
    Kernel(&'a S),
    Simulated(&'a SimulatedSocket),
}

/// A non-blocking I/O object, registered with a poller until it is dropped or taken out.
///
/// A simulated socket has no object. This adds no test for other sockets: `io` is an `Option` anyway,
/// because the object can be taken out.
pub(crate) struct PollEvented<S: IoObject> {
    /// `None` after `into_inner`, and in a simulation.
    io: Option<S>,
    registration: Registration,
}

/// The transfer size from which a short transfer proves nothing.
///
/// The kernel limits one system call to slightly more than this.
const MAX_TRANSFER: usize = 0x7fff_0000;

pub(crate) const BOTH: mio::Interest = mio::Interest::READABLE.add(mio::Interest::WRITABLE);

impl<S: IoObject> PollEvented<S> {
    /// Registers an I/O object with the poller of this thread's worker.
    ///
    /// # Panics
    ///
    /// If the thread has no current runtime, or if that runtime has no I/O.
    #[track_caller]
    pub(crate) fn new(io: S, interest: mio::Interest) -> io::Result<Self> {
        Self::new_at(io, interest, Location::caller())
    }

    /// Registers an I/O object that was created at `site`.
    #[track_caller]
    pub(crate) fn new_at(
        io: S,
        interest: mio::Interest,
        site: &'static Location<'static>,
    ) -> io::Result<Self> {
        let registration = Registration::new(io.as_fd().as_raw_fd(), interest, site)?;
        Ok(Self { io: Some(io), registration })
    }

    /// Registers an I/O object that is both read and written.
    #[track_caller]
    pub(crate) fn both(io: S) -> io::Result<Self> {
        Self::new_at(io, BOTH, Location::caller())
    }

    /// Registers a simulated socket that was created at `site`.
    #[cold]
    #[track_caller]
    pub(crate) fn new_simulated(socket: SimulatedSocket, site: &'static Location<'static>) -> Self {
        Self { io: None, registration: Registration::new_simulated(socket, site) }
    }

    /// Returns the I/O object, or `None` for a simulated socket.
    ///
    /// An operation asks for it first. That of a simulated socket is a tail call, with the same
    /// arguments in the same order where that is possible. Then the operation of the kernel's socket
    /// saves no register for it.
    #[inline(always)]
    pub(crate) fn kernel(&self) -> Option<&S> {
        self.io.as_ref()
    }

    /// Returns the target of operations: the I/O object or the simulated socket.
    #[inline(always)]
    pub(crate) fn io(&self) -> Io<'_, S> {
        match &self.io {
            Some(io) => Io::Kernel(io),
            None => self.simulated(),
        }
    }

    /// Returns the target of an operation on a simulated socket.
    fn simulated(&self) -> Io<'_, S> {
        Io::Simulated(self.registration.simulated())
    }

    /// Deregisters the I/O object and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error for a simulated socket, which has no I/O object.
    pub(crate) fn into_inner(mut self) -> io::Result<S> {
        let Some(io) = self.io.take() else { return Err(refused("`into_std`")) };
        self.registration.deregister()?;
        Ok(io)
    }

    #[inline]
    pub(crate) fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Reads as soon as a read does not block.
    ///
    /// `operation` returns the number of bytes that it has read into a buffer of `capacity` bytes.
    /// A smaller number means that the next read would block. Pass 0 if that conclusion is not
    /// possible.
    #[inline(always)]
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        capacity: usize,
        operation: impl FnMut(Io<'_, S>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_transfer(Direction::Read, cx, capacity, operation)
    }

    /// Writes as soon as a write does not block.
    ///
    /// `operation` returns the number of bytes that it has written out of `size` bytes. See
    /// [`poll_read`](Self::poll_read).
    #[inline(always)]
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        size: usize,
        operation: impl FnMut(Io<'_, S>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_transfer(Direction::Write, cx, size, operation)
    }

    #[inline(always)]
    fn poll_transfer(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        size: usize,
        mut operation: impl FnMut(Io<'_, S>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let Some(io) = self.kernel() else {
            return self.poll_simulated_transfer(direction, cx, size, operation);
        };
        self.poll_transfer_with(direction, cx, size, || operation(Io::Kernel(io)))
    }

    #[cold]
    #[inline(never)]
    fn poll_simulated_transfer(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        size: usize,
        mut operation: impl FnMut(Io<'_, S>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_transfer_with(direction, cx, size, || operation(self.simulated()))
    }

    #[inline(always)]
    fn poll_transfer_with(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        size: usize,
        mut operation: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let kind = match direction {
            Direction::Read => WaitKind::IoRead,
            Direction::Write => WaitKind::IoWrite,
        };
        self.registration.poll_io(direction, cx, kind, |seen| {
            let count = operation()?;
            self.mark_drained_if_short(direction, seen, count, size);
            Ok(count)
        })
    }

    /// Clears the readiness if a stream transferred less than it could have.
    ///
    /// A short transfer means that the stream is drained, so the next operation waits without a
    /// system call.
    #[inline]
    fn mark_drained_if_short(
        &self,
        direction: Direction,
        seen: &ReadinessSnapshot,
        count: usize,
        capacity: usize,
    ) {
        if 0 < count && count < capacity && count < MAX_TRANSFER {
            self.registration.mark_drained(direction, *seen);
        }
    }

    /// Runs an operation on a datagram socket or a listener as soon as the operation does not
    /// block.
    #[inline]
    pub(crate) fn poll_io<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        kind: WaitKind,
        mut operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let Some(io) = self.kernel() else {
            return self.poll_simulated(direction, cx, kind, operation);
        };
        self.registration.poll_io(direction, cx, kind, |_| operation(Io::Kernel(io)))
    }

    #[cold]
    #[inline(never)]
    fn poll_simulated<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        kind: WaitKind,
        mut operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.registration.poll_io(direction, cx, kind, |_| operation(self.simulated()))
    }

    /// Runs an operation as soon as it does not block; any number of tasks may wait.
    ///
    /// Cancel safe: if the future is dropped before it completes, the operation has not been
    /// executed.
    pub(crate) async fn async_io<R>(
        &self,
        author: OpSource,
        mask: Readiness,
        kind: WaitKind,
        site: &'static Location<'static>,
        mut operation: impl FnMut(Io<'_, S>) -> io::Result<R>,
    ) -> io::Result<R> {
        let operation = |_: &_| match &self.io {
            Some(io) => operation(Io::Kernel(io)),
            None => self.simulate(&mut operation),
        };
        self.registration.async_io(author, mask, kind, site, operation).await
    }

    /// Runs an operation on the simulated socket.
    #[cold]
    #[inline(never)]
    fn simulate<R>(&self, operation: &mut impl FnMut(Io<'_, S>) -> io::Result<R>) -> io::Result<R> {
        operation(self.simulated())
    }

    /// Tries an operation once, if the object is known to be ready for any of `mask`.
    pub(crate) fn try_io<R>(
        &self,
        author: OpSource,
        mask: Readiness,
        operation: impl FnOnce(Io<'_, S>) -> io::Result<R>,
    ) -> io::Result<R> {
        let Some(io) = self.kernel() else {
            return self.try_simulated(operation, author, mask);
        };
        self.registration.try_io(author, mask, || operation(Io::Kernel(io)))
    }

    #[cold]
    #[inline(never)]
    fn try_simulated<R>(
        &self,
        operation: impl FnOnce(Io<'_, S>) -> io::Result<R>,
        author: OpSource,
        mask: Readiness,
    ) -> io::Result<R> {
        self.registration.try_io(author, mask, || operation(self.simulated()))
    }
}

impl<S: IoObject> Deref for PollEvented<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        match self.io() {
            Io::Kernel(io) => io,
            Io::Simulated(socket) => S::stand_in(socket),
        }
    }
}

impl<S: IoObject> Drop for PollEvented<S> {
    fn drop(&mut self) {
        if self.io.is_some() {
            // Errors don't matter: closing the descriptor removes it from the kernel's interest
            // list.
            let _ = self.registration.deregister();
        }
    }
}

impl<S: IoObject + fmt::Debug> fmt::Debug for PollEvented<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.io() {
            Io::Kernel(io) => io.fmt(f),
            Io::Simulated(socket) => socket.fmt(f),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "poll_evented_tests.rs"]
mod tests;
