//! TCP in a simulation, between hosts and within a host.

#[path = "support/sim_net.rs"]
mod support;

use std::io::ErrorKind;
use support::{echo, ms, runs, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt, Interest};
use wakeful::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use wakeful::sim::Sim;
use wakeful::time::{Instant, sleep, timeout};

/// Returns the two ends of a connection within the host.
async fn local_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    (client, server)
}

/// Returns a connection to a host that runs `serve` with the other end.
async fn connect_to<F, Fut>(sim: &Sim, serve: F) -> TcpStream
where
    F: FnOnce(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let mut serve = Some(serve);
    sim.host("server", move || {
        let serve = serve.take();
        async move {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            drop(listener);
            serve.unwrap()(stream).await;
        }
    });
    sleep(ms(1)).await;
    TcpStream::connect("server:80").await.unwrap()
}

#[test]
fn two_hosts_exchange_bytes() {
    runs(|sim| async move {
        sim.host("server", echo);
        sleep(ms(1)).await;
        let began = Instant::now();
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        assert!(began.elapsed() >= ms(1), "there and back takes twice the least latency");
        assert_eq!(stream.peer_addr().unwrap().to_string(), "10.0.0.2:80");
        assert_eq!(stream.local_addr().unwrap().ip().to_string(), "10.0.0.1");
        stream.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut answer).await.unwrap(), 0);
        let error = stream.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn bytes_keep_their_order_through_loss_and_short_transfers() {
    runs(|sim| async move {
        sim.network().loss(0.3).latency(ms(1)..ms(50));
        sim.host("server", echo);
        sleep(ms(1)).await;
        let stream = TcpStream::connect("server:80").await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let sent: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
        let expected = sent.clone();
        let writer = wakeful::spawn(async move {
            for part in sent.chunks(9_000) {
                write.write_all(part).await.unwrap();
            }
        });
        let mut got = Vec::new();
        read.read_to_end(&mut got).await.unwrap();
        writer.await.unwrap();
        assert!(got == expected, "{} bytes, or another order", got.len());
    });
}

#[test]
fn a_lost_segment_arrives_late() {
    wakeful::sim::Simulation::new(1)
        .run(|sim| async move {
            let mut stream = connect_to(&sim, |mut stream| async move {
                sleep(secs(1)).await;
                stream.write_all(b"x").await.unwrap();
            })
            .await;
            sim.network().loss(1.0);
            let began = Instant::now();
            stream.read_u8().await.unwrap();
            // Lost 8 times: 200 ms and 400 ms and so on, up to 25.6 s.
            assert!(began.elapsed() > secs(51), "{:?}", began.elapsed());
        })
        .unwrap();
}

#[test]
fn nothing_listens() {
    runs(|sim| async move {
        sim.host("server", || async {});
        let began = Instant::now();
        let error = TcpStream::connect("server:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(began.elapsed() >= ms(1), "the refusal takes the way back");
        let error = TcpStream::connect("127.0.0.1:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn addresses_without_a_host_are_unreachable() {
    runs(|_| async move {
        let began = Instant::now();
        let error = TcpStream::connect("10.0.0.9:80").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::HostUnreachable, secs(3)));
        let error = TcpStream::connect("8.8.8.8:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
        let error = TcpStream::connect("[::1]:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("IPv4"), "{error}");
    });
}

#[test]
fn names_resolve_to_hosts() {
    runs(|sim| async move {
        sim.host("n1", || async {});
        sim.host("n2", || async {});
        let all = |addr: &str| {
            let addr = addr.to_owned();
            async move {
                let found = lookup_host(addr).await?;
                Ok::<_, std::io::Error>(found.map(|it| it.to_string()).collect::<Vec<_>>())
            }
        };
        assert_eq!(all("n2:80").await.unwrap(), ["10.0.0.3:80"]);
        assert_eq!(all("main:1").await.unwrap(), ["10.0.0.1:1"]);
        assert_eq!(all("localhost:5").await.unwrap(), ["127.0.0.1:5"]);
        let n1: Vec<_> = lookup_host(("n1", 7)).await.unwrap().collect();
        assert_eq!(n1, ["10.0.0.2:7".parse().unwrap()]);
        assert!(all("n3:80").await.unwrap_err().to_string().contains("\"n3\""));
        assert_eq!(all("n1").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn ports_are_in_use_until_their_socket_is_dropped() {
    runs(|sim| async move {
        sim.host("other", || async { drop(TcpListener::bind("0.0.0.0:80").await.unwrap()) });
        let any = TcpListener::bind("0.0.0.0:80").await.unwrap();
        for addr in ["127.0.0.1:80", "10.0.0.1:80", "0.0.0.0:80"] {
            let error = TcpListener::bind(addr).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AddrInUse, "{addr}");
        }
        drop(any);
        let one = TcpListener::bind("127.0.0.1:80").await.unwrap();
        let other = TcpListener::bind("10.0.0.1:80").await.unwrap();
        assert_eq!(one.local_addr().unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(other.local_addr().unwrap().to_string(), "10.0.0.1:80");
        let error = TcpListener::bind("10.0.0.2:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
        let ports = [(); 3].map(|()| TcpListener::bind("0.0.0.0:0"));
        let mut seen = Vec::new();
        for port in ports {
            seen.push(port.await.unwrap());
        }
        let mut numbers: Vec<_> = seen.iter().map(|it| it.local_addr().unwrap().port()).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), 3);
    });
}

#[test]
fn half_closed_streams_still_read() {
    runs(|sim| async move {
        let mut stream = connect_to(&sim, |mut stream| async move {
            let mut request = String::new();
            stream.read_to_string(&mut request).await.unwrap();
            stream.write_all(format!("{request}!").as_bytes()).await.unwrap();
        })
        .await;
        stream.write_all(b"all of it").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "all of it!");
    });
}

#[test]
fn unread_bytes_turn_a_close_into_a_reset() {
    runs(|sim| async move {
        let mut stream = connect_to(&sim, |stream| async move {
            stream.readable().await.unwrap();
            drop(stream);
        })
        .await;
        stream.write_all(b"never read").await.unwrap();
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0, "the error comes once");
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn writing_to_a_closed_peer_ends_in_a_reset() {
    runs(|sim| async move {
        let mut stream = connect_to(&sim, |stream| async move { drop(stream) }).await;
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0, "the peer has closed");
        stream.write_all(b"too late").await.unwrap();
        sleep(secs(1)).await;
        let error = stream.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn zero_linger_resets() {
    runs(|sim| async move {
        let mut stream = connect_to(&sim, |stream| async move {
            stream.set_zero_linger().unwrap();
        })
        .await;
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_writer_waits_for_a_slow_reader() {
    runs(|sim| async move {
        let stream = connect_to(&sim, |mut stream| async move {
            sleep(secs(60)).await;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            assert_eq!(bytes.len(), 300_000);
        })
        .await;
        let began = Instant::now();
        let mut stream = stream;
        let error = loop {
            match stream.try_write(&[7; 1_000]) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(timeout(secs(30), stream.writable()).await.is_err(), "the window is full");
        stream.writable().await.unwrap();
        assert!(began.elapsed() >= secs(59), "{:?}", began.elapsed());
        stream.write_all(&vec![7; 300_000 - 65_536]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_full_backlog_lets_connections_wait() {
    runs(|_| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:80".parse().unwrap()).unwrap();
        assert_eq!(socket.local_addr().unwrap().port(), 80);
        let listener = socket.listen(1).unwrap();
        let _one = TcpStream::connect("127.0.0.1:80").await.unwrap();
        let _two = TcpStream::connect("127.0.0.1:80").await.unwrap();
        let third = wakeful::spawn(TcpStream::connect("127.0.0.1:80"));
        sleep(secs(1)).await;
        assert!(!third.is_finished());
        listener.accept().await.unwrap();
        let third = third.await.unwrap().unwrap();
        sleep(secs(200)).await;
        // The handshake timer has ended.
        assert!(third.peer_addr().is_ok());
    });
}

#[test]
fn a_connection_that_a_full_backlog_does_not_take_times_out() {
    runs(|_| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:80".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let first = TcpStream::connect("127.0.0.1:80").await.unwrap();
        let began = Instant::now();
        let error = TcpStream::connect("127.0.0.1:80").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, secs(127)));
        // The listener never learns of the connection that timed out.
        let (accepted, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, first.local_addr().unwrap());
        assert!(timeout(secs(200), listener.accept()).await.is_err());
        let (next, _) = wakeful::join!(TcpStream::connect("127.0.0.1:80"), listener.accept());
        drop((next, accepted));
    });
}

#[test]
fn a_call_takes_as_many_slices_as_on_linux() {
    runs(|_| async move {
        let (client, server) = local_pair().await;
        let slices = vec![std::io::IoSlice::new(b"x"); 3_000];
        client.writable().await.unwrap();
        assert!((1..=1024).contains(&client.try_write_vectored(&slices).unwrap()));
        drop(server);
    });
}

#[test]
fn sockets_end_with_their_runtime() {
    let runtime = wakeful::runtime::Builder::new_simulated(1).enable_all().build().unwrap();
    let (mut client, server) = runtime.block_on(local_pair());
    let _entered = runtime.enter();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let error = futures::executor::block_on(client.read(&mut [0])).unwrap_err();
    assert!(wakeful::runtime::is_rt_shutdown_err(&error), "{error}");
    let _entered = handle.enter();
    let error = futures::executor::block_on(TcpListener::bind("127.0.0.1:0")).unwrap_err();
    assert!(wakeful::runtime::is_rt_shutdown_err(&error), "{error}");
    drop(server);
}

#[test]
fn closing_a_listener_resets_what_was_not_accepted() {
    runs(|_| async move {
        let listener = TcpListener::bind("127.0.0.1:80").await.unwrap();
        let mut stream = TcpStream::connect("127.0.0.1:80").await.unwrap();
        drop(listener);
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn peeked_bytes_stay() {
    runs(|_| async move {
        let (client, mut server) = local_pair().await;
        server.write_all(b"abc").await.unwrap();
        let mut buf = [0; 8];
        while client.peek(&mut buf).await.unwrap() < 3 {}
        assert_eq!(&buf[..3], b"abc");
        let (mut read, _write) = client.into_split();
        assert_eq!(read.peek(&mut buf[..1]).await.unwrap(), 1);
        read.read_exact(&mut buf[..3]).await.unwrap();
        assert_eq!(&buf[..3], b"abc");
    });
}

#[test]
fn operations_that_do_not_wait() {
    runs(|_| async move {
        let (client, server) = local_pair().await;
        let error = client.try_read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(timeout(secs(1), client.readable()).await.is_err());
        let mut sent = 0;
        while sent < 4 {
            server.writable().await.unwrap();
            sent += server.try_write(&b"abcd"[sent..]).unwrap();
        }
        let ready = client.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
        assert!(ready.is_readable() && ready.is_writable() && !ready.is_read_closed());
        let mut got = Vec::new();
        while got.len() < 4 {
            client.readable().await.unwrap();
            match client.try_read_buf(&mut got) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert_eq!(got, b"abcd");
        drop(server);
        let ready = client.ready(Interest::READABLE).await.unwrap();
        assert!(ready.is_read_closed());
        assert_eq!(client.try_read(&mut [0; 4]).unwrap(), 0);
    });
}

#[test]
fn vectored_transfers_use_all_buffers() {
    use std::io::{IoSlice, IoSliceMut};
    wakeful::sim::Simulation::new(0)
        .fifo()
        .run(|_| async move {
            let (client, server) = local_pair().await;
            let sent = server.try_write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cde")]);
            assert_eq!(sent.unwrap(), 5);
            let (mut one, mut two) = ([0; 3], [0; 8]);
            let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
            assert_eq!(client.try_read_vectored(&mut bufs).unwrap(), 5);
            assert_eq!((&one, &two[..2]), (b"abc", &b"de"[..]));
        })
        .unwrap();
}

#[test]
fn options_are_remembered() {
    runs(|_| async move {
        let (client, _server) = local_pair().await;
        assert!(!client.nodelay().unwrap());
        client.set_nodelay(true).unwrap();
        client.set_ttl(42).unwrap();
        assert!(client.nodelay().unwrap() && client.ttl().unwrap() == 42);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_nodelay(true).unwrap();
        let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
        let stream = socket.connect("10.0.0.1:80".parse().unwrap()).await.unwrap();
        assert!(stream.nodelay().unwrap());
        assert_eq!(stream.peer_addr().unwrap().to_string(), "10.0.0.1:80");
        drop(listener);
    });
}

#[test]
fn a_dropped_connect_leaves_nothing_behind() {
    runs(|sim| async move {
        sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        });
        sleep(ms(1)).await;
        let connect = TcpStream::connect("server:80");
        assert!(timeout(std::time::Duration::from_micros(1), connect).await.is_err());
        sleep(secs(10)).await;
    });
}
