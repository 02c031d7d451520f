//! Signals by their kind.

use super::driver::SignalDriver;
use super::slot::{CLOSED, Slot};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::wait;
use crate::wait::list::Waiter;
use crate::wait::wait_counter::NotEqual;
use std::ffi::c_int;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A kind of signal.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct SignalKind(c_int);

macro_rules! kinds {
    ($($(#[$doc:meta])+ $name:ident = $number:ident;)+) => {
        impl SignalKind {
            $(
                $(#[$doc])+
                pub const fn $name() -> Self {
                    Self(libc::$number)
                }
            )+
        }
    };
}
kinds! {
    /// `SIGALRM`: a timer of the system's has run out. Ends a process that does not
    /// listen.
    alarm = SIGALRM;
    /// `SIGCHLD`: a child process has ended, stopped or goes on. Ignored by a process
    /// that does not listen.
    child = SIGCHLD;
    /// `SIGHUP`: the terminal is gone; services take it to read their settings again.
    /// Ends a process that does not listen.
    hangup = SIGHUP;
    /// `SIGINT`: Ctrl-C in the terminal. Ends a process that does not listen.
    interrupt = SIGINT;
    /// `SIGIO`: I/O is possible on a descriptor that was set up for it. Ends a process
    /// that does not listen.
    io = SIGIO;
    /// `SIGPIPE`: a write to a pipe that nobody reads. Rust programs ignore it unless
    /// they listen.
    pipe = SIGPIPE;
    /// `SIGQUIT`: Ctrl-\ in the terminal. Ends a process that does not listen, with a
    /// dump of its memory.
    quit = SIGQUIT;
    /// `SIGTERM`: a polite request to end. Ends a process that does not listen.
    terminate = SIGTERM;
    /// `SIGUSR1`, for the program's own use. Ends a process that does not listen.
    user_defined1 = SIGUSR1;
    /// `SIGUSR2`, for the program's own use. Ends a process that does not listen.
    user_defined2 = SIGUSR2;
    /// `SIGWINCH`: the terminal's window has another size. Ignored by a process that
    /// does not listen.
    window_change = SIGWINCH;
}

impl SignalKind {
    /// The kind with a number, for those without a name here: real-time signals, for
    /// one.
    pub const fn from_raw(signum: c_int) -> Self {
        Self(signum)
    }

    /// The system's number.
    pub const fn as_raw_value(&self) -> c_int {
        self.0
    }
}

impl From<c_int> for SignalKind {
    fn from(signum: c_int) -> Self {
        Self::from_raw(signum)
    }
}

impl From<SignalKind> for c_int {
    fn from(kind: SignalKind) -> Self {
        kind.as_raw_value()
    }
}

/// Signals of one kind, as they come; see [`signal`].
#[must_use = "signals that nobody waits for are lost"]
pub struct Signal {
    kind: SignalKind,
    slot: Arc<Slot>,
    /// How many were delivered when it last looked.
    seen: u64,
    waiter: Pin<Box<Waiter<NotEqual>>>,
    /// Where it was asked for.
    site: &'static Location<'static>,
}

// What is shared with the hub is changed by atomic steps only.
impl UnwindSafe for Signal {}
impl RefUnwindSafe for Signal {}

/// Listens for signals of a kind, on the current runtime. Several may listen for the
/// same kind; each gets every signal.
///
/// The first call for a kind in the process takes that signal away from whatever it
/// would have done otherwise, for good.
///
/// # Errors
///
/// With [`ErrorKind::Other`](io::ErrorKind::Other) if the kind cannot be listened for:
/// `SIGKILL`, `SIGSTOP`, `SIGILL`, `SIGFPE`, `SIGSEGV`, or a number that no signal has.
/// With the system's error if the system refuses, as for signals that its C library
/// keeps for itself.
///
/// # Panics
///
/// Outside of a runtime with I/O.
///
/// ```no_run
/// use wakeful::signal::unix::{SignalKind, signal};
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut hangups = signal(SignalKind::hangup())?;
/// while hangups.recv().await.is_some() {
///     println!("reading the settings again");
/// }
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let hub = SignalDriver::current()?;
    let number = kind.0;
    if number <= 0 || signal_hook_registry::FORBIDDEN.contains(&number) {
        return Err(io::Error::other(format!("Refusing to register signal {number}")));
    }
    if number > libc::SIGRTMAX() {
        let last = libc::SIGRTMAX();
        let text = format!("no signal has the number {number}: the last one is {last}");
        return Err(io::Error::other(text));
    }
    let slot = hub.slot(number)?;
    let seen = slot.deliveries.get();
    Ok(Signal { kind, slot, seen, waiter: Box::pin(Waiter::new()), site: Location::caller() })
}

impl Signal {
    /// Waits for the next signal. Several that came since it last looked are one.
    /// `None`: the runtime that this was made on is gone, and there will be no more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal that comes after the future is dropped is there for the
    /// next call. This keeps the waker of the last poll: see [wakers](crate::sync#wakers).
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Option<()>> {
        self.recv_at(Location::caller())
    }

    pub(super) async fn recv_at(&mut self, site: &'static Location<'static>) -> Option<()> {
        poll_fn(|cx| self.poll_at(cx, site)).await
    }

    /// As [`recv`](Self::recv), for those who write futures by hand. The task that
    /// polls last is woken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.poll_at(cx, self.site)
    }

    fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Option<()>> {
        let progress = ready!(coop::poll_proceed(cx));
        let polled = self.poll_quietly(cx);
        match polled {
            Poll::Ready(_) => progress.made_progress(),
            Poll::Pending => {
                let signal = TargetWord::of_u32(self.kind.0 as u32);
                wait::record_wait_for_target(WaitKind::Signal, signal, site);
            }
        }
        polled
    }

    fn leave(&self) {
        self.slot.deliveries.cancel(self.waiter.as_ref());
    }

    /// As `poll_recv`, without a budget, and notes nothing: for those who are no task.
    pub(crate) fn poll_quietly(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let deliveries = &self.slot.deliveries;
        let number = ready!(deliveries.poll(self.waiter.as_ref(), NotEqual(self.seen), cx));
        let delivered = number & !CLOSED;
        Poll::Ready((std::mem::replace(&mut self.seen, delivered) != delivered).then_some(()))
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}
