//! A service that keeps notes for a while. It is an ordinary tokio program: README.md says what
//! makes it run on wakeful.
//!
//! [`app`] is the router, which a test can call without a socket. [`run`] serves it until a
//! shutdown.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How the service behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How long a note is kept.
    pub keep: Duration,
    /// How long a request may take before it is answered with 408.
    pub request_limit: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { keep: Duration::from_secs(3600), request_limit: Duration::from_secs(5) }
    }
}

/// A note, as a client posts it.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub struct NewNote {
    pub text: String,
}

/// A note, as a client gets it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Note {
    pub id: u64,
    pub text: String,
    pub fingerprint: u64,
}

/// What all requests share.
#[derive(Clone)]
pub struct Service {
    config: Config,
    notes: Arc<Mutex<Notes>>,
    /// Counts changes, for requests that wait for one.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Notes {
    last_id: u64,
    by_id: BTreeMap<u64, (Instant, Note)>,
}

impl Service {
    pub fn new(config: Config) -> Self {
        Self { config, notes: Arc::default(), changes: watch::Sender::new(0) }
    }

    /// The lock is held for a moment, never across an `.await`, so a std lock is the right one.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes notes that were kept long enough. Never returns: the caller drops the future.
    async fn sweep(&self) {
        let mut every = interval(self.config.keep / 10);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = every.tick().await;
            let keep = self.config.keep;
            self.notes().by_id.retain(|_, (made, _)| now.duration_since(*made) < keep);
        }
    }
}

/// The routes of the service.
pub fn app(service: Service) -> Router {
    Router::new()
        .route("/notes", get(list).post(create))
        .route("/notes/{id}", get(read))
        .route("/changes/{seen}", get(wait_for_change))
        .layer(middleware::from_fn_with_state(service.clone(), limit_time))
        .with_state(service)
}

/// Serves the routes until `shutdown` completes, and returns when all requests were answered.
///
/// # Errors
///
/// If the listener fails.
pub async fn run(
    service: Service,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let server = axum::serve(listener, app(service.clone())).with_graceful_shutdown(shutdown);
    tokio::select! {
        served = async { server.await } => served,
        () = service.sweep() => unreachable!("it sweeps forever"),
    }
}

/// Answers 408 if the request takes too long. The handler is dropped at its current `.await`.
async fn limit_time(State(service): State<Service>, request: Request, next: Next) -> Response {
    match timeout(service.config.request_limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "this takes too long\n").into_response(),
    }
}

async fn list(State(service): State<Service>) -> Json<Vec<Note>> {
    Json(service.notes().by_id.values().map(|(_, note)| note.clone()).collect())
}

async fn read(
    State(service): State<Service>,
    Path(id): Path<u64>,
) -> Result<Json<Note>, StatusCode> {
    let notes = service.notes();
    let (_, note) = notes.by_id.get(&id).ok_or(StatusCode::NOT_FOUND)?;
    Ok(Json(note.clone()))
}

async fn create(
    State(service): State<Service>,
    Json(NewNote { text }): Json<NewNote>,
) -> Result<(StatusCode, Json<Note>), StatusCode> {
    // It computes, so it runs on a thread that may block.
    let hashed = tokio::task::spawn_blocking(move || (fingerprint(&text), text)).await;
    let (fingerprint, text) = hashed.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let note = {
        let mut notes = service.notes();
        notes.last_id += 1;
        let note = Note { id: notes.last_id, text, fingerprint };
        notes.by_id.insert(note.id, (Instant::now(), note.clone()));
        note
    };
    service.changes.send_modify(|changes| *changes += 1);
    Ok((StatusCode::CREATED, Json(note)))
}

/// Answers with the number of changes, once it is larger than `seen`.
async fn wait_for_change(State(service): State<Service>, Path(seen): Path<u64>) -> Json<u64> {
    let mut changes = service.changes.subscribe();
    let now = changes.wait_for(|changes| *changes > seen).await;
    Json(*now.expect("the service has the sender"))
}

/// A slow hash: ten thousand rounds.
fn fingerprint(text: &str) -> u64 {
    (0..10_000u64).fold(0, |hash, round| {
        let mut hasher = DefaultHasher::new();
        (hash, round, text).hash(&mut hasher);
        hasher.finish()
    })
}
