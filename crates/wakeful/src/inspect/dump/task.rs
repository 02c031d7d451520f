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

/// A task, or the future of a `block_on`, in a [`Dump`](super::Dump).
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::time::Duration;
/// use wakeful::inspect::TaskState;
/// use wakeful::runtime::Handle;
/// use wakeful::{task, time};
///
/// let nap = time::sleep(Duration::from_secs(60));
/// let task = task::Builder::new().name("nap").spawn(nap)?;
/// task::yield_now().await;
///
/// let dump = Handle::current().dump();
/// let found = dump.find_named("nap").unwrap();
/// assert_eq!(found.id(), Some(task.id()));
/// assert_eq!(found.state(), TaskState::Waiting);
/// assert_eq!((found.polls(), found.wakers()), (1, 1));
/// assert!(found.spawned_by_block_on() && !found.is_closure() && !found.is_orphan());
/// assert_eq!(found.waiting_on().unwrap().kind(), "sleep");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TaskDump {
    info: TaskInfo,
    pub(super) parent: Option<u64>,
    /// The lower half of the parent's id.
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

/// A `Display` of a task and what it waits for. Returned by [`TaskDump::trace`].
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// for task in wakeful::runtime::Handle::current().dump().tasks() {
///     println!("{}", task.trace());
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TaskTrace<'a> {
    pub(super) task: &'a TaskDump,
}

/// The state of a task: running, queued, waiting or done.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::inspect::TaskState;
/// use wakeful::runtime::Handle;
///
/// let mut task = wakeful::spawn(async {});
/// let state = || Handle::current().dump().tasks()[1].state();
/// assert_eq!(state(), TaskState::Queued);
/// wakeful::task::yield_now().await;
/// assert_eq!(state(), TaskState::Done);
/// # (&mut task).await.unwrap();
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// The task is being polled, by the worker with this index.
    ///
    /// `None` if the polling thread is not a worker: a thread of the blocking pool, a spare worker,
    /// a thread in `block_in_place`, or the thread of a `LocalSet`.
    Running(Option<usize>),
    /// The task is ready and in a run queue.
    Queued,
    /// The task returned `Pending` and has not been woken since.
    Waiting,
    /// The task has ended. Its `JoinHandle` or a waker still refers to it.
    Done,
}

impl TaskState {
    /// Returns the state in one word: `"running"`, `"queued"`, `"waiting"` or `"done"`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::TaskState;
    ///
    /// assert_eq!(TaskState::Running(Some(0)).name(), "running");
    /// assert_eq!(TaskState::Waiting.name(), "waiting");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Running(_) => "running",
            TaskState::Queued => "queued",
            TaskState::Waiting => "waiting",
            TaskState::Done => "done",
        }
    }
}

