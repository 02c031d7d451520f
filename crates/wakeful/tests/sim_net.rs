//! TCP in a simulation: connections between hosts and on one host.

use std::io::ErrorKind;
use std::time::Duration;
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpStream};
use wakeful::sim::{Sim, Simulation};

const SEEDS: u64 = 20;

/// Runs the program with several seeds, none of which may fail.
fn runs<F, Fut>(program: F)
where
    F: Fn(Sim) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    Simulation::new(0).fifo().run(program.clone()).unwrap();
    for seed in 0..SEEDS {
        Simulation::new(seed).run(program.clone()).unwrap();
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Answers every connection with what it reads.
async fn echo() {
    let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        wakeful::spawn(async move {
            let (mut read, mut write) = stream.split();
            let _ = wakeful::io::copy(&mut read, &mut write).await;
        });
    }
}

#[test]
fn two_hosts_exchange_bytes() {
    runs(|sim| async move {
        sim.host("server", echo);
        wakeful::time::sleep(ms(1)).await;
        let mut stream = TcpStream::connect("server:80").await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().to_string(), "10.0.0.2:80");
        stream.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut answer).await.unwrap(), 0);
    });
}

#[test]
fn nothing_listens() {
    runs(|sim| async move {
        sim.host("server", || async {});
        let error = TcpStream::connect("server:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}
