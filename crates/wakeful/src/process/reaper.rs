//! The process reaper, which detects that child processes have exited, with or without a waiting
//! task.
//!
//! [`RunningChild`] is a child whose exit status is not known yet. If it is dropped, an
//! [`OrphanChild`] waits for the exit in place of a task. If the runtime shuts down first, the
//! child goes to `ORPHAN_CHILDREN`, which [`reap_orphans`] checks whenever a child is started or
//! exits.

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

/// A source of notifications that a process may have exited.
#[derive(Debug)]
enum ExitNotifier {
    /// A pidfd, which is readable once the process has exited.
    Pidfd(PollEvented<OwnedFd>),
    /// SIGCHLD: some child process has exited.
    Signal(Signal),
}

/// The result of a wait for a process to exit.
enum WaitOutcome {
    Exited(io::Result<ExitStatus>),
    /// The runtime that watched the process has shut down.
    RuntimeGone,
}

impl ExitNotifier {
    /// Creates the notifier for `child`.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled.
    #[track_caller]
    fn for_child(child: &Child) -> io::Result<Self> {
        match pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(ExitNotifier::Pidfd(PollEvented::new(pidfd, mio::Interest::READABLE)?)),
            // An old kernel, a sandbox, or no free descriptor.
            Err(_) => Self::by_signal(),
        }
    }

    /// Creates a notifier that listens for SIGCHLD.
    #[track_caller]
    fn by_signal() -> io::Result<Self> {
        Ok(ExitNotifier::Signal(signal(SignalKind::child())?))
    }

    /// Polls until `child` has exited, without spending budget or recording a wait.
    fn poll(&mut self, child: &mut Child, cx: &mut Context<'_>) -> Poll<WaitOutcome> {
        loop {
            if let Some(exited) = child.try_wait().transpose() {
                return Poll::Ready(WaitOutcome::Exited(exited));
            }
            match self {
                ExitNotifier::Pidfd(pidfd) => {
                    let registration = pidfd.registration();
                    let Ok(seen) = ready!(registration.poll_ready_unbudgeted(Direction::Read, cx))
                    else {
                        return Poll::Ready(WaitOutcome::RuntimeGone);
                    };
                    // The process has exited since `try_wait`. If a debugger still holds back the
                    // exit status, the pidfd becomes readable again later.
                    if let Some(exited) = child.try_wait().transpose() {
                        return Poll::Ready(WaitOutcome::Exited(exited));
                    }
                    registration.clear(seen);
                }
                ExitNotifier::Signal(signal) => match ready!(signal.poll_without_wait_record(cx)) {
                    Some(()) => {}
                    None => return Poll::Ready(WaitOutcome::RuntimeGone),
                },
            }
        }
    }
}

/// A process whose exit status is not known yet.
#[derive(Debug)]
pub(super) struct RunningChild {
    /// `Some` until dropped.
    parts: Option<(Child, ExitNotifier)>,
    kill_on_drop: bool,
}

impl RunningChild {
    /// Watches `child` on the current runtime.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled.
    #[track_caller]
    pub(super) fn new(child: Child, kill_on_drop: bool) -> io::Result<Self> {
        match ExitNotifier::for_child(&child) {
            Ok(notifier) => Ok(Self { parts: Some((child, notifier)), kill_on_drop }),
            Err(error) => {
                kill_orphan(child);
                Err(error)
            }
        }
    }

    fn child(&mut self) -> &mut Child {
        &mut self.parts.as_mut().expect("`Some` until dropped").0
    }

    pub(super) fn id(&self) -> u32 {
        self.parts.as_ref().expect("`Some` until dropped").0.id()
    }

    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child().kill()
    }

    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child().try_wait()
    }

    /// Polls until the process has exited. Only the task of the most recent call is woken.
    pub(super) fn poll_exit(
        &mut self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<io::Result<ExitStatus>> {
        let progress = ready!(coop::poll_proceed(cx));
        let (child, notifier) = self.parts.as_mut().expect("`Some` until dropped");
        loop {
            match notifier.poll(child, cx) {
                Poll::Ready(WaitOutcome::Exited(exited)) => {
                    progress.made_progress();
                    reap_orphans();
                    return Poll::Ready(exited);
                }
                // The current runtime watches the process from now on.
                Poll::Ready(WaitOutcome::RuntimeGone) => {
                    *notifier = ExitNotifier::for_child(child)?
                }
                Poll::Pending => {
                    let process = TargetWord::of_u32(child.id());
                    wait::record_wait_for_target(WaitKind::ChildExit, process, site);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        let Some((mut child, notifier)) = self.parts.take() else { return };
        if self.kill_on_drop {
            // Fails if the process has already exited.
            let _ = child.kill();
        }
        if let Ok(None) = child.try_wait() {
            OrphanChild::new(child, notifier).try_reap();
        }
    }
}

/// A child whose `Child` was dropped before it exited.
///
/// Its notifier holds its waker, and the waker holds the `OrphanChild`.
struct OrphanChild {
    parts: Mutex<Option<(Child, ExitNotifier)>>,
    reap_gate: RerunGate,
}

impl OrphanChild {
    fn new(child: Child, notifier: ExitNotifier) -> Arc<Self> {
        Arc::new(Self { parts: Mutex::new(Some((child, notifier))), reap_gate: RerunGate::new() })
    }

    /// Reaps the process if it has exited, or registers the waker. Safe to call from the waker
    /// itself.
    fn try_reap(self: &Arc<Self>) {
        self.reap_gate.run(|| self.try_reap_once());
    }

    fn try_reap_once(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        let mut parts = self.parts.lock();
        let Some((child, notifier)) = &mut *parts else { return };
        let Poll::Ready(waited) = notifier.poll(child, &mut cx) else { return };
        let done = parts.take();
        drop(parts);
        if let (WaitOutcome::RuntimeGone, Some((child, _))) = (waited, done) {
            orphan_children().push(child);
        }
    }
}

impl Wake for OrphanChild {
    fn wake(self: Arc<Self>) {
        self.try_reap();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.try_reap();
    }
}

/// Children that outlived both their `Child` and their runtime.
static ORPHAN_CHILDREN: std::sync::Mutex<Vec<Child>> = std::sync::Mutex::new(Vec::new());

fn orphan_children() -> MutexGuard<'static, Vec<Child>> {
    ignore_poison(ORPHAN_CHILDREN.lock())
}

/// Reaps the children that no runtime watches, if they have exited.
pub(super) fn reap_orphans() {
    orphan_children().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// Kills a child that cannot be watched. It is reaped later.
pub(super) fn kill_orphan(mut child: Child) {
    let _ = child.kill();
    orphan_children().push(child);
}

#[cfg(all(test, not(loom)))]
#[path = "reaper_tests.rs"]
mod reaper_tests;
