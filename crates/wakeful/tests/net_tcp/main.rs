//! TCP on the real kernel, on both kinds of runtime.

mod lifetime;
mod load;

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::net::{self, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use wakeful::io::{AsyncReadExt, AsyncWriteExt, Interest};
use wakeful::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::select;
use wakeful::task::yield_now;
use wakeful::time::timeout;

#[path = "../support"]
mod support {
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::runtimes::{TestRuntime, watch};

/// The time limit of a test. Only a bug reaches it.
const LIMIT: Duration = Duration::from_secs(600);

fn runtimes() -> [TestRuntime; 3] {
    let multi = |workers| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).enable_all().on_orphan(OrphanPolicy::Panic);
        watch("multi_thread", &mut builder)
    };
    let mut current = Builder::new_current_thread();
    current.enable_all().on_orphan(OrphanPolicy::Panic);
    [watch("current_thread", &mut current), multi(1), multi(2)]
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Two ends of one connection.
async fn pair() -> (TcpStream, TcpStream) {
    let (listener, addr) = listen().await;
    let (near, far) = wakeful::join!(TcpStream::connect(addr), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

async fn echo(mut stream: TcpStream) -> u64 {
    let (mut read, mut write) = stream.split();
    wakeful::io::copy(&mut read, &mut write).await.unwrap()
}

#[test]
fn an_echo_server_returns_the_data() {
    for rt in runtimes() {
        let (_, addr) = rt.block_on(async {
            let (listener, addr) = listen().await;
            let server = wakeful::spawn(async move {
                let mut echoed = Vec::new();
                for _ in 0..8 {
                    let (stream, peer) = listener.accept().await.unwrap();
                    assert_eq!(stream.peer_addr().unwrap(), peer);
                    echoed.push(wakeful::spawn(echo(stream)));
                }
                let mut bytes = 0;
                for task in echoed {
                    bytes += task.await.unwrap();
                }
                bytes
            });
            let clients: Vec<_> = (0..8u8)
                .map(|n| {
                    wakeful::spawn(async move {
                        let mut stream = TcpStream::connect(addr).await.unwrap();
                        stream.set_nodelay(true).unwrap();
                        for round in 0..50u8 {
                            stream.write_all(&[n, round, 7]).await.unwrap();
                            let mut back = [0; 3];
                            stream.read_exact(&mut back).await.unwrap();
                            assert_eq!(back, [n, round, 7]);
                        }
                        stream.shutdown().await.unwrap();
                        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            assert_eq!(server.await.unwrap(), 8 * 50 * 3);
            ((), addr)
        });
        // The listener is gone with its task.
        let refused = rt.block_on(TcpStream::connect(addr)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{}", rt.name);
    }
}

#[test]
fn a_half_closed_connection_goes_on_in_the_other_direction() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut near, mut far) = pair().await;
            near.shutdown().await.unwrap();
            near.shutdown().await.unwrap();
            assert_eq!(far.read(&mut [0; 4]).await.unwrap(), 0);
            far.write_all(b"still").await.unwrap();
            drop(far);
            let mut rest = String::new();
            near.read_to_string(&mut rest).await.unwrap();
            assert_eq!(rest, "still");
        });
    }
}

#[test]
fn a_full_connection_pushes_back_until_it_is_read() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, mut far) = pair().await;
            let mut sent = 0;
            // Until the buffers of both sides are full.
            loop {
                near.writable().await.unwrap();
                match near.try_write(&[1; 64 << 10]) {
                    Ok(count) => sent += count,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        let mut writable = pin!(near.writable());
                        let full =
                            poll_fn(|cx| Poll::Ready(writable.as_mut().poll(cx).is_pending()));
                        if full.await {
                            break;
                        }
                    }
                }
            }
            let more = wakeful::spawn(async move {
                let mut near = near;
                near.write_all(&[2; 1 << 20]).await.unwrap();
            });
            let (mut ones, mut twos) = (0, 0);
            let mut buf = vec![0; 100_000];
            loop {
                let count = far.read(&mut buf).await.unwrap();
                if count == 0 {
                    break;
                }
                ones += buf[..count].iter().filter(|byte| **byte == 1).count();
                twos += buf[..count].iter().filter(|byte| **byte == 2).count();
            }
            assert_eq!((ones, twos), (sent, 1 << 20));
            more.await.unwrap();
        });
    }
}

