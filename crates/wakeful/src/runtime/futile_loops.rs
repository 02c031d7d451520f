//! Passes futile loops from the thread that finds them to the watchdog.

use crate::inspect::{FutileLoop, TaskInfo};
use crate::runtime::context;
use crate::sys::sync::ignore_poison;
use crate::task::futile::{self, FutileTask};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The maximum number of loops kept for one visit of the watchdog.
const MAX_LOOPS: usize = 64;

/// Futile loops that were found and not reported yet.
///
/// The thread that finds a loop is polling the task. The report hook is user code, which may need a
/// lock that the task holds, so the watchdog calls the hook.
#[derive(Default)]
pub(super) struct FutileLoops {
    list: Mutex<Vec<FutileLoop>>,
    is_any: AtomicBool,
}

impl FutileLoops {
    fn push(&self, found: FutileLoop) {
        let mut list = ignore_poison(self.list.lock());
        if list.len() < MAX_LOOPS {
            list.push(found);
        }
        // Relaxed: the caller counts an event next, and the watchdog reads the event count before
        // the flag. So the watchdog either sees the flag, or also misses the event and visits once
        // more.
        self.is_any.store(true, Relaxed);
    }

    /// Removes and returns the loops that were found.
    pub(super) fn take(&self) -> Vec<FutileLoop> {
        // Relaxed: see `push`. The lock orders the list.
        if !self.is_any.load(Relaxed) {
            return Vec::new();
        }
        let mut list = ignore_poison(self.list.lock());
        self.is_any.store(false, Relaxed);
        std::mem::take(&mut *list)
    }
}

/// Sets the reporter of all futile loops of the process.
pub(super) fn install() {
    futile::set_reporter(push_to_current_runtime);
}

/// Queues a loop for the watchdog, in the runtime of the calling thread.
fn push_to_current_runtime(found: &futile::FutileLoop<'_>) {
    context::with_current(|shared| {
        let task = match found.task {
            FutileTask::Task(header) => Some(TaskInfo::of_task(header)),
            FutileTask::BlockOn(record) => {
                let name = shared.base().config.block_on_name.as_deref();
                TaskInfo::of_block_on_record(record, name)
            }
        };
        if let Some(task) = task {
            shared.hooks.futile_loops.push(FutileLoop::new(task, found));
            shared.base().notify_progress();
        }
    });
}
