//! Many connections at once, and threads with sockets of their own.

use std::io::{ErrorKind, Read, Write};
use std::net::{self, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::TcpStream;
use wakeful::runtime::Builder;
use wakeful::select;
use wakeful::task::yield_now;

use super::{echo, listen, pair, runtimes};
use crate::support::rng::{TestRng, seed};
use crate::support::runtimes::watch;

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
        child.args(["--exact", "load::ten_thousand_connections_are_open_at_once"]);
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
