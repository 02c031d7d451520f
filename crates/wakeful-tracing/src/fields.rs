//! Stores the fields of open spans as text, and records which spans a task enters.
//!
//! tracing passes the fields of a span to the subscriber and does not store them. [`SpanFields`] wraps the subscriber
//! and keeps a [`Record`] for each open span. A thread that polls a task has the task's [`Entered`] list in
//! thread-local memory. Entering a span adds it to that list.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as Values};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Dispatch, Event, Metadata, Span};
use tracing_core::span::Current;

/// A subscriber that stores the fields of open spans for dumps, and forwards all calls to another subscriber.
///
/// Install it as the outermost subscriber, and add layers to the inner one. An open span takes an entry in a table.
/// Entering a span in a task takes a look-up in that table.
///
/// # Examples
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// use tracing_subscriber::util::SubscriberInitExt;
/// use wakeful_tracing::SpanFields;
///
/// let inner = tracing_subscriber::registry().with(tracing_subscriber::fmt::layer());
/// SpanFields::new(inner).init();
/// ```
#[derive(Debug)]
pub struct SpanFields<S> {
    inner: S,
    store: Store,
}

impl<S: Subscriber> SpanFields<S> {
    /// Wraps a subscriber.
    pub fn new(inner: S) -> Self {
        Self { inner, store: Store::default() }
    }
}

const SHARDS: usize = 32;

/// The records of all open spans, by id, behind several locks so that threads seldom wait for each other.
#[derive(Default)]
struct Store {
    shards: [Mutex<HashMap<u64, Arc<Record>>>; SHARDS],
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.shards.iter().map(|shard| lock(shard).len()).sum::<usize>();
        f.debug_struct("Store").field("open", &open).finish()
    }
}

impl Store {
    fn shard(&self, id: &Id) -> MutexGuard<'_, HashMap<u64, Arc<Record>>> {
        lock(&self.shards[id.into_u64() as usize % SHARDS])
    }

    fn find(&self, id: &Id) -> Option<Arc<Record>> {
        self.shard(id).get(&id.into_u64()).cloned()
    }
}

/// Returns the record of an open span, if its subscriber is wrapped in [`SpanFields`].
pub(crate) fn find_record(dispatch: &Dispatch, id: &Id) -> Option<Arc<Record>> {
    dispatch.downcast_ref::<Store>()?.find(id)
}

/// The name and fields of a span, and the span around it.
pub(crate) struct Record {
    name: &'static str,
    /// The fields as text, such as `id=7 path="/"`.
    fields: Mutex<String>,
    parent: Option<Arc<Record>>,
    is_open: AtomicBool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.parent {
            write!(f, "{parent}:")?;
        }
        f.write_str(self.name)?;
        let fields = lock(&self.fields).clone();
        if fields.is_empty() { Ok(()) } else { write!(f, "{{{fields}}}") }
    }
}

/// Appends fields to a text.
struct Append<'a>(&'a mut String);

impl Visit for Append<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = write!(self.0, "{space}{}={value:?}", field.name());
    }
}

/// The spans that a task has entered in its latest poll, the last one at the end.
#[derive(Default)]
pub(crate) struct Entered(Mutex<Vec<Arc<Record>>>);

/// The maximum number of spans that a task records in a poll. The first one is the inherited span.
const MAX_SPANS: usize = 32;

thread_local! {
    /// The tasks that this thread polls, the innermost at the end, each with the span that it runs in.
    static POLLED: RefCell<Vec<(Arc<Entered>, Option<Span>)>> = const { RefCell::new(Vec::new()) };
}

impl Entered {
    /// Begins a poll of the task on this thread, in a span that [`end`](Self::end) returns.
    ///
    /// Returns false if the thread is exiting: its thread-locals are gone, so it cannot record a poll.
    pub(crate) fn begin(this: &Arc<Self>, span: Option<Span>) -> bool {
        let before = std::mem::take(&mut *lock(&this.0));
        drop(before);
        POLLED.try_with(|polled| polled.borrow_mut().push((this.clone(), span))).is_ok()
    }

