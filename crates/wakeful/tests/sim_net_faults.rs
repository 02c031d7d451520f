//! Partitions, holds, kills and restarts in the simulated network.

#[path = "support/sim_net.rs"]
mod support;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use support::{echo, ms, runs, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream, UdpSocket};
use wakeful::sim::{FailureKind, Sim, Simulation};
use wakeful::time::{Instant, sleep, timeout};

/// Starts the host `server` with `echo`, and connects to it. The server has accepted the
/// connection.
async fn connected(sim: &Sim) -> TcpStream {
    sim.host("server", echo);
    sleep(ms(1)).await;
    let mut stream = TcpStream::connect("server:80").await.unwrap();
    ping(&mut stream).await.unwrap();
    stream
}

/// Sends a byte and waits for its echo.
async fn ping(stream: &mut TcpStream) -> std::io::Result<u8> {
    stream.write_all(b"x").await?;
    stream.read_u8().await
}

#[test]
fn a_partition_stalls_a_stream_until_it_is_healed() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        sim.network().partition(["main"], ["server"]);
        assert!(timeout(secs(100), ping(&mut stream)).await.is_err());
        sim.network().heal_all();
        assert_eq!(timeout(secs(1), stream.read_u8()).await.unwrap().unwrap(), b'x');
        ping(&mut stream).await.unwrap();
    });
}

#[test]
fn a_stalled_stream_times_out() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        sim.network().partition(["main"], ["server"]);
        let began = Instant::now();
        let error = ping(&mut stream).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, ms(924_600)));
        sim.network().heal_all();
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        ping(&mut TcpStream::connect("server:80").await.unwrap()).await.unwrap();
    });
}

#[test]
fn a_connection_attempt_times_out_sooner() {
    runs(|sim| async move {
        sim.host("server", echo);
        sleep(ms(1)).await;
        sim.network().partition(["main"], ["server"]);
        let began = Instant::now();
        let error = TcpStream::connect("server:80").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, secs(127)));
        let attempt = wakeful::spawn(TcpStream::connect("server:80"));
        sleep(secs(100)).await;
        sim.network().heal_all();
        ping(&mut attempt.await.unwrap().unwrap()).await.unwrap();
    });
}

/// The server's answers and acknowledgements are lost.
#[test]
fn a_partition_in_one_direction_ends_both() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        ping(&mut stream).await.unwrap();
        sim.network().partition_one_way(["server"], ["main"]);
        let began = Instant::now();
        let error = ping(&mut stream).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let limit = ms(924_600);
        assert!((limit..limit + ms(10)).contains(&began.elapsed()), "{:?}", began.elapsed());
    });
}

#[test]
fn a_partition_loses_datagrams_and_a_hold_keeps_them() {
    runs(|sim| async move {
        let (got, count) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (in_host, of_host) = (got.clone(), count.clone());
        sim.host("server", move || {
            let (got, count) = (in_host.clone(), of_host.clone());
            async move {
                let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
                let mut byte = [0];
                loop {
                    socket.recv(&mut byte).await.unwrap();
                    got.fetch_add(u32::from(byte[0]), SeqCst);
                    count.fetch_add(1, SeqCst);
                }
            }
        });
        sleep(ms(1)).await;
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        socket.connect("server:53").await.unwrap();
        sim.network().partition(["main"], ["server"]);
        socket.send(&[1]).await.unwrap();
        sleep(secs(1)).await;
        sim.network().heal_all().hold("main", "server");
        socket.send(&[2]).await.unwrap();
        sleep(secs(1)).await;
        assert_eq!(count.load(SeqCst), 0);
        sim.network().release("main", "server");
        socket.send(&[4]).await.unwrap();
        sleep(secs(1)).await;
        assert_eq!((got.load(SeqCst), count.load(SeqCst)), (6, 2));
    });
}

#[test]
fn what_is_under_way_when_the_partition_begins_waits_as_well() {
    runs(|sim| async move {
        sim.network().latency(secs(10)..secs(10));
        let mut stream = connected(&sim).await;
        stream.write_all(b"x").await.unwrap();
        sleep(secs(5)).await;
        sim.network().partition(["server"], ["main"]);
        sleep(secs(55)).await;
        sim.network().heal_all();
        let began = Instant::now();
        stream.read_u8().await.unwrap();
        assert_eq!(began.elapsed(), secs(20), "sent again, and the answer");
    });
}

#[test]
fn the_others_are_not_cut_off() {
    runs(|sim| async move {
        for name in ["a", "b", "c"] {
            sim.host(name, echo);
        }
        sleep(ms(1)).await;
        sim.network().partition(["a"], ["b", "c"]);
        for name in ["a:80", "b:80", "c:80"] {
            let stream = timeout(secs(1), TcpStream::connect(name)).await;
            ping(&mut stream.unwrap().unwrap()).await.unwrap();
        }
        let reach = |to: &'static str| async move {
            sleep(ms(1)).await;
            timeout(secs(1), TcpStream::connect(to)).await.is_ok_and(|it| it.is_ok())
        };
        let x = sim.client("x", async move { (reach("b:80").await, reach("c:80").await) });
        sim.network().partition(["x"], ["b"]);
        assert_eq!(x.await, (false, true));
    });
}

#[test]
fn a_killed_host_resets_its_connections_and_frees_its_ports() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        ping(&mut stream).await.unwrap();
        sim.host_named("server").unwrap().kill();
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let error = TcpStream::connect("server:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        sim.host_named("server").unwrap().restart();
        sleep(ms(1)).await;
        ping(&mut TcpStream::connect("server:80").await.unwrap()).await.unwrap();
    });
}

/// A stream that writes to its peer when it is dropped.
struct WritesOnDrop(TcpStream, Option<std::net::SocketAddr>);

