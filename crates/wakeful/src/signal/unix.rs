//! Signal kinds and listeners: [`SignalKind`], [`signal`] and [`Signal`].

use super::driver::SignalDriver;
use super::event::{CLOSED, SignalEvent};
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
///
/// # Examples
///
/// ```
/// use wakeful::signal::unix::SignalKind;
///
/// assert_eq!(SignalKind::from_raw(15), SignalKind::terminate());
/// ```
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
    /// `SIGALRM`: a timer of the kernel has expired. Default action: ends the process.
    alarm = SIGALRM;
    /// `SIGCHLD`: a child process has exited, stopped or continued. Default action: none.
    child = SIGCHLD;
    /// `SIGHUP`: the terminal was closed. Services use it as a request to reload their settings.
    /// Default action: ends the process.
    hangup = SIGHUP;
    /// `SIGINT`: Ctrl-C in the terminal. Default action: ends the process.
    interrupt = SIGINT;
    /// `SIGIO`: I/O is possible on a descriptor with `O_ASYNC`. Default action: ends the process.
    io = SIGIO;
    /// `SIGPIPE`: a write to a pipe without a reader. Rust programs ignore it by default.
    pipe = SIGPIPE;
    /// `SIGQUIT`: Ctrl-\ in the terminal. Default action: ends the process with a core dump.
    quit = SIGQUIT;
    /// `SIGTERM`: a request to exit, for example by `kill`. Default action: ends the process.
    terminate = SIGTERM;
    /// `SIGUSR1`, for use by the program. Default action: ends the process.
    user_defined1 = SIGUSR1;
    /// `SIGUSR2`, for use by the program. Default action: ends the process.
    user_defined2 = SIGUSR2;
    /// `SIGWINCH`: the size of the terminal window has changed. Default action: none.
    window_change = SIGWINCH;
}

impl SignalKind {
    /// Creates a kind from a signal number.
    ///
    /// Use it for kinds without a constructor, such as real-time signals.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::signal::unix::SignalKind;
    ///
    /// assert_eq!(SignalKind::from_raw(15), SignalKind::terminate());
    /// ```
    pub const fn from_raw(signum: c_int) -> Self {
        Self(signum)
    }

    /// Returns the signal number.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::signal::unix::SignalKind;
    ///
    /// assert_eq!(SignalKind::interrupt().as_raw_value(), 2);
    /// ```
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

/// A listener for signals of one kind, created by [`signal`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::signal::unix::{SignalKind, signal};
///
/// let mut usr1 = signal(SignalKind::user_defined1())?;
/// // SAFETY: sends a signal to this process, which listens for it.
/// unsafe { libc::raise(libc::SIGUSR1) };
/// usr1.recv().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "signals are lost unless a task waits for them"]
pub struct Signal {
    kind: SignalKind,
    event: Arc<SignalEvent>,
    /// The value of `deliveries` at the last poll.
    seen: u64,
    waiter: Pin<Box<Waiter<NotEqual>>>,
    /// The caller of `signal`.
    site: &'static Location<'static>,
}

// State that is shared with the driver is changed by atomic operations only.
impl UnwindSafe for Signal {}
impl RefUnwindSafe for Signal {}

/// Creates a listener for signals of a kind, on the current runtime.
///
/// Several listeners may listen for one kind, and each receives every signal. The first listener
/// for a kind in the process permanently replaces the default action of that signal.
///
/// # Errors
///
/// Returns an error of kind [`Other`](io::ErrorKind::Other) for `SIGKILL`, `SIGSTOP`, `SIGILL`,
/// `SIGFPE`, `SIGSEGV`, and for numbers without a signal. Returns the kernel's error if it rejects
/// the handler, as it does for signals that the C library reserves.
///
/// # Panics
///
/// Panics if called outside of a runtime with I/O enabled; see
/// [`enable_io`](crate::runtime::Builder::enable_io).
///
/// # Examples
///
/// ```no_run
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::signal::unix::{SignalKind, signal};
///
/// let mut hangups = signal(SignalKind::hangup())?;
/// while hangups.recv().await.is_some() {
///     println!("reloading the settings");
/// }
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let driver = SignalDriver::current()?;
    let number = kind.0;
    if number <= 0 || signal_hook_registry::FORBIDDEN.contains(&number) {
        return Err(io::Error::other(format!("Refusing to register signal {number}")));
    }
    if number > libc::SIGRTMAX() {
        let last = libc::SIGRTMAX();
        let text = format!("no signal has the number {number}: the last one is {last}");
        return Err(io::Error::other(text));
    }
    let event = driver.event_for(number)?;
    let seen = event.deliveries.get();
    Ok(Signal { kind, event, seen, waiter: Box::pin(Waiter::new()), site: Location::caller() })
}

impl Signal {
    /// Waits for the next signal.
    ///
    /// Several signals since the last call are delivered as one. Returns `None` if the runtime on
    /// which the listener was created has shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A signal that arrives after the future is dropped is returned by the next call.
    /// The listener keeps the waker of the last poll; see [`sync`](crate::sync#wakers).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::signal::unix::{SignalKind, signal};
    ///
    /// let mut usr2 = signal(SignalKind::user_defined2())?;
    /// // SAFETY: sends a signal to this process, which listens for it.
    /// unsafe { libc::raise(libc::SIGUSR2) };
    /// assert_eq!(usr2.recv().await, Some(()));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Option<()>> {
        self.recv_at(Location::caller())
    }

    pub(super) async fn recv_at(&mut self, site: &'static Location<'static>) -> Option<()> {
        poll_fn(|cx| self.poll_at(cx, site)).await
    }

    /// Polls for the next signal; see [`recv`](Self::recv).
    ///
    /// Only the task of the most recent call is woken.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::future::poll_fn;
    /// use wakeful::signal::unix::{SignalKind, signal};
    ///
    /// let mut window = signal(SignalKind::window_change())?;
    /// // SAFETY: sends a signal to this process, which listens for it.
    /// unsafe { libc::raise(libc::SIGWINCH) };
    /// assert_eq!(poll_fn(|cx| window.poll_recv(cx)).await, Some(()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let polled = self.poll_at(cx, self.site);
        if polled.is_pending() {
            let signal = TargetWord::of_u32(self.kind.0 as u32);
            wait::record_wait_at_resource(WaitKind::Signal, signal, self.site);
        }
        polled
    }

    fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<Option<()>> {
        let progress = ready!(coop::poll_proceed(cx));
        let polled = self.poll_without_wait_record(cx);
        match polled {
            Poll::Ready(_) => progress.made_progress(),
            Poll::Pending => {
                let signal = TargetWord::of_u32(self.kind.0 as u32);
                wait::record_wait_for_target(WaitKind::Signal, signal, site);
            }
        }
        polled
    }

    fn unregister(&self) {
        self.event.deliveries.cancel(self.waiter.as_ref());
    }

    /// Polls without spending budget or recording a wait, for callers that are not tasks.
    pub(crate) fn poll_without_wait_record(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let deliveries = &self.event.deliveries;
        let number = ready!(deliveries.poll(self.waiter.as_ref(), NotEqual(self.seen), cx));
        let delivered = number & !CLOSED;
        Poll::Ready((std::mem::replace(&mut self.seen, delivered) != delivered).then_some(()))
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.unregister();
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}
