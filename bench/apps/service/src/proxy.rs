//! A reverse proxy: hyper's client behind axum.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::uri::{Authority, Scheme};
use axum::http::{Request, Response, StatusCode, Uri};
use axum::routing::any;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{Outcome, http, parent};

#[derive(Clone)]
struct Upstream {
    client: Client<HttpConnector, Body>,
    authority: Authority,
}

/// Serves until the process ends what the server at `upstream` answers.
pub async fn serve(listener: TcpListener, upstream: &str) -> Outcome {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let upstream = Upstream { client, authority: upstream.parse()? };
    let router = Router::new().fallback(any(forward)).with_state(upstream);
    parent::announce(&listener, json!({}))?;
    http::serve_router(listener, router).await
}

async fn forward(
    State(upstream): State<Upstream>,
    mut request: Request<Body>,
) -> Result<Response<Body>, StatusCode> {
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(upstream.authority);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| StatusCode::BAD_REQUEST)?;
    let answer = upstream.client.request(request).await;
    answer.map(|answer| answer.map(Body::new)).map_err(|_| StatusCode::BAD_GATEWAY)
}
