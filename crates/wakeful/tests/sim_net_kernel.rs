//! Programs that end in the same way on sockets of the kernel and in a simulation.

use std::io::ErrorKind::{self, *};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use wakeful::runtime::Builder;
use wakeful::sim::{Sim, Simulation};

/// Runs the program on a current-thread runtime and on a simulated one.
fn on_both(program: impl AsyncFn()) {
    let mut kernel = Builder::new_current_thread();
    kernel.enable_all().build().unwrap().block_on(program());
    for seed in 0..10 {
        Builder::new_simulated(seed).enable_all().build().unwrap().block_on(program());
    }
}

fn kind<T>(result: std::io::Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[test]
fn a_stream_that_both_have_shut_down_has_no_peer() {
    on_both(async || {
        let (mut a, mut b) = tcp_pair().await;
        a.shutdown().await.unwrap();
        assert_eq!(b.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(a.peer_addr().is_ok() && b.peer_addr().is_ok());
        b.shutdown().await.unwrap();
        assert_eq!(a.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(kind(a.peer_addr()), Err(NotConnected));
        assert!(a.local_addr().is_ok());
        assert_eq!(kind(a.write(b"x").await), Err(BrokenPipe));
    });
}

#[test]
fn reads_into_nothing() {
    on_both(async || {
        let (mut a, mut b) = tcp_pair().await;
        a.write_all(b"ab").await.unwrap();
        b.readable().await.unwrap();
        assert_eq!(kind(b.try_read(&mut [])), Ok(0));
        b.read_exact(&mut [0; 2]).await.unwrap();
        a.write_all(b"c").await.unwrap();
        b.readable().await.unwrap();
        assert_eq!(b.try_read(&mut [0; 1]).unwrap(), 1);
        assert_eq!(kind(b.try_read(&mut [])), Err(WouldBlock));
        drop(a);
        assert_eq!(b.read(&mut []).await.unwrap(), 0);
    });
}

#[test]
fn a_read_into_nothing_takes_no_error() {
    on_both(async || {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        b.write_all(b"hello").await.unwrap();
        a.write_all(b"unread").await.unwrap();
        drop(b);
        a.readable().await.unwrap();
        assert_eq!(a.try_read(&mut []).unwrap(), 0);
        a.read_exact(&mut [0; 5]).await.unwrap();
        assert_eq!(kind(a.read(&mut [0; 8]).await), Err(ConnectionReset));
        assert_eq!(kind(a.read(&mut [0; 8]).await), Ok(0));
    });
}

#[test]
fn a_write_to_a_closed_unix_stream_leaves_the_error_to_a_read() {
    on_both(async || {
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(b"unread").await.unwrap();
        drop(b);
        assert_eq!(kind(a.write(b"x").await), Err(BrokenPipe));
        assert_eq!(kind(a.write(b"x").await), Err(BrokenPipe));
        assert_eq!(kind(a.read(&mut [0; 8]).await), Err(ConnectionReset));
        assert_eq!(kind(a.read(&mut [0; 8]).await), Ok(0));
    });
    on_both(async || {
        let name = format!("\0wakeful-sim-net-kernel-{}", std::process::id());
        let listener = UnixListener::bind(&name).unwrap();
        let mut a = UnixStream::connect(&name).await.unwrap();
        drop(listener);
        assert_eq!(kind(a.write(b"x").await), Err(BrokenPipe));
        assert_eq!(kind(a.read(&mut [0; 8]).await), Err(ConnectionReset));
    });
}

/// Only a simulation has a second host. Linux has no route from a loopback address either.
#[test]
fn a_loopback_address_reaches_no_other_host() {
    let run = |sim: Sim| async move {
        sim.host("other", async || TcpListener::bind("0.0.0.0:80").await?.accept().await.map(drop));
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let connected = socket.connect("10.0.0.2:80".parse().unwrap()).await;
        assert_eq!(kind(connected.map(drop)), Err(InvalidInput));
        TcpStream::connect("other:80").await.unwrap();
    };
    Simulation::new(0).run(run).unwrap();
}
