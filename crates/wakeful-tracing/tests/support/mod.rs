//! A subscriber that records every event with the spans around it, and every closed span.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use wakeful::runtime::Builder;
use wakeful_tracing::SpanFields;

/// An event, with its fields as text.
#[derive(Clone, Debug)]
pub struct Seen {
    pub target: String,
    pub level: tracing::Level,
    pub fields: BTreeMap<String, String>,
    /// The spans around it, the outermost first, with their `id` fields.
    pub spans: Vec<(&'static str, Option<String>)>,
}

impl Seen {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

static EVENTS: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
static CLOSED: Mutex<Vec<(&'static str, Option<String>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the events whose field `test` has this value.
pub fn events_of(test: &str) -> Vec<Seen> {
    let (mut taken, mut kept) = (Vec::new(), Vec::new());
    let mut events = lock(&EVENTS);
    for event in events.drain(..) {
        let is_wanted = event.field("test") == Some(test);
        if is_wanted { taken.push(event) } else { kept.push(event) }
    }
    *events = kept;
    taken
}

/// Returns the events of reports so far.
pub fn reports() -> Vec<Seen> {
    lock(&EVENTS).iter().filter(|event| event.target == "wakeful").cloned().collect()
}

/// Returns the number of closed spans with this `id`.
pub fn closed(id: &str) -> usize {
    lock(&CLOSED).iter().filter(|(_, own)| own.as_deref() == Some(id)).count()
}

struct Remember;

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Remember {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let scope = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans = scope.map(|span| {
            let id = span.extensions().get::<Fields>().and_then(|it| it.0.get("id").cloned());
            (span.name(), id)
        });
        let seen = Seen {
            target: event.metadata().target().to_owned(),
            level: *event.metadata().level(),
            fields: fields.0,
            spans: spans.collect(),
        };
        lock(&EVENTS).push(seen);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let own = span.extensions().get::<Fields>().and_then(|it| it.0.get("id").cloned());
        lock(&CLOSED).push((span.name(), own));
    }
}

/// Sets the subscriber of the process, once.
pub fn init() {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        SpanFields::new(tracing_subscriber::registry().with(Remember)).init();
    });
}

/// Returns builders for a runtime of each flavor, and for one with a single worker.
pub fn builders() -> [Builder; 3] {
    init();
    let (mut one, mut several) = (Builder::new_multi_thread(), Builder::new_multi_thread());
    one.worker_threads(1);
    several.worker_threads(4);
    [Builder::new_current_thread(), one, several]
}