/// Returns the time since a recorded time, which is in milliseconds.
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
        off_workers: &[usize],
        now: Duration,
    ) -> Self {
        let header = task.header();
        let state = task.state();
        let cell = task.cell().addr().get();
        let polls_it = |worker: &WorkerSnapshot| matches!(worker.doing, WorkerActivity::Polling(it, _) if it == cell);
        let worker = workers.iter().position(polls_it);
        let is_closure = state.has(BLOCKING);
        let runs = worker.is_some() || is_closure || off_workers.contains(&cell);
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
        block_on: &BlockOnState,
        name: Option<&str>,
        now: Duration,
    ) -> Option<Self> {
        let record = &block_on.record;
        let state = match () {
            () if record.is_polled() => TaskState::Running(None),
            () if block_on.is_woken() => TaskState::Queued,
            () => TaskState::Waiting,
        };
        let waits = state == TaskState::Waiting;
        let wakers = block_on.live_wakers() as u64;
        Some(Self {
            info: TaskInfo::of_block_on(block_on, name)?,
            parent: None,
            parent_half: 0,
            cell: 0,
            state,
            closure: false,
            forever: false,
            age: record.first_waited_ms().map_or(Duration::ZERO, |first_ms| since(now, first_ms)),
            polls: record.polls(),
            busy: Duration::ZERO,
            wakes: record.polls().saturating_sub(1),
            wakers,
            waiting: if waits {
                WaitDump::read_all(&record.waiting, || record.poll_stamp(), wakers, now)
            } else {
                Vec::new()
            },
        })
    }

    /// Returns the task's id, name and spawn location.
    pub fn info(&self) -> &TaskInfo {
        &self.info
    }

    /// Returns the id of the task or `block_on` that spawned it.
    #[cfg(feature = "page")]
    pub(in crate::inspect) fn parent_id(&self) -> Option<u64> {
        self.parent
    }

    /// Returns the task's id, or `None` for the future of a `block_on`.
    pub fn id(&self) -> Option<Id> {
        self.info.id()
    }

    /// Returns a `Display` of the task, of what it waits for and of the holders.
    ///
    /// This is the counterpart of a trace in tokio's task dumps. The text names the line at which
    /// the task waits, but not the functions in between.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    ///
    /// let task = wakeful::spawn(wakeful::time::sleep(Duration::from_secs(60)));
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let trace = dump.find(task.id()).unwrap().trace().to_string();
    /// assert!(trace.contains("waiting for a timer (sleep or interval)"), "{trace}");
    /// # }
    /// ```
    pub fn trace(&self) -> TaskTrace<'_> {
        TaskTrace { task: self }
    }

    /// Returns the id of the parent, the task that spawned this task, if it is still alive.
    ///
    /// Returns `None` for a task that the future of a `block_on` spawned; see
    /// [`spawned_by_block_on`](Self::spawned_by_block_on).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::future::pending;
    /// use wakeful::runtime::Handle;
    /// use wakeful::task::{may_wait_forever, yield_now};
    ///
    /// let parent = wakeful::spawn(async {
    ///     wakeful::spawn(may_wait_forever(pending::<()>()));
    ///     may_wait_forever(pending::<()>()).await
    /// });
    /// yield_now().await;
    /// let dump = Handle::current().dump();
    /// let children = dump.tasks().iter().filter(|task| task.parent() == Some(parent.id()));
    /// assert_eq!(children.count(), 1);
    /// # }
    /// ```
    pub fn parent(&self) -> Option<Id> {
        self.parent.filter(|id| !is_block_on_id(*id)).map(Id::from_u64)
    }

    /// Returns whether the future of a running `block_on` spawned the task.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let task = wakeful::spawn(async {});
    /// let dump = Handle::current().dump();
    /// assert!(dump.find(task.id()).unwrap().spawned_by_block_on());
    /// # }
    /// ```
    pub fn spawned_by_block_on(&self) -> bool {
        self.parent.is_some_and(is_block_on_id)
    }

    /// Returns whether the task runs, is queued, waits or is done.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Returns whether the task is a closure of [`spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let closure = wakeful::task::spawn_blocking(|| 2 + 2);
    /// let dump = Handle::current().dump();
    /// assert!(dump.find(closure.id()).unwrap().is_closure());
    /// assert_eq!(closure.await.unwrap(), 4);
    /// # }
    /// ```
    pub fn is_closure(&self) -> bool {
        self.closure
    }

    /// Returns whether the task waits and no waker for it exists, so nothing can wake it.
    ///
    /// A task that [may wait forever](crate::task::may_wait_forever) is not an orphan.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::pending;
    /// use wakeful::runtime::{Builder, Handle};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let rt = Builder::new_current_thread().on_report(|_| {}).build()?;
    /// rt.block_on(async {
    ///     let lost = wakeful::spawn(pending::<()>());
    ///     wakeful::task::yield_now().await;
    ///     assert!(Handle::current().dump().find(lost.id()).unwrap().is_orphan());
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_orphan(&self) -> bool {
        self.state == TaskState::Waiting && self.wakers == 0 && !self.forever
    }

    /// Returns the time since the task was spawned.
    ///
    /// For the future of a `block_on`, this is the time since it first returned `Pending`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    /// use wakeful::time::{advance, sleep};
    ///
    /// let task = wakeful::spawn(sleep(Duration::from_secs(60)));
    /// advance(Duration::from_secs(2)).await;
    /// let dump = Handle::current().dump();
    /// assert_eq!(dump.find(task.id()).unwrap().age(), Duration::from_secs(2));
    /// # }
    /// ```
    pub fn age(&self) -> Duration {
        self.age
    }

    /// Returns how often the task was polled. The count wraps after 2^31 polls.
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Returns the total time of the task's polls, estimated from samples.
    ///
    /// After some of its checks of timers and I/O, a worker times one poll as a sample of the
    /// others. The watchdog adds polls of 30 ms or more (60 ms on a current-thread runtime).
    /// Returns zero for the future of a `block_on`.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns how often the task was woken, not counting wake-ups while it was queued or running.
    pub fn wakes(&self) -> u32 {
        self.wakes
    }

    /// Returns the number of the task's live wakers, which may be one too high for a running task.
    pub fn wakers(&self) -> u64 {
        self.wakers
    }

    /// Returns what the task waits for: the wait among [`waits`](Self::waits) that explains most.
    ///
    /// A lock comes before a channel, a channel before a signal, and a timer last. The order in which
    /// the task polls the branches of a `select!` does not matter.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel::<u32>(1);
    /// let task = wakeful::spawn(async move {
    ///     wakeful::time::timeout(Duration::from_secs(60), rx.recv()).await
    /// });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let wait = dump.find(task.id()).unwrap().waiting_on().unwrap();
    /// assert_eq!(wait.kind(), "mpsc::Receiver::recv");
    /// # drop(tx);
    /// # task.await.unwrap().unwrap();
    /// # }
    /// ```
    pub fn waiting_on(&self) -> Option<&WaitDump> {
        self.waiting.first()
    }

    /// Returns everything that the task is known to wait for, [`waiting_on`](Self::waiting_on)
    /// first.
    ///
    /// A task in `select!`, `join!` or `timeout` has up to 16 waits: one for each of wakeful's own
    /// futures that returned `Pending` in its last poll. Any of them can wake the task.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    /// use wakeful::sync::mpsc;
    ///
    /// let (tx, mut rx) = mpsc::channel::<u32>(1);
    /// let task = wakeful::spawn(async move {
    ///     wakeful::time::timeout(Duration::from_secs(60), rx.recv()).await
    /// });
    /// wakeful::task::yield_now().await;
    /// let dump = Handle::current().dump();
    /// let kinds = dump.find(task.id()).unwrap().waits().iter().map(|wait| wait.kind());
    /// assert!(kinds.eq(["mpsc::Receiver::recv", "timeout"]));
    /// # drop(tx);
    /// # task.await.unwrap().unwrap();
    /// # }
    /// ```
    pub fn waits(&self) -> &[WaitDump] {
        &self.waiting
    }
}
