//! hyper clients and servers on wakeful, over TCP on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::rt::Timer as _;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use wakeful::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful_hyper::{Executor, Io, Timer};

#[path = "../../wakeful/tests/support/runtimes.rs"]
mod runtimes;
use runtimes::{TestRuntime, watch};

/// Returns a runtime of every flavor, with all drivers enabled.
fn all_runtimes() -> [TestRuntime; 3] {
    let built = |name, mut builder: Builder| {
        watch(name, builder.enable_all().on_orphan(OrphanPolicy::Panic))
    };
    let multi = |workers| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers);
        builder
    };
    [
        built("current_thread", Builder::new_current_thread()),
        built("multi_thread", multi(1)),
        built("multi_thread", multi(2)),
    ]
}

/// Answers with the body of the request, reversed.
async fn reversed(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body().collect().await?.to_bytes().to_vec();
    body.reverse();
    Ok(Response::new(Full::new(body.into())))
}

/// Returns an empty body, a short one, and one that is larger than socket buffers.
fn bodies() -> Vec<Vec<u8>> {
    // Cheap to compute, so that no poll takes long.
    let piece: Vec<u8> =
        (0..65_521u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    vec![b"".to_vec(), b"hello".to_vec(), piece.repeat(46)]
}

async fn connected(addr: SocketAddr) -> Io<TcpStream> {
    Io::new(TcpStream::connect(addr).await.expect("the listener is there"))
}

/// Listens, and serves this many `connections` with `serve`.
async fn server<F>(
    connections: usize,
    serve: impl Fn(Io<TcpStream>) -> F + Send + 'static,
) -> (SocketAddr, wakeful::task::JoinHandle<()>)
where
    F: Future<Output = hyper::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let task = wakeful::spawn(async move {
        let mut served = wakeful::task::JoinSet::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.unwrap();
            served.spawn(serve(Io::new(stream)));
        }
        for outcome in served.join_all().await {
            outcome.expect("the client says good-bye");
        }
    });
    (addr, task)
}

#[test]
fn http1_requests_follow_each_other_on_a_connection() {
    for rt in all_runtimes() {
        rt.block_on(async {
            let (addr, server) = server(4, |io| {
                http1::Builder::new().timer(Timer::new()).serve_connection(io, service_fn(reversed))
            })
            .await;
            let clients: Vec<_> = (0..4).map(|_| wakeful::spawn(http1_client(addr))).collect();
            for client in clients {
                client.await.expect("the client got its answers");
            }
            server.await.expect("every connection ended well");
        });
    }
}

