//! Tasks that have waited for seconds for an event that is not expected to happen.

use super::Content;
use super::exit::Exit;
use super::json::ReportSite;
use super::stamp::Stamp;
use super::text::{Short, field};
use crate::inspect::task_info::TaskInfo;
use crate::task::wait_kind::WaitKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// A wait that has lasted for seconds and shows signs that it may never end.
///
/// | a task that waits | is reported if |
/// | --- | --- |
/// | at a [`Barrier`](crate::sync::Barrier) | not all tasks of the round have arrived |
/// | for permits of a [`Semaphore`](crate::sync::Semaphore) | it requests more than the semaphore ever had |
/// | for a message of an [`mpsc`](crate::sync::mpsc) channel | the only sender left is the first one, and it seems to be kept by the task itself, or by a task that awaits the end of this task |
/// | for capacity of an `mpsc` channel | it received from the channel last, or no task ever did |
/// | for a [`Notify`](crate::sync::Notify) | `notify_waiters` was called once, before the wait, when no task waited |
///
/// The report is [suspected](super::Certainty::Suspected): its text says what is known and what is
/// assumed. It is made after three times the duration of
/// [`Builder::report_lasting_after`](crate::runtime::Builder::report_lasting_after).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use wakeful::inspect::Report;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::sync::Barrier;
/// use wakeful::task::yield_now;
///
/// let rt = Builder::new_current_thread()
///     .enable_time()
///     .report_lasting_after(Some(Duration::ZERO))
///     .on_report(|_| {})
///     .build()?;
/// rt.block_on(async {
///     let barrier = Arc::new(Barrier::new(4));
///     for _ in 0..3 {
///         let barrier = barrier.clone();
///         wakeful::spawn(async move { barrier.wait().await });
///     }
///     yield_now().await;
///     let found = Handle::current().diagnose();
///     let [Report::Stalled(stalled)] = &*found else { panic!("{found:?}") };
///     assert_eq!(stalled.kind(), "Barrier::wait");
///     assert_eq!(stalled.amounts(), Some((3, 4)));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stalled {
    task: TaskInfo,
    wait: WaitKind,
    resource_id: u64,
    site: &'static Location<'static>,
    waited: Duration,
    cause: StallCause,
    /// See [`others`](Self::others).
    others: usize,
    exits: Vec<Exit>,
    stamp: Stamp,
}

/// The wait of a stalled task.
#[derive(Clone, Debug)]
pub(crate) struct StalledWait {
    pub(crate) task: TaskInfo,
    pub(crate) wait: WaitKind,
    pub(crate) resource_id: u64,
    pub(crate) site: &'static Location<'static>,
    pub(crate) waited: Duration,
    pub(crate) exits: Vec<Exit>,
}

/// Why the wait of a stalled task may never end.
#[derive(Clone, Debug)]
pub(crate) enum StallCause {
    /// Tasks are missing at a barrier.
    Barrier { arrived: u64, of: u64, created_at: Option<&'static Location<'static>> },
    /// More permits are wanted than the semaphore ever had.
    Permits { wanted: u64, ever: u64 },
    /// The only sender is kept by the waiting task, or by the task `by`, which joins the waiting
    /// task.
    KeptSender { by: Option<TaskInfo>, created_at: Option<&'static Location<'static>> },
    /// The channel is full, and the waiting task received from it last.
    OwnReceiver {
        capacity: u64,
        created_at: Option<&'static Location<'static>>,
        received_at: Option<&'static Location<'static>>,
    },
    /// The channel is full, and no task ever received from it.
    NeverReceived { capacity: u64, created_at: Option<&'static Location<'static>> },
    /// `notify_waiters` was called once, before the wait began.
    LostNotification,
}

impl Stalled {
    pub(crate) fn new(wait: StalledWait, cause: StallCause, others: usize) -> Self {
        let StalledWait { task, wait, resource_id, site, waited, exits } = wait;
        let stamp = Stamp::now();
        Self { task, wait, resource_id, site, waited, cause, others, exits, stamp }
    }

