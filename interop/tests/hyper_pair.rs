//! hyper: a client and a server, over HTTP/1 and HTTP/2.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, client, server};
use hyper_util::rt::{TokioExecutor, TokioIo};
use interop::on_every_runtime;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http1,
    Http2,
}

/// Answers with what it gets, backwards.
async fn backwards(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    if request.method() != Method::POST {
        let refused = Response::builder().status(StatusCode::METHOD_NOT_ALLOWED);
        return Ok(refused.body(Full::default()).expect("it has no headers"));
    }
    let mut bytes = request.into_body().collect().await?.to_bytes().to_vec();
    bytes.reverse();
    Ok(Response::new(Full::new(bytes.into())))
}

/// Serves this number of connections.
async fn serve(kind: Kind, connections: usize) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut served = JoinSet::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper::service::service_fn(backwards);
            served.spawn(async move {
                let io = TokioIo::new(stream);
                match kind {
                    Kind::Http1 => {
                        server::conn::http1::Builder::new().serve_connection(io, service).await
                    }
                    Kind::Http2 => {
                        let builder = server::conn::http2::Builder::new(TokioExecutor::new());
                        builder.serve_connection(io, service).await
                    }
                }
            });
        }
        while let Some(served) = served.join_next().await {
            served.unwrap().unwrap();
        }
    });
    (address, server)
}

fn post(body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::post("/").header("host", "localhost");
    request.body(Full::new(body.into())).expect("a valid request")
}

async fn body(response: Response<Incoming>) -> Vec<u8> {
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[test]
fn many_requests_on_one_connection_of_http_1() {
    on_every_runtime(|| async {
        let (address, server) = serve(Kind::Http1, 1).await;
        let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut sender, connection) = client::conn::http1::handshake(io).await.unwrap();
        let connection = tokio::spawn(connection);
        for size in (0..100).chain([1_000_000]) {
            sender.ready().await.unwrap();
            let sent: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut got = body(sender.send_request(post(sent.clone())).await.unwrap()).await;
            got.reverse();
            assert!(got == sent, "{size}");
        }
        let refused = Request::get("/").header("host", "localhost").body(Full::default()).unwrap();
        sender.ready().await.unwrap();
        let refused = sender.send_request(refused).await.unwrap();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        drop((refused, sender));
        connection.await.unwrap().unwrap();
        server.await.unwrap();
    });
}

#[test]
fn many_requests_at_once_on_one_connection_of_http_2() {
    on_every_runtime(|| async {
        let (address, server) = serve(Kind::Http2, 1).await;
        let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let handshake = client::conn::http2::handshake(TokioExecutor::new(), io);
        let (sender, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(connection);
        let mut requests = JoinSet::new();
        for number in 0..100usize {
            let mut sender = sender.clone();
            requests.spawn(async move {
                let sent = vec![number as u8; 1000 * number];
                sender.ready().await.unwrap();
                let got = body(sender.send_request(post(sent.clone())).await.unwrap()).await;
                assert!(got == sent, "{number}");
            });
        }
        while let Some(done) = requests.join_next().await {
            done.unwrap();
        }
        drop(sender);
        connection.await.unwrap().unwrap();
        server.await.unwrap();
    });
}

#[test]
fn many_connections_at_once() {
    on_every_runtime(|| async {
        let (address, server) = serve(Kind::Http1, 50).await;
        let mut clients = JoinSet::new();
        for number in 0..50u8 {
            clients.spawn(async move {
                let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
                let (mut sender, connection) = client::conn::http1::handshake(io).await.unwrap();
                let connection = tokio::spawn(connection);
                let got = body(sender.send_request(post(vec![number; 5000])).await.unwrap()).await;
                assert!(got == vec![number; 5000]);
                drop(sender);
                connection.await.unwrap().unwrap();
            });
        }
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
        server.await.unwrap();
    });
}
