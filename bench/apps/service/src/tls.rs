//! The axum service over TLS (rustls) and HTTP/1, with a certificate that is made at the start.

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::{Outcome, http, parent};

/// Serves until the process ends. The line for the parent has the certificate.
pub async fn serve(listener: TcpListener) -> Outcome {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = made.signing_key.serialize_der().try_into()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let service = TowerToHyperService::new(http::router().await?);
    parent::announce(&listener, json!({ "certificate": certificate.as_ref() }))?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (acceptor, service) = (acceptor.clone(), service.clone());
        tokio::spawn(async move {
            // A generator that is done just closes its connections.
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}
