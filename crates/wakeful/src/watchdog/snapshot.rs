//! A read-only view of a scheduler for diagnostics: its tasks, its workers and what they do.
//!
//! Any thread takes a snapshot, without stopping the scheduler. The parts of a snapshot may be from
//! slightly different times.

use crate::scheduler::base::SchedulerBase;
use crate::scheduler::block_on::BlockOnState;
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::multi_thread::{MultiThread, WorkerShared};
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, NOTIFIED, RUNNING};
use crate::telemetry::histogram::Counts;
use crate::telemetry::trace_buffer::TraceBuffer;
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A scheduler that diagnostics can read.
pub(crate) trait Inspectable {
    fn base(&self) -> &SchedulerBase;
    /// Calls `f` for every task that has a cell, including completed tasks with references left.
    fn each_task(&self, f: &mut dyn FnMut(TaskRef));
    fn workers(&self) -> Vec<WorkerSnapshot>;
    /// Returns the workers with the lengths of their queues. Counts the tasks of a current-thread
    /// scheduler one by one, because only its own thread can read the queue.
    fn workers_and_queues(&self) -> Vec<WorkerSnapshot> {
        self.workers()
    }
    /// Returns the cells of tasks that are polled by threads other than workers.
    fn running_off_workers(&self) -> Vec<usize> {
        self.base().running_locals()
    }
    /// Returns the number of tasks spawned so far.
    fn spawned(&self) -> u64;
    /// Calls `f` with spawn sites and their numbers of tasks. A site may occur several times.
    ///
    /// Tasks of a `LocalSet` count while the set exists.
    fn spawns_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, u64));
    /// Calls `f` with the poll times and waits of each spawn site. A site may occur several times.
    #[cfg(feature = "page")]
    fn times_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, Counts, Counts));
    /// Returns the trace buffers of all workers.
    fn recorders(&self) -> Vec<&TraceBuffer>;
    /// Returns the number of tasks in the injector.
    fn injected(&self) -> usize;
    /// Returns whether no thread is at work, and the injector is empty.
    fn is_quiet(&self) -> bool;

    /// Returns whether some thread runs the tasks of this scheduler, or can start to.
    fn is_driven(&self) -> bool {
        true
    }

    /// Returns the futures of all `block_on` calls of this scheduler.
    fn block_ons(&self) -> Vec<Arc<BlockOnState>> {
        self.base().block_ons()
    }
}

impl CurrentThread {
    /// Returns the `block_on` whose future the thread that runs the tasks polls, and the number of
    /// that poll.
    fn polled_block_on(&self) -> Option<WorkerActivity> {
        let thread = self.poll_watch().thread();
        let mut block_ons = self.base.block_ons().into_iter();
        block_ons.find(|block_on| block_on.thread == thread && block_on.record.is_polled()).map(
            |block_on| {
                WorkerActivity::PollingBlockOn(block_on.record.id, block_on.record.poll_number())
            },
        )
    }

    /// Returns the number of tasks in the queue. Counts ready tasks one by one, because only the thread
    /// that runs them can read the queue.
    fn count_queued(&self) -> usize {
        let running = self.poll_watch().running();
        let mut ready = 0;
        self.for_each_task(|task| {
            let state = task.state();
            let is_ready = state.has(RUNNING | NOTIFIED) && !state.has(COMPLETE | BLOCKING);
            ready += usize::from(is_ready && Some(task.cell()) != running);
        });
        ready.saturating_sub(CurrentThread::injected(self))
    }
}

/// The state of one worker at one time.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSnapshot {
    pub(crate) doing: WorkerActivity,
    /// Tasks that wait in its own queue.
    pub(crate) queued: usize,
    pub(crate) timers: usize,
    pub(crate) sources: usize,
    pub(crate) polls: u64,
    pub(crate) steals: u64,
    pub(crate) parks: u64,
    pub(crate) busy: Duration,
    /// Time in which it polled the future of a `block_on` and no task.
    pub(crate) in_block_on: Duration,
    pub(crate) poll_times: Counts,
    pub(crate) wake_to_poll: Counts,
}

/// The activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerActivity {
    /// The worker has no thread, or no thread is in `block_on`.
    NoThread,
    /// The worker has been parked since this time of the runtime's clock.
    Asleep(Duration),
    /// The worker searches for work, or is between two polls.
    Searching,
    /// The worker polls the task in the cell at this address, for this long if known.
    Polling(usize, Option<Duration>),
    /// The worker polls the future of the `block_on` with this id. The number identifies the poll.
    PollingBlockOn(u64, u32),
}

impl WorkerSnapshot {
    fn from_metrics(metrics: &WorkerMetrics, doing: WorkerActivity) -> Self {
        // The metrics count a poll only after its end.
        let lasts = match doing {
            WorkerActivity::Polling(_, Some(duration)) => duration,
            _ => Duration::ZERO,
        };
        Self {
            doing,
            queued: 0,
            timers: 0,
            sources: 0,
            polls: metrics.polls(),
            steals: metrics.steals(),
            parks: metrics.parks(),
            busy: metrics.busy() + lasts,
            in_block_on: metrics.in_block_on(),
            poll_times: metrics.poll_times.read(),
            wake_to_poll: metrics.wake_to_poll.read(),
        }
    }
}

