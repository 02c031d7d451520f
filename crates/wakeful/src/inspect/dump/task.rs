//! One task in a dump.

use super::text::Short;
use crate::driver::clock::time_of;
use crate::inspect::task_info::TaskInfo;
use crate::scheduler::block_on::BlockOnState;
use crate::sys::descriptor;
use crate::task::Id;
use crate::task::arena;
use crate::task::block_on::is_block_on_id;
use crate::task::poll_stamp::PollStamp;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, EXEMPT, FOREVER, NOTIFIED, RUNNING};
use crate::task::wait_kind::WaitKind;
use crate::task::wait_record::WaitRecord;
use crate::task::wait_target::WaitTarget;
use crate::wait::ownership::resource_record::ResourceRecord;
use crate::watchdog::snapshot::{WorkerActivity, WorkerSnapshot};
use std::panic::Location;
use std::time::Duration;

/// A task, or the future of a `block_on`, at one moment.
#[derive(Clone, Debug)]
pub struct TaskDump {
    who: TaskInfo,
    pub(super) parent: Option<u64>,
    /// The lower half of the parent's number.
    pub(super) parent_half: u32,
    /// The address of the cell, 0 for a root.
    pub(super) cell: usize,
    state: TaskState,
    closure: bool,
    forever: bool,
    age: Duration,
    polls: u32,
    busy: Duration,
    wakes: u32,
    wakers: u64,
    pub(super) waiting: Option<WaitDump>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It is polled, by the worker of this number; `None` on a thread that is no
    /// worker: of the blocking pool, a spare one, or one that left its worker by
    /// `block_in_place`; and in a `LocalSet`.
    Running(Option<usize>),
    /// It is ready, and waits for a worker.
    Queued,
    /// It waits for something.
    Waiting,
    /// It has ended; its JoinHandle or a waker still refers to it.
    Done,
}

impl TaskState {
    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Running(_) => "running",
            TaskState::Queued => "queued",
            TaskState::Waiting => "waiting",
            TaskState::Done => "done",
        }
    }
}

/// What a task waits for.
#[derive(Clone, Debug)]
pub struct WaitDump {
    kind: WaitKind,
    resource_id: u64,
    resource: String,
    site: &'static Location<'static>,
    since: Duration,
    earlier: bool,
    certain: bool,
    pub(super) holders: Vec<HolderDump>,
    pub(super) others: bool,
}

/// Who has what a task waits for.
#[derive(Clone, Debug)]
pub struct HolderDump {
    pub(super) number: u64,
    pub(super) who: Option<TaskInfo>,
    site: Option<&'static Location<'static>>,
    granted: bool,
    pub(super) hold: Hold,
}

/// What is known of somebody who is named as the one that has a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Certain,
    /// It may have given it to others.
    Passed,
    /// It received last from the channel.
    Receives,
}

/// How long ago a moment was that a record has in milliseconds.
pub(in crate::inspect) fn since(now: Duration, then_ms: u32) -> Duration {
    // Milliseconds wrap after 49 days; so does the difference. What seems to be in the
    // future was written while the dump was taken, or by a thread whose rough clock is ahead.
    const AHEAD_MS: u32 = 600_000;
    let passed_ms = (now.as_millis() as u32).wrapping_sub(then_ms);
    Duration::from_millis(if passed_ms > u32::MAX - AHEAD_MS { 0 } else { passed_ms.into() })
}

impl TaskDump {
    pub(super) fn of_task(
        task: &TaskRef,
        workers: &[WorkerSnapshot],
        elsewhere: &[usize],
        now: Duration,
    ) -> Self {
        let header = task.header();
        let state = task.state();
        let cell = task.cell().addr().get();
        let polls_it = |look: &WorkerSnapshot| matches!(look.doing, WorkerActivity::Polls(it, _) if it == cell);
        let worker = workers.iter().position(polls_it);
        let is_closure = state.has(BLOCKING);
        let runs = worker.is_some() || is_closure || elsewhere.contains(&cell);
        let task_state = match () {
            () if state.has(COMPLETE) => TaskState::Done,
            () if state.has(RUNNING) && runs => TaskState::Running(worker),
            () if state.has(RUNNING | NOTIFIED) => TaskState::Queued,
            () => TaskState::Waiting,
        };
        let waits = task_state == TaskState::Waiting;
        let spare = state.has(RUNNING) && header.has_spare_waker();
        Self {
            who: TaskInfo::of_task(header),
            parent: None,
            parent_half: header.parent.get(),
            cell,
            state: task_state,
            closure: is_closure,
            forever: state.has(EXEMPT | FOREVER),
            age: since(now, header.spawned_ms.get()),
            polls: header.polls(),
            busy: arena::poll_time(task),
            wakes: header.wakes(),
            wakers: state.wakers().saturating_sub(spare.into()),
            waiting: if waits {
                WaitDump::read(&header.waiting, || header.poll_stamp(), now)
            } else {
                None
            },
        }
    }