    /// Ends the innermost poll on this thread. Returns its span.
    pub(crate) fn end() -> Option<Span> {
        let ended = POLLED.try_with(|polled| polled.borrow_mut().pop());
        ended.ok().flatten().and_then(|(_, span)| span)
    }

    fn add(&self, record: Arc<Record>) {
        let mut list = lock(&self.0);
        while list.last().is_some_and(|last| !last.is_open.load(Relaxed)) {
            list.pop();
        }
        if list.last().is_some_and(|last| Arc::ptr_eq(last, &record)) {
            return;
        }
        if list.len() == MAX_SPANS {
            list.remove(1);
        }
        list.push(record);
    }

    pub(crate) fn innermost_open(&self) -> Option<Arc<Record>> {
        let list = lock(&self.0);
        list.iter().rev().find(|record| record.is_open.load(Relaxed)).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Subscriber> Subscriber for SpanFields<S> {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.inner.on_register_dispatch(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.inner.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.inner.max_level_hint()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = String::new();
        attributes.record(&mut Append(&mut fields));
        let parent = match attributes.parent() {
            Some(parent) => self.store.find(parent),
            None if attributes.is_contextual() => {
                self.inner.current_span().id().and_then(|id| self.store.find(id))
            }
            None => None,
        };
        let id = self.inner.new_span(attributes);
        let record = Arc::new(Record {
            name: attributes.metadata().name(),
            fields: Mutex::new(fields),
            parent,
            is_open: AtomicBool::new(true),
        });
        let before = self.store.shard(&id).insert(id.into_u64(), record);
        drop(before);
        id
    }

    fn record(&self, span: &Id, values: &Values<'_>) {
        if let Some(record) = self.store.find(span) {
            // The values are formatted outside of the lock: their `Debug` is the user's code.
            let mut added = String::new();
            values.record(&mut Append(&mut added));
            let mut fields = lock(&record.fields);
            if !fields.is_empty() && !added.is_empty() {
                fields.push(' ');
            }
            fields.push_str(&added);
        }
        self.inner.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.inner.record_follows_from(span, follows);
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.inner.event_enabled(event)
    }

    fn event(&self, event: &Event<'_>) {
        self.inner.event(event);
    }

    fn enter(&self, span: &Id) {
        self.inner.enter(span);
        // A thread that is exiting has no list.
        let polled =
            POLLED.try_with(|polled| polled.borrow().last().map(|(entered, _)| entered.clone()));
        if let Ok(Some(entered)) = polled
            && let Some(record) = self.store.find(span)
        {
            entered.add(record);
        }
    }

    fn exit(&self, span: &Id) {
        self.inner.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.inner.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        let record = self.store.find(&id);
        let is_closed = self.inner.try_close(id.clone());
        if is_closed && let Some(record) = record {
            record.is_open.store(false, Relaxed);
            let mut shard = self.store.shard(&id);
            // The subscriber may have given the id to a new span already.
            let is_own = shard.get(&id.into_u64()).is_some_and(|it| Arc::ptr_eq(it, &record));
            let removed = if is_own { shard.remove(&id.into_u64()) } else { None };
            drop(shard);
            drop(removed);
        }
        is_closed
    }

    fn current_span(&self) -> Current {
        self.inner.current_span()
    }

    // SAFETY: each pointer is to a value of the requested type, which lives as long as `self`.
    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            Some(std::ptr::from_ref(self).cast())
        } else if id == TypeId::of::<Store>() {
            Some(std::ptr::from_ref(&self.store).cast())
        } else {
            // SAFETY: the caller upholds the same contract for the inner subscriber.
            unsafe { self.inner.downcast_raw(id) }
        }
    }
}