    /// Returns the waiting task, or the longest waiter if there are several.
    pub fn task(&self) -> &TaskInfo {
        &self.task
    }

    /// Returns the call that waits, for example `"Barrier::wait"`.
    pub fn kind(&self) -> &'static str {
        self.wait.name()
    }

    /// Returns the site of the call that waits.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// Returns the id that dumps show for the resource.
    pub fn resource_id(&self) -> u64 {
        self.resource_id
    }

    /// Returns how long the task has waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the two amounts that don't match.
    ///
    /// For a barrier they are the number of arrived tasks and the size of a round. For a semaphore
    /// they are the wanted permits and the most permits that it ever had.
    pub fn amounts(&self) -> Option<(u64, u64)> {
        match self.cause {
            StallCause::Barrier { arrived, of, .. } => Some((arrived, of)),
            StallCause::Permits { wanted, ever } => Some((wanted, ever)),
            _ => None,
        }
    }

    /// Returns where the barrier or channel was created.
    pub fn created_at(&self) -> Option<&'static Location<'static>> {
        match self.cause {
            StallCause::Barrier { created_at, .. }
            | StallCause::KeptSender { created_at, .. }
            | StallCause::OwnReceiver { created_at, .. }
            | StallCause::NeverReceived { created_at, .. } => created_at,
            StallCause::Permits { .. } | StallCause::LostNotification => None,
        }
    }

    /// Returns the task that keeps the only sender and joins the waiting task, if it is another
    /// task.
    pub fn kept_by(&self) -> Option<&TaskInfo> {
        match &self.cause {
            StallCause::KeptSender { by, .. } => by.as_ref(),
            _ => None,
        }
    }

    /// Returns how many other tasks wait for the same reason.
    ///
    /// The other tasks wait at the same barrier or semaphore, or in a call at the same site.
    pub fn others(&self) -> usize {
        self.others
    }

    /// Returns what else can end the wait: time-outs and shutdown signals.
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    fn write_headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, waited) = (&self.task, Short(self.waited));
        match &self.cause {
            StallCause::Barrier { arrived, of, .. } => {
                let have = if *arrived == 1 { "has" } else { "have" };
                write!(
                    f,
                    "{arrived} of {of} tasks {have} arrived at a barrier, where tasks wait for up to {waited}"
                )
            }
            StallCause::Permits { wanted, ever } => {
                write!(
                    f,
                    "{task} requests {wanted} permits of a semaphore that never had more than {ever}"
                )
            }
            StallCause::KeptSender { by: None, .. } => {
                write!(
                    f,
                    "{task} waits for a message, and seems to keep the only sender alive itself"
                )
            }
            StallCause::KeptSender { by: Some(by), .. } => write!(
                f,
                "{task} waits for a message, and {by}, which seems to keep the only sender alive, waits for {task} to end"
            ),
            StallCause::OwnReceiver { capacity, .. } => write!(
                f,
                "{task} waits for capacity in a channel of {capacity}, on which it was the last to call recv"
            ),
            StallCause::NeverReceived { capacity, .. } => write!(
                f,
                "{task} waits for capacity in a channel of {capacity}, from which no task has received"
            ),
            StallCause::LostNotification => write!(
                f,
                "{task} waits for a notification, and notify_waiters was called once, before that, when no task waited"
            ),
        }
    }

    /// Writes where the resource was made, and what else is known about it.
    fn write_resource(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(created_at) = self.created_at() {
            field(f, "    ", "created", format_args!("at {created_at}"))?;
        }
        if let StallCause::OwnReceiver { received_at: Some(at), .. } = self.cause {
            field(f, "    ", "received", format_args!("at {at}"))?;
        }
        let others = match self.others {
            0 => return Ok(()),
            1 => "1 other task waits".to_owned(),
            others => format!("{others} other tasks wait"),
        };
        let how = match self.cause {
            StallCause::Barrier { .. } => "at the barrier",
            StallCause::Permits { .. } => "for permits of the semaphore",
            _ => "at the same site for the same reason",
        };
        field(f, "    ", "others", format_args!("{others} {how}"))
    }

    /// Returns the reason, the assumption, the likely cause and the fix.
    fn advice(&self) -> [&'static str; 4] {
        match &self.cause {
            StallCause::Barrier { .. } => [
                "a barrier opens when the last task of the round arrives.",
                "the missing tasks will not arrive. If they do, this is not a bug.",
                "a task of the round has ended or failed before it arrived, or the barrier was created for more tasks than there are.",
                "let every task arrive, also on early returns and errors, and create the barrier for the actual number of tasks.",
            ],
            StallCause::Permits { .. } => [
                "permits are granted in order. The request waits for permits that do not exist, and later requests wait \
                 behind it.",
                "no permits will be added.",
                "a request that depends on input, such as a size, is larger than the limit.",
                "limit the request to the permits that the semaphore was created with, refuse it with try_acquire_many, or \
                 add permits.",
            ],
            StallCause::KeptSender { .. } => [
                "the only sender left is the first one, which the channel was created with. The task created each clone of it. All \
                 other senders were dropped, and no message has been sent since.",
                "no other task or thread can reach that sender.",
                "the sender is cloned for each worker, and never dropped. A channel ends when its last sender is dropped.",
                "drop the sender before the wait: drop(tx), or move it into the last worker.",
            ],
            StallCause::OwnReceiver { .. } => [
                "the channel has too few free slots, and only its receiver can free some.",
                "no other task or thread has the receiver, or shares it.",
                "a task sends to a channel that it receives from itself.",
                "receive while sending, with select! or in another task; use try_send, or an unbounded channel.",
            ],
            StallCause::NeverReceived { .. } => [
                "the channel has too few free slots, and only its receiver can free some.",
                "no task is about to receive. If one is, this is not a bug.",
                "the receiver is kept but not used, or the task that should receive has not reached the call: it \
                 waits for another event, or it is this task itself.",
                "receive in a task that runs while this one sends, or drop the receiver, so that the send fails.",
            ],
            StallCause::LostNotification => [
                "notify_waiters stores no permit: it wakes only tasks that already wait.",
                "the task waits for the notification that was sent then. If it waits for the next one, this is not a bug.",
                "the notification was sent before the task waited for it.",
                "call notified() before checking the condition, or use notify_one, which stores a permit, or a watch \
                 channel.",
            ],
        }
    }
}

