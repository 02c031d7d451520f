//! Station 4, current-thread: the core, held by the thread that runs the tasks.
//!
//! Tasks enter when they are spawned, woken or have yielded, and leave to
//! [`run_loop`](super::run_loop) to be polled.

use crate::driver::clock::clock_ns::ClockNs;
use crate::scheduler::config::Config;
use crate::scheduler::thread_core::ThreadCore;
use crate::task::runnable::Runnable;
use crate::telemetry::poll_watch::PollWatch;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The core of a current-thread scheduler.
///
/// - CORE-2. Only the thread that has set `held` of the scheduler touches the core.
///
/// Progress is counted in *steps* of the run loop: each call of `next_task` is a step, whether it
/// finds a task or not.
pub(crate) struct CurrentCore {
    pub(crate) queue: RefCell<VecDeque<Runnable>>,
    pub(crate) thread: ThreadCore,
    /// Shows other threads the task in the current poll, and the number of steps. Written under
    /// CORE-2, read by any thread.
    pub(crate) poll_watch: PollWatch,
    /// The step at which the loop must do more than poll a task.
    pub(crate) due_step: Cell<u32>,
    /// The number of steps when the round started.
    pub(crate) round_start: Cell<u32>,
    /// The step that last took a task from the injector out of fairness.
    pub(crate) injector_step: Cell<u32>,
    /// The number of steps of this round that found no task.
    pub(crate) empty_steps: Cell<u32>,
    /// The number of tasks that yielded since the driver was last polled for them.
    pub(crate) yielded: Cell<usize>,
    /// The step that takes the last queued task which has not yielded.
    pub(crate) woken_until: Cell<u32>,
    /// The number of tasks that overtook others in this round. Their polls are added to the round's
    /// limit, because that limit is derived from the tasks that they overtook.
    pub(crate) overtaking_polls: Cell<u32>,
    /// When the round started. `None` until the first task is polled or the clock is read.
    pub(crate) round_started: Cell<Option<ClockNs>>,
    /// Whether the `block_on` future was polled in this round, so that the round's time includes
    /// more than tasks.
    pub(crate) block_on_polled: Cell<bool>,
    /// The last step before the marked task is taken, unless tasks overtake it.
    expected_step: Cell<u32>,
}

// SAFETY: CORE-2.
unsafe impl Send for CurrentCore {}
// SAFETY: CORE-2.
unsafe impl Sync for CurrentCore {}

impl CurrentCore {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            queue: RefCell::new(VecDeque::new()),
            thread: ThreadCore::new(config.env.rng(), config.observes_all()),
            poll_watch: PollWatch::new(),
            due_step: Cell::new(0),
            round_start: Cell::new(0),
            injector_step: Cell::new(0),
            empty_steps: Cell::new(0),
            yielded: Cell::new(0),
            woken_until: Cell::new(0),
            overtaking_polls: Cell::new(0),
            round_started: Cell::new(None),
            block_on_polled: Cell::new(false),
            expected_step: Cell::new(0),
        }
    }

    /// Returns the number of steps so far, wrapping.
    #[inline]
    pub(crate) fn steps(&self) -> u32 {
        self.poll_watch.activity()
    }

    /// Returns the number of polls in this round so far.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        self.steps().wrapping_sub(self.round_start.get()).wrapping_sub(self.empty_steps.get())
    }

    /// Returns the number of steps of this round, including steps for overtaking tasks.
    pub(crate) fn round_steps(&self) -> u32 {
        self.thread.round_limit.get() + self.overtaking_polls.get()
    }

    /// Returns whether the loop must do more than poll a task.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        // Negative before the due step.
        self.steps().wrapping_sub(self.due_step.get()) as i32 >= 0
    }

    /// Recomputes the step at which the loop must do more than poll a task.
    ///
    /// The due step is the current step if the next poll is timed. Otherwise it is the end of the
    /// round, or the poll of the marked task if that comes first. If other tasks overtook the
    /// marked one, every step from the expected one on is due.
    pub(crate) fn update_due_step(&self) {
        let now = self.steps();
        self.due_step.set(match self.thread.sample_weight.get() {
            0 => {
                let round_end = self.round_start.get().wrapping_add(self.round_steps());
                let until = |due: u32| due.wrapping_sub(now).cast_signed();
                let is_marked = self.thread.probe.is_marked();
                let expected = Some(self.expected_step.get()).filter(|_| is_marked);
                expected.filter(|expected| until(*expected) < until(round_end)).unwrap_or(round_end)
            }
            _ => now,
        });
    }

    /// Sets the expected step of the marked task: after `before` other tasks.
    pub(crate) fn expect_marked(&self, before: usize) {
        self.expected_step.set(self.steps().wrapping_add(before as u32));
        self.update_due_step();
    }

    /// Updates the estimate with a round of `polls` polls that took `spent_ns`, and sets the next
    /// round's limit.
    #[inline]
    pub(crate) fn learn(&self, polls: u32, spent_ns: u64, config: &Config) {
        let (limit, max) = (self.thread.round_limit.get(), config.event_interval);
        let mut estimator = self.thread.estimator.get();
        if let Some(limit) = estimator.learn_round(polls, spent_ns, limit, max) {
            self.thread.round_limit.set(limit);
            self.thread.estimator.set(estimator);
        }
    }

    /// Queues a task that was woken or spawned.
    #[inline]
    pub(crate) fn push_woken(&self, task: Runnable) {
        let mut queue = self.queue.borrow_mut();
        queue.push_back(task);
        self.woken_until.set(self.steps().wrapping_add(queue.len() as u32));
    }

    /// Returns whether tasks woken by the driver may overtake the queued tasks.
    ///
    /// They may if all queued tasks have yielded, and one of those has run since other tasks
    /// overtook.
    pub(crate) fn may_overtake_yielded(&self) -> bool {
        self.steps().wrapping_sub(self.woken_until.get()).cast_signed() > 0
    }

    /// Moves the first `count` tasks of the queue behind the others.
    pub(crate) fn requeue_first(&self, count: usize) {
        let mut queue = self.queue.borrow_mut();
        queue.rotate_left(count);
        let overtaking_polls = (queue.len() - count) as u32;
        self.woken_until.set(self.steps().wrapping_add(overtaking_polls));
        self.overtaking_polls.set(self.overtaking_polls.get() + overtaking_polls);
        // The marked task may be one of the overtaking tasks.
        self.expect_marked(0);
    }
}
