//! Watches a current-thread runtime: blocked polls and spinning tasks.
//!
//! No other thread can run the tasks while the runtime's thread is stuck, so the watchdog only
//! reports. The future of `block_on` is watched like a task while there are tasks that it could keep
//! waiting.

use super::observe::PollObservation;
use super::spin_detector::PollSample;
use super::target::{Observations, Served, Watched};
use super::{MAX_TICK, local_drivers};
use crate::scheduler::base::SchedulerBase;
use crate::scheduler::current_thread::CurrentThread;
use crate::scheduler::hooks::{PolledEntity, PollingThread};
use crate::sys::park::Parker;
use crate::task::arena;
use crate::telemetry::poll_watch::PollWatch;
use std::time::Duration;

/// How often a poll is observed before it is reported, unless [`MIN_TICK`] is too long for that.
const OBSERVATIONS: u32 = 4;
/// The shortest time between two visits. No task waits for a rescue here, and on one core each visit
/// preempts the runtime's thread.
const MIN_TICK: Duration = Duration::from_millis(5);

impl Watched for CurrentThread {
    fn base(&self) -> &SchedulerBase {
        &self.base
    }

    fn is_idle(&self) -> bool {
        !self.is_awake()
    }

    fn are_all_parked(&self) -> bool {
        CurrentThread::are_all_parked(self)
    }

    fn activity(&self) -> u64 {
        // A `block_on` may poll tasks and end without a park.
        self.metrics.sleep_transitions().wrapping_add(u64::from(self.poll_watch().activity()))
    }

    fn observe(&self, observations: &mut Observations) -> Duration {
        let config = &self.base.config;
        // A paused clock does not measure how long a poll lasts.
        let is_paused = config.env.clock.is_paused();
        // A thread that sleeps at this moment may have worked since the last visit.
        if !is_paused && (self.is_awake() || self.poll_watch().has_moved()) {
            let now = config.env.clock.elapsed();
            observe_tasks(self, observations, now);
            observe_block_on(self, observations, now);
        }
        if !is_paused {
            // A thread may drive a `LocalSet` in a `block_on` that runs no other tasks.
            local_drivers::observe(&self.base, observations, Some(self.poll_watch().thread()));
        }
        tick(config.report_blocked_after)
    }

    fn serve_lost_workers(&self) -> Option<Duration> {
        None
    }

    fn unserved_pollers(&self) -> usize {
        0
    }

    fn wait_in_poller(&self, parker: &Parker, limit: Option<Duration>) -> Served {
        parker.park(limit);
        Served::default()
    }

    fn propagate_fatal_error(&self) {}
}

fn observe_tasks(scheduler: &CurrentThread, observations: &mut Observations, now: Duration) {
    let (config, watched) = (&scheduler.base.config, scheduler.poll_watch());
    let since = now.saturating_sub(std::mem::replace(&mut observations.at, now));
    let Some(stuck) = watched.observe(now) else { return };
    let role = PollingThread::OnlyWorker;
    let observation = PollObservation { config, watched, role, stuck, now };
    let Observations { spin_detector, probe, .. } = observations;
    if let Some(task) = observation.observe(spin_detector, probe) {
        // SAFETY: a cell of this scheduler, which the visit keeps alive.
        unsafe { arena::add_poll_time(task.cell(), task.header().id.get(), since.min(stuck)) };
        scheduler.metrics.poll_times.raise_max(stuck);
    }
}

/// Reports a `block_on` future that keeps tasks waiting, because its poll blocks or it spins.
///
/// If a local task is polled inside the future, reports that task.
fn observe_block_on(scheduler: &CurrentThread, observations: &mut Observations, now: Duration) {
    let config = &scheduler.base.config;
    let watched = observations.block_on.get_or_insert_with(|| Box::new(PollWatch::new()));
    let thread = scheduler.poll_watch().thread();
    // Of several threads in `block_on`, one runs the tasks.
    let block_ons = scheduler.base.block_ons();
    let Some(block_on) = block_ons.into_iter().find(|block_on| block_on.thread == thread) else {
        return;
    };
    let local = scheduler.base.running_local(thread);
    let poll = local.as_ref().map(|task| (task.header().id.get(), task.header().polls()));
    let is_same_poll = std::mem::replace(&mut observations.local, poll) == poll;
    block_on.mirror_to(watched);
    let stuck = watched.observe(now);
    if let Some(spin) = observations.spin_detector.add(&PollSample::of_block_on(&block_on), now) {
        if scheduler.has_tasks() {
            config.hooks.spinning(&PolledEntity::BlockOnState(block_on), spin.polls, spin.within);
        }
        return;
    }
    let Some(stuck) = stuck else { return };
    let role = PollingThread::OnlyWorker;
    let observation = PollObservation { config, watched, role, stuck, now };
    if !watched.is_reported()
        && scheduler.has_tasks()
        && observation.claim_report(&mut observations.probe)
    {
        block_on.mirror_to(watched);
        if watched.is_in_observed_poll() {
            let task = local.filter(|_| is_same_poll);
            observation
                .report(task.map_or(PolledEntity::BlockOnState(block_on), PolledEntity::Task));
        }
    }
}

/// Returns the interval between visits of a scheduler whose polls are reported after this time.
fn tick(report_after: Option<Duration>) -> Duration {
    report_after.map_or(MAX_TICK, |after| (after / OBSERVATIONS).clamp(MIN_TICK, MAX_TICK))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::tick;
    use std::time::Duration;

    #[test]
    fn a_runtime_that_reports_early_is_visited_more_often() {
        let ticks = [1, 40, 100, 1000].map(|ms| tick(Some(Duration::from_millis(ms))).as_millis());
        assert_eq!((ticks, tick(None).as_millis()), ([5, 10, 25, 25], 25));
    }
}
