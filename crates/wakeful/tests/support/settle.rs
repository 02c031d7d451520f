//! Waits until all other tasks of a runtime are waiting.

use wakeful::inspect::TaskState;
use wakeful::runtime::Handle;
use wakeful::task::yield_now;

/// Returns when all tasks are waiting or have ended, except for the caller and closures.
pub async fn settle() {
    loop {
        yield_now().await;
        let dump = Handle::current().dump();
        let rests = |state| matches!(state, TaskState::Waiting | TaskState::Done);
        let mut tasks = dump.tasks().iter().filter(|task| task.id().is_some());
        if tasks.all(|task| task.is_closure() || rests(task.state())) {
            return;
        }
    }
}