impl Content for Stalled {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn tasks(&self) -> Vec<&TaskInfo> {
        [Some(&self.task), self.kept_by()].into_iter().flatten().collect()
    }

    fn sites(&self) -> Vec<ReportSite<'_>> {
        let site = |what, at| ReportSite { what, task: &self.task, at };
        let mut sites = vec![site("waits", self.site)];
        sites.extend(self.created_at().map(|at| site("created", at)));
        if let StallCause::OwnReceiver { received_at: Some(at), .. } = self.cause {
            sites.push(site("received", at));
        }
        sites
    }
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stalled (suspected): ")?;
        self.write_headline(f)?;
        let (task, kind, site, waited) = (&self.task, self.kind(), self.site, Short(self.waited));
        match self.cause {
            // The headline does not name the task.
            StallCause::Barrier { .. } => writeln!(f, "\n    {task}")?,
            _ => writeln!(f)?,
        }
        field(f, "    ", "waiting", format_args!("{kind} at {site}, for {waited}"))?;
        field(f, "    ", self.task.verb(), format_args!("at {}", self.task.spawned_at()))?;
        self.write_resource(f)?;
        let [why, assumes, cause, fix] = self.advice();
        writeln!(f, "  why: {why}\n  assumes: {assumes}")?;
        if !self.exits.is_empty() {
            f.write_str("  ends if: ")?;
            for (nth, exit) in self.exits.iter().enumerate() {
                write!(f, "{}{exit}", if nth > 0 { "; " } else { "" })?;
            }
            writeln!(f, ".")?;
        }
        write!(f, "  likely cause: {cause}\n  fix: {fix}")
    }
}
