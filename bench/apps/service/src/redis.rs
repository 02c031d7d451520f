//! mini-redis, tokio's own example of an application.

use std::future::pending;

use serde_json::json;
use tokio::net::TcpListener;

use crate::{Outcome, parent};

/// Serves until the process ends.
pub async fn serve(listener: TcpListener) -> Outcome {
    parent::announce(&listener, json!({}))?;
    mini_redis::server::run(listener, pending::<()>()).await
}
