//! Edge cases of the simulated network: holds, foreign threads, wakers that panic, and several runs of a
//! world.

#[path = "support/sim_net.rs"]
mod support;

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;
use support::{echo, ms, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream, UdpSocket};
use wakeful::runtime::Builder;
use wakeful::sim::{FailureKind, Sim, Simulation};
use wakeful::time::{sleep, timeout};

/// Starts the host `server`, which counts the datagrams that it receives.
async fn start_counting_datagrams(sim: &Sim) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let of_host = count.clone();
    sim.host("server", move || {
        let count = of_host.clone();
        async move {
            let socket = UdpSocket::bind("0.0.0.0:53").await.unwrap();
            loop {
                socket.recv(&mut [0; 8]).await.unwrap();
                count.fetch_add(1, SeqCst);
            }
        }
    });
    sleep(ms(1)).await;
    count
}

#[test]
fn a_hold_loses_and_duplicates_nothing() {
    for seed in 0..20 {
        let run = |sim: Sim| async move {
            let count = start_counting_datagrams(&sim).await;
            let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
            sim.network().latency(ms(10)..ms(20)).hold("main", "server");
            for _ in 0..100 {
                socket.send_to(b"x", "server:53").await.unwrap();
            }
            sim.network().loss(0.5).duplicate(0.5);
            sleep(secs(1)).await;
            sim.network().release("main", "server");
            sleep(secs(1)).await;
            assert_eq!(count.load(SeqCst), 100);
        };
        Simulation::new(seed).run(run).unwrap();
    }
}

#[test]
fn a_latency_without_limit_does_not_overflow() {
    for seed in 0..5 {
        let run = |sim: Sim| async move {
            let _count = start_counting_datagrams(&sim).await;
            sim.host("echo", echo);
            let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
            sim.network().latency(ms(1)..Duration::MAX).reorder(1.0).loss(0.5).bandwidth(1);
            for _ in 0..20 {
                socket.send_to(b"x", "server:53").await.unwrap();
            }
            let _ = timeout(secs(1), TcpStream::connect("echo:80")).await;
        };
        Simulation::new(seed).run(run).unwrap();
    }
}

#[test]
fn a_foreign_thread_may_not_use_a_socket() {
    let uses: [fn(TcpStream); 3] = [
        |stream| drop(stream.try_write(b"x")),
        |stream| drop(stream.try_read(&mut [0])),
        |stream| drop(stream),
    ];
    for use_stream in uses {
        let outcome = Simulation::new(0).fifo().run(move |_| async move {
            let listener = TcpListener::bind("127.0.0.1:80").await.unwrap();
            let _near = TcpStream::connect("127.0.0.1:80").await.unwrap();
            let (far, _) = listener.accept().await.unwrap();
            thread::spawn(move || use_stream(far)).join().unwrap();
        });
        assert_eq!(outcome.failure(), Some(FailureKind::ForeignThread));
    }
}

/// A waker that panics when it is woken.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("this waker panics");
    }
}

#[test]
fn a_waker_that_panics_does_not_keep_the_others_asleep() {
    Simulation::new(0)
        .fifo()
        .run(|_| async move {
            let listener = TcpListener::bind("127.0.0.1:80").await.unwrap();
            let first = TcpStream::connect("127.0.0.1:80").await.unwrap();
            let mut second = TcpStream::connect("127.0.0.1:80").await.unwrap();
            let panics = Waker::from(Arc::new(PanickingWaker));
            let mut readable = pin!(first.readable());
            assert!(readable.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
            let reader = wakeful::spawn(async move { second.read(&mut [0]).await });
            sleep(ms(1)).await;
            // Neither connection was accepted, so both are reset.
            assert!(catch_unwind(AssertUnwindSafe(|| drop(listener))).is_err());
            let error = timeout(secs(1), reader).await.unwrap().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        })
        .unwrap();
}

#[test]
fn a_later_run_of_the_world_gets_resets_from_hosts_that_are_gone() {
    let runtime = Builder::new_simulated(1).enable_all().build().unwrap();
    let (mut idle, mut writes) = runtime.block_on(async {
        let sim = Sim::current();
        sim.host("server", echo);
        sleep(ms(1)).await;
        let idle = TcpStream::connect("server:80").await.unwrap();
        let mut writes = TcpStream::connect("server:80").await.unwrap();
        sim.network().hold("main", "server");
        writes.write_all(b"x").await.unwrap();
        sim.network().release("main", "server");
        (idle, writes)
    });
    runtime.block_on(async {
        for stream in [&mut idle, &mut writes] {
            let error = timeout(secs(1), stream.read(&mut [0])).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let sim = Sim::current();
        sim.host("server", echo);
        sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
    });
}

#[test]
fn what_the_first_host_sends_to_itself_arrives_in_the_next_run() {
    let runtime = Builder::new_simulated(1).enable_all().build().unwrap();
    let (mut near, mut far) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:80").await.unwrap();
        let near = TcpStream::connect("127.0.0.1:80").await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        Sim::current().network().link("main", "main").latency(ms(10)..ms(20));
        near.try_write(b"to the later run").unwrap();
        (near, far)
    });
    runtime.block_on(async {
        let mut bytes = [0; 16];
        timeout(secs(1), far.read_exact(&mut bytes)).await.unwrap().unwrap();
        assert_eq!(&bytes, b"to the later run");
        far.write_all(b"x").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'x');
    });
}
