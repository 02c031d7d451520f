//! Waits whose amounts or history suggest that they may never end.
//!
//! A candidate is a task that waits for one resource with a [stall note](StallNote), and otherwise only
//! for time-outs and shutdown signals. The task has as many live wakers as waits of its last poll, and the
//! resource holds one of these wakers:
//! - Waits for permits and for capacity are linked while the waiter is in the list.
//! - A receiver, a barrier and a `Notify` write a note only for waits with a waker of the task itself. A
//!   receiver keeps the waker. A barrier and a `Notify` remove the note when a waiting future is dropped.
//!
//! The note was read while the task was in that wait, so it belongs to the right resource.
//!
//! [`StallNote`]: crate::wait::ownership::stall_note::StallNote

use super::holders::Tasks;
use crate::driver::clock::time_of;
use crate::inspect::dump::{TaskDump, TaskState, since};
use crate::inspect::report::{Exit, StallCause, StalledWait};
use crate::inspect::task_info::TaskInfo;
use crate::task::id;
use crate::task::poll_stamp::PollStamp;
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::{Link, RecordedWait, WaitRecord};
use crate::task::wait_target::{RecordIndex, WaitTarget};
use crate::wait::ownership::owner::Owner;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::wait::ownership::stall_note::Stall;
use std::collections::BTreeMap;
use std::panic::Location;
use std::time::Duration;

/// A waiting task or `block_on` future, as observed by the walk.
pub(super) struct Waiter<'a> {
    pub(super) record: &'a WaitRecord,
    /// The number of its live wakers.
    pub(super) wakers: u64,
    /// The stamp of its last poll.
    pub(super) poll: PollStamp,
    /// Whether the program declared that it may wait forever.
    pub(super) is_exempt: bool,
    /// Returns whether it still waits and has not been polled since.
    pub(super) is_same: &'a dyn Fn() -> bool,
}

/// Identifies why tasks are stalled: a kind of wait, and a resource or the site of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StallKey {
    kind: u8,
    resource: Option<u64>,
    site: Option<&'static Location<'static>>,
}

/// A wait that may never end.
pub(super) struct StallCandidate {
    pub(super) wait: StalledWait,
    index: RecordIndex,
    stall: Stall,
    /// The receiver of a full channel.
    receiver: Option<Owner>,
}

/// The stalled waits with one [`StallKey`].
pub(super) struct StallGroup {
    pub(super) oldest: StallCandidate,
    /// How many other tasks wait for the same reason.
    pub(super) others: usize,
}

/// Returns whether a wait of this kind can have a stall note.
fn can_stall(kind: WaitKind) -> bool {
    use WaitKind::{Barrier, MpscRecv, MpscSend, Notified, Semaphore};
    matches!(kind, Barrier | MpscRecv | MpscSend | Notified | Semaphore)
}

impl Waiter<'_> {
    /// Returns whether the wait is from the last poll, or a waker of the task is queued there.
    fn is_current(&self, wait: &RecordedWait) -> bool {
        match wait.link {
            Link::Direct => true,
            Link::None => wait.poll.same_poll(self.poll),
            Link::Indirect => false,
        }
    }

    /// Returns the only wait that can stall, if all others are exits that cancel that wait.
    fn only_stall<'w>(&self, waits: &'w [RecordedWait]) -> Option<&'w RecordedWait> {
        let is_record =
            |it: &&RecordedWait| matches!(it.wait.target.target(), WaitTarget::Record(_));
        let current = || waits.iter().filter(|it| self.is_current(it));
        let is_queued = |it: &&RecordedWait| match it.wait.kind {
            WaitKind::Semaphore | WaitKind::MpscSend => it.link == Link::Direct,
            kind => can_stall(kind),
        };
        let stalled = current().filter(is_record).find(is_queued)?;
        if self.is_exempt || current().count() as u64 != self.wakers {
            return None;
        }
        let mut others = current().filter(|it| !std::ptr::eq(*it, stalled));
        // A message or a notification may come from work that another branch starts.
        let may_have_exits = !matches!(stalled.wait.kind, WaitKind::MpscRecv | WaitKind::Notified);
        others.all(|it| may_have_exits && it.wait.kind.is_cancellation()).then_some(stalled)
    }
}

