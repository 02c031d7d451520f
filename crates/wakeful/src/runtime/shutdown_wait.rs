//! The waits of a shutdown, and the reports of what it waits for.

use crate::inspect::{
    LateTask, LateThread, NeverPolled, Report, SHOWN_THREADS, SlowShutdown, TaskState,
    is_library_source, stack_text,
};
use crate::runtime::inner::RuntimeInner;
use crate::scheduler::multi_thread::MultiThread;
use crate::sys::backtrace::current_tid;
use crate::sys::thread_registry;
use std::time::{Duration, Instant};

/// No stack is captured if less time is left until the deadline: the first one may have to load the
/// symbols of the program.
const STACK_TIME: Duration = Duration::from_millis(500);

/// The waits of one shutdown.
pub(super) struct ShutdownWait<'a> {
    shared: &'a RuntimeInner,
    since: Instant,
    /// The shutdown waits no longer than this.
    deadline: Option<Instant>,
    /// When to report that it still waits. `None` after that, and if the shutdown ends before.
    report_at: Option<Instant>,
}

impl<'a> ShutdownWait<'a> {
    pub(super) fn new(shared: &'a RuntimeInner, deadline: Option<Instant>) -> Self {
        let since = Instant::now();
        let after = shared.config().report_lasting_after;
        let report_at = after.and_then(|after| since.checked_add(after));
        let report_at = report_at.filter(|at| deadline.is_none_or(|deadline| *at < deadline));
        Self { shared, since, deadline, report_at }
    }

    /// Waits for the threads of a scheduler that is closed.
    pub(super) fn for_threads(&mut self, scheduler: &MultiThread) {
        if self.report_at.is_some_and(|at| !scheduler.join_threads_until(at)) {
            self.report_late();
        }
        match self.deadline {
            None => scheduler.join_threads(),
            Some(deadline) => {
                scheduler.join_threads_until(deadline);
            }
        }
    }

    /// Waits for the threads of the blocking pool, which is closed.
    pub(super) fn for_pool(&mut self) {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        if self.report_at.is_some_and(|at| !self.shared.pool.join(Some(left(at)))) {
            self.report_late();
        }
        self.shared.pool.join(self.deadline.map(left));
    }

    /// Reports what the shutdown still waits for.
    fn report_late(&mut self) {
        self.report_at = None;
        let waited = self.since.elapsed();
        let (tasks, threads) = (late_tasks(self.shared), self.late_threads());
        let slow = SlowShutdown::new(waited, tasks, threads);
        self.shared.hooks.report(&Report::SlowShutdown(slow));
    }

    /// Returns the other threads of the runtime. Those that the text shows have their stacks, as far as
    /// there is time.
    fn late_threads(&self) -> Vec<LateThread> {
        let own = current_tid();
        let threads = thread_registry::threads_of(self.shared.config().address());
        let others = threads.into_iter().filter(|thread| *thread != own);
        let has_time = || {
            let left = |at: Instant| at.saturating_duration_since(Instant::now());
            self.deadline.is_none_or(|at| left(at) >= STACK_TIME)
        };
        let look = |(nth, id): (usize, i32)| {
            let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
            let name = name.unwrap_or_default().trim_end().to_owned();
            let stack = match nth < SHOWN_THREADS {
                true if has_time() => stack_text(id),
                true => vec!["not captured: the time limit of the shutdown is near".to_owned()],
                false => Vec::new(),
            };
            LateThread { id, name, stack }
        };
        others.enumerate().map(look).collect()
    }

    /// Reports tasks that were dropped before their first poll.
    ///
    /// Not in a test, where it is common, nor while the thread panics or after a fatal error, when
    /// the tasks are not what the program is about. Tasks that libraries spawn do not count: some do
    /// so in destructors, to clean up if the runtime lives on.
    pub(super) fn report_never_polled(&self) {
        let config = self.shared.config();
        let mut places: Vec<_> = self.shared.base().take_never_polled().into_iter().collect();
        places.retain(|(spawned_at, _)| !is_library_source(spawned_at.file()));
        let is_of_interest = config.report_lasting_after.is_some()
            && !config.always_end_stuck_block_on
            && !self.shared.is_for_test
            && !self.shared.base().has_fatal_error()
            && !std::thread::panicking();
        if is_of_interest && !places.is_empty() {
            self.shared.hooks.report(&Report::NeverPolled(NeverPolled::new(places)));
        }
    }
}

/// Returns the polls that run, and the closures that run or are queued.
fn late_tasks(shared: &RuntimeInner) -> Vec<LateTask> {
    let dump = crate::inspect::Dump::take(shared.inspectable(), None);
    let is_late = |state: TaskState, is_closure: bool| match state {
        TaskState::Running(_) => true,
        TaskState::Queued => is_closure,
        _ => false,
    };
    let tasks = dump.tasks().iter().filter(|task| task.id().is_some());
    let late = tasks.filter(|task| is_late(task.state(), task.is_closure()));
    late.map(|task| LateTask {
        task: task.info().clone(),
        is_closure: task.is_closure(),
        is_queued: task.state() == TaskState::Queued,
    })
    .collect()
}
