//! What the rooms that ask why see of a scheduler: its tasks, its workers and what
//! they do, as plain data. Taken by any thread, without stopping anything.

use crate::scheduler::base::SchedulerBase;
use crate::scheduler::block_on::BlockOnState;
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::multi_thread::MultiThread;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, NOTIFIED, RUNNING};
use crate::telemetry::histogram::Counts;
use crate::telemetry::trace_buffer::TraceBuffer;
use crate::telemetry::worker_metrics::WorkerMetrics;
use std::sync::Arc;
use std::time::Duration;

/// A scheduler, to be looked at.
pub(crate) trait Inspectable {
    fn estate(&self) -> &SchedulerBase;
    /// Every task that has a cell, also those that are done and still referred to.
    fn each_task(&self, f: &mut dyn FnMut(TaskRef));
    fn workers(&self) -> Vec<WorkerSnapshot>;
    /// The same; those whose queues nobody else can look at have their tasks counted one by
    /// one.
    fn workers_and_queues(&self) -> Vec<WorkerSnapshot> {
        self.workers()
    }
    /// The cells of tasks that are polled by others than workers.
    fn running_elsewhere(&self) -> Vec<usize> {
        self.estate().running_locals()
    }
    /// How many tasks were ever spawned.
    fn spawned(&self) -> u64;
    /// What the workers' recorders have noted.
    fn recorders(&self) -> Vec<&TraceBuffer>;
    /// Tasks in the queue that all workers share.
    fn injected(&self) -> usize;
    /// Nobody is at work, and nothing waits to be done.
    fn is_quiet(&self) -> bool;

    /// The futures of `block_on`.
    fn roots(&self) -> Vec<Arc<BlockOnState>> {
        self.estate().roots()
    }
}

impl CurrentThread {
    /// The future of `block_on` that the thread polls which runs the tasks.
    fn polled_root(&self) -> Option<u64> {
        let thread = self.watched().thread();
        let mut roots = self.estate.roots().into_iter();
        roots.find(|root| root.thread == thread && root.note.is_polled()).map(|root| root.note.id)
    }

    /// Tasks in the queue of the thread that runs them. Nobody else can look at that, so
    /// they are counted one by one.
    fn count_queued(&self) -> usize {
        let running = self.watched().running();
        let mut ready = 0;
        self.for_each_task(|task| {
            let state = task.state();
            let is_ready = state.has(RUNNING | NOTIFIED) && !state.has(COMPLETE | BLOCKING);
            ready += usize::from(is_ready && Some(task.cell()) != running);
        });
        ready.saturating_sub(CurrentThread::injected(self))
    }
}

/// One worker, at one moment.
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
    pub(crate) poll_times: Counts,
    pub(crate) wake_to_poll: Counts,
}

/// What a worker does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkerActivity {
    /// No thread was started for it yet, or nobody is in `block_on`.
    Nothing,
    /// Since the given moment of the runtime's clock.
    Sleeps(Duration),
    /// It looks for work, or is between two polls.
    Inspectable,
    /// It polls the task in the cell at this address; for that long, if that is known.
    Polls(usize, Option<Duration>),
    /// It polls the future of `block_on` of this number.
    PollsRoot(u64),
}

impl WorkerSnapshot {
    fn of_meter(meter: &WorkerMetrics, doing: WorkerActivity) -> Self {
        // A poll that lasts is not counted before it ends.
        let lasts = match doing {
            WorkerActivity::Polls(_, Some(duration)) => duration,
            _ => Duration::ZERO,
        };
        Self {
            doing,
            queued: 0,
            timers: 0,
            sources: 0,
            polls: meter.polls(),
            steals: meter.steals(),
            parks: meter.parks(),
            busy: meter.busy() + lasts,
            poll_times: meter.poll_times.read(),
            wake_to_poll: meter.wake_to_poll.read(),
        }
    }
}

