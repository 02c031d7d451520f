//! Shows the tasks of a runtime to subscribers of `tracing`, such as that of tokio-console.
//!
//! tokio makes a span of each task by itself, with its feature `tracing`. wakeful does not. The
//! hooks of tokio's unstable API are enough to make these spans in the program.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::runtime::Builder;
use tokio::task::Id;
use tracing::Span;
use tracing::span::EnteredSpan;

thread_local! {
    /// The spans of the polls that this thread is in. A poll may run a `LocalSet`, which polls tasks.
    static POLLED: RefCell<Vec<Option<EnteredSpan>>> = const { RefCell::new(Vec::new()) };
}

/// Makes a span of each task of the runtime, and enters it for each poll.
///
/// The span has the name and the fields of tokio's. Events of wakers and spans of resources, such as
/// locks, are not made. So tokio-console shows tasks and polls, and neither wakes nor resources.
pub fn trace_tasks(builder: &mut Builder) -> &mut Builder {
    let spans: Arc<Mutex<HashMap<Id, Span>>> = Arc::default();
    let (spawned, polled) = (spans.clone(), spans.clone());
    builder
        .on_task_spawn(move |task| {
            let site = task.spawned_at();
            let span = tracing::trace_span!(
                target: "tokio::task",
                parent: None,
                "runtime.spawn",
                kind = "task",
                task.id = %task.id(),
                loc.file = site.file(),
                loc.line = site.line(),
                loc.col = site.column(),
            );
            spawned.lock().unwrap().insert(task.id(), span);
        })
        .on_before_task_poll(move |task| {
            let span = polled.lock().unwrap().get(&task.id()).cloned();
            let entered = span.map(Span::entered);
            POLLED.with_borrow_mut(|polls| polls.push(entered));
        })
        .on_after_task_poll(|_| drop(POLLED.with_borrow_mut(Vec::pop)))
        // Comes before the end of the last poll, which keeps the span until then.
        .on_task_terminate(move |task| {
            let ended = spans.lock().unwrap().remove(&task.id());
            drop(ended);
        })
}
