//! One task in a dump.

use super::wait::WaitDump;
use crate::inspect::task_info::TaskInfo;
use crate::scheduler::block_on::BlockOnState;
use crate::task::Id;
use crate::task::arena;
use crate::task::block_on::is_block_on_id;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, EXEMPT, FOREVER, NOTIFIED, RUNNING};
use crate::watchdog::snapshot::{WorkerActivity, WorkerSnapshot};
use std::time::Duration;

/// A task, or the future of a `block_on`, as a [`Dump`](super::Dump) found it.
#[derive(Clone, Debug)]
pub struct TaskDump {
    info: TaskInfo,
    pub(super) parent: Option<u64>,
    /// The lower half of the parent's number.
    pub(super) parent_half: u32,
    /// The address of its cell, or 0 for the future of a `block_on`.
    pub(super) cell: usize,
    state: TaskState,
    closure: bool,
    forever: bool,
    age: Duration,
    polls: u32,
    busy: Duration,
    wakes: u32,
    wakers: u64,
    pub(super) waiting: Vec<WaitDump>,
}

/// Whether a task runs, is ready to run, or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// The task is being polled, by the worker with this index.
    ///
    /// `None` if the polling thread is no worker: a thread of the blocking pool, a spare worker, a
    /// thread in `block_in_place`, or the thread of a `LocalSet`.
    Running(Option<usize>),
    /// The task is ready and in a run queue.
    Queued,
    /// The task returned `Pending` and was not woken since.
    Waiting,
    /// The task has ended. Its `JoinHandle` or a waker still refers to it.
    Done,
}

impl TaskState {
    /// Returns the state in one word: `"running"`, `"queued"`, `"waiting"` or `"done"`.
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Running(_) => "running",
            TaskState::Queued => "queued",
            TaskState::Waiting => "waiting",
            TaskState::Done => "done",
        }
    }
}

/// Returns how long ago a point in time was that a record has in milliseconds.
pub(in crate::inspect) fn since(now: Duration, then_ms: u32) -> Duration {
    // Milliseconds wrap after 49 days, and so does the difference. A time in the future was
    // written during the dump, or by a thread whose approximate clock is ahead.
    const AHEAD_MS: u32 = 600_000;
    let passed_ms = (now.as_millis() as u32).wrapping_sub(then_ms);
    Duration::from_millis(if passed_ms > u32::MAX - AHEAD_MS { 0 } else { passed_ms.into() })
}

impl TaskDump {
    pub(in crate::inspect) fn of_task(
        task: &TaskRef,
        workers: &[WorkerSnapshot],
        elsewhere: &[usize],
        now: Duration,
    ) -> Self {
        let header = task.header();
        let state = task.state();
        let cell = task.cell().addr().get();
        let polls_it = |worker: &WorkerSnapshot| matches!(worker.doing, WorkerActivity::Polls(it, _) if it == cell);
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
        let wakers = state.wakers().saturating_sub(spare.into());
        Self {
            info: TaskInfo::of_task(header),
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
            wakers,
            waiting: if waits {
                WaitDump::read_all(&header.waiting, || header.poll_stamp(), wakers, now)
            } else {
                Vec::new()
            },
        }
    }

    pub(in crate::inspect) fn of_block_on(
        root: &BlockOnState,
        name: Option<&str>,
        now: Duration,
    ) -> Option<Self> {
        let note = &root.record;
        let state = match () {
            () if note.is_polled() => TaskState::Running(None),
            () if root.is_woken() => TaskState::Queued,
            () => TaskState::Waiting,
        };
        let waits = state == TaskState::Waiting;
        let wakers = root.live_wakers() as u64;
        Some(Self {
            info: TaskInfo::of_block_on(root, name)?,
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
            wakers,
            waiting: if waits {
                WaitDump::read_all(&note.waiting, || note.poll_stamp(), wakers, now)
            } else {
                Vec::new()
            },
        })
    }

    /// Returns its id, name and spawn location.
    pub fn info(&self) -> &TaskInfo {
        &self.info
    }

    /// Returns the task's id, or `None` for the future of a `block_on`.
    pub fn id(&self) -> Option<Id> {
        self.info.id()
    }

    /// Returns the id of the task that spawned it, if that task is still alive.
    ///
    /// `None` for a task that the future of a `block_on` spawned; see
    /// [`spawned_by_block_on`](Self::spawned_by_block_on).
    pub fn parent(&self) -> Option<Id> {
        self.parent.filter(|number| !is_block_on_id(*number)).map(Id::from_u64)
    }

    /// Returns whether the future of a running `block_on` spawned it.
    pub fn spawned_by_block_on(&self) -> bool {
        self.parent.is_some_and(is_block_on_id)
    }

    /// Returns whether it runs, is queued, waits or is done.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Returns whether it is a closure of [`spawn_blocking`](crate::task::spawn_blocking).
    pub fn is_closure(&self) -> bool {
        self.closure
    }

    /// Returns whether it waits and no waker for it exists, so nothing can wake it.
    ///
    /// A task that [may wait forever](crate::task::may_wait_forever) is no orphan.
    pub fn is_orphan(&self) -> bool {
        self.state == TaskState::Waiting && self.wakers == 0 && !self.forever
    }

    /// Returns the time since it was spawned.
    ///
    /// For the future of a `block_on`: the time since it first returned `Pending`.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// Returns how often it was polled. The count wraps after 2^31 polls.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Returns the total time of its polls, estimated from samples.
    ///
    /// A worker times one poll of each pass through its loop, which stands for the others. The
    /// watchdog adds long polls, from 30 ms on, or 60 ms on a current-thread runtime. Zero for the
    /// future of a `block_on`.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns how often it was woken, without wake-ups of a queued or running task.
    pub fn wakes(&self) -> u32 {
        self.wakes
    }

    /// Returns the number of live wakers. For a running task it may be one too high.
    pub fn wakers(&self) -> u64 {
        self.wakers
    }

    /// Returns what it waits for: the wait among [`waits`](Self::waits) that explains most.
    ///
    /// A lock comes before a channel, a channel before a signal, and a timer last. The order in which
    /// the task polls the branches of a `select!` does not matter.
    pub fn waiting_on(&self) -> Option<&WaitDump> {
        self.waiting.first()
    }

    /// Returns everything that it is known to wait for, [`waiting_on`](Self::waiting_on) first.
    ///
    /// Several for a task in `select!`, `join!` or `timeout`: one for each of wakeful's own futures that
    /// returned `Pending` in its last poll, at most 16. Any of them can wake the task.
    pub fn waits(&self) -> &[WaitDump] {
        &self.waiting
    }
}