impl Inspectable for MultiThread {
    fn estate(&self) -> &SchedulerBase {
        &self.estate
    }

    fn each_task(&self, f: &mut dyn FnMut(TaskRef)) {
        self.for_each_task(&mut *f);
        self.estate.for_each_local(f);
    }

    fn workers(&self) -> Vec<WorkerSnapshot> {
        let now = self.estate.config.seam.clock.elapsed();
        let look = |index: usize| {
            let remote = &self.remotes[index];
            let doing = match remote.watched.polls() {
                _ if !self.has_thread(index) => WorkerActivity::Nothing,
                Some((cell, since)) => {
                    let duration = since.map(|since| now.saturating_sub(since));
                    WorkerActivity::Polls(cell.addr().get(), duration)
                }
                None => match remote.meter.asleep_since() {
                    Some(since) => WorkerActivity::Sleeps(since),
                    None => WorkerActivity::Inspectable,
                },
            };
            WorkerSnapshot {
                queued: remote.ring.len() as usize,
                timers: remote.timers.len(),
                sources: remote.poller.get().map_or(0, |poller| poller.source_count()),
                ..WorkerSnapshot::of_meter(&remote.meter, doing)
            }
        };
        (0..self.remotes.len()).map(look).collect()
    }

    fn running_elsewhere(&self) -> Vec<usize> {
        let mut cells = self.estate.running_locals();
        cells.extend(self.in_place.lock().iter());
        let spares = self.spares.all();
        cells.extend(
            spares.iter().filter_map(|spare| spare.running()).map(|cell| cell.addr().get()),
        );
        cells
    }

    fn spawned(&self) -> u64 {
        self.spawned_here() + self.estate.spawned_outside()
    }

    fn recorders(&self) -> Vec<&TraceBuffer> {
        self.remotes.iter().map(|remote| &remote.recorder).collect()
    }

    fn injected(&self) -> usize {
        self.injector.len()
    }

    fn is_quiet(&self) -> bool {
        self.idle.all_asleep() && self.injector.is_empty()
    }
}

impl Inspectable for CurrentThread {
    fn estate(&self) -> &SchedulerBase {
        &self.estate
    }

    fn each_task(&self, f: &mut dyn FnMut(TaskRef)) {
        self.for_each_task(&mut *f);
        self.estate.for_each_local(f);
    }

    fn workers(&self) -> Vec<WorkerSnapshot> {
        let now = self.estate.config.seam.clock.elapsed();
        let doing = match (self.meter.asleep_since(), self.watched().polls()) {
            _ if !self.is_held() => WorkerActivity::Nothing,
            (Some(since), _) => WorkerActivity::Sleeps(since),
            (None, None) => {
                self.polled_root().map_or(WorkerActivity::Inspectable, WorkerActivity::PollsRoot)
            }
            (None, Some((cell, since))) => WorkerActivity::Polls(
                cell.addr().get(),
                since.map(|since| now.saturating_sub(since)),
            ),
        };
        vec![WorkerSnapshot {
            timers: self.timers.len(),
            sources: self.poller.get().map_or(0, |poller| poller.source_count()),
            ..WorkerSnapshot::of_meter(&self.meter, doing)
        }]
    }

    fn workers_and_queues(&self) -> Vec<WorkerSnapshot> {
        let queued = self.count_queued();
        self.workers().into_iter().map(|worker| WorkerSnapshot { queued, ..worker }).collect()
    }

    fn spawned(&self) -> u64 {
        self.spawned_here() + self.estate.spawned_outside()
    }

    fn recorders(&self) -> Vec<&TraceBuffer> {
        vec![&self.recorder]
    }

    fn injected(&self) -> usize {
        CurrentThread::injected(self)
    }

    fn is_quiet(&self) -> bool {
        let sleeps = !self.is_held() || self.meter.asleep_since().is_some();
        sleeps && CurrentThread::injected(self) == 0
    }
}
