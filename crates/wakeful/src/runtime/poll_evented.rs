//! Something with a descriptor, together with its registration.

use super::registration::{OpSource, Registration};
use crate::driver::io_readiness::{Direction, Readiness, ReadinessSnapshot};
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::Location;
use std::task::{Context, Poll};

/// A non-blocking socket, pipe or other thing that a runtime watches until it is
/// dropped or taken out.
pub(crate) struct PollEvented<S: AsFd> {
    /// There until it is taken out.
    io: Option<S>,
    registration: Registration,
}

/// More than that, or a little more, the system neither gives nor takes at once.
const MOST_BYTES: usize = 0x7fff_0000;

pub(crate) const BOTH: mio::Interest = mio::Interest::READABLE.add(mio::Interest::WRITABLE);

impl<S: AsFd> PollEvented<S> {
    /// # Panics
    ///
    /// Outside of a runtime, or on one without I/O.
    #[track_caller]
    pub(crate) fn new(io: S, interest: mio::Interest) -> io::Result<Self> {
        Self::made_at(io, interest, Location::caller())
    }

    /// As `new`, for what comes from a call at `site`.
    #[track_caller]
    pub(crate) fn made_at(
        io: S,
        interest: mio::Interest,
        site: &'static Location<'static>,
    ) -> io::Result<Self> {
        let registration = Registration::new(io.as_fd().as_raw_fd(), interest, site)?;
        Ok(Self { io: Some(io), registration })
    }

    /// For what is both read and written.
    #[track_caller]
    pub(crate) fn both(io: S) -> io::Result<Self> {
        Self::made_at(io, BOTH, Location::caller())
    }

    /// Takes it out: nobody watches it any more.
    pub(crate) fn into_inner(mut self) -> io::Result<S> {
        let io = self.io.take().expect("taken out once");
        self.registration.deregister()?;
        Ok(io)
    }

    #[inline]
    pub(crate) fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Reads once it can be done without blocking.
    ///
    /// `operation` gets the thing and answers how many bytes came out of the
    /// `room` there was: less means that there are no more now. Say 0 where that
    /// cannot be known.
    #[inline(always)]
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        mut operation: impl FnMut(&S) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.registration.poll_io(Direction::Read, cx, WaitKind::IoRead, |seen| {
            let count = operation(self)?;
            self.use_up_if_short(Direction::Read, seen, count, room);
            Ok(count)
        })
    }

    /// Writes once it can be done without blocking; see
    /// [`poll_read`](Self::poll_read).
    #[inline(always)]
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        size: usize,
        mut operation: impl FnMut(&S) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.registration.poll_io(Direction::Write, cx, WaitKind::IoWrite, |seen| {
            let count = operation(self)?;
            self.use_up_if_short(Direction::Write, seen, count, size);
            Ok(count)
        })
    }

    /// Clears the readiness if a stream transferred less than it could have.
    ///
    /// Such a stream has no more, so the next operation waits at once, without a system call.
    #[inline]
    fn use_up_if_short(
        &self,
        direction: Direction,
        seen: &ReadinessSnapshot,
        count: usize,
        room: usize,
    ) {
        if 0 < count && count < room && count < MOST_BYTES {
            self.registration.use_up(direction, *seen);
        }
    }

    /// An operation on a datagram socket or a listener, once it can be done.
    #[inline]
    pub(crate) fn poll_io<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        kind: WaitKind,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.registration.poll_io(direction, cx, kind, |_| operation(self))
    }

    /// As `poll_io`, but any number of tasks may wait; dropping it loses nothing.
    pub(crate) async fn async_io<R>(
        &self,
        whose: OpSource,
        mask: Readiness,
        kind: WaitKind,
        site: &'static Location<'static>,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration.async_io(whose, mask, kind, site, |_| operation(self)).await
    }

    /// Tries once, if it is known to be ready.
    pub(crate) fn try_io<R>(
        &self,
        whose: OpSource,
        mask: Readiness,
        operation: impl FnOnce(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        self.registration.try_io(whose, mask, || operation(self))
    }
}

impl<S: AsFd> Deref for PollEvented<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        self.io.as_ref().expect("there until it is taken out")
    }
}

impl<S: AsFd> Drop for PollEvented<S> {
    fn drop(&mut self) {
        if self.io.is_some() {
            // The descriptor is closed next, which makes the system forget it in
            // any case.
            let _ = self.registration.deregister();
        }
    }
}

impl<S: AsFd + fmt::Debug> fmt::Debug for PollEvented<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "poll_evented_tests.rs"]
mod evented_tests;