impl StallCandidate {
    /// Returns the wait of this task that may never end, if it has one.
    pub(super) fn find(
        waiter: &Waiter<'_>,
        waits: &[RecordedWait],
        now: Duration,
        info: &dyn Fn() -> Option<TaskInfo>,
    ) -> Option<Self> {
        let stalled = waiter.only_stall(waits)?;
        let wait = &stalled.wait;
        let WaitTarget::Record(index) = wait.target.target() else { return None };
        let record = ResourceRecord::at(index)?;
        let note = if wait.kind == WaitKind::MpscRecv { &record.recv_stall } else { &record.stall };
        let (stall, task) = (note.get()?, info()?);
        let receiver = match wait.kind {
            // Capacity may come from permits, too.
            WaitKind::MpscSend if record.has_unlisted() => return None,
            WaitKind::MpscSend => record.owners().first().copied(),
            _ => None,
        };
        let is_stalled = match wait.kind {
            WaitKind::Semaphore => stall.task == task.id && stall.count > stall.total,
            WaitKind::MpscSend => receiver.is_none_or(|receiver| receiver.task == task.id),
            _ => true,
        };
        let mut exits = Vec::new();
        let others = waits.iter().filter(|it| !std::ptr::eq(*it, stalled));
        for other in others.filter(|it| waiter.is_current(it)) {
            let remaining = match other.wait.target.target() {
                WaitTarget::Number(tick) if other.wait.kind.is_for_timer() => {
                    Some(time_of(tick).saturating_sub(now))
                }
                _ => None,
            };
            exits.push(Exit::new(&other.wait, other.at_resource, remaining));
        }
        let wait = StalledWait {
            task,
            wait: wait.kind,
            resource_id: ResourceRecord::display_number(WaitTarget::Record(index)),
            site: wait.site,
            waited: since(now, wait.since_ms),
            exits,
        };
        // Checked last, which proves that the note belongs to the resource that the task waits for.
        (is_stalled && (waiter.is_same)()).then_some(Self { wait, index, stall, receiver })
    }

    fn key(&self) -> StallKey {
        let kind = self.wait.wait as u8;
        match self.wait.wait {
            WaitKind::Barrier | WaitKind::Semaphore => {
                StallKey { kind, resource: Some(self.index.0), site: None }
            }
            _ => StallKey { kind, resource: None, site: Some(self.wait.site) },
        }
    }

    /// Returns why the wait may never end, or `None` if another task may still end it.
    pub(super) fn cause(&self, tasks: &Tasks<'_>) -> Option<StallCause> {
        let Stall { task, count, total, created_at } = self.stall;
        let cause = match self.wait.wait {
            // Simulated runtimes share ids, so an id may belong to another task.
            _ if !id::are_unique() => return None,
            WaitKind::Barrier => StallCause::Barrier { arrived: count, of: total, created_at },
            WaitKind::Semaphore => StallCause::Permits { wanted: count, ever: total },
            WaitKind::Notified => StallCause::LostNotification,
            WaitKind::MpscSend => match self.receiver {
                Some(Owner { site: received_at, .. }) => {
                    StallCause::OwnReceiver { capacity: total, created_at, received_at }
                }
                None => StallCause::NeverReceived { capacity: total, created_at },
            },
            // The sender may have been moved to that child.
            _ if tasks.has_other_child(task, self.wait.task.id) => return None,
            _ if task == self.wait.task.id => StallCause::KeptSender { by: None, created_at },
            _ => {
                let keeper = tasks.find(task)?;
                let by = Some(keeper.info().clone());
                waits_only_for(&keeper, self.wait.task.id)
                    .then_some(StallCause::KeptSender { by, created_at })?
            }
        };
        Some(cause)
    }
}

/// Returns whether a task waits for the end of this one, and for nothing else.
fn waits_only_for(task: &TaskDump, id: u64) -> bool {
    let [wait] = task.waits() else { return false };
    let joins = wait.wait_kind() == WaitKind::Join
        // A wait for a `JoinSet` has several holders, and the end of any of them ends it.
        && matches!(wait.holders(), [holder] if holder.id() == id);
    task.state() == TaskState::Waiting && task.wakers() == 1 && !wait.is_earlier() && joins
}

/// Groups stalled waits by their reason. `waiters` counts the tasks that wait for a semaphore.
pub(super) fn group(
    candidates: Vec<StallCandidate>,
    waiters: impl Fn(RecordIndex) -> usize,
) -> BTreeMap<StallKey, StallGroup> {
    let mut groups: BTreeMap<StallKey, StallGroup> = BTreeMap::new();
    for candidate in candidates {
        let (key, index) = (candidate.key(), candidate.index);
        let is_semaphore = candidate.wait.wait == WaitKind::Semaphore;
        // The requests queued behind this one wait as well.
        let behind = if is_semaphore { waiters(index).saturating_sub(1) } else { 0 };
        match groups.get_mut(&key) {
            None => drop(groups.insert(key, StallGroup { oldest: candidate, others: behind })),
            Some(group) => {
                group.others += 1;
                if group.oldest.wait.waited < candidate.wait.waited {
                    group.oldest = candidate;
                }
            }
        }
    }
    groups
}
