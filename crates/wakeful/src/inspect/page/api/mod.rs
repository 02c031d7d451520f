//! The JSON API of the page.
//!
//! The responses that an open page requests each second are made from a [`View`]: a snapshot of all
//! runtimes that clients share for [`FRESH_FOR`]. So ten open pages cost as much as one. Recordings and
//! metrics are read for each request.

mod findings;
mod groups;
mod overview;
mod recording;
mod resources;
mod task;
mod tasks;
mod timeline;
mod values;
mod view;

use super::history::History;
use super::request::Request;
use super::response::{JSON, Response, Status};
use crate::inspect::json::Json;
use crate::inspect::prometheus::prometheus;
use crate::inspect::{defer_drops, runtimes, tokio_prometheus};
use crate::sys::sort::sort_by_cached_key;
use crate::sys::sync::ignore_poison;
use recording::Recording;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use view::View;

/// How long a snapshot is shared.
const FRESH_FOR: Duration = Duration::from_millis(400);
/// How long a snapshot is kept if no client asks for one.
pub(in crate::inspect::page) const VIEW_KEPT_FOR: Duration = Duration::from_secs(5);
/// The maximum number of rows in one response.
const MAX_ROWS: usize = 500;

/// The state from which the API answers requests.
pub(in crate::inspect::page) struct Api {
    pub(in crate::inspect::page) allow_abort: bool,
    pub(in crate::inspect::page) history: History,
    recording: Recording,
    /// The last snapshot, with the time of its completion.
    view: Mutex<Option<(Instant, Arc<View>)>>,
}

/// The events of a stream.
#[derive(Clone, Copy)]
pub(in crate::inspect::page) enum Events {
    Overview,
    /// The server ends.
    Gone,
}

impl Api {
    pub(in crate::inspect::page) fn new(allow_abort: bool, history: History) -> Self {
        Self { allow_abort, history, recording: Recording::default(), view: Mutex::new(None) }
    }

    /// Answers a request below `/api/v1/`, or returns `None` if there is no such path.
    pub(in crate::inspect::page) fn answer(
        &self,
        name: &str,
        request: &Request,
    ) -> Option<Response> {
        let json = match (name, request.is_post) {
            ("overview", false) => self.overview(),
            ("history", false) => {
                overview::history(&self.history, request.number("since", 0) as f64)
            }
            ("tasks", false) => tasks::list(&self.view(), request),
            ("tree", false) => tasks::tree(&self.view(), request),
            ("groups", false) => groups::list(&self.view(), &self.history, request),
            ("task", false) => return Some(self.task(request)),
            ("ended", false) => task::ended(request.number("limit", 100)),
            ("resources", false) => resources::list(&self.view(), request),
            ("metrics", false) => overview::metrics(),
            ("trace", false) => timeline::trace(&self.recording),
            ("trace.json", false) => {
                let file = "attachment; filename=\"wakeful-trace.json\"";
                let trace = Response::new(JSON, timeline::perfetto(&self.recording).into_bytes());
                return Some(trace.header("Content-Disposition", file));
            }
            ("record", true) => timeline::record(&self.recording, request.body_number("seconds")),
            ("abort", true) => return Some(self.abort(request)),
            _ => return None,
        };
        Some(Response::json(json))
    }

    /// Returns the text of an event for a stream.
    pub(in crate::inspect::page) fn event(&self, event: Events) -> String {
        match event {
            // JSON has no line breaks, so it is one line of data.
            Events::Overview => format!("event: overview\ndata: {}\n\n", self.overview()),
            Events::Gone => "event: gone\ndata: {}\n\n".to_owned(),
        }
    }