impl Drop for WritesOnDrop {
    fn drop(&mut self) {
        let _ = self.0.try_write(b"good-bye");
        assert!(self.0.peer_addr().is_err(), "the socket is gone");
        if let Some(addr) = self.1 {
            let connect = std::pin::pin!(TcpStream::connect(addr));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(Err(error)) = Future::poll(connect, &mut cx) else {
                panic!("a destructor of a killed host connects")
            };
            assert!(error.to_string().contains("killed"), "{error}");
        }
    }
}

#[test]
fn destructors_of_a_killed_host_send_nothing() {
    runs(|sim| async move {
        let host = sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            let _kept = WritesOnDrop(stream, Some(peer));
            sleep(secs(1_000)).await;
        });
        sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sleep(secs(1)).await;
        host.kill();
        let mut bytes = Vec::new();
        let error = stream.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!((error.kind(), bytes.len()), (ErrorKind::ConnectionReset, 0));
    });
}

#[test]
fn what_a_host_sent_before_it_was_killed_arrives() {
    runs(|sim| async move {
        let host = sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"sent").await.unwrap();
            sleep(secs(1_000)).await;
        });
        sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        sleep(secs(1)).await;
        host.kill();
        sleep(secs(1)).await;
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"sent");
        let error = stream.read(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn the_peer_of_a_host_that_dies_in_a_partition_learns_nothing() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        ping(&mut stream).await.unwrap();
        sim.network().partition(["main"], ["server"]);
        sim.host_named("server").unwrap().restart();
        assert!(timeout(secs(2_000), stream.read(&mut [0])).await.is_err());
        sim.network().heal_all();
        let error = ping(&mut stream).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_paused_host_gets_its_bytes_later() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        sim.host_named("server").unwrap().pause(secs(10));
        let began = Instant::now();
        ping(&mut stream).await.unwrap();
        assert!(began.elapsed() >= secs(10));
    });
}

#[test]
fn an_eventual_condition_has_its_time_after_the_healing() {
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        let done = Arc::new(AtomicU32::new(0));
        let seen = done.clone();
        sim.network().partition(["main"], ["server"]);
        sim.eventually(secs(5), "an answer", move || seen.load(SeqCst) == 1);
        let writer = wakeful::spawn(async move {
            ping(&mut stream).await.unwrap();
            done.store(1, SeqCst);
        });
        sleep(secs(100)).await;
        sim.network().heal_all();
        writer.await.unwrap();
    });
    // When the test has returned, all partitions are healed.
    runs(|sim| async move {
        let mut stream = connected(&sim).await;
        let done = Arc::new(AtomicU32::new(0));
        let seen = done.clone();
        sim.network().partition(["main"], ["server"]);
        sim.eventually(secs(5), "an answer", move || seen.load(SeqCst) == 1);
        wakeful::spawn(async move {
            ping(&mut stream).await.unwrap();
            done.store(1, SeqCst);
        });
    });
}

#[test]
fn an_eventual_condition_fails_after_the_healing() {
    let outcome = Simulation::new(1).run(|sim| async move {
        sim.host("server", || async {});
        sim.network().partition(["main"], ["server"]);
        sim.eventually(secs(5), "never", || false);
        sleep(secs(20)).await;
        sim.network().heal_all();
        sleep(secs(4)).await;
        sleep(secs(20)).await;
        unreachable!("it has failed");
    });
    assert_eq!(outcome.failure(), Some(FailureKind::Eventually));
    assert_eq!(outcome.elapsed(), secs(25));
}

#[test]
fn hosts_that_read_from_each_other_are_deadlocked() {
    let outcome = Simulation::new(1).fifo().run(|sim| async move {
        let mut stream = connected(&sim).await;
        stream.read_u8().await.unwrap();
    });
    assert_eq!(outcome.failure(), Some(FailureKind::Deadlock), "{outcome}");
}

#[test]
fn what_is_not_simulated_names_the_call() {
    runs(|_| async move {
        let refused = |error: std::io::Error, call: &str| {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(call), "{error}");
        };
        refused(wakeful::net::UnixDatagram::unbound().unwrap_err(), "`UnixDatagram::unbound`");
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        // SAFETY: the stream keeps its descriptor open.
        let async_fd = unsafe { wakeful::io::unix::AsyncFd::register(b) };
        refused(async_fd.map(drop).unwrap_err().into(), "`AsyncFd`");
        a.set_nonblocking(true).unwrap();
        let stream = wakeful::net::UnixStream::from_std(a);
        refused(stream.map(drop).unwrap_err(), "`from_std`");
        let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
        refused(listener.into_std().map(drop).unwrap_err(), "`into_std`");
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let group = "224.0.0.1".parse().unwrap();
        let joined = socket.join_multicast_v4(group, std::net::Ipv4Addr::UNSPECIFIED);
        refused(joined.unwrap_err(), "`join_multicast_v4`");
    });
}

#[test]
fn latencies_are_those_of_the_link() {
    runs(|sim| async move {
        for name in ["near", "far"] {
            sim.host(name, echo);
        }
        sim.network().latency(ms(1)..ms(2)).link("main", "far").latency(ms(100)..ms(200));
        sleep(ms(1)).await;
        for (name, least, most) in [("near:80", 2, 4), ("far:80", 200, 400)] {
            let mut stream = TcpStream::connect(name).await.unwrap();
            for _ in 0..20 {
                let began = Instant::now();
                ping(&mut stream).await.unwrap();
                let range = ms(least)..=ms(most) + Duration::from_micros(1);
                assert!(range.contains(&began.elapsed()), "{name} {:?}", began.elapsed());
            }
        }
    });
}