    pub(super) fn of_root(root: &BlockOnState, name: Option<&str>, now: Duration) -> Option<Self> {
        let note = &root.note;
        let state = match () {
            () if note.is_polled() => TaskState::Running(None),
            () if root.is_woken() => TaskState::Queued,
            () => TaskState::Waiting,
        };
        let waits = state == TaskState::Waiting;
        Some(Self {
            who: TaskInfo::of_root(root, name)?,
            parent: None,
            parent_half: 0,
            cell: 0,
            state,
            closure: false,
            forever: false,
            age: note.first_waited_ms().map_or(Duration::ZERO, |first_ms| since(now, first_ms)),
            polls: note.polls(),
            busy: Duration::ZERO,
            wakes: note.polls().saturating_sub(1),
            wakers: root.live_wakers() as u64,
            waiting: if waits {
                WaitDump::read(&note.waiting, || note.poll_stamp(), now)
            } else {
                None
            },
        })
    }

    /// Which task it is.
    pub fn who(&self) -> &TaskInfo {
        &self.who
    }

    /// The task's id; `None` for the future of a `block_on`.
    pub fn id(&self) -> Option<Id> {
        self.who.id()
    }

    /// The task that spawned it, if that is still there. See
    /// [`spawned_by_block_on`](Self::spawned_by_block_on) for those spawned by the future of `block_on`.
    pub fn parent(&self) -> Option<Id> {
        self.parent.filter(|number| !is_block_on_id(*number)).map(Id::from_u64)
    }

    /// Whether the future of a `block_on` that is still there spawned it.
    pub fn spawned_by_block_on(&self) -> bool {
        self.parent.is_some_and(is_block_on_id)
    }

    /// What it does.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Whether it is a closure for the blocking pool.
    pub fn is_closure(&self) -> bool {
        self.closure
    }

    /// Whether it waits and nothing is left that could wake it, and that was not
    /// said to be meant so.
    pub fn is_orphan(&self) -> bool {
        self.state == TaskState::Waiting && self.wakers == 0 && !self.forever
    }

    /// How long ago it was spawned; of the future of a `block_on`, how long ago it
    /// first had to wait.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// How often it was polled; after two thousand million times it begins anew.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// How long it was polled in all, by samples: one poll of each turn of a worker
    /// is timed and stands for the others, and a poll that lasts is seen by the
    /// monitor, from 30 ms on, or 60 on a current-thread runtime. Not known of the future of a `block_on`.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// How often it was woken, not counting wakes while it was ready or running.
    pub fn wakes(&self) -> u32 {
        self.wakes
    }

    /// How many wakers for it there are; of a task that is being polled perhaps one too many.
    pub fn wakers(&self) -> u64 {
        self.wakers
    }

    /// The last thing of wakeful's own that it waits for, if it waits.
    pub fn waiting_on(&self) -> Option<&WaitDump> {
        self.waiting.as_ref()
    }
}

impl WaitDump {
    fn read(record: &WaitRecord, poll: impl Fn() -> PollStamp, now: Duration) -> Option<Self> {
        let last_poll = poll();
        let wait = record.read()?;
        // If it is polled meanwhile, nothing is known.
        let earlier = !record.is_from_poll(last_poll) && poll().same_poll(last_poll);
        let (linked, target) = (record.linked_target(), wait.target.target());
        let plate = match linked {
            Some(WaitTarget::Record(index)) => ResourceRecord::at(index),
            _ => None,
        };
        let mut holders = match linked.unwrap_or(target) {
            WaitTarget::Task(id) => vec![HolderDump::running(id)],
            WaitTarget::Record(_) | WaitTarget::Number(_) => plate.map_or(Vec::new(), |plate| {
                let hold = match wait.kind {
                    WaitKind::MpscSend => Hold::Receives,
                    _ if plate.may_have_moved() => Hold::Passed,
                    _ => Hold::Certain,
                };
                let held = plate.owners().into_iter();
                held.map(|held| HolderDump {
                    number: held.task,
                    who: None,
                    site: held.site,
                    granted: held.granted_unpolled,
                    hold,
                })
                .collect()
            }),
        };
        let mut others = plate.is_some_and(ResourceRecord::has_unlisted);
        // The second look: if the task waits there no longer, another resource may have the record
        // by now, and the names are of that one. A reader that has seen those sees the detached link
        // too: the names were written after it, with Release.
        let certain =
            linked.is_some() && poll().same_poll(last_poll) && record.linked_target() == linked;
        if !certain && plate.is_some() {
            holders.clear();
            others = false;
        }
        Some(Self {
            kind: wait.kind,
            resource_id: ResourceRecord::display_number(target),
            resource: describe(wait.kind, target, now),
            site: wait.site,
            since: since(now, wait.since_ms),
            earlier,
            certain,
            holders,
            others,
        })
    }

