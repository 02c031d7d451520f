//! hyper in a simulation: a server and its clients on two hosts, over a network that loses packets.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use std::time::Duration;
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sim::{Sim, Simulation};
use wakeful::time::{Instant, sleep};
use wakeful_hyper::{Executor, Io, Timer};

const SEEDS: u64 = 5;
const REQUESTS: usize = 150;
const LATENCY_MS: u64 = 2;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Clone, Copy, PartialEq)]
enum Version {
    Http1,
    Http2,
}

/// Answers with the body of the request, reversed. Some answers take longer than others.
async fn reversed(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body().collect().await?.to_bytes().to_vec();
    body.reverse();
    sleep(ms(body.len() as u64 % 7)).await;
    Ok(Response::new(Full::new(body.into())))
}

async fn serve(version: Version) {
    let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (io, service) = (Io::new(stream), service_fn(reversed));
        // Without the date header: it has the machine's time, which differs from run to run.
        wakeful::spawn(async move {
            let served = match version {
                Version::Http1 => {
                    let mut server = http1::Builder::new();
                    let server = server.timer(Timer::new()).auto_date_header(false);
                    server.serve_connection(io, service).await
                }
                Version::Http2 => {
                    let mut server = http2::Builder::new(Executor::new());
                    let server = server.timer(Timer::new()).auto_date_header(false);
                    server.serve_connection(io, service).await
                }
            };
            served.expect("the client says good-bye");
        });
    }
}

/// Returns a body that is larger than the buffers of a connection from time to time.
fn body_of(nth: usize) -> Vec<u8> {
    let len = if nth.is_multiple_of(25) { 150_000 } else { nth * 37 % 2_000 };
    (0..len).map(|at| (at * 31 + nth) as u8).collect()
}

fn request(nth: usize) -> Request<Full<Bytes>> {
    Request::post("http://server/").body(Full::new(body_of(nth).into())).unwrap()
}

async fn check(nth: usize, response: Response<Incoming>) {
    assert_eq!(response.status(), StatusCode::OK);
    let mut answer = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    answer.reverse();
    assert!(answer == body_of(nth), "request {nth}: {} bytes came back", answer.len());
}

/// Several connections, each with one request after the other.
async fn http1_clients() {
    const CONNECTIONS: usize = 3;
    let client = |first: usize| async move {
        let io = Io::new(TcpStream::connect("server:80").await.unwrap());
        let (mut sender, connection) = client1::handshake(io).await.unwrap();
        let connection = wakeful::spawn(connection);
        for nth in (first..REQUESTS).step_by(CONNECTIONS) {
            check(nth, sender.send_request(request(nth)).await.unwrap()).await;
            sender.ready().await.unwrap();
        }
        drop(sender);
        connection.await.unwrap().expect("it ends with its last request");
    };
    let clients: Vec<_> = (0..CONNECTIONS).map(|first| wakeful::spawn(client(first))).collect();
    for client in clients {
        client.await.unwrap();
    }
}

/// One connection, which all requests share.
async fn http2_client() {
    let io = Io::new(TcpStream::connect("server:80").await.unwrap());
    let (sender, connection) = client2::handshake(Executor::new(), io).await.unwrap();
    let connection = wakeful::spawn(connection);
    let requests: Vec<_> = (0..REQUESTS)
        .map(|nth| {
            let mut sender = sender.clone();
            wakeful::spawn(async move {
                check(nth, sender.send_request(request(nth)).await.unwrap()).await;
            })
        })
        .collect();
    drop(sender);
    for request in requests {
        request.await.unwrap();
    }
    connection.await.unwrap().expect("it ends with its last sender");
}

async fn talk(sim: Sim, version: Version) {
    sim.network().latency(ms(LATENCY_MS)..ms(20)).loss(0.02);
    sim.host("server", move || serve(version));
    sleep(ms(1)).await;
    let began = Instant::now();
    match version {
        Version::Http1 => http1_clients().await,
        Version::Http2 => http2_client().await,
    }
    assert!(began.elapsed() > ms(4 * LATENCY_MS), "it crosses the network");
}

/// Returns the hash of a run. Panics if the run fails.
fn hash(seed: u64, version: Version) -> u64 {
    let outcome = Simulation::new(seed).run(move |sim| talk(sim, version));
    let hash = outcome.hash();
    outcome.unwrap();
    hash
}

fn runs_alike(version: Version) {
    let hashes: Vec<u64> = (0..SEEDS).map(|seed| hash(seed, version)).collect();
    for (seed, first) in (0..).zip(&hashes) {
        assert_eq!(hash(seed, version), *first, "seed {seed}");
    }
    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]), "a seed decides something");
}

#[test]
fn http1_over_a_network_that_loses_packets() {
    runs_alike(Version::Http1);
}

#[test]
fn http2_over_a_network_that_loses_packets() {
    runs_alike(Version::Http2);
}

/// A client on its own host that is cut off gets an error, and not an answer.
#[test]
fn a_server_that_is_killed_ends_its_requests() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|sim| async move {
            let server = sim.host("server", || serve(Version::Http2));
            sleep(ms(1)).await;
            let io = Io::new(TcpStream::connect("server:80").await.unwrap());
            let (mut sender, connection) = client2::handshake(Executor::new(), io).await.unwrap();
            let connection = wakeful::spawn(connection);
            check(1, sender.send_request(request(1)).await.unwrap()).await;
            server.kill();
            assert!(sender.send_request(request(2)).await.is_err());
            assert!(connection.await.unwrap().is_err());
        });
        outcome.unwrap();
    }
}