    /// Returns the metrics of all runtimes in the format of Prometheus.
    ///
    /// The metrics have the names of tokio-metrics if the request says `names=tokio`.
    pub(in crate::inspect::page) fn prometheus(&self, request: &Request) -> Response {
        let all = runtimes::all().into_iter();
        let text = match request.parameter("names") {
            None | Some("wakeful") => {
                prometheus(&all.map(|runtime| runtime.metrics()).collect::<Vec<_>>())
            }
            Some("tokio") => {
                tokio_prometheus(&all.map(|runtime| runtime.tokio_metrics()).collect::<Vec<_>>())
            }
            Some(_) => {
                return Response::error(Status::BadRequest, "names must be wakeful or tokio");
            }
        };
        Response::new("text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
    }

    /// Returns a snapshot that is at most [`FRESH_FOR`] old.
    fn view(&self) -> Arc<View> {
        defer_drops(|| {
            // Held while the snapshot is taken: other clients wait for the same one.
            let mut view = ignore_poison(self.view.lock());
            if let Some((taken, view)) = &*view
                && taken.elapsed() < FRESH_FOR
            {
                return view.clone();
            }
            let new = Arc::new(View::take());
            *view = Some((Instant::now(), new.clone()));
            new
        })
    }

    /// Drops a snapshot that was taken more than `limit` ago.
    pub(in crate::inspect::page) fn forget_view(&self, limit: Duration) {
        let is_old = |(taken, _): &mut (Instant, _)| taken.elapsed() > limit;
        let old = ignore_poison(self.view.lock()).take_if(is_old);
        // Outside the lock: dropping the data of tasks runs user code.
        drop(old);
    }

    fn overview(&self) -> String {
        overview::overview(&self.view(), &self.history, self.allow_abort)
    }

    fn task(&self, request: &Request) -> Response {
        let view = self.view();
        let runtime = request.number("runtime", 0) as u64;
        let found = request.parameter("task").and_then(|key| view.find(runtime, key));
        match found {
            Some((runtime, task)) => {
                Response::json(task::details(&view, &self.history, runtime, task))
            }
            None => Response::json(task::not_found(request.parameter("task"))),
        }
    }

    fn abort(&self, request: &Request) -> Response {
        if !self.allow_abort {
            let message = "aborting is off: serve the page with page::Options::allow_abort(true)";
            return Response::error(Status::Forbidden, message);
        }
        let numbers = (request.body_number("runtime"), request.body_number("id"));
        let (Some(runtime), Some(id)) = numbers else {
            return Response::error(Status::BadRequest, "send {\"runtime\":1,\"id\":7}");
        };
        let runtimes = runtimes::all();
        let found = runtimes.iter().find(|it| it.id() == runtime).is_some_and(|it| it.abort(id));
        if !found {
            return Response::error(Status::NotFound, "there is no such task: it may have ended");
        }
        let mut json = Json::new();
        json.object(|json| json.field("aborted", |json| json.plain(true)));
        Response::json(json.into_text())
    }
}

/// The rows that a request asks for.
struct Slice {
    offset: usize,
    limit: usize,
}

impl Slice {
    fn of(request: &Request) -> Self {
        let limit = request.number("limit", 100).min(MAX_ROWS);
        Self { offset: request.number("offset", 0), limit }
    }

    fn get<'a, T>(&self, rows: &'a [T]) -> &'a [T] {
        let rows = rows.get(self.offset..).unwrap_or_default();
        &rows[..rows.len().min(self.limit)]
    }
}

/// Sorts rows by a number or a text, according to the parameters `sort` and `order`.
fn sort_rows<T>(
    rows: &mut [T],
    request: &Request,
    key: impl Fn(&T, &str) -> SortKey,
    default: &str,
) {
    let column = request.parameter("sort").unwrap_or(default);
    let is_ascending = request.parameter("order") == Some("asc");
    sort_by_cached_key(rows, |row| key(row, column));
    if !is_ascending {
        rows.reverse();
    }
}

/// A sort key of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Number(i128),
    Text(String),
}

impl SortKey {
    fn number(value: impl TryInto<i128>) -> Self {
        Self::Number(value.try_into().unwrap_or(i128::MAX))
    }

    fn time(time: Duration) -> Self {
        Self::number(time.as_nanos())
    }

    fn text(text: impl ToString) -> Self {
        Self::Text(text.to_string())
    }
}