async fn http1_client(addr: SocketAddr) {
    let (mut sender, connection) = client1::handshake(connected(addr).await).await.unwrap();
    let connection = wakeful::spawn(connection);
    for body in bodies() {
        let request = Request::post("/").body(Full::new(Bytes::from(body.clone()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let mut answer = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        answer.reverse();
        assert!(answer == body, "{} bytes came back for {}", answer.len(), body.len());
        sender.ready().await.unwrap();
    }
    drop(sender);
    connection.await.unwrap().expect("it ends with its last request");
}

#[test]
fn http2_requests_share_a_connection() {
    for rt in all_runtimes() {
        let executor = Executor::on(rt.handle().clone()).named("http2");
        rt.block_on(async {
            let (addr, server) = server(1, move |io| {
                http2::Builder::new(executor.clone())
                    .timer(Timer::new())
                    .keep_alive_interval(Duration::from_secs(60))
                    .serve_connection(io, service_fn(reversed))
            })
            .await;
            let io = connected(addr).await;
            let (sender, connection) = client2::handshake(Executor::new(), io).await.unwrap();
            let connection = wakeful::spawn(connection);
            let requests = bodies().into_iter().cycle().take(30).map(|body| {
                let mut sender = sender.clone();
                wakeful::spawn(async move {
                    let sent = Full::new(Bytes::from(body.clone()));
                    let response =
                        sender.send_request(Request::post("http://here/").body(sent).unwrap());
                    let answer = response.await.unwrap().into_body().collect().await.unwrap();
                    let mut answer = answer.to_bytes().to_vec();
                    answer.reverse();
                    assert!(answer == body, "{} bytes came back for {}", answer.len(), body.len());
                })
            });
            for request in requests.collect::<Vec<_>>() {
                request.await.expect("every request is answered");
            }
            drop(sender);
            connection.await.unwrap().expect("it ends with its last sender");
            server.await.expect("the connection ended well");
        });
    }
}

/// The other direction of the adaptor: hyper's upgraded connection as a stream.
#[test]
fn an_upgraded_connection_is_a_stream_of_wakeful() {
    async fn upgrade(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        wakeful::spawn(async move {
            let upgraded = hyper::upgrade::on(request).await.expect("the answer was sent");
            let mut stream = Io::new(upgraded);
            let mut line = [0; 5];
            stream.read_exact(&mut line).await.unwrap();
            line.reverse();
            stream.write_all(&line).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        let response = response.header("connection", "upgrade").header("upgrade", "mirror");
        Ok(response.body(Full::default()).unwrap())
    }
    for rt in all_runtimes() {
        rt.block_on(async {
            let (addr, server) = server(1, |io| {
                http1::Builder::new().serve_connection(io, service_fn(upgrade)).with_upgrades()
            })
            .await;
            let (mut sender, connection) = client1::handshake(connected(addr).await).await.unwrap();
            let connection = wakeful::spawn(connection.with_upgrades());
            let request =
                Request::get("/").header("connection", "upgrade").header("upgrade", "mirror");
            let response =
                sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await;
            let mut stream = Io::new(hyper::upgrade::on(response.unwrap()).await.unwrap());
            stream.write_all(b"abcde").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "edcba");
            connection.await.unwrap().expect("the connection is handed over");
            server.await.expect("the server hands it over too");
        });
    }
}

/// A client that never finishes its request is disconnected by the timer. The clock is paused, so no
/// real time passes; it advances when all tasks wait.
#[test]
fn a_time_out_of_hypers_goes_by_the_clock_of_the_runtime() {
    let mut builder = Builder::new_current_thread();
    let rt = watch("current_thread", builder.enable_all().start_paused(true));
    rt.block_on(async {
        let before = wakeful::time::Instant::now();
        // In memory: a paused clock does not wait for sockets.
        let (near, mut far) = wakeful::io::duplex(1024);
        let connection = http1::Builder::new()
            .timer(Timer::new())
            .header_read_timeout(Duration::from_secs(3600))
            .serve_connection(Io::new(near), service_fn(reversed));
        far.write_all(b"POST / HTTP/1.1\r\n").await.unwrap();
        let error = connection.await.expect_err("half a request is none");
        assert!(error.is_timeout(), "{error:?}");
        assert_eq!(before.elapsed().as_secs(), 3600);
    });
}

#[test]
fn a_sleep_is_moved_where_it_is() {
    let mut builder = Builder::new_current_thread();
    let rt = watch("current_thread", builder.enable_all().start_paused(true));
    rt.block_on(async {
        let timer = Timer::new();
        let begin = timer.now();
        let mut sleep = timer.sleep(Duration::from_secs(1));
        let place = &raw const *sleep;
        timer.reset(&mut sleep, begin + Duration::from_secs(5));
        assert!(std::ptr::addr_eq(place, &raw const *sleep), "no new one was made");
        sleep.await;
        assert_eq!((timer.now() - begin).as_secs(), 5);
        timer.sleep_until(begin + Duration::from_secs(7)).await;
        assert_eq!((timer.now() - begin).as_secs(), 7);

        /// A sleep of another crate.
        struct Foreign;
        impl Future for Foreign {
            type Output = ();
            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
                Poll::Ready(())
            }
        }
        impl hyper::rt::Sleep for Foreign {}
        let mut foreign: Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Foreign);
        timer.reset(&mut foreign, begin + Duration::from_secs(9));
        foreign.await;
        assert_eq!((timer.now() - begin).as_secs(), 9, "ours takes its place");
    });
}

/// Sends data both ways through the adapter, with more on each side than fits. The data arrives
/// unchanged, and earlier contents of the buffer are kept.
#[test]
fn nothing_is_lost_through_two_adaptors() {
    let rt = watch("current_thread", Builder::new_current_thread().enable_all());
    rt.block_on(async {
        let (near, mut far) = wakeful::io::duplex(7);
        let mut near = Io::new(Io::new(near));
        let text: Vec<u8> = (0..=255).collect();
        let write = async {
            far.write_all(&text).await.unwrap();
            far.shutdown().await.unwrap();
        };
        let read = async {
            let mut all = b"before".to_vec();
            near.read_to_end(&mut all).await.unwrap();
            all
        };
        let (all, ()) = wakeful::join!(read, write);
        assert_eq!(all, [b"before".as_slice(), &text].concat());
    });
}

/// A reader that swaps the buffer it was lent must not make the adapter trust the other one.
#[test]
#[should_panic(expected = "replaced the buffer by another one")]
fn a_swapped_buffer_is_noticed() {
    struct Swaps;
    impl AsyncRead for Swaps {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let mut other = ReadBuf::new(Box::leak(Box::new([0; 64])));
            other.set_filled(64);
            *buf = other;
            Poll::Ready(Ok(()))
        }
    }
    let mut reader = pin!(Io::new(Io::new(Swaps)));
    let mut space = [0; 8];
    let mut buf = ReadBuf::new(&mut space);
    let _ = reader.as_mut().poll_read(&mut Context::from_waker(std::task::Waker::noop()), &mut buf);
}
