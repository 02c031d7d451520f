//! Station 4, current-thread: what the thread works with that runs the tasks. They come
//! in woken, spawned or given way (`current`), and leave there to be polled.

use crate::driver::clock::clock_ns::ClockNs;
use crate::scheduler::config::Config;
use crate::scheduler::current_thread::quiet::Quiet;
use crate::scheduler::poll_estimator::PollEstimator;
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::sys::rng::Rng;
use crate::task::arena::Allocator;
use crate::task::runnable::Runnable;
use crate::telemetry::latency_probe::{LatencyProbe, Sampling};
use crate::telemetry::poll_watch::PollWatch;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// - W2. The core is touched only by the thread that set `held` of its scheduler.
pub(crate) struct CurrentCore {
    pub(crate) queue: RefCell<VecDeque<Runnable>>,
    pub(crate) allocator: Cell<Option<Allocator>>,
    pub(crate) rng: Cell<Rng>,
    /// What others see: which task is polled, and the tick, which goes on with each look
    /// for a task, wrapping. Written under W2, read by anybody.
    pub(crate) watched: PollWatch,
    /// The tick with which something is to be done besides a poll.
    pub(crate) due_tick: Cell<u32>,
    pub(crate) turn_tick: Cell<u32>,
    /// The tick with which the injector was last looked at in its turn.
    pub(crate) injector_tick: Cell<u32>,
    /// Ticks of this turn with which there was no task to poll.
    pub(crate) vain: Cell<u32>,
    pub(crate) pace: Cell<PollEstimator>,
    /// Polls in a turn.
    pub(crate) turn_polls: Cell<u32>,
    /// Tasks that gave way since the poller was last looked at for them.
    pub(crate) gave_way: Cell<usize>,
    /// The tick at which the last task of the queue will have been taken that has not
    /// given way.
    pub(crate) woken_until: Cell<u32>,
    /// Tasks that went before others in this turn. They come on top of it: the turn's
    /// length is that of those who keep them waiting.
    pub(crate) overtook: Cell<u32>,
    /// When the turn started, once somebody had to ask.
    pub(crate) turn_started: Cell<Option<ClockNs>>,
    pub(crate) spinner: Cell<AdaptiveSpin>,
    /// If not 0, the next poll is timed, and stands for so many.
    pub(crate) weight: Cell<u32>,
    /// What the timed poll of this turn took, if it was long.
    pub(crate) timed_ns: Cell<u64>,
    /// The root future was polled in this turn, which so was not the tasks' alone.
    pub(crate) root_polled: Cell<bool>,
    pub(crate) quiet: Quiet,
    pub(crate) probe: LatencyProbe,
    /// The tick before that with which the marked task is taken, if none overtakes it.
    expected_tick: Cell<u32>,
    pub(crate) sampling: Sampling,
}

// SAFETY: W2.
unsafe impl Send for CurrentCore {}
// SAFETY: W2.
unsafe impl Sync for CurrentCore {}

impl CurrentCore {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            queue: RefCell::new(VecDeque::new()),
            allocator: Cell::new(None),
            rng: Cell::new(rng),
            watched: PollWatch::new(),
            due_tick: Cell::new(0),
            turn_tick: Cell::new(0),
            injector_tick: Cell::new(0),
            vain: Cell::new(0),
            pace: Cell::new(PollEstimator::new()),
            turn_polls: Cell::new(1),
            gave_way: Cell::new(0),
            woken_until: Cell::new(0),
            overtook: Cell::new(0),
            turn_started: Cell::new(None),
            spinner: Cell::new(AdaptiveSpin::new()),
            weight: Cell::new(0),
            timed_ns: Cell::new(0),
            root_polled: Cell::new(false),
            quiet: Quiet::new(),
            probe: LatencyProbe::new(),
            expected_tick: Cell::new(0),
            sampling: Sampling::new(),
        }
    }

    /// Polls and looks for a task so far, wrapping.
    #[inline]
    pub(crate) fn tick(&self) -> u32 {
        self.watched.activity()
    }

    /// Polls of this turn so far.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        self.tick().wrapping_sub(self.turn_tick.get()).wrapping_sub(self.vain.get())
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        // Negative: it is still to come.
        self.tick().wrapping_sub(self.due_tick.get()) as i32 >= 0
    }

    /// Says anew what is due when: a poll that is to be timed at once, the end of the turn,
    /// or before that the poll of the marked task. One that others overtook is looked for
    /// with every poll from there on.
    pub(crate) fn plan(&self) {
        let tick = self.tick();
        self.due_tick.set(match self.weight.get() {
            0 => {
                let polls = self.turn_polls.get() + self.overtook.get();
                let turn_end = self.turn_tick.get().wrapping_add(polls);
                let until = |due: u32| due.wrapping_sub(tick).cast_signed();
                let expected = Some(self.expected_tick.get()).filter(|_| self.probe.is_marked());
                expected.filter(|expected| until(*expected) < until(turn_end)).unwrap_or(turn_end)
            }
            _ => tick,
        });
    }

    /// The marked task has so many before it.
    pub(crate) fn expect(&self, before: usize) {
        self.expected_tick.set(self.tick().wrapping_add(before as u32));
        self.plan();
    }

    /// A turn of so many polls took so long: says how many the next has.
    #[inline]
    pub(crate) fn learn(&self, polls: u32, spent_ns: u64, config: &Config) {
        let (turn, at_most) = (self.turn_polls.get(), config.turn_interval);
        let mut pace = self.pace.get();
        if let Some(turn) = pace.learn_turn(polls, spent_ns, turn, at_most) {
            self.turn_polls.set(turn);
            self.pace.set(pace);
        }
    }

    #[inline]
    pub(crate) fn push_woken(&self, task: Runnable) {
        let mut queue = self.queue.borrow_mut();
        queue.push_back(task);
        self.woken_until.set(self.tick().wrapping_add(queue.len() as u32));
    }

    /// Whether all tasks in the queue have given way, and one of them has run since
    /// others did.
    pub(crate) fn may_others_go_first(&self) -> bool {
        self.tick().wrapping_sub(self.woken_until.get()).cast_signed() > 0
    }

    /// Puts the first tasks of the queue, so many, behind the others.
    pub(crate) fn put_back(&self, count: usize) {
        let mut queue = self.queue.borrow_mut();
        queue.rotate_left(count);
        let first = (queue.len() - count) as u32;
        self.woken_until.set(self.tick().wrapping_add(first));
        self.overtook.set(self.overtook.get() + first);
        // The marked task may be one of those who went before others.
        self.expect(0);
    }
}
