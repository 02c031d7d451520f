//! The axum service. Each path is one habit of applications.
//!
//! | path | what a request does |
//! | --- | --- |
//! | `/hello` | nothing |
//! | `/item` | reads a map behind an `RwLock`, and answers with JSON |
//! | `/actor` | sends a message to a task, which answers over a oneshot |
//! | `/timeout` | yields three times inside of a time-out |
//! | `/fanout` | spawns sixteen tasks and joins them |
//! | `/file` | reads a file of 4 KiB |
//! | `/ws` | becomes a WebSocket that echoes |

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{RwLock, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{Outcome, parent};

/// Bytes of the file that `/file` reads.
const FILE_SIZE: usize = 4096;
/// Tasks of a request to `/fanout`.
const FAN: u64 = 16;

#[derive(Clone, Serialize)]
struct Item {
    id: u64,
    name: String,
    price_cents: u64,
    tags: Vec<String>,
}

#[derive(Clone)]
struct Shared {
    items: Arc<RwLock<HashMap<u64, Item>>>,
    actor: mpsc::Sender<oneshot::Sender<u64>>,
    file: Arc<Path>,
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener) -> Outcome {
    let router = router().await?;
    parent::announce(&listener, json!({}))?;
    serve_router(listener, router).await
}

/// Serves a router over connections that do not delay small segments.
pub async fn serve_router(listener: TcpListener, router: Router) -> Outcome {
    let listener = listener.tap_io(|stream| {
        // It fails only if the client is gone.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}

/// Creates the service with its actor and its file.
pub async fn router() -> std::io::Result<Router> {
    let item = |id: u64| Item {
        id,
        name: format!("item {id}"),
        price_cents: id * 100,
        tags: vec!["small".into(), "blue".into()],
    };
    let shared = Shared {
        items: Arc::new(RwLock::new((0..100).map(|id| (id, item(id))).collect())),
        actor: start_actor(),
        file: write_file().await?.into(),
    };
    Ok(Router::new()
        .route("/hello", get(async || "Hello, World!"))
        .route("/item", get(read_item))
        .route("/actor", get(ask_actor))
        .route("/timeout", get(yield_in_time))
        .route("/fanout", get(fan_out))
        .route("/file", get(read_file))
        .route("/ws", get(async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo)))
        .with_state(shared))
}

async fn write_file() -> std::io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("wakeful-apps-{}", std::process::id()));
    tokio::fs::write(&path, [b'x'; FILE_SIZE]).await?;
    Ok(path)
}

async fn read_item(State(shared): State<Shared>) -> Result<Json<Item>, StatusCode> {
    let item = shared.items.read().await.get(&7).cloned();
    item.map(Json).ok_or(StatusCode::NOT_FOUND)
}

/// Starts a task that counts the requests it gets, and answers each with its number.
fn start_actor() -> mpsc::Sender<oneshot::Sender<u64>> {
    let (sender, mut requests) = mpsc::channel::<oneshot::Sender<u64>>(64);
    tokio::spawn(async move {
        let mut count = 0;
        while let Some(reply) = requests.recv().await {
            count += 1;
            // A client that is gone needs no answer.
            let _ = reply.send(count);
        }
    });
    sender
}

async fn ask_actor(State(shared): State<Shared>) -> Result<String, StatusCode> {
    let (reply, answer) = oneshot::channel();
    let gone = StatusCode::INTERNAL_SERVER_ERROR;
    shared.actor.send(reply).await.map_err(|_| gone)?;
    let count = answer.await.map_err(|_| gone)?;
    Ok(count.to_string())
}

async fn yield_in_time() -> Result<&'static str, StatusCode> {
    let work = async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        "in time"
    };
    timeout(Duration::from_secs(1), work).await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)
}

async fn fan_out() -> Result<String, StatusCode> {
    let mut tasks = JoinSet::new();
    for number in 0..FAN {
        tasks.spawn(async move { number * number });
    }
    let mut sum = 0;
    while let Some(square) = tasks.join_next().await {
        sum += square.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    }
    Ok(sum.to_string())
}

async fn read_file(State(shared): State<Shared>) -> Result<Vec<u8>, StatusCode> {
    tokio::fs::read(&shared.file).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
        if is_data && socket.send(message).await.is_err() {
            return;
        }
    }
}
