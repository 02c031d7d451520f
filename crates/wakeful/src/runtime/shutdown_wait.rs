//! The waits of a shutdown, and the reports about them.

use crate::inspect::{
    LateTask, LateThread, MAX_LISTED_THREADS, NeverPolled, Report, SlowShutdown, TaskState,
    WaitDump, is_library_source, stack_text,
};
use crate::runtime::inner::RuntimeInner;
use crate::scheduler::multi_thread::MultiThread;
use crate::sys::backtrace::current_tid;
use crate::sys::real_time;
use crate::sys::{system_call, thread_registry};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time before the deadline that capturing stacks requires: the first capture may have to load
/// the program's symbols.
const STACK_TIME: Duration = Duration::from_millis(500);

/// The action of a shutdown that reaches its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtLimit {
    /// None: the shutdown is not meant to wait, or its caller reports what is wrong.
    Ignore,
    /// Describe what is still alive.
    Describe,
}

/// The state of one shutdown's waits.
pub(super) struct ShutdownWait<'a> {
    shared: &'a RuntimeInner,
    since: Instant,
    limit: Option<Duration>,
    /// The time limit of the whole shutdown.
    deadline: Option<Instant>,
    /// When to report that the shutdown still waits. `None` after that, or if the deadline is earlier.
    report_at: Option<Instant>,
    /// When to capture the stacks for a shutdown that reaches its limit. `None` after the capture.
    capture_at: Option<Instant>,
    /// The captured stacks of threads that were late.
    stacks: BTreeMap<i32, Vec<String>>,
    is_incomplete: bool,
}

impl<'a> ShutdownWait<'a> {
    /// Starts a shutdown. A limit that overflows the clock is treated as no limit.
    pub(super) fn new(
        shared: &'a RuntimeInner,
        limit: Option<Duration>,
        at_limit: AtLimit,
    ) -> Self {
        let since = real_time::now();
        let deadline = limit.and_then(|limit| since.checked_add(limit));
        let after = shared.config().report_lasting_after;
        let report_at = after.and_then(|after| since.checked_add(after));
        let report_at = report_at.filter(|at| deadline.is_none_or(|deadline| *at < deadline));
        let capture_at = match at_limit {
            AtLimit::Ignore => None,
            // The capture uses at most half of the time.
            AtLimit::Describe => deadline
                .filter(|deadline| *deadline - since >= 2 * STACK_TIME)
                .and_then(|deadline| deadline.checked_sub(STACK_TIME)),
        };
        let (stacks, is_incomplete) = (BTreeMap::new(), false);
        Self { shared, since, limit, deadline, report_at, capture_at, stacks, is_incomplete }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Waits for the threads of a closed scheduler.
    pub(super) fn for_threads(&mut self, scheduler: &MultiThread) {
        self.wait(|deadline| match deadline {
            None => {
                scheduler.join_threads();
                true
            }
            Some(deadline) => scheduler.join_threads_until(deadline),
        });
    }

    /// Waits for the threads of the closed blocking pool.
    pub(super) fn for_pool(&mut self) {
        let shared = self.shared;
        self.wait(|deadline| shared.pool.join_until(deadline));
    }

    /// Waits until `join` returns true; `join` waits until its deadline, if any.
    fn wait(&mut self, join: impl Fn(Option<Instant>) -> bool) {
        while let Some(at) = self.report_at.into_iter().chain(self.capture_at).min() {
            if join(Some(at)) {
                return;
            }
            if self.capture_at == Some(at) {
                self.capture_at = None;
                self.capture_stacks();
            } else {
                self.report_at = None;
                let slow = self.describe(false);
                self.shared.hooks.report(&Arc::new(Report::SlowShutdown(slow)));
            }
        }
        self.is_incomplete |= !join(self.deadline);
    }

    /// Captures the stacks that the text shows, as far as time permits.
    fn capture_stacks(&mut self) {
        for id in self.late_thread_ids().take(MAX_LISTED_THREADS) {
            if self.deadline.is_some_and(|deadline| real_time::now() >= deadline) {
                return;
            }
            self.stacks.insert(id, stack_text(id));
        }
    }

    /// Returns what is still alive after the shutdown reached its limit, or `None` if nothing is.
    pub(super) fn slow_shutdown(&self) -> Option<SlowShutdown> {
        let slow = self.is_incomplete.then(|| self.describe(true))?;
        (!slow.tasks().is_empty() || !slow.threads().is_empty()).then_some(slow)
    }

    pub(super) fn waited(&self) -> Duration {
        real_time::now().saturating_duration_since(self.since)
    }

    /// Describes the threads and tasks that the shutdown waits for or leaves behind.
    fn describe(&self, is_over: bool) -> SlowShutdown {
        // Read first, because capturing a stack takes time.
        let waited = self.waited();
        let (tasks, threads) = (late_tasks(self.shared), self.late_threads());
        SlowShutdown::new(waited, self.limit, is_over, tasks, threads)
    }

    /// Returns the other threads of the runtime.
    fn late_thread_ids(&self) -> impl Iterator<Item = i32> + use<> {
        let own = current_tid();
        let threads = thread_registry::threads_of(self.shared.config().address());
        threads.into_iter().filter(move |thread| *thread != own)
    }

    /// Returns the other threads of the runtime. Threads that the text shows have stacks, as far as
    /// time permits.
    fn late_threads(&self) -> Vec<LateThread> {
        let has_time = || {
            let left = |at: Instant| at.saturating_duration_since(real_time::now());
            self.deadline.is_none_or(|at| left(at) >= STACK_TIME)
        };
        let late_thread = |(nth, id): (usize, i32)| {
            let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
            let name = name.unwrap_or_default().trim_end().to_owned();
            let stack = match (nth < MAX_LISTED_THREADS, self.stacks.get(&id)) {
                (false, _) => Vec::new(),
                (true, Some(stack)) => stack.clone(),
                (true, None) if has_time() => stack_text(id),
                (true, None) => {
                    vec!["not captured: the time limit of the shutdown is near".to_owned()]
                }
            };
            let call = system_call::current(id).map(|call| call.to_string());
            LateThread { id, name, call, stack }
        };
        self.late_thread_ids().enumerate().map(late_thread).collect()
    }

    /// Reports tasks that were dropped before their first poll.
    ///
    /// Does nothing in a test, where such tasks are common, nor during a panic or after a fatal
    /// error, which explain the tasks. Ignores tasks that libraries spawn: some spawn them in
    /// destructors, to clean up if the runtime keeps running.
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
            self.shared.hooks.report(&Arc::new(Report::NeverPolled(NeverPolled::new(sites))));
        }
    }
}

/// Returns the running polls, and the running or queued closures.
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
        waits: WaitDump::of_blocked(task.info(), shared.inspectable()),
    })
    .collect()
}
