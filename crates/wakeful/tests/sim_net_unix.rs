//! Unix streams in a simulation: pairs, listeners, and names per host.

#[path = "support/sim_net.rs"]
mod support;

use std::io::ErrorKind;
use support::{ms, runs, secs};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::net::{UnixListener, UnixSocket, UnixStream};
use wakeful::time::{sleep, timeout};

#[test]
fn a_pair_exchanges_bytes_until_one_is_dropped() {
    runs(|_| async move {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        assert!(a.local_addr().unwrap().is_unnamed() && a.peer_addr().unwrap().is_unnamed());
        assert_eq!(a.peer_cred().unwrap().pid(), Some(std::process::id() as i32));
        a.write_all(b"hello").await.unwrap();
        drop(a);
        let mut text = String::new();
        b.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    });
}

#[test]
fn listeners_have_names_on_their_host() {
    runs(|sim| async move {
        sim.host("other", || async {
            let error = UnixStream::connect("/run/it").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let error = UnixStream::connect("\0it").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            let _listener = UnixListener::bind("/run/it").unwrap();
        });
        let listener = UnixListener::bind("/run/it").unwrap();
        let error = UnixListener::bind("/run/it").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let connect = wakeful::spawn(UnixStream::connect("/run/it"));
        let (mut server, peer) = listener.accept().await.unwrap();
        assert!(peer.is_unnamed());
        let mut client = connect.await.unwrap().unwrap();
        let path = client.peer_addr().unwrap();
        assert_eq!(path.as_pathname(), Some(std::path::Path::new("/run/it")));
        assert_eq!(listener.local_addr().unwrap().as_pathname(), path.as_pathname());
        server.write_u8(7).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 7);
        assert!(!std::path::Path::new("/run/it").exists(), "no file");
        drop(listener);
        UnixListener::bind("/run/it").unwrap();
        sleep(ms(1)).await;
    });
}

#[test]
fn abstract_names_and_bound_clients() {
    runs(|_| async move {
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind("\0server").unwrap();
        let listener = socket.listen(0).unwrap();
        let client = UnixSocket::new_stream().unwrap();
        client.bind("\0client").unwrap();
        let _client = client.connect("\0server").await.unwrap();
        let error = UnixStream::connect("\0server").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "the backlog is full");
        let (server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.as_abstract_name(), Some(&b"client"[..]));
        assert_eq!(server.local_addr().unwrap().as_abstract_name(), Some(&b"server"[..]));
    });
}

#[test]
fn halves_shut_down_separately() {
    runs(|_| async move {
        let (mut a, b) = UnixStream::pair().unwrap();
        let (mut read, write) = b.into_split();
        drop(write);
        assert_eq!(a.read(&mut [0]).await.unwrap(), 0);
        a.write_all(b"still").await.unwrap();
        let mut buf = [0; 5];
        read.read_exact(&mut buf).await.unwrap();
        assert_eq!(&buf, b"still");
        drop(read);
        let error = a.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_full_buffer_blocks_the_writer() {
    runs(|_| async move {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let sent = wakeful::spawn(async move { a.write_all(&[1; 200_000]).await });
        assert!(timeout(secs(1), b.readable()).await.is_ok());
        sleep(secs(1)).await;
        assert!(!sent.is_finished());
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.len(), 200_000);
        sent.await.unwrap().unwrap();
    });
}
