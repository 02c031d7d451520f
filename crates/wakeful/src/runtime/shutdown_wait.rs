//! The waits of a shutdown, and the reports of what it waits for.

use crate::inspect::{
    LateTask, LateThread, NeverPolled, Report, SHOWN_THREADS, SlowShutdown, TaskState,
    is_library_source, stack_text,
};
use crate::runtime::inner::RuntimeInner;
use crate::scheduler::multi_thread::MultiThread;
use crate::sys::backtrace::current_tid;
use crate::sys::real_time;
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
        let since = real_time::now();
        let after = shared.config().report_lasting_after;
        let report_at = after.and_then(|after| since.checked_add(after));
        let report_at = report_at.filter(|at| deadline.is_none_or(|deadline| *at < deadline));
        Self { shared, since, deadline, report_at }
    }

    /// Waits for the threads of a scheduler that is closed.
    pub(super) fn for_threads(&mut self, scheduler: &MultiThread) {
        if let Some(at) = self.report_at {
            if scheduler.join_threads_until(at) {
                return;
            }
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
        if let Some(at) = self.report_at {
            if self.shared.pool.join_until(Some(at)) {
                return;
            }
            self.report_late();
        }
        self.shared.pool.join_until(self.deadline);
    }

    /// Reports what the shutdown still waits for.
    fn report_late(&mut self) {
        self.report_at = None;
        let waited = real_time::now().saturating_duration_since(self.since);
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
            let left = |at: Instant| at.saturating_duration_since(real_time::now());
            self.deadline.is_none_or(|at| left(at) >= STACK_TIME)
        };
        let late_thread = |(nth, id): (usize, i32)| {
            let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
            let name = name.unwrap_or_default().trim_end().to_owned();
            let stack = match nth < SHOWN_THREADS {
                true if has_time() => stack_text(id),
                true => vec!["not captured: the time limit of the shutdown is near".to_owned()],
                false => Vec::new(),
            };
            LateThread { id, name, stack }
        };
        others.enumerate().map(late_thread).collect()
    }

    /// Reports tasks that were dropped before their first poll.
    ///
    /// Does nothing in a test, where such tasks are common. Does nothing while the thread panics or
    /// after a fatal error, which explain the tasks. Tasks that libraries spawn do not count: some
    /// spawn them in destructors, to clean up if the runtime lives on.
    pub(super) fn report_never_polled(&self) {
        let sites = self.shared.base().take_never_polled();
        if sites.is_empty() {
            return;
        }
        let config = self.shared.config();
        let mut sites: Vec<_> = sites.into_iter().collect();
        sites.retain(|(spawned_at, _)| !is_library_source(spawned_at.file()));
        let is_of_interest = config.report_lasting_after.is_some()
            && !config.always_end_stuck_block_on
            && !self.shared.is_for_test
            && !self.shared.base().has_fatal_error()
            && !std::thread::panicking();
        if is_of_interest && !sites.is_empty() {
            self.shared.hooks.report(&Report::NeverPolled(NeverPolled::new(sites)));
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
