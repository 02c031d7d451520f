//! [`tracing`] for wakeful: tasks inherit spans, dumps show spans, and reports become events.
//!
//! Pass these functions to the hooks of [`Builder`](wakeful::runtime::Builder):
//!
//! | function | hook | effect |
//! | --- | --- | --- |
//! | [`inherit_span`] | `on_spawn` | A spawned task runs in the span in which `spawn` is called. |
//! | [`show_span`] | `on_spawn` | Dumps, reports and the live page show the span that a task has entered. The task inherits none. |
//! | [`emit_report`] | `on_report` | Every report becomes a tracing event. |
//! | `log_report` | `on_report` | Every report becomes a record of the `log` crate (feature `log`). |
//!
//! A builder keeps one function for each hook. To use two, call both in a closure.
//!
//! Dumps show the name of the inherited span. To see its fields, and the spans that a task enters itself, wrap the
//! subscriber in [`SpanFields`]. [`show_span`] shows nothing without it.
//!
//! # Examples
//!
//! ```
//! use tracing::{Instrument, info, info_span};
//! use tracing_subscriber::layer::SubscriberExt;
//! use tracing_subscriber::util::SubscriberInitExt;
//! use wakeful::runtime::{Builder, Handle};
//! use wakeful_tracing::SpanFields;
//!
//! let subscriber = tracing_subscriber::registry().with(tracing_subscriber::fmt::layer());
//! SpanFields::new(subscriber).init();
//!
//! let runtime = Builder::new_multi_thread()
//!     .on_spawn(wakeful_tracing::inherit_span)
//!     .on_report(wakeful_tracing::emit_report)
//!     .build()?;
//! let request = async {
//!     // The task runs in the span `request`.
//!     let task = wakeful::spawn(async { info!("in the span of its parent") });
//!     let dump = Handle::current().dump();
//!     if let Some(task) = dump.find(task.id()) {
//!         println!("{}", task.info()); // task 1 [request{id=7}]
//!     }
//!     task.await.unwrap();
//! };
//! runtime.block_on(request.instrument(info_span!("request", id = 7)));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What a span covers
//!
//! The span is entered before each poll of the task, on the polling thread, and exited on every path: when the future
//! waits, completes, panics, or is dropped by an abort or a shutdown. Spans also cover tasks of a `LocalSet` and closures
//! of `spawn_blocking`. The task's handle to the span is dropped when the task ends.
//!
//! The future of a `block_on` is not a task. It runs in the spans that its thread has entered. A current-thread runtime
//! polls its tasks on that thread too, so a task without its own span runs in the spans around the `block_on`.

mod fields;
mod reports;
mod task_span;

pub use fields::SpanFields;
pub use reports::emit_report;
#[cfg(feature = "log")]
pub use reports::log_report;
pub use task_span::{TaskSpan, inherit_span, show_span};