impl Inspectable for MultiThread {
    fn base(&self) -> &SchedulerBase {
        &self.base
    }

    fn each_task(&self, f: &mut dyn FnMut(TaskRef)) {
        self.for_each_task(&mut *f);
        self.base.for_each_local(f);
    }

    fn workers(&self) -> Vec<WorkerSnapshot> {
        let now = self.base.config.env.clock.elapsed();
        let look = |index: usize| {
            let remote = &self.workers[index];
            let doing = match remote.poll_watch.current_poll() {
                _ if !self.has_thread(index) => WorkerActivity::NoThread,
                Some((cell, since)) => {
                    let duration = since.map(|since| now.saturating_sub(since));
                    WorkerActivity::Polling(cell.addr().get(), duration)
                }
                None => match remote.metrics.asleep_since() {
                    Some(since) => WorkerActivity::Asleep(since),
                    None => WorkerActivity::Searching,
                },
            };
            WorkerSnapshot {
                queued: remote.ring.len() as usize,
                timers: remote.timers.len(),
                sources: remote.poller.get().map_or(0, |poller| poller.source_count()),
                ..WorkerSnapshot::from_metrics(&remote.metrics, doing)
            }
        };
        (0..self.workers.len()).map(look).collect()
    }

    fn running_off_workers(&self) -> Vec<usize> {
        let mut cells = self.base.running_locals();
        cells.extend(self.in_place_polls.lock().iter());
        let spares = self.spares.all();
        cells.extend(
            spares.iter().filter_map(|spare| spare.running()).map(|cell| cell.addr().get()),
        );
        cells
    }

    fn spawned(&self) -> u64 {
        self.spawned_by_workers() + self.base.spawned_externally()
    }

    fn spawns_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, u64)) {
        MultiThread::spawns_by_site(self, f);
        self.base.spawns_by_site(f);
    }

    #[cfg(feature = "page")]
    fn times_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, Counts, Counts)) {
        self.workers.iter().for_each(|worker| worker.metrics.sites.read(f));
    }

    fn recorders(&self) -> Vec<&TraceBuffer> {
        self.workers.iter().map(|remote| &remote.trace).collect()
    }

    fn injected(&self) -> usize {
        self.injector.len()
    }

    fn is_quiet(&self) -> bool {
        // A worker counts as idle before `on_thread_park` has returned, and as asleep after that.
        let is_asleep = |(worker, shared): (usize, &WorkerShared)| {
            let is_lost = || shared.is_lost.load(Ordering::SeqCst);
            shared.metrics.asleep_since().is_some() || !self.has_thread(worker) || is_lost()
        };
        self.idle.all_asleep()
            && self.injector.is_empty()
            && self.workers.iter().enumerate().all(is_asleep)
    }
}

impl Inspectable for CurrentThread {
    fn base(&self) -> &SchedulerBase {
        &self.base
    }

    fn each_task(&self, f: &mut dyn FnMut(TaskRef)) {
        self.for_each_task(&mut *f);
        self.base.for_each_local(f);
    }

    fn workers(&self) -> Vec<WorkerSnapshot> {
        let now = self.base.config.env.clock.elapsed();
        let doing = match (self.metrics.asleep_since(), self.poll_watch().current_poll()) {
            _ if !self.is_held() => WorkerActivity::NoThread,
            (Some(since), _) => WorkerActivity::Asleep(since),
            (None, None) => self.polled_block_on().unwrap_or(WorkerActivity::Searching),
            (None, Some((cell, since))) => WorkerActivity::Polling(
                cell.addr().get(),
                since.map(|since| now.saturating_sub(since)),
            ),
        };
        vec![WorkerSnapshot {
            timers: self.timers.len(),
            sources: self.poller.get().map_or(0, |poller| poller.source_count()),
            ..WorkerSnapshot::from_metrics(&self.metrics, doing)
        }]
    }

    fn workers_and_queues(&self) -> Vec<WorkerSnapshot> {
        let queued = self.count_queued();
        self.workers().into_iter().map(|worker| WorkerSnapshot { queued, ..worker }).collect()
    }

    fn spawned(&self) -> u64 {
        self.spawned_by_workers() + self.base.spawned_externally()
    }

    fn spawns_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, u64)) {
        CurrentThread::spawns_by_site(self, f);
        self.base.spawns_by_site(f);
    }

    #[cfg(feature = "page")]
    fn times_by_site(&self, f: &mut dyn FnMut(&'static Location<'static>, Counts, Counts)) {
        self.metrics.sites.read(f);
    }

    fn recorders(&self) -> Vec<&TraceBuffer> {
        vec![&self.trace]
    }

    fn injected(&self) -> usize {
        CurrentThread::injected(self)
    }

    /// A thread in a `block_on` of the runtime takes the core as soon as no other thread holds it.
    fn is_driven(&self) -> bool {
        self.is_held() || self.block_ons().iter().any(|it| it.record.is_via_runtime())
    }

    fn is_quiet(&self) -> bool {
        let sleeps = !self.is_held() || self.metrics.asleep_since().is_some();
        sleeps && CurrentThread::injected(self) == 0
    }
}
