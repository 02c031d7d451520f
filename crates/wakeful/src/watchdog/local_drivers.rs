//! Watches threads in `block_on` that run only the tasks of `LocalSet`s.
//!
//! Such a thread does not belong to the scheduler: it is in `block_on` of a multi-thread runtime, or
//! uses a `Handle`. No other thread can run the local tasks. A poll that blocks the thread is reported
//! if local tasks wait meanwhile.

use super::observe::PollObservation;
use super::target::Observations;
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::hooks::{PolledEntity, PollingThread};
use crate::telemetry::poll_watch::PollWatch;

/// The watchdog's record of a thread that drives `LocalSet`s.
pub(crate) struct LocalDriver {
    thread: i32,
    watched: Box<PollWatch>,
    /// The local task that was polled at the last visit, and the number of that poll.
    local: Option<(u64, u32)>,
    /// Whether the poll has kept no other local task waiting, so that it is not reported. A task
    /// that the poll spawns later is seen at the next scan.
    is_alone: bool,
}

impl LocalDriver {
    fn new(thread: i32) -> Self {
        Self { thread, watched: Box::new(PollWatch::new()), local: None, is_alone: false }
    }

    /// Returns whether the thread is in a poll that may have to be reported.
    fn is_open(&self) -> bool {
        self.watched.running().is_some() && !self.watched.is_reported() && !self.is_alone
    }
}

impl Observations {
    /// Returns whether a thread that drives `LocalSet`s is in a poll that may have to be reported.
    pub(super) fn has_open_local_poll(&self) -> bool {
        self.local_drivers.iter().any(LocalDriver::is_open)
    }
}

/// Compares the threads that drive `LocalSet`s with the last visit. `own` is the thread on which the
/// scheduler runs its tasks, which is watched separately.
pub(super) fn observe(base: &SchedulerBase, observations: &mut Observations, own: Option<i32>) {
    if base.config.report_blocked_after.is_none() {
        return; // no poll will be reported
    }
    let threads = base.local_set_threads();
    let is_driver = |thread: i32| threads.contains(&thread) && own != Some(thread);
    observations.local_drivers.retain(|driver| is_driver(driver.thread));
    if !threads.iter().any(|thread| is_driver(*thread)) {
        return;
    }
    let now = base.config.env.clock.elapsed();
    let block_ons = base.block_ons();
    observations.local_drivers.retain(|it| block_ons.iter().any(|other| other.thread == it.thread));
    for block_on in block_ons {
        let thread = block_on.thread;
        if !is_driver(thread) {
            continue;
        }
        let drivers = &mut observations.local_drivers;
        let nth = drivers.iter().position(|driver| driver.thread == thread).unwrap_or_else(|| {
            drivers.push(LocalDriver::new(thread));
            drivers.len() - 1
        });
        let driver = &mut drivers[nth];
        let running = base.running_local(thread);
        let poll = running.as_ref().map(|task| (task.header().id.get(), task.header().polls()));
        let is_same_poll = std::mem::replace(&mut driver.local, poll) == poll;
        block_on.mirror_to(&driver.watched);
        let Some(stuck) = driver.watched.observe(now).filter(|stuck| !stuck.is_zero()) else {
            driver.is_alone = false;
            continue;
        };
        let task = running.filter(|_| is_same_poll);
        let (config, watched, role) = (&base.config, &*driver.watched, PollingThread::BlockOn);
        let observation = PollObservation { config, watched, role, stuck, now };
        if watched.is_reported() {
            continue;
        }
        driver.is_alone = !base.has_other_local(thread, task.as_ref());
        if !driver.is_alone && observation.claim_report(&mut observations.probe) {
            block_on.mirror_to(watched);
            if watched.is_in_observed_poll() {
                let subject = task.map_or(PolledEntity::BlockOnState(block_on), PolledEntity::Task);
                observation.report(subject);
            }
        }
    }
}
