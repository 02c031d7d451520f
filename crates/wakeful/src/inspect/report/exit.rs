//! Exits: events that can wake a deadlocked task, other than the resource that it waits for.

use super::text::Short;
use crate::sys::descriptor;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::Wait;
use crate::task::wait_target::WaitTarget;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// An event that can wake a deadlocked task, other than the resource that it waits for.
///
/// A task in `select!` or `timeout` waits for any of several events. If one of them is a lock that
/// is part of a cycle, the others are the exits. An exit is a time-out, a signal, a message, or
/// data on a socket.
///
/// The `Display` names the event, for example `the time-out at src/main.rs:12:9, in 47.0 s`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Mutex;
/// use wakeful::time::{advance, timeout};
///
/// let rt = Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// rt.block_on(async {
///     let task = wakeful::spawn(async {
///         let lock = Mutex::new(());
///         let _first = lock.lock().await;
///         timeout(Duration::from_secs(60), lock.lock()).await.is_err()
///     });
///     wakeful::task::yield_now().await;
///     advance(Duration::from_secs(10)).await;
///
///     let found = Handle::current().diagnose();
///     let Report::Deadlock(deadlock) = &found[0] else { panic!("{found:?}") };
///     let exit = &deadlock.edges()[0].exits()[0];
///     assert_eq!(exit.kind(), "timeout");
///     assert!(exit.remaining().unwrap() <= Duration::from_secs(50));
///     assert!(task.await.unwrap());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exit {
    reason: ExitReason,
    remaining: Option<Duration>,
    /// The descriptor of the wait, with its addresses. Stored as text, because the number may be
    /// reused.
    descriptor: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum ExitReason {
    /// A wait that the task has recorded. `site_label` says what its site is.
    Wait { wait: Wait, site_label: &'static str },
    /// Another future of a collection that polls its futures with wakers of its own.
    Collection,
    /// A number of wakers that belong to no recorded wait.
    Unknown(u64),
}

impl Exit {
    pub(crate) fn new(wait: &Wait, at_resource: bool, remaining: Option<Duration>) -> Self {
        let site_label = wait.kind.site_label(wait.target.target(), at_resource);
        let reason = ExitReason::Wait { wait: *wait, site_label };
        Self { reason, remaining, descriptor: None }
    }

    /// Looks up the addresses of the wait's descriptor. The lookup takes system calls, so it is
    /// made only for exits that are reported.
    pub(super) fn describe_descriptor(&mut self) {
        if let ExitReason::Wait { wait, .. } = self.reason
            && wait.kind.is_for_descriptor()
            && let WaitTarget::Number(number) = wait.target.target()
        {
            self.descriptor = descriptor::describe(number);
        }
    }

    pub(crate) fn unnamed(reason: ExitReason) -> Self {
        Self { reason, remaining: None, descriptor: None }
    }

    /// Returns the call that waits for the exit, for example `"timeout"` or
    /// `"watch::Receiver::changed"`.
    ///
    /// Returns `"unknown"` for a future that is not wakeful's own.
    pub fn kind(&self) -> &'static str {
        match self.reason {
            ExitReason::Wait { wait, .. } => wait.kind.name(),
            ExitReason::Collection | ExitReason::Unknown(_) => WaitKind::Unknown.name(),
        }
    }

    /// Returns the site of the call that waits, or where its resource was made.
    ///
    /// Returns `None` if the site is unknown.
    pub fn site(&self) -> Option<&'static Location<'static>> {
        match self.reason {
            ExitReason::Wait { wait, .. } => Some(wait.site),
            ExitReason::Collection | ExitReason::Unknown(_) => None,
        }
    }

    /// Returns the time until the exit happens, for a timer or a time-out.
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns whether the exit probably cancels the wait for the resource, as a time-out or a
    /// shutdown signal does. Other exits may belong to another branch of the task.
    pub(crate) fn is_cancellation(&self) -> bool {
        matches!(self.reason, ExitReason::Wait { wait, .. } if wait.kind.is_cancellation())
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wait, label) = match &self.reason {
            ExitReason::Wait { wait, site_label: label } => (wait, label),
            ExitReason::Collection => {
                return f.write_str(
                    "another future of the same collection, such as a FuturesUnordered",
                );
            }
            ExitReason::Unknown(1) => {
                return f.write_str(
                    "a future that is not wakeful's own or is no longer polled, and has a waker",
                );
            }
            ExitReason::Unknown(wakers) => {
                return write!(
                    f,
                    "futures that are not wakeful's own or are no longer polled, and have {wakers} wakers"
                );
            }
        };
        let (kind, site) = (wait.kind, wait.site);
        if let Some(remaining) = self.remaining {
            let what = if kind == WaitKind::Timeout { "time-out at" } else { "timer created at" };
            return write!(f, "the {what} {site}, in {}", Short(remaining));
        }
        match wait.target.target() {
            WaitTarget::Number(number) if kind.is_for_descriptor() => {
                write!(f, "{} on ", kind.phrase())?;
                match &self.descriptor {
                    Some(descriptor) => write!(f, "{descriptor}, {label} {site}"),
                    None => write!(f, "descriptor {number}, {label} {site}"),
                }
            }
            WaitTarget::Number(number) if kind == WaitKind::Signal => {
                write!(f, "signal {number}, {label} {site}")
            }
            _ => write!(f, "{}, {label} {site}", kind.phrase()),
        }
    }
}