    /// What it waits for, by the name of the call: `"Mutex::lock"`.
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// The same as a phrase that follows "waiting for".
    pub fn phrase(&self) -> &'static str {
        self.kind.phrase()
    }

    /// A number for the thing, the same for all who wait for it in the same way: the
    /// id of a task, a file descriptor, an address.
    pub fn resource_id(&self) -> u64 {
        self.resource_id
    }

    /// The thing in words: a task, a descriptor with its addresses as the system knows
    /// them now, a process, a signal, or in how long a moment comes; of what has no other
    /// name, the number.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Where the call is in the program.
    pub fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// How long ago it was last polled in there.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Whether that was in an earlier poll than its last: then it waits in a future that is not
    /// wakeful's own, or in one that was not polled again as nothing had happened to it.
    pub fn is_earlier(&self) -> bool {
        self.earlier
    }

    /// Whether it is known for certain that a waker of the task lies with this very
    /// thing. If the task has no other [wakers](TaskDump::wakers), nothing else can
    /// wake it.
    pub fn is_certain(&self) -> bool {
        self.certain
    }

    /// Who has what it waits for, as far as it is known: of a lock who holds it, of
    /// a JoinHandle the task, of a full channel who received last, of a OnceCell who
    /// computes the value. Up to four.
    pub fn holders(&self) -> &[HolderDump] {
        &self.holders
    }

    /// Whether more tasks have it than [`holders`](Self::holders) names: of the many
    /// that can share a semaphore or a read lock, a few are told.
    pub fn has_other_holders(&self) -> bool {
        self.others
    }
}

fn describe(kind: WaitKind, target: WaitTarget, now: Duration) -> String {
    match (kind, target) {
        (_, WaitTarget::Task(id)) => format!("task {id}"),
        (_, WaitTarget::Record(_)) => format!("#{:x}", ResourceRecord::display_number(target)),
        // Whichever of several ends first.
        (WaitKind::Join, WaitTarget::Number(_)) => "any of several".to_owned(),
        (WaitKind::ChildExit, WaitTarget::Number(process)) => format!("process {process}"),
        (WaitKind::Signal, WaitTarget::Number(signal)) => format!("signal {signal}"),
        (WaitKind::Sleep, WaitTarget::Number(tick)) => match time_of(tick).checked_sub(now) {
            Some(left) => format!("in {}", Short(left)),
            None => format!("{} ago", Short(now.saturating_sub(time_of(tick)))),
        },
        (kind, WaitTarget::Number(number)) if kind.is_for_descriptor() => {
            descriptor::describe(number).unwrap_or_else(|| format!("#{number:x}"))
        }
        (_, WaitTarget::Number(number)) => format!("#{number:x}"),
    }
}

impl HolderDump {
    fn running(id: u64) -> Self {
        Self { number: id, who: None, site: None, granted: false, hold: Hold::Certain }
    }

    /// The task; `None` if it is gone, or the holder is no task.
    pub fn who(&self) -> Option<&TaskInfo> {
        self.who.as_ref()
    }

    /// Where it got the thing; `None` for a task that is awaited, and where it was got at
    /// the very moment when another began to wait.
    pub fn acquired_at(&self) -> Option<&'static Location<'static>> {
        self.site
    }

    /// Whether it may be in other hands by now: a guard or permit of the thing owns its
    /// share in it, and can be given to any task or thread, or it is a channel's receiver.
    pub fn may_have_passed_on(&self) -> bool {
        self.hold != Hold::Certain
    }

    /// Whether the thing was handed to a future of the task which was not polled
    /// since.
    pub fn is_unpolled(&self) -> bool {
        self.granted
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::wait_record::{Wait, WaitWriter};
    use crate::wait::ownership::owner::Owner;
    use crate::wait::ownership::resource_record::RecordCell;
    use std::cell::Cell;

    /// The task leaves the list while a dump is made, so another resource may take over the
    /// record whose names were read: none of them is shown.
    #[test]
    fn names_are_not_shown_if_the_task_leaves_while_they_are_read() {
        let (waiting, plate, stamp) =
            (WaitRecord::nothing(), RecordCell::none(), PollStamp::from_doubled(2));
        let site = Location::caller();
        plate.obtain().set_owner(Owner { task: 5, site: Some(site), granted_unpolled: false });
        let target = plate.target(&waiting).linked();
        let wait = Wait { kind: WaitKind::Mutex, target, site, since_ms: 0 };
        WaitWriter { waiting: &waiting, stamp }.record_linked(wait);
        let calls = Cell::new(0);
        let read = |on_call: &dyn Fn(u32)| {
            calls.set(0);
            let poll = || {
                calls.set(calls.get() + 1);
                on_call(calls.get());
                stamp
            };
            WaitDump::read(&waiting, poll, Duration::ZERO).unwrap()
        };
        let stays = read(&|_| ());
        assert!(stays.is_certain());
        assert_eq!(stays.holders.iter().map(|holder| holder.number).collect::<Vec<_>>(), [5]);
        // The first call is before all looks, the last before the second look.
        const SECOND_LOOK: u32 = 2;
        let leaves = read(&|call| {
            if call == SECOND_LOOK {
                waiting.detach();
            }
        });
        assert!(!leaves.is_certain() && leaves.holders().is_empty(), "{leaves:?}");
    }
}
