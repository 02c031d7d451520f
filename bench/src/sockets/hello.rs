//! The answer of the HTTP servers.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

const TEXT: &str = "Hello, World!";

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(TEXT.as_bytes()))))
}

/// Serves one connection to its end.
pub async fn serve<I: Read + Write + Unpin>(io: I) {
    // A generator that is done just closes its connections.
    let _ = http1::Builder::new().serve_connection(io, service_fn(hello)).await;
}

/// Returns the answer as bytes, for the server that knows nothing of HTTP.
pub fn answer() -> Vec<u8> {
    let date = "Thu, 01 Jan 1970 00:00:00 GMT";
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\ndate: {date}\r\n\r\n{TEXT}", TEXT.len())
        .into()
}
