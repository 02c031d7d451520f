//! Rows of a PostgreSQL table over HTTP/1: eight connections to the database, each request takes the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_postgres::{Client, NoTls, Statement};

use crate::{Outcome, http, parent};

/// Connections to the database.
const POOL: usize = 8;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS items (id integer PRIMARY KEY, name text NOT NULL);
    INSERT INTO items SELECT id, 'item ' || id FROM generate_series(1, 1000) AS id ON CONFLICT DO NOTHING;
";

struct Connection {
    client: Client,
    select: Statement,
}

struct Database {
    connections: Vec<Connection>,
    next: AtomicUsize,
}

/// Serves until the process ends. `config` is a connection string.
pub async fn serve(listener: TcpListener, config: &str) -> Outcome {
    let mut connections = Vec::new();
    for number in 0..POOL {
        let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
        tokio::spawn(connection);
        if number == 0 {
            client.batch_execute(TABLE).await?;
        }
        let select = client.prepare("SELECT name FROM items WHERE id = $1").await?;
        connections.push(Connection { client, select });
    }
    let database = Arc::new(Database { connections, next: AtomicUsize::new(0) });
    let router = Router::new().route("/row", get(read_row)).with_state(database);
    parent::announce(&listener, json!({}))?;
    http::serve_router(listener, router).await
}

async fn read_row(State(database): State<Arc<Database>>) -> Result<String, StatusCode> {
    let turn = database.next.fetch_add(1, Ordering::Relaxed);
    let connection = &database.connections[turn % POOL];
    let id = (turn % 1000) as i32 + 1;
    let row = connection.client.query_one(&connection.select, &[&id]).await;
    row.map(|row| row.get(0)).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
