//! One observation of a polling thread: reports polls that block and tasks that spin.

use crate::scheduler::config::Config;
use crate::scheduler::hooks::{BlockedPoll, PolledEntity, PollingThread};
use crate::task::runnable::TaskRef;
use crate::telemetry::poll_watch::PollWatch;
use crate::telemetry::starvation::SystemProbe;
use crate::watchdog::spin_detector::{PollSample, SpinDetector};
use std::time::Duration;

/// A polling thread, as observed by one visit.
pub(crate) struct PollObservation<'a> {
    pub(crate) config: &'a Config,
    pub(crate) watched: &'a PollWatch,
    pub(crate) role: PollingThread,
    /// How long the thread was observed in this poll; zero at the first observation.
    pub(crate) stuck: Duration,
    pub(crate) now: Duration,
}

impl PollObservation<'_> {
    /// Reports a poll that blocks, or a task that spins.
    ///
    /// Returns the task if the thread is still in the poll of the last visit.
    pub(crate) fn observe(
        &self,
        spin_detector: &mut SpinDetector,
        probe: &mut SystemProbe,
    ) -> Option<TaskRef> {
        let task = TaskRef::try_from_cell(self.watched.running()?)?;
        if self.stuck.is_zero() {
            let sample = PollSample::of_task(&task, self.watched.thread());
            if let Some(spin) = spin_detector.add(&sample, self.now) {
                let subject = PolledEntity::Task(task);
                self.config.hooks.spinning(&subject, spin.polls, spin.within);
            }
            return None;
        }
        // The poll is the same, so it is a poll of this task.
        if self.claim_report(probe) {
            self.report(PolledEntity::Task(task.clone()));
        }
        Some(task)
    }

    /// Returns true once per poll that has blocked for too long.
    pub(crate) fn claim_report(&self, probe: &mut SystemProbe) -> bool {
        let after = self.config.report_blocked_after;
        after.is_some_and(|after| self.watched.claim_report(self.stuck, after, probe))
    }

    pub(crate) fn report(&self, subject: PolledEntity) {
        self.config.hooks.blocked(&BlockedPoll {
            subject,
            role: self.role,
            duration: self.stuck,
            thread: self.watched.thread(),
        });
    }
}
