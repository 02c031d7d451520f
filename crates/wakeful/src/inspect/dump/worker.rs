//! One worker in a dump.

use super::TaskDump;
use crate::inspect::task_info::TaskInfo;
use crate::watchdog::snapshot::{WorkerActivity, WorkerSnapshot};
use std::time::Duration;

/// A worker in a [`Dump`](super::Dump).
///
/// The only worker of a current-thread runtime is the thread in `block_on` that runs its tasks.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// use wakeful::inspect::WorkerState;
/// use wakeful::runtime::Handle;
///
/// let dump = Handle::current().dump();
/// let worker = &dump.workers()[0];
/// assert_eq!(worker.index(), 0);
/// assert_eq!(worker.state(), WorkerState::Polling);
/// assert_eq!(worker.task().unwrap().name(), Some("main"));
/// assert_eq!((worker.timers(), worker.sources()), (0, 0));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WorkerDump {
    index: usize,
    state: WorkerState,
    task: Option<TaskInfo>,
    duration: Option<Duration>,
    snapshot: WorkerSnapshot,
}

/// The state of a worker: not started, asleep, searching or polling.
///
/// # Examples
///
/// ```
/// use wakeful::inspect::WorkerState;
/// use wakeful::runtime::Builder;
///
/// let rt = Builder::new_current_thread().build()?;
/// // No thread is in `block_on`.
/// let dump = rt.handle().dump();
/// assert_eq!(dump.workers()[0].state(), WorkerState::NotStarted);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// The worker has no thread. Threads are started when they are needed.
    NotStarted,
    /// The worker is parked until there is work, a timer fires or a descriptor is ready.
    Asleep,
    /// The worker searches for work.
    Searching,
    /// The worker polls a task, or the future of `block_on` on a current-thread runtime.
    Polling,
}

impl WorkerState {
    /// Returns the state in words, for example `"asleep"`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::inspect::WorkerState;
    ///
    /// assert_eq!(WorkerState::NotStarted.name(), "not started");
    /// assert_eq!(WorkerState::Asleep.name(), "asleep");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::NotStarted => "not started",
            WorkerState::Asleep => "asleep",
            WorkerState::Searching => "searching",
            WorkerState::Polling => "polling",
        }
    }
}

impl WorkerDump {
    pub(super) fn new(
        index: usize,
        snapshot: &WorkerSnapshot,
        now: Duration,
        tasks: &[TaskDump],
    ) -> Self {
        let info = |task: Option<&TaskDump>| task.map(|task| task.info().clone());
        let (state, task, duration) = match snapshot.doing {
            WorkerActivity::NoThread => (WorkerState::NotStarted, None, None),
            WorkerActivity::Asleep(since) => {
                (WorkerState::Asleep, None, Some(now.saturating_sub(since)))
            }
            WorkerActivity::Searching => (WorkerState::Searching, None, None),
            WorkerActivity::Polling(cell, duration) => {
                (WorkerState::Polling, info(tasks.iter().find(|task| task.cell == cell)), duration)
            }
            WorkerActivity::PollingBlockOn(block_on, _) => {
                let block_on = tasks.iter().find(|task| task.info().id == block_on);
                (WorkerState::Polling, info(block_on), None)
            }
        };
        Self { index, state, task, duration, snapshot: snapshot.clone() }
    }

    /// Returns the worker's index, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the worker's state.
    pub fn state(&self) -> WorkerState {
        self.state
    }

    /// Returns the task that the worker polls.
    pub fn task(&self) -> Option<&TaskInfo> {
        self.task.as_ref()
    }

    /// Returns how long the worker has slept or has been in its current poll.
    ///
    /// The watchdog measures polls at intervals of 10 ms, or 25 ms on a current-thread runtime. A
    /// younger poll has no duration yet.
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Returns the number of tasks in the worker's own queue, without the LIFO slot.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use wakeful::runtime::Handle;
    ///
    /// let worker_queue = || Handle::current().dump().workers()[0].queued();
    /// assert_eq!(worker_queue(), 0);
    /// wakeful::spawn(async {}).await.unwrap();
    /// assert_eq!(worker_queue(), 0);
    /// # }
    /// ```
    pub fn queued(&self) -> usize {
        self.snapshot.queued
    }

    /// Returns the number of timers that the worker drives.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use wakeful::runtime::Handle;
    ///
    /// wakeful::spawn(wakeful::time::sleep(Duration::from_secs(60)));
    /// wakeful::task::yield_now().await;
    /// assert_eq!(Handle::current().dump().workers()[0].timers(), 1);
    /// # }
    /// ```
    pub fn timers(&self) -> usize {
        self.snapshot.timers
    }

    /// Returns the number of descriptors registered with the worker's poller.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::UdpSocket;
    /// use wakeful::runtime::Handle;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(Handle::current().dump().workers()[0].sources(), 1);
    /// # drop(socket);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sources(&self) -> usize {
        self.snapshot.sources
    }

    /// Returns the number of polls, as of the last iteration of the worker's loop.
    pub fn polls(&self) -> u64 {
        self.snapshot.polls
    }

    /// Returns the total time for which the worker was busy.
    pub fn busy(&self) -> Duration {
        self.snapshot.busy
    }
}
