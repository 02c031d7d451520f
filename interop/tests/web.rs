//! axum: a server with JSON, a WebSocket and a shutdown that lets requests finish, asked by reqwest and by curl.

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{any, get, post};
use axum::{Json, Router};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use interop::on_every_runtime;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_tungstenite::tungstenite;

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Terms {
    terms: Vec<i64>,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Sum {
    sum: i64,
}

/// A request that lasts until it is told to end.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<Notify>,
    end: Arc<Notify>,
}

async fn sum(Json(terms): Json<Terms>) -> Json<Sum> {
    Json(Sum { sum: terms.terms.iter().sum() })
}

async fn slow(State(slow): State<Slow>) -> &'static str {
    slow.begun.notify_one();
    slow.end.notified().await;
    "at last"
}

async fn shout(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            if let Message::Text(text) = message {
                let answer = Message::Text(text.to_uppercase().into());
                socket.send(answer).await.unwrap();
            }
        }
    })
}

fn router(state: Slow) -> Router {
    Router::new()
        .route(
            "/hello/{name}",
            get(|Path(name): Path<String>| async move { format!("hello, {name}") }),
        )
        .route("/sum", post(sum))
        .route("/slow", get(slow))
        .route("/shout", any(shout))
        .with_state(state)
}

struct Server {
    address: SocketAddr,
    slow: Slow,
    shut_down: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shut_down, is_shut_down) = oneshot::channel();
        let slow = Slow::default();
        let router = router(slow.clone());
        let done = tokio::spawn(async move {
            let server = axum::serve(listener, router);
            let server = server.with_graceful_shutdown(async { is_shut_down.await.unwrap() });
            server.await.unwrap();
        });
        Self { address, slow, shut_down, done }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn stop(self) {
        self.shut_down.send(()).unwrap();
        self.done.await.unwrap();
    }
}

#[test]
fn json_by_reqwest() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let client = reqwest::Client::new();
        let mut requests = JoinSet::new();
        for number in 0..50 {
            let (client, url) = (client.clone(), server.url("/sum"));
            requests.spawn(async move {
                let terms = Terms { terms: (0..=number).collect() };
                let response = client.post(url).json(&terms).send().await.unwrap();
                let sum: Sum = response.json().await.unwrap();
                assert_eq!(sum, Sum { sum: number * (number + 1) / 2 });
            });
        }
        while let Some(done) = requests.join_next().await {
            done.unwrap();
        }
        let wrong = client.post(server.url("/sum")).body("not JSON").send().await.unwrap();
        assert!(wrong.status().is_client_error());
        let missing = client.get(server.url("/nowhere")).send().await.unwrap();
        assert_eq!(missing.status(), 404);
        drop((wrong, missing, client));
        server.stop().await;
    });
}

#[test]
fn the_same_by_curl() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let curl = |path: &str, more: &[&str]| {
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--fail", "--max-time", "30"]).args(more).arg(server.url(path));
            let output = curl.output();
            async {
                let output = output.await.expect("curl is installed");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            }
        };
        assert_eq!(curl("/hello/curl", &[]).await, "hello, curl");
        let json = ["-H", "content-type: application/json", "-d", r#"{"terms":[1,2,39]}"#];
        assert_eq!(curl("/sum", &json).await, r#"{"sum":42}"#);
        server.stop().await;
    });
}

#[test]
fn a_web_socket() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let url = format!("ws://{}/shout", server.address);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        for number in 0..100 {
            let message = tungstenite::Message::text(format!("message {number}"));
            socket.send(message).await.unwrap();
            let answer = socket.next().await.unwrap().unwrap();
            assert_eq!(answer.into_text().unwrap().as_str(), format!("MESSAGE {number}"));
        }
        socket.close(None).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
        drop(socket);
        server.stop().await;
    });
}

#[test]
fn a_shutdown_lets_requests_finish() {
    on_every_runtime(|| async {
        let server = Server::start().await;
        let (url, slow) = (server.url("/slow"), server.slow.clone());
        let request =
            tokio::spawn(async move { reqwest::get(url).await.unwrap().text().await.unwrap() });
        slow.begun.notified().await;
        let address = server.address;
        let stopping = tokio::spawn(server.stop());
        // The server has closed its listener, and waits for the request.
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(!stopping.is_finished() && !request.is_finished());
        slow.end.notify_one();
        assert_eq!(request.await.unwrap(), "at last");
        stopping.await.unwrap();
    });
}

#[test]
fn https_with_rustls_on_both_sides() {
    on_every_runtime(|| async {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let router = router(Slow::default());
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, router) = (acceptor.clone(), router.clone());
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    let builder =
                        hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let service = TowerToHyperService::new(router);
                    // The client may close the connection at any time.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
        for is_old in [false, true] {
            let client =
                reqwest::Client::builder().add_root_certificate(root.clone()).use_rustls_tls();
            let client = if is_old { client.http1_only() } else { client };
            let client = client.resolve("localhost", address).build().unwrap();
            let url = format!("https://localhost:{}/sum", address.port());
            let terms = Terms { terms: (0..100_000).collect() };
            let response = client.post(url).json(&terms).send().await.unwrap();
            let expected =
                if is_old { reqwest::Version::HTTP_11 } else { reqwest::Version::HTTP_2 };
            assert_eq!(response.version(), expected);
            assert_eq!(response.json::<Sum>().await.unwrap(), Sum { sum: 4_999_950_000 });
        }
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
    });
}
