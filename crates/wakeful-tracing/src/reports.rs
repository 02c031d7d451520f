//! Emits reports as tracing events and as records of `log`.

use crate::TaskSpan;
use tracing::span::Id;
use wakeful::inspect::{Certainty, Report};

/// Emits a report as a tracing event with the fields `kind`, `certainty`, `task`, `site` and `runtime`.
///
/// Pass it to [`Builder::on_report`](wakeful::runtime::Builder::on_report). The target of the event is `wakeful`. Its
/// level is `ERROR` for a proven report and `WARN` for a suspected one. Its message is the text of the report. If the
/// first task of the report has [inherited a span](crate::inherit_span), the event is in that span. If that task has ended
/// and its span is closed, the event is in no span.
///
/// - `task` lists all tasks of the report, as in `task 3 "mailer" [request{id=7}]`.
/// - `site` is the main site of the report, as `file:line:column`.
/// - `task`, `site` and `runtime` are left out if the report has none.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Builder;
///
/// tracing_subscriber::fmt().init();
/// let runtime = Builder::new_current_thread().on_report(wakeful_tracing::emit_report).build()?;
/// runtime.block_on(async {
///     wakeful::spawn(std::future::pending::<()>()); // ERROR wakeful: … kind="orphan" …
///     wakeful::task::yield_now().await;
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn emit_report(report: &Report) {
    let tasks = report.tasks();
    let data = tasks.first().and_then(|task| task.data::<TaskSpan>());
    match data.and_then(|data| data.span()) {
        // Uses the subscriber of the span, because the id has no meaning to another one.
        Some(span) => {
            let emitted = span.with_subscriber(|(id, dispatch)| {
                tracing::dispatcher::with_default(dispatch, || {
                    event(report, Parent::Span(id.clone()))
                });
            });
            debug_assert!(emitted.is_some(), "a span that is not none has a subscriber");
        }
        // Not the current span: the code that finds a panic may be in the span of another request.
        None if data.is_some_and(|data| data.metadata().is_some()) => event(report, Parent::None),
        None => event(report, Parent::Current),
    }
}

/// The span of an event.
enum Parent {
    Span(Id),
    None,
    /// The span that the current thread is in.
    Current,
}

fn event(report: &Report, parent: Parent) {
    macro_rules! emit {
        ($level:expr, $($parent:tt)*) => {
            tracing::event!(
                target: "wakeful",
                $($parent)*
                $level,
                kind = report.kind(),
                certainty = certainty(report),
                task = tasks(report).map(tracing::field::display),
                site = report.site().map(tracing::field::display),
                runtime = report.runtime(),
                "{report}"
            )
        };
    }
    match (report.certainty(), parent) {
        (Certainty::Proven, Parent::Span(id)) => emit!(tracing::Level::ERROR, parent: id,),
        (Certainty::Proven, Parent::None) => emit!(tracing::Level::ERROR, parent: None::<Id>,),
        (Certainty::Proven, Parent::Current) => emit!(tracing::Level::ERROR,),
        (_, Parent::Span(id)) => emit!(tracing::Level::WARN, parent: id,),
        (_, Parent::None) => emit!(tracing::Level::WARN, parent: None::<Id>,),
        (_, Parent::Current) => emit!(tracing::Level::WARN,),
    }
}

fn certainty(report: &Report) -> &'static str {
    match report.certainty() {
        Certainty::Proven => "proven",
        _ => "suspected",
    }
}

/// Returns the tasks of a report, separated by commas.
fn tasks(report: &Report) -> Option<String> {
    let tasks: Vec<String> = report.tasks().iter().map(ToString::to_string).collect();
    (!tasks.is_empty()).then(|| tasks.join(", "))
}

/// Writes a report as a record of the `log` crate.
///
/// Pass it to [`Builder::on_report`](wakeful::runtime::Builder::on_report). The target of the record is `wakeful`. Its
/// level is `Error` for a proven report and `Warn` for a suspected one. Its text includes the kind, tasks and sites of the
/// report.
///
/// # Examples
///
/// ```
/// use wakeful::runtime::Builder;
///
/// let runtime = Builder::new_current_thread().on_report(wakeful_tracing::log_report).build()?;
/// # let _ = runtime;
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(feature = "log")]
pub fn log_report(report: &Report) {
    let level = match report.certainty() {
        Certainty::Proven => log::Level::Error,
        _ => log::Level::Warn,
    };
    log::log!(target: "wakeful", level, "{report}");
}
