//! The thread that runs simulations, and the supervisor that waits for it.
//!
//! The supervisor calls [`run_supervised`]. The new thread makes one or more runs, and publishes the
//! world of each in a [`Supervision`] that both share. If no step of a run ends within the limit, the
//! supervisor fails the run and abandons the thread.

use super::Outcome;
use crate::inspect::stack_text;
use crate::sim::world::{FailureKind, World};
use crate::sys::backtrace::current_tid;
use crate::sys::sync::ignore_poison;
use crate::task::enter_guard;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The state of a simulation thread that its supervisor reads.
#[derive(Default)]
pub(in crate::sim) struct Supervision(Mutex<SupervisedThread>);

#[derive(Default)]
struct SupervisedThread {
    /// The kernel's thread id.
    tid: i32,
    /// The number of runs that the thread has begun.
    runs: u64,
    /// The world of the current run.
    world: Option<Arc<World>>,
    /// The supervisor no longer waits for the thread.
    is_abandoned: bool,
}

impl Supervision {
    fn lock(&self) -> MutexGuard<'_, SupervisedThread> {
        ignore_poison(self.0.lock())
    }

    /// Records that the thread starts a run in `world`.
    pub(super) fn begin_run(&self, world: &Arc<World>) {
        let mut thread = self.lock();
        thread.runs += 1;
        thread.world = Some(world.clone());
    }

    /// Records that the run has ended.
    pub(super) fn end_run(&self) {
        let world = self.lock().world.take();
        drop(world);
    }

    /// Returns whether the supervisor has abandoned the thread, which must then end.
    pub(in crate::sim) fn is_abandoned(&self) -> bool {
        self.lock().is_abandoned
    }

    /// Fails the current run if none of its steps ended since the last call. `last` is the state of that
    /// call.
    fn fail_if_blocked(&self, last: &mut (u64, u64), limit: Duration) -> Option<Outcome> {
        let (tid, runs, world) = {
            let thread = self.lock();
            (thread.tid, thread.runs, thread.world.clone()?)
        };
        let now = (runs, world.steps());
        if std::mem::replace(last, now) != now {
            return None;
        }
        let (host, task) = world.running();
        let stack = stack_text(tid).join("\n    ");
        let text = format!(
            "a poll of task {task} has not returned for {limit:?} of real time: it blocks the thread \
             of the simulation, or it loops forever\n    {stack}"
        );
        let mut thread = self.lock();
        if thread.runs != runs || thread.world.is_none() {
            return None; // it has ended after all
        }
        world.fail(FailureKind::BlockedPoll, host, text);
        thread.is_abandoned = true;
        drop(thread);
        Some(Outcome::of(&world))
    }
}

/// The result of a simulation thread.
pub(in crate::sim) enum ThreadResult<R> {
    Returned(R),
    /// A run was blocked, with this outcome. The thread is abandoned.
    Blocked(Box<Outcome>),
}

/// Calls `work` on a new thread and waits for it. Fails a run if one of its polls takes longer than
/// `limit` of real time.
///
/// # Panics
///
/// If the operating system refuses a thread, if `work` panics, or if called in async code, whose thread
/// it would block.
#[track_caller]
pub(in crate::sim) fn run_supervised<R: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&Supervision) -> R + Send + 'static,
) -> ThreadResult<R> {
    enter_guard::check_may_block();
    let supervision = Arc::new(Supervision::default());
    let (result_tx, result_rx) = mpsc::channel();
    let shared = supervision.clone();
    let run = move || {
        shared.lock().tid = current_tid();
        let _ = result_tx.send(work(&shared));
    };
    let thread = thread::Builder::new().name("wakeful-sim".to_owned()).spawn(run);
    let thread = thread.expect("the operating system refuses a thread for the simulation");
    // Runs are counted from 1, so this equals no state of a run.
    let mut last = (0, 0);
    loop {
        match result_rx.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => {
                if let Some(outcome) = supervision.fail_if_blocked(&mut last, limit) {
                    return ThreadResult::Blocked(Box::new(outcome));
                }
            }
            returned => {
                let joined = thread.join();
                return match (returned, joined) {
                    (Ok(result), _) => ThreadResult::Returned(result),
                    (Err(_), Err(payload)) => panic::resume_unwind(payload),
                    (Err(_), Ok(())) => unreachable!("a thread that returns has sent its result"),
                };
            }
        }
    }
}