#[test]
fn a_reset_by_the_other_side_is_an_error() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut near, far) = pair().await;
            near.write_all(b"unread").await.unwrap();
            far.set_zero_linger().unwrap();
            assert_eq!(far.linger().unwrap(), Some(std::time::Duration::ZERO));
            drop(far);
            let error = near.read(&mut [0; 4]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
    }
}

#[test]
fn accepting_can_be_cancelled_at_any_point() {
    for rt in runtimes() {
        rt.block_on(async {
            let (listener, addr) = listen().await;
            let clients: Vec<_> =
                (0..50).map(|_| wakeful::spawn(TcpStream::connect(addr))).collect();
            let mut accepted = 0;
            while accepted < 50 {
                select! {
                    connection = listener.accept() => {
                        connection.unwrap();
                        accepted += 1;
                    }
                    () = yield_now() => {}
                }
            }
            for client in clients {
                client.await.unwrap().unwrap();
            }
        });
    }
}

#[test]
fn looking_ahead_takes_nothing_away() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut near, far) = pair().await;
            near.write_all(b"abc").await.unwrap();
            let mut buf = [0; 2];
            assert_eq!(far.peek(&mut buf).await.unwrap(), 2);
            assert_eq!(far.peek(&mut buf).await.unwrap(), 2);
            let (mut read, write) = far.into_split();
            assert_eq!(read.peek(&mut buf).await.unwrap(), 2);
            assert_eq!(&buf, b"ab");
            let mut all = [0; 3];
            read.read_exact(&mut all).await.unwrap();
            assert_eq!(&all, b"abc");
            drop(read.reunite(write).unwrap());
        });
    }
}

#[test]
fn halves_of_different_connections_do_not_fit() {
    for rt in runtimes() {
        rt.block_on(async {
            let ((a, b), (c, d)) = (pair().await, pair().await);
            let ((a_read, a_write), (c_read, c_write)) = (a.into_split(), c.into_split());
            let error = a_read.reunite(c_write).unwrap_err();
            assert_eq!(
                error.to_string(),
                "tried to reunite halves that are not from the same socket"
            );
            // Forgetting one leaves the writing side open.
            a_write.forget();
            drop((b, c_read, d));
        });
    }
}

#[test]
fn readiness_wakes_all_waiters_and_lasts_until_it_is_drained() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut near, far) = pair().await;
            let far = Arc::new(far);
            let waiting: Vec<_> = (0..40)
                .map(|_| {
                    let far = far.clone();
                    wakeful::spawn(async move { far.readable().await.unwrap() })
                })
                .collect();
            yield_now().await;
            near.write_all(b"x").await.unwrap();
            for task in waiting {
                task.await.unwrap();
            }
            let ready = far.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
            assert!(ready.is_readable() && ready.is_writable());
            let mut buf = [0; 8];
            assert_eq!(far.try_read(&mut buf).unwrap(), 1);
            assert_eq!(far.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
            // `try_io` does not call its closure if the socket is not known to be ready. The poller may still report
            // earlier events, at most twice here.
            let is_tried = || {
                let mut tried = false;
                let result = far.try_io(Interest::READABLE, || {
                    tried = true;
                    Err::<(), _>(ErrorKind::WouldBlock.into())
                });
                assert_eq!(result.unwrap_err().kind(), ErrorKind::WouldBlock);
                tried
            };
            assert!((0..3).any(|_| !is_tried()));
            drop(near);
            while !far.ready(Interest::READABLE).await.unwrap().is_read_closed() {
                is_tried(); // the event of the end may come late too
            }
        });
    }
}

#[test]
fn options_are_those_of_the_system() {
    for rt in runtimes() {
        rt.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_keepalive(true).unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.set_reuseport(true).unwrap();
            socket.set_nodelay(true).unwrap();
            socket.set_send_buffer_size(10_000).unwrap();
            socket.set_recv_buffer_size(10_000).unwrap();
            assert!(socket.keepalive().unwrap() && socket.reuseaddr().unwrap());
            assert!(socket.reuseport().unwrap() && socket.nodelay().unwrap());
            assert!(socket.send_buffer_size().unwrap() >= 10_000);
            assert!(socket.recv_buffer_size().unwrap() >= 10_000);
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let addr = socket.local_addr().unwrap();
            let listener = socket.listen(16).unwrap();
            assert_eq!(listener.local_addr().unwrap(), addr);
            let stream = TcpSocket::new_v4().unwrap().connect(addr).await.unwrap();
            stream.set_ttl(7).unwrap();
            assert_eq!(stream.ttl().unwrap(), 7);
            stream.set_quickack(true).unwrap();
            assert!(stream.take_error().unwrap().is_none());
        });
    }
}

