//! Station 7 for child processes: how their end is learned of, with or without a task
//! that waits for it.

use crate::driver::io_readiness::Direction;
use crate::runtime::poll_evented::PollEvented;
use crate::signal::unix::{Signal, SignalKind, signal};
use crate::sys::sync::{Mutex, ignore_poison};
use crate::task::coop;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_target::TargetWord;
use crate::wait;
use crate::wait::rerun_gate::RerunGate;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::Location;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Wake, Waker, ready};

/// What tells that a process may have ended.
#[derive(Debug)]
enum ExitNotifier {
    /// A descriptor of the process, readable from its end on.
    Pidfd(PollEvented<OwnedFd>),
    /// SIGCHLD: some child has ended, perhaps this one.
    Signal(Signal),
}

/// What came of waiting.
enum Waited {
    Exited(io::Result<ExitStatus>),
    /// The runtime is gone that watched for it.
    Unwatched,
}

impl ExitNotifier {
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    fn of(child: &Child) -> io::Result<Self> {
        match pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(ExitNotifier::Pidfd(PollEvented::new(pidfd, mio::Interest::READABLE)?)),
            // An old kernel, a sandbox, or no descriptor left.
            Err(_) => Self::by_signal(),
        }
    }

    #[track_caller]
    fn by_signal() -> io::Result<Self> {
        Ok(ExitNotifier::Signal(signal(SignalKind::child())?))
    }

    /// Waits until `child`, whose end this is, has ended. Without a budget, and notes
    /// nothing.
    fn poll(&mut self, child: &mut Child, cx: &mut Context<'_>) -> Poll<Waited> {
        loop {
            if let Some(exited) = child.try_wait().transpose() {
                return Poll::Ready(Waited::Exited(exited));
            }
            match self {
                ExitNotifier::Pidfd(pidfd) => {
                    let registration = pidfd.registration();
                    let Ok(seen) = ready!(registration.poll_seen(Direction::Read, cx)) else {
                        return Poll::Ready(Waited::Unwatched);
                    };
                    // It has ended since it was looked at; if a debugger keeps its end
                    // for itself, it will be told of once more.
                    if let Some(exited) = child.try_wait().transpose() {
                        return Poll::Ready(Waited::Exited(exited));
                    }
                    registration.clear(seen);
                }
                ExitNotifier::Signal(signal) => match ready!(signal.poll_quietly(cx)) {
                    Some(()) => {}
                    None => return Poll::Ready(Waited::Unwatched),
                },
            }
        }
    }
}

/// A process whose end nobody has seen yet.
#[derive(Debug)]
pub(super) struct Running {
    /// There until it is dropped.
    parts: Option<(Child, ExitNotifier)>,
    kill_on_drop: bool,
}

impl Running {
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub(super) fn new(child: Child, kill_on_drop: bool) -> io::Result<Self> {
        match ExitNotifier::of(&child) {
            Ok(end) => Ok(Self { parts: Some((child, end)), kill_on_drop }),
            Err(error) => {
                abandon(child);
                Err(error)
            }
        }
    }

    fn child(&mut self) -> &mut Child {
        &mut self.parts.as_mut().expect("there until it is dropped").0
    }

    pub(super) fn id(&self) -> u32 {
        self.parts.as_ref().expect("there until it is dropped").0.id()
    }

    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child().kill()
    }

    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child().try_wait()
    }

    /// Waits for the end, for the task that asks last.
    pub(super) fn poll_exit(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<io::Result<ExitStatus>> {
        let progress = ready!(coop::poll_proceed(cx));
        let (child, end) = self.parts.as_mut().expect("there until it is dropped");
        loop {
            match end.poll(child, cx) {
                Poll::Ready(Waited::Exited(exited)) => {
                    progress.made_progress();
                    sweep();
                    return Poll::Ready(exited);
                }
                // The current runtime watches instead.
                Poll::Ready(Waited::Unwatched) => *end = ExitNotifier::of(child)?,
                Poll::Pending => {
                    let process = TargetWord::of_u32(child.id());
                    wait::record_wait_for_target(WaitKind::ChildExit, process, site);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((mut child, end)) = self.parts.take() else { return };
        if self.kill_on_drop {
            // If it fails, it has ended.
            let _ = child.kill();
        }
        if let Ok(None) = child.try_wait() {
            OrphanChild::new(child, end).look();
        }
    }
}

/// A child that nobody waits for any more. What tells of its end holds the waker, and
/// thereby this.
struct OrphanChild {
    parts: Mutex<Option<(Child, ExitNotifier)>>,
    looks: RerunGate,
}

impl OrphanChild {
    fn new(child: Child, end: ExitNotifier) -> Arc<Self> {
        Arc::new(Self { parts: Mutex::new(Some((child, end))), looks: RerunGate::new() })
    }

    fn look(self: &Arc<Self>) {
        self.looks.run(|| self.look_alone());
    }

    fn look_alone(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        let mut parts = self.parts.lock();
        let Some((child, end)) = &mut *parts else { return };
        let Poll::Ready(waited) = end.poll(child, &mut cx) else { return };
        let done = parts.take();
        drop(parts);
        if let (Waited::Unwatched, Some((child, _))) = (waited, done) {
            strays().push(child);
        }
    }
}

impl Wake for OrphanChild {
    fn wake(self: Arc<Self>) {
        self.look();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.look();
    }
}

/// Children that outlived both their `Child` and their runtime.
static STRAYS: std::sync::Mutex<Vec<Child>> = std::sync::Mutex::new(Vec::new());

fn strays() -> MutexGuard<'static, Vec<Child>> {
    ignore_poison(STRAYS.lock())
}

/// Looks after those that no runtime watches.
pub(super) fn sweep() {
    strays().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// Ends a child that cannot be watched, so that nobody is told of it.
pub(super) fn abandon(mut child: Child) {
    let _ = child.kill();
    strays().push(child);
}

#[cfg(all(test, not(loom)))]
#[path = "reaper_tests.rs"]
mod reaper_tests;
