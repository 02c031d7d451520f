//! What the rooms that ask why see of a scheduler: its tasks, its workers and what
//! they do, as plain data. Taken by any thread, without stopping anything.

use super::current::CurrentThread;
use super::estate::Estate;
use super::histogram::Counts;
use super::meter::Meter;
use super::multi::MultiThread;
use super::recorder::Recorder;
use super::root::Root;
use crate::task::runnable::TaskRef;
use crate::task::state::{BLOCKING, COMPLETE, NOTIFIED, RUNNING};
use std::sync::Arc;
use std::time::Duration;

/// A scheduler, to be looked at.
pub(crate) trait Looks {
    fn estate(&self) -> &Estate;
    /// Every task that has a cell, also those that are done and still referred to.
    fn each_task(&self, f: &mut dyn FnMut(TaskRef));
    fn workers(&self) -> Vec<WorkerLook>;
    /// The same; those whose queues nobody else can look at have their tasks counted one by
    /// one.
    fn workers_and_queues(&self) -> Vec<WorkerLook> {
        self.workers()
    }
    /// The cells of tasks that are polled by others than workers.
    fn running_elsewhere(&self) -> Vec<usize> {
        self.estate().running_locals()
    }
    /// How many tasks were ever spawned.
    fn spawned(&self) -> u64;
    /// What the workers' recorders have noted.
    fn recorders(&self) -> Vec<&Recorder>;
    /// Tasks in the queue that all workers share.
    fn injected(&self) -> usize;
    /// Nobody is at work, and nothing waits to be done.
    fn is_quiet(&self) -> bool;

    /// The futures of `block_on`.
    fn roots(&self) -> Vec<Arc<Root>> {
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
pub(crate) struct WorkerLook {
    pub(crate) doing: Doing,
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
pub(crate) enum Doing {
    /// No thread was started for it yet, or nobody is in `block_on`.
    Nothing,
    /// Since the given moment of the runtime's clock.
    Sleeps(Duration),
    /// It looks for work, or is between two polls.
    Looks,
    /// It polls the task in the cell at this address; for that long, if that is known.
    Polls(usize, Option<Duration>),
    /// It polls the future of `block_on` of this number.
    PollsRoot(u64),
}

impl WorkerLook {
    fn of_meter(meter: &Meter, doing: Doing) -> Self {
        // A poll that lasts is not counted before it ends.
        let lasts = match doing {
            Doing::Polls(_, Some(how_long)) => how_long,
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

impl Looks for MultiThread {
    fn estate(&self) -> &Estate {
        &self.estate
    }

    fn each_task(&self, f: &mut dyn FnMut(TaskRef)) {
        self.for_each_task(&mut *f);
        self.estate.for_each_local(f);
    }

    fn workers(&self) -> Vec<WorkerLook> {
        let now = self.estate.config.seam.clock.elapsed();
        let look = |index: usize| {
            let remote = &self.remotes[index];
            let doing = match remote.watched.polls() {
                _ if !self.has_thread(index) => Doing::Nothing,
                Some((cell, since)) => {
                    let how_long = since.map(|since| now.saturating_sub(since));
                    Doing::Polls(cell.addr().get(), how_long)
                }
                None => match remote.meter.asleep_since() {
                    Some(since) => Doing::Sleeps(since),
                    None => Doing::Looks,
                },
            };
            WorkerLook {
                queued: remote.ring.len() as usize,
                timers: remote.timers.len(),
                sources: remote.poller.get().map_or(0, |poller| poller.sources()),
                ..WorkerLook::of_meter(&remote.meter, doing)
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

    fn recorders(&self) -> Vec<&Recorder> {
        self.remotes.iter().map(|remote| &remote.recorder).collect()
    }

    fn injected(&self) -> usize {
        self.injector.len()
    }

    fn is_quiet(&self) -> bool {
        self.idle.all_asleep() && self.injector.is_empty()
    }
}

impl Looks for CurrentThread {
    fn estate(&self) -> &Estate {
        &self.estate
    }

    fn each_task(&self, f: &mut dyn FnMut(TaskRef)) {
        self.for_each_task(&mut *f);
        self.estate.for_each_local(f);
    }

    fn workers(&self) -> Vec<WorkerLook> {
        let now = self.estate.config.seam.clock.elapsed();
        let doing = match (self.meter.asleep_since(), self.watched().polls()) {
            _ if !self.is_held() => Doing::Nothing,
            (Some(since), _) => Doing::Sleeps(since),
            (None, None) => self.polled_root().map_or(Doing::Looks, Doing::PollsRoot),
            (None, Some((cell, since))) => {
                Doing::Polls(cell.addr().get(), since.map(|since| now.saturating_sub(since)))
            }
        };
        vec![WorkerLook {
            timers: self.timers.len(),
            sources: self.poller.get().map_or(0, |poller| poller.sources()),
            ..WorkerLook::of_meter(&self.meter, doing)
        }]
    }

    fn workers_and_queues(&self) -> Vec<WorkerLook> {
        let queued = self.count_queued();
        self.workers().into_iter().map(|worker| WorkerLook { queued, ..worker }).collect()
    }

    fn spawned(&self) -> u64 {
        self.spawned_here() + self.estate.spawned_outside()
    }

    fn recorders(&self) -> Vec<&Recorder> {
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