#[test]
fn a_write_of_more_slices_than_the_system_takes_is_no_sign_of_a_full_connection() {
    const SLICES: usize = 3000;
    for rt in runtimes() {
        rt.block_on(async {
            let (mut near, mut far) = pair().await;
            let slices = vec![IoSlice::new(b"x"); SLICES];
            let taken = near.write_vectored(&slices).await.unwrap();
            assert!((1..SLICES).contains(&taken), "{taken}, {}", rt.name);
            timeout(LIMIT, near.write_all(b"more")).await.expect("there is room").unwrap();
            let mut all = vec![0; taken + 4];
            far.read_exact(&mut all).await.unwrap();
            assert!(all.ends_with(b"xmore"));
        });
    }
}

#[test]
fn nothing_is_looked_up_before_the_first_poll() {
    drop(TcpStream::connect("localhost:9"));
    drop(lookup_host("localhost:9"));
    for rt in runtimes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // The function is called outside of a runtime, and its future is polled inside.
        rt.block_on(TcpStream::connect(("localhost", port))).unwrap();
        rt.block_on(TcpListener::bind("localhost:0")).unwrap();
    }
}

#[test]
fn names_are_looked_up() {
    for rt in runtimes() {
        rt.block_on(async {
            let addrs: Vec<SocketAddr> = lookup_host("127.0.0.1:80").await.unwrap().collect();
            assert_eq!(addrs, ["127.0.0.1:80".parse().unwrap()]);
            let local: Vec<SocketAddr> = lookup_host(("localhost", 80)).await.unwrap().collect();
            assert!(local.iter().all(|addr| addr.ip().is_loopback()) && !local.is_empty());
            assert!(lookup_host("no port here").await.is_err());
            let error = TcpStream::connect(&[][..] as &[SocketAddr]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        });
    }
}

#[test]
fn ipv6_works_too() {
    for rt in runtimes() {
        rt.block_on(async {
            let Ok(listener) = TcpListener::bind("[::1]:0").await else {
                return; // a machine without it
            };
            let addr = listener.local_addr().unwrap();
            let (near, far) = wakeful::join!(TcpStream::connect(addr), listener.accept());
            assert_eq!(far.unwrap().1, near.unwrap().local_addr().unwrap());
        });
    }
}

#[test]
fn the_first_read_of_an_accepted_stream_finds_what_was_sent_before() {
    for rt in runtimes() {
        let (accepted, _client) = rt.block_on(async {
            let (listener, addr) = listen().await;
            let mut client = net::TcpStream::connect(addr).unwrap();
            std::io::Write::write_all(&mut client, b"hello").unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            (accepted, client)
        });
        // The poller was not polled since the accept.
        let mut buf = [0; 5];
        assert_eq!(accepted.try_read(&mut buf[..3]).unwrap(), 3, "{}", rt.name);
        assert_eq!(accepted.try_write(b"you too").unwrap(), 7, "{}", rt.name);
        let TestRuntime { runtime, reports, name } = rt;
        drop(runtime);
        // Known readiness outlives the runtime, so the socket can still be read.
        assert_eq!(accepted.try_read(&mut buf[3..]).unwrap(), 2, "{name}");
        assert_eq!(&buf, b"hello", "{name}");
        drop((accepted, reports));
    }
}

/// A closure that returns `WouldBlock` for its own reasons does not hide the end of the stream.
#[test]
fn an_end_is_not_taken_back_by_what_would_block_for_another_reason() {
    for rt in runtimes() {
        rt.block_on(async {
            let (theirs, mut mine) = pair().await;
            drop(theirs);
            mine.readable().await.unwrap();
            let both = Interest::READABLE | Interest::WRITABLE;
            for _ in 0..2 {
                let would_block = || Err::<(), _>(ErrorKind::WouldBlock.into());
                mine.try_io(both, would_block).unwrap_err();
            }
            let read = timeout(LIMIT, async { mine.read(&mut [0; 8]).await.unwrap() }).await;
            assert_eq!(read.expect("the end is there"), 0);
        });
    }
}
