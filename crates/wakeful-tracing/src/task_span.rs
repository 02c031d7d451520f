//! The data of a task: the span that it inherits, and the spans that it enters.

use crate::fields::{Entered, Record, find_record};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{Metadata, Span};
use wakeful::runtime::{SpawnMeta, TaskData};

/// Makes a task run in the span that is current when the task is spawned.
///
/// Pass it to [`Builder::on_spawn`](wakeful::runtime::Builder::on_spawn). Dumps, reports and the live page show the
/// span, as with [`show_span`].
///
/// # Examples
///
/// ```
/// use tracing::Span;
/// use wakeful::runtime::Builder;
///
/// tracing_subscriber::fmt().init();
/// let runtime = Builder::new_current_thread().on_spawn(wakeful_tracing::inherit_span).build()?;
/// let span = tracing::info_span!("request");
/// let task = span.in_scope(|| runtime.spawn(async { Span::current() }));
/// assert_eq!(runtime.block_on(task).unwrap(), span);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn inherit_span(task: &mut SpawnMeta<'_>) {
    attach(task, Span::current());
}

/// Makes dumps, reports and the live page show the span that a task has entered. The task inherits no span.
///
/// Pass it to [`Builder::on_spawn`](wakeful::runtime::Builder::on_spawn). Wrap the subscriber in
/// [`SpanFields`](crate::SpanFields), which records the spans that a task enters; without it, no span is shown.
///
/// # Examples
///
/// ```
/// use tracing::{Instrument, info_span};
/// use tracing_subscriber::util::SubscriberInitExt;
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful::task::yield_now;
///
/// wakeful_tracing::SpanFields::new(tracing_subscriber::registry()).init();
/// let runtime = Builder::new_current_thread().on_spawn(wakeful_tracing::show_span).build()?;
/// runtime.block_on(async {
///     let task = wakeful::spawn(yield_now().instrument(info_span!("request", id = 7)));
///     yield_now().await;
///     let dump = Handle::current().dump();
///     let text = dump.find(task.id()).unwrap().info().to_string();
///     assert!(text.ends_with("[request{id=7}]"), "{text}");
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn show_span(task: &mut SpawnMeta<'_>) {
    attach(task, Span::none());
}

fn attach(task: &mut SpawnMeta<'_>, span: Span) {
    if tracing::dispatcher::has_been_set() {
        task.set_data(Arc::new(TaskSpan::new(span)));
    }
}

/// The span of a task, which [`TaskInfo::data`](wakeful::inspect::TaskInfo::data) returns.
///
/// Its `Display` shows, of the spans that the task entered in its latest poll, the last one that is still open, after the
/// spans around it: `server:request{id=7}`. If there is none, it shows the inherited span. Without
/// [`SpanFields`](crate::SpanFields), it shows the name of the inherited span.
///
/// A `TaskSpan` belongs to one task. If a hook attaches it to several tasks, they run in the span until the first of them
/// ends.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Builder, Handle};
/// use wakeful_tracing::TaskSpan;
///
/// tracing_subscriber::fmt().init();
/// let runtime = Builder::new_current_thread().on_spawn(wakeful_tracing::inherit_span).build()?;
/// let task = tracing::info_span!("request").in_scope(|| runtime.spawn(async {}));
/// let dump = runtime.handle().dump();
/// let span = dump.find(task.id()).unwrap().info().data::<TaskSpan>().unwrap();
/// assert_eq!(span.metadata().unwrap().name(), "request");
/// # runtime.block_on(task).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TaskSpan {
    metadata: Option<&'static Metadata<'static>>,
    /// Name and fields of the inherited span, also after it is closed.
    record: Option<Arc<Record>>,
    /// Keeps the inherited span open. Taken when the task ends.
    span: Mutex<Option<Span>>,
    entered: Arc<Entered>,
}

impl TaskSpan {
    fn new(span: Span) -> Self {
        let record = span.with_subscriber(|(id, dispatch)| find_record(dispatch, id)).flatten();
        let (metadata, span) = (span.metadata(), Mutex::new(Some(span)));
        Self { metadata, record, span, entered: Arc::default() }
    }

    /// Returns the metadata of the span that the task has inherited, if any.
    pub fn metadata(&self) -> Option<&'static Metadata<'static>> {
        self.metadata
    }

    /// Returns the inherited span, until the task ends.
    pub(crate) fn span(&self) -> Option<Span> {
        let span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        span.as_ref().filter(|span| !span.is_none()).cloned()
    }
}

impl TaskData for TaskSpan {
    fn enter(&self) {
        // The clone keeps the span open until the end of this poll. A task that shares this data may end
        // earlier, which closes the span.
        let span = self.span();
        if Entered::begin(&self.entered, span.clone())
            && let Some(span) = span
        {
            span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
        }
    }

    fn exit(&self) {
        if let Some(span) = Entered::end() {
            span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
        }
    }

    fn end(&self) {
        let span = self.span.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Outside of the lock: this may close the span, which calls the subscriber.
        drop(span);
    }
}

impl fmt::Display for TaskSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entered = self.entered.innermost_open();
        match (entered.as_ref().or(self.record.as_ref()), self.metadata) {
            (Some(record), _) => record.fmt(f),
            (None, Some(metadata)) => f.write_str(metadata.name()),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for TaskSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskSpan").field(&self.to_string()).finish()
    }
}
