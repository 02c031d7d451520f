//! tonic: calls with one message and with streams, both ways, with and without TLS.

use interop::on_every_runtime;
use std::net::SocketAddr;
use std::pin::Pin;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Code, Request, Response, Status, Streaming};

#[derive(Clone, PartialEq, prost::Message)]
pub struct Number {
    #[prost(int64, tag = "1")]
    value: i64,
}

fn number(value: i64) -> Number {
    Number { value }
}

/// The code that `build.rs` generates.
mod generated {
    #![allow(missing_docs, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/interop.Sums.rs"));
}
use generated::sums_client::SumsClient;
use generated::sums_server::{Sums, SumsServer};

struct Server;

type Numbers = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

#[tonic::async_trait]
impl Sums for Server {
    type CountStream = Numbers;
    type RunningStream = Numbers;

    async fn double(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let value = request.into_inner().value;
        let doubled =
            value.checked_mul(2).ok_or_else(|| Status::out_of_range("too large to double"))?;
        Ok(Response::new(number(doubled)))
    }

    async fn count(&self, request: Request<Number>) -> Result<Response<Numbers>, Status> {
        let (sender, receiver) = mpsc::channel(4);
        let end = request.into_inner().value;
        tokio::spawn(async move {
            for value in 0..end {
                if sender.send(Ok(number(value))).await.is_err() {
                    return; // the client has dropped the stream
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn sum(&self, request: Request<Streaming<Number>>) -> Result<Response<Number>, Status> {
        let mut numbers = request.into_inner();
        let mut sum = 0;
        while let Some(number) = numbers.message().await? {
            sum += number.value;
        }
        Ok(Response::new(number(sum)))
    }

    async fn running(
        &self,
        request: Request<Streaming<Number>>,
    ) -> Result<Response<Numbers>, Status> {
        let mut sum = 0;
        let sums = request.into_inner().map(move |next| {
            sum += next?.value;
            Ok(number(sum))
        });
        Ok(Response::new(Box::pin(sums)))
    }
}

/// A server that runs until `shut_down` is sent.
struct Running {
    address: SocketAddr,
    shut_down: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(mut builder: tonic::transport::Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shut_down, is_shut_down) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let server = builder.add_service(SumsServer::new(Server));
            let incoming = TcpListenerStream::new(listener);
            let end = async { is_shut_down.await.unwrap() };
            server.serve_with_incoming_shutdown(incoming, end).await.unwrap();
        });
        Self { address, shut_down, task }
    }

    async fn stop(self) {
        self.shut_down.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Makes calls of all four kinds over one connection.
async fn make_calls(mut client: SumsClient<Channel>) {
    // One message each way, many calls at once.
    let calls: Vec<_> = (0..50)
        .map(|value| {
            let mut client = client.clone();
            tokio::spawn(async move { client.double(number(value)).await.unwrap().into_inner() })
        })
        .collect();
    for (value, call) in (0..).zip(calls) {
        assert_eq!(call.await.unwrap(), number(2 * value));
    }
    let refused = client.double(number(i64::MAX)).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::OutOfRange, "too large to double"));

    // A stream of answers, read to its end, and another one dropped early.
    let counted: Vec<i64> = client
        .count(number(1000))
        .await
        .unwrap()
        .into_inner()
        .map(|next| next.unwrap().value)
        .collect()
        .await;
    assert_eq!(counted, (0..1000).collect::<Vec<_>>());
    let mut endless = client.count(number(i64::MAX)).await.unwrap().into_inner();
    assert_eq!(endless.next().await.unwrap().unwrap(), number(0));
    drop(endless);

    // A stream of requests.
    let sum = client.sum(tokio_stream::iter((1..=1000).map(number))).await.unwrap();
    assert_eq!(sum.into_inner(), number(500_500));

    // Streams both ways, by turns.
    let (sender, receiver) = mpsc::channel(1);
    let running = client.running(ReceiverStream::new(receiver)).await.unwrap();
    let mut running = running.into_inner();
    let mut expected = 0;
    for value in 0..100 {
        sender.send(number(value)).await.unwrap();
        expected += value;
        assert_eq!(running.next().await.unwrap().unwrap(), number(expected));
    }
    drop(sender);
    assert!(running.next().await.is_none());
}

#[test]
fn calls_of_all_four_kinds() {
    on_every_runtime(|| async {
        let server = Running::start(tonic::transport::Server::builder()).await;
        make_calls(SumsClient::connect(format!("http://{}", server.address)).await.unwrap()).await;
        server.stop().await;
    });
}

/// tonic's TLS server polls a new `JoinSet::join_next` for its handshakes each time it is polled, and drops it.
#[test]
fn calls_over_tls_from_several_connections() {
    on_every_runtime(|| async {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let identity = Identity::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
        let tls = ServerTlsConfig::new().identity(identity);
        let server =
            Running::start(tonic::transport::Server::builder().tls_config(tls).unwrap()).await;
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(made.cert.pem()))
            .domain_name("localhost");
        let endpoint = Channel::from_shared(format!("https://{}", server.address)).unwrap();
        let endpoint = endpoint.tls_config(tls).unwrap();

        // One connection after the other, then several at once.
        for _ in 0..3 {
            make_calls(SumsClient::new(endpoint.connect().await.unwrap())).await;
        }
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            let endpoint = endpoint.clone();
            clients.spawn(async move {
                make_calls(SumsClient::new(endpoint.connect().await.unwrap())).await;
            });
        }
        clients.join_all().await;

        // A client that trusts other certificates is refused, and the server goes on.
        let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(stranger.cert.pem()))
            .domain_name("localhost");
        assert!(endpoint.clone().tls_config(tls).unwrap().connect().await.is_err());
        make_calls(SumsClient::new(endpoint.connect().await.unwrap())).await;
        server.stop().await;
    });
}
