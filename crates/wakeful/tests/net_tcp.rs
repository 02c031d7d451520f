//! TCP on the real kernel, on both kinds of runtime.

use std::future::{pending, poll_fn};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{self, SocketAddr};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use wakeful::io::{AsyncReadExt, AsyncWriteExt, Interest};
use wakeful::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use wakeful::runtime::{Builder, OrphanPolicy};
use wakeful::select;
use wakeful::task::yield_now;
use wakeful::time::timeout;

mod support {
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
}
use support::panic_site::panic_site;
use support::rng::{TestRng, seed};
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

/// Everything that can be done with one connection, mixed at random: readiness, attempts, cancelled reads, polls from
/// another task. Every byte arrives, in order.
#[test]
fn no_readiness_is_lost() {
    let seed = seed();
    for rt in runtimes() {
        let mut rng = TestRng::new(seed);
        rt.block_on(async {
            for _ in 0..20 {
                let (mut near, far) = pair().await;
                let total = 20_000;
                let mut writing_dice = rng.branch();
                let writer = wakeful::spawn(async move {
                    let mut sent = 0usize;
                    while sent < total {
                        let count = (1 + writing_dice.below(700)).min(total - sent);
                        let bytes: Vec<u8> = (sent..sent + count).map(|n| n as u8).collect();
                        near.write_all(&bytes).await.unwrap();
                        sent += count;
                        if writing_dice.one_in(3) {
                            yield_now().await;
                        }
                    }
                });
                let mut far = far;
                let mut received = 0usize;
                let mut buf = [0; 512];
                while received < total {
                    let size = 1 + rng.below(512);
                    let count = match rng.below(4) {
                        0 => far.read(&mut buf[..size]).await.unwrap(),
                        1 => {
                            far.readable().await.unwrap();
                            match far.try_read(&mut buf[..size]) {
                                Ok(count) => count,
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                                    continue;
                                }
                            }
                        }
                        2 => {
                            select! {
                                biased;
                                count = far.read(&mut buf[..size]) => count.unwrap(),
                                () = yield_now() => continue,
                            }
                        }
                        _ => {
                            let mut moved = far;
                            let (back, count, bytes) = wakeful::spawn(async move {
                                let mut buf = vec![0; size];
                                let count = moved.read(&mut buf).await.unwrap();
                                (moved, count, buf)
                            })
                            .await
                            .unwrap();
                            far = back;
                            buf[..count].copy_from_slice(&bytes[..count]);
                            count
                        }
                    };
                    assert_ne!(count, 0, "seed {seed}");
                    for byte in &buf[..count] {
                        assert_eq!(*byte, received as u8, "seed {seed}");
                        received += 1;
                    }
                }
                writer.await.unwrap();
            }
        });
    }
}

#[test]
fn sockets_move_between_runtimes() {
    let [first, second, _] = runtimes();
    let (near, far) = first.block_on(pair());
    let near = near.into_std().unwrap();
    let task = second.spawn(async move {
        let mut near = TcpStream::from_std(near).unwrap();
        near.write_all(b"over").await.unwrap();
    });
    // This end is still registered with the first runtime.
    let mut far = far;
    let mut buf = [0; 4];
    first.block_on(far.read_exact(&mut buf)).unwrap();
    assert_eq!(&buf, b"over");
    second.block_on(task).unwrap();
}

#[test]
fn a_runtime_that_is_gone_answers_with_an_error() {
    for rt in runtimes() {
        let (near, mut far) = rt.block_on(pair());
        let TestRuntime { runtime, reports, .. } = rt;
        drop(runtime);
        let error = futures::executor::block_on(far.read(&mut [0; 4])).unwrap_err();
        assert!(error.to_string().contains("being shutdown"), "{error}");
        drop((near, far, reports));
    }
}

#[test]
fn outside_of_a_runtime_the_caller_is_told() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let panic = panic_site(move || TcpListener::from_std(listener));
    assert!(panic.message.starts_with("there is no reactor running"), "{panic:?}");
    assert_eq!(panic.file, file!());

    let rt = Builder::new_current_thread().build().unwrap();
    let _guard = rt.enter();
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let panic = panic_site(move || TcpListener::from_std(listener));
    assert!(panic.message.contains("Call `enable_io`"), "{panic:?}");
    assert_eq!(panic.file, file!());
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
fn nothing_is_looked_up_before_somebody_waits_for_it() {
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

/// Threads with blocking sockets of std talk to a server.
#[test]
fn threads_with_sockets_of_their_own_talk_to_it() {
    for rt in runtimes() {
        rt.block_on(async {
            let (listener, addr) = listen().await;
            let foreign = std::thread::spawn(move || {
                let mut stream = net::TcpStream::connect(addr).unwrap();
                for n in 0..200u8 {
                    stream.write_all(&[n; 33]).unwrap();
                    let mut back = [0; 33];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, [n; 33]);
                }
            });
            let (stream, _) = listener.accept().await.unwrap();
            assert_eq!(echo(stream).await, 200 * 33);
            foreign.join().unwrap();
        });
    }
}

