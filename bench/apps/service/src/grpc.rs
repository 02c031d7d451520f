//! A tonic service with one unary call, `/service.Sums/Double`.

use serde_json::json;
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::{Outcome, parent};

/// The message of the call and of its answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Number {
    #[prost(int64, tag = "1")]
    value: i64,
}

/// Written by `build.rs`.
mod generated {
    #![allow(missing_docs, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/service.Sums.rs"));
}
use generated::sums_server::{Sums, SumsServer};

struct Doubler;

#[tonic::async_trait]
impl Sums for Doubler {
    async fn double(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let value = request.into_inner().value;
        let doubled = value.checked_mul(2).ok_or_else(|| Status::out_of_range("too large"))?;
        Ok(Response::new(Number { value: doubled }))
    }
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener) -> Outcome {
    parent::announce(&listener, json!({}))?;
    let connections = TcpListenerStream::new(listener).map(|stream| {
        let stream = stream?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    });
    let server = Server::builder().add_service(SumsServer::new(Doubler));
    Ok(server.serve_with_incoming(connections).await?)
}
