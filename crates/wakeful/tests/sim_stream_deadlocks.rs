//! Deadlocks across hosts: tasks that wait for each other to use the other end of a stream.

use std::sync::Arc;
use std::time::Duration;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream, UnixStream};
use wakeful::sim::{FailureKind, Sim, Simulation};
use wakeful::sync::{Mutex, mpsc};
use wakeful::time::{sleep, timeout};

#[path = "support/sim_net.rs"]
mod sim_net;
use sim_net::ms;

const SEEDS: u64 = 10;

/// More bytes than a window has.
const MANY: usize = 1 << 20;

/// Runs the program with several seeds. Each run must fail in this way, with these parts in its text.
#[track_caller]
fn fails<F, Fut>(kind: FailureKind, parts: &[&str], program: F)
where
    F: Fn(Sim) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(program.clone());
        let text = outcome.to_string();
        assert_eq!(outcome.failure(), Some(kind), "seed {seed}: {text}");
        for part in parts {
            assert!(text.contains(part), "seed {seed}: {part:?} is missing: {text}");
        }
        let again = Simulation::new(seed).run(program.clone());
        assert_eq!((again.hash(), again.to_string()), (outcome.hash(), text), "seed {seed}");
    }
}

/// Connects to the server as soon as it listens.
async fn connect() -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect("server:80").await {
            return stream;
        }
        sleep(ms(1)).await;
    }
}

async fn accept() -> TcpStream {
    let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
    listener.accept().await.unwrap().0
}

#[test]
fn both_ends_read() {
    let parts = ["deadlock (proven): 2 tasks wait for each other", "host", "server", "client"];
    let sites = ["other end", "used by task", "sim_stream_deadlocks.rs", "flush buffered writers"];
    fails(FailureKind::Deadlock, &[&parts[..], &sites].concat(), |sim| async move {
        sim.host("server", || async {
            let mut stream = accept().await;
            let _ = stream.read_u8().await;
        });
        sim.client("client", async {
            let mut stream = connect().await;
            let _ = stream.read_u8().await;
        })
        .await;
    });
}

#[test]
fn both_ends_read_after_an_exchange() {
    fails(FailureKind::Deadlock, &["2 tasks wait for each other"], |sim| async move {
        sim.host("server", || async {
            let mut stream = accept().await;
            // Expects one byte more than the client sends.
            let _ = stream.read_exact(&mut [0; 3]).await;
            let _ = stream.write_u8(1).await;
        });
        let mut stream = connect().await;
        stream.write_all(b"ab").await.unwrap();
        let _ = stream.read_u8().await;
    });
}

#[test]
fn both_ends_write_more_than_the_window_has() {
    fails(FailureKind::Deadlock, &["2 tasks wait for each other"], |sim| async move {
        sim.host("server", || async {
            let mut stream = accept().await;
            let _ = stream.write_all(&vec![0; MANY]).await;
            let _ = stream.read_exact(&mut vec![0; MANY]).await;
        });
        let mut stream = connect().await;
        let _ = stream.write_all(&vec![0; MANY]).await;
        let _ = stream.read_exact(&mut vec![0; MANY]).await;
    });
}

#[test]
fn both_ends_of_a_unix_stream_read() {
    fails(FailureKind::Deadlock, &["2 tasks wait for each other"], |_sim| async move {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let reads = wakeful::spawn(async move { drop(other.read_u8().await) });
        let _ = one.read_u8().await;
        let _ = reads.await;
    });
}

#[test]
fn a_lock_and_a_stream_form_a_cycle() {
    let parts = ["2 tasks wait for each other", "Mutex::lock", "other end"];
    fails(FailureKind::Deadlock, &parts, |sim| async move {
        let lock = Arc::new(Mutex::new(()));
        let of_server = lock.clone();
        sim.host("server", move || {
            let lock = of_server.clone();
            async move {
                let mut stream = accept().await;
                assert_eq!(stream.read_u8().await.unwrap(), 1);
                let _guard = lock.lock().await;
                let _ = stream.write_u8(2).await;
            }
        });
        let _guard = lock.lock().await;
        let mut stream = connect().await;
        stream.write_u8(1).await.unwrap();
        let _ = stream.read_u8().await;
    });
}

#[test]
fn a_writer_that_waits_for_a_message_is_no_part_of_a_cycle() {
    fails(FailureKind::Stuck, &["no task is ready"], |sim| async move {
        let (tx, rx) = mpsc::channel::<u8>(1);
        let mut rx = Some(rx);
        sim.host("server", move || {
            let mut rx = rx.take().expect("started once");
            async move {
                let (mut read, mut write) = accept().await.into_split();
                wakeful::spawn(async move {
                    let _ = write.write_u8(0).await;
                    while let Some(byte) = rx.recv().await {
                        let _ = write.write_u8(byte).await;
                    }
                });
                let _ = read.read_u8().await;
            }
        });
        let mut stream = connect().await;
        assert_eq!(stream.read_u8().await.unwrap(), 0);
        let _ = stream.read_u8().await;
        drop(tx);
    });
}

#[test]
fn a_server_that_only_accepts_is_no_part_of_a_cycle() {
    fails(FailureKind::Stuck, &["no task is ready", "simulated socket"], |sim| async move {
        sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            let _kept = listener.accept().await.unwrap();
            let _ = listener.accept().await;
        });
        let mut stream = connect().await;
        let _ = stream.read_u8().await;
    });
}

#[test]
fn what_a_timer_ends_is_no_deadlock() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|sim| async move {
            sim.host("server", || async {
                let mut stream = accept().await;
                let _ = stream.read_u8().await;
            });
            let mut stream = connect().await;
            assert!(timeout(Duration::from_secs(100), stream.read_u8()).await.is_err());
        });
        outcome.unwrap();
    }
}

#[test]
fn an_idle_connection_is_no_deadlock() {
    for seed in 0..SEEDS {
        let outcome = Simulation::new(seed).run(|sim| async move {
            sim.host("server", || async {
                let mut stream = accept().await;
                let _ = stream.read_u8().await;
            });
            let mut stream = connect().await;
            wakeful::spawn(async move { drop(stream.read_u8().await) });
            sleep(Duration::from_secs(100)).await;
        });
        outcome.unwrap();
    }
}