/// Returns how many connections this process may have: ten thousand, or fewer if the limit of descriptors is lower.
fn most_connections() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    const WANTED: usize = 10_000;
    /// Descriptors for everything else, such as other tests of this binary.
    const OTHERS: usize = 500;
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    let _ = setrlimit(Resource::Nofile, limits);
    let current = getrlimit(Resource::Nofile).current;
    let limit = current.map_or(usize::MAX, |limit| limit.try_into().unwrap());
    let connections = WANTED.min(limit.saturating_sub(OTHERS));
    if connections < WANTED {
        // Not `eprintln!`, which the harness captures and drops if the test passes.
        let _ = writeln!(
            std::io::stderr(),
            "NOT {WANTED} CONNECTIONS BUT {connections}: this process may have no more than {limit} descriptors; \
             raise the hard limit (ulimit -Hn)"
        );
    }
    connections
}

/// Opens all connections before it sends the second message on any of them.
async fn connect_to(server: SocketAddr, connections: usize) {
    let mut clients = Vec::with_capacity(connections);
    for n in 0..connections {
        let mut stream = TcpStream::connect(server).await.unwrap();
        stream.write_all(&[n as u8]).await.unwrap();
        clients.push(stream);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_u8().await.unwrap(), n as u8);
    }
    for (n, client) in clients.iter_mut().enumerate().rev() {
        client.write_all(&[!(n as u8)]).await.unwrap();
    }
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_u8().await.unwrap(), !(n as u8));
    }
}

/// All connections are open and used. A child process has the other ends, because one process may not have enough
/// descriptors for both.
#[test]
fn ten_thousand_connections_are_open_at_once() {
    const SERVER: &str = "WAKEFUL_TEST_SERVER";
    const MANY: &str = "WAKEFUL_TEST_CONNECTIONS";
    let mut builder = Builder::new_multi_thread();
    let rt = watch("crowded", builder.worker_threads(2).enable_all());
    let connections = most_connections();
    if let (Ok(server), Ok(many)) = (std::env::var(SERVER), std::env::var(MANY)) {
        return rt.block_on(connect_to(server.parse().unwrap(), many.parse().unwrap()));
    }
    rt.block_on(async {
        let (listener, addr) = listen().await;
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "ten_thousand_connections_are_open_at_once"]);
        child.env(SERVER, addr.to_string()).env(MANY, connections.to_string());
        let clients = wakeful::task::spawn_blocking(move || child.output().unwrap());
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = wakeful::spawn({
            let (open, most) = (open.clone(), most.clone());
            async move {
                for _ in 0..connections {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
                    let open = open.clone();
                    wakeful::spawn(async move {
                        let mut byte = [0];
                        while stream.read(&mut byte).await.unwrap() == 1 {
                            stream.write_all(&byte).await.unwrap();
                        }
                        open.fetch_sub(1, SeqCst);
                    });
                }
            }
        });
        let clients = clients.await.unwrap();
        let text = String::from_utf8_lossy(&clients.stdout);
        assert!(clients.status.success() && text.contains("1 passed"), "{text}");
        server.await.unwrap();
        assert_eq!(most.load(SeqCst), connections);
        while open.load(SeqCst) > 0 {
            yield_now().await;
        }
    });
}

/// A waker of no task. The count of its `Arc` says how often it is held.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_was_left_goes_with_the_socket() {
    for rt in runtimes() {
        rt.block_on(async {
            let (listener, addr) = listen().await;
            let idle = Arc::new(Idle);
            let waker = Waker::from(idle.clone());
            let wait = async || {
                let stream = TcpStream::connect(addr).await.unwrap();
                let mut cx = Context::from_waker(&waker);
                assert!(stream.poll_read_ready(&mut cx).is_pending());
                stream
            };
            let (near, other) = (wait().await, wait().await);
            let _far = [listener.accept().await.unwrap(), listener.accept().await.unwrap()];
            assert_eq!(Arc::strong_count(&idle), 2 + 2, "{}", rt.name);
            drop(near);
            assert_eq!(Arc::strong_count(&idle), 2 + 1, "{}", rt.name);
            let _taken_out = other.into_std().unwrap();
            assert_eq!(Arc::strong_count(&idle), 2, "{}", rt.name);
        });
    }
}

/// A task that waits for a connection for ever is not an orphan: a client may connect.
#[test]
fn waiting_for_the_network_is_no_orphan() {
    for rt in runtimes() {
        rt.block_on(async {
            let (listener, _) = listen().await;
            let task = wakeful::spawn(async move {
                let _ = listener.accept().await;
                pending::<()>().await;
            });
            for _ in 0..100 {
                yield_now().await;
            }
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
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

#[test]
fn nothing_is_opened_on_a_runtime_that_is_gone() {
    for TestRuntime { runtime, reports, name } in runtimes() {
        let _entered = runtime.enter();
        let early = TcpListener::bind("127.0.0.1:0");
        runtime.shutdown_background();
        for bind in [early, TcpListener::bind("127.0.0.1:0")] {
            let error = futures::executor::block_on(bind).unwrap_err();
            assert!(wakeful::runtime::is_rt_shutdown_err(&error), "{name}: {error}");
        }
        drop(reports);
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
