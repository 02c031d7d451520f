//! Unix sockets on the real kernel, on both kinds of runtime.

mod datagrams;

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use wakeful::io::{AsyncReadExt, AsyncWriteExt, Interest};
use wakeful::net::unix::SocketAddr;
use wakeful::net::{UnixDatagram, UnixListener, UnixSocket, UnixStream};
use wakeful::time::timeout;

#[path = "../support"]
mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod sockets;
}
use support::panic_site::panic_site;
use support::sockets::{Folder, current_thread, poll_once, runtimes};

/// Returns an abstract address that is unique to this process and test.
fn abstract_name(test: &str) -> String {
    format!("\0wakeful-{test}-{}", std::process::id())
}

async fn connect(listener: &UnixListener, path: impl AsRef<Path>) -> (UnixStream, UnixStream) {
    let (near, far) = wakeful::join!(UnixStream::connect(path), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

#[test]
fn an_echo_server_returns_the_data_by_path_and_abstract_name() {
    for rt in runtimes() {
        let folder = Folder::new();
        for path in [folder.join("echo"), abstract_name("echo").into()] {
            rt.block_on(async {
                let listener = UnixListener::bind(&path).unwrap();
                let echo = wakeful::spawn(async move {
                    for _ in 0..4 {
                        let (mut stream, peer) = listener.accept().await.unwrap();
                        assert!(peer.is_unnamed());
                        let (mut read, mut write) = stream.split();
                        wakeful::io::copy(&mut read, &mut write).await.unwrap();
                    }
                });
                for size in [0, 1, 4_096, 1_000_000] {
                    let stream = UnixStream::connect(&path).await.unwrap();
                    let (mut read, mut write) = stream.into_split();
                    let sent: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                    let expected = sent.clone();
                    let writer = wakeful::spawn(async move {
                        write.write_all(&sent).await.unwrap();
                        write.shutdown().await.unwrap();
                    });
                    let mut back = Vec::new();
                    read.read_to_end(&mut back).await.unwrap();
                    assert!(back == expected, "{size} bytes came back changed");
                    writer.await.unwrap();
                }
                echo.await.unwrap();
            });
        }
    }
}

#[test]
fn both_sides_know_the_addresses() {
    for rt in runtimes() {
        let folder = Folder::new();
        rt.block_on(async {
            let (server, client) = (folder.join("server"), folder.join("client"));
            let listener = UnixSocket::new_stream().unwrap();
            listener.bind(&server).unwrap();
            let listener = listener.listen(16).unwrap();
            assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*server));
            assert!(listener.take_error().unwrap().is_none());

            let socket = UnixSocket::new_stream().unwrap();
            socket.bind(&client).unwrap();
            let (near, far) = wakeful::join!(socket.connect(&server), listener.accept());
            let (near, (far, peer)) = (near.unwrap(), far.unwrap());
            assert_eq!(peer.as_pathname(), Some(&*client));
            assert_eq!(far.peer_addr().unwrap().as_pathname(), Some(&*client));
            assert_eq!(near.local_addr().unwrap().as_pathname(), Some(&*client));
            assert_eq!(near.peer_addr().unwrap().as_pathname(), Some(&*server));

            let name = abstract_name("addresses");
            let listener = UnixListener::bind(&name).unwrap();
            let addr = listener.local_addr().unwrap();
            assert_eq!(addr.as_abstract_name(), Some(&name.as_bytes()[1..]));
            assert!(addr.as_pathname().is_none() && !addr.is_unnamed());
            // Converts the address to std's type and back, and connects by address.
            let addr = SocketAddr::from(net::SocketAddr::from(addr));
            let (near, far) = wakeful::join!(UnixStream::connect_addr(&addr), listener.accept());
            let peer = near.unwrap().peer_addr().unwrap();
            assert_eq!(peer.as_abstract_name(), addr.as_abstract_name());
            assert!(far.unwrap().1.is_unnamed());
            drop(listener);
            let gone = UnixStream::connect_addr(&addr).await.unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
            UnixListener::bind_addr(&addr).expect("an abstract name goes with its socket");
        });
    }
}

#[test]
fn a_path_without_an_end_does_not_keep_others_from_accepting() {
    let rt = current_thread();
    let folder = Folder::new();
    rt.block_on(async {
        let mut longest = folder.join("x").into_os_string();
        longest.push("x".repeat(108 - longest.len()));
        let addr = rustix::net::SocketAddrUnix::new(&*longest).unwrap();
        let name = abstract_name("longest");
        let listener = UnixListener::bind(&name).unwrap();
        let client = UnixSocket::new_stream().unwrap();
        rustix::net::bind(&client, &addr).unwrap();
        let (near, far) = wakeful::join!(client.connect(&name), listener.accept());
        let (near, (far, _)) = (near.unwrap(), far.unwrap());
        assert_eq!(far.peer_addr().unwrap().as_pathname(), Some(Path::new(&longest)));
        drop(near);
    });
}

#[test]
fn each_side_knows_who_the_other_is() {
    for rt in runtimes() {
        let name = abstract_name("credentials");
        rt.block_on(async {
            let me = std::fs::metadata("/proc/self").unwrap();
            let listener = UnixListener::bind(&name).unwrap();
            let (a, b) = connect(&listener, &name).await;
            let (c, d) = UnixStream::pair().unwrap();
            for stream in [a, b, c, d] {
                let other = stream.peer_cred().unwrap();
                assert_eq!((other.uid(), other.gid()), (me.uid(), me.gid()));
                assert_eq!(other.pid(), Some(std::process::id() as i32));
                assert_eq!(other, stream.peer_cred().unwrap());
            }
        });
    }
}

#[test]
fn a_pair_can_be_written_at_once() {
    for rt in runtimes() {
        rt.block_on(async {
            let (a, b) = UnixStream::pair().unwrap();
            assert_eq!(a.try_write(b"ab").unwrap(), 2);
            assert_eq!(
                a.try_write_vectored(&[IoSlice::new(b"c"), IoSlice::new(b"de")]).unwrap(),
                3
            );
            b.readable().await.unwrap();
            let (mut first, mut second) = ([0; 1], [0; 1]);
            let mut bufs = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            assert_eq!(b.try_read_vectored(&mut bufs).unwrap(), 2);
            let mut rest = Vec::with_capacity(8);
            assert_eq!(b.try_read_buf(&mut rest).unwrap(), 3);
            assert_eq!((&first, &second, &*rest), (b"a", b"b", &b"cde"[..]));
            assert_eq!(b.try_read(&mut first).unwrap_err().kind(), ErrorKind::WouldBlock);

            let (a, b) = UnixDatagram::pair().unwrap();
            assert_eq!(a.try_send(b"packet").unwrap(), 6);
            b.readable().await.unwrap();
            assert_eq!(b.try_recv(&mut [0; 8]).unwrap(), 6);
        });
    }
}

#[test]
fn halves_close_and_come_together_again() {
    for rt in runtimes() {
        rt.block_on(async {
            let (a, mut b) = UnixStream::pair().unwrap();
            let (other, _other_end) = UnixStream::pair().unwrap();
            let (read, write) = a.into_split();
            let (other_read, other_write) = other.into_split();

            let wrong = read.reunite(other_write).unwrap_err();
            assert_eq!(
                wrong.to_string(),
                "tried to reunite halves that are not from the same socket"
            );
            let read = wrong.0;
            drop((other_read, wrong.1));
            let mut a = read.reunite(write).unwrap();
            a.write_all(b"one").await.unwrap();

            // After `forget`, the write side stays open until the other half is dropped.
            let (read, write) = a.into_split();
            write.forget();
            let mut buf = [0; 8];
            assert_eq!(b.read(&mut buf).await.unwrap(), 3);
            {
                let mut end = pin!(b.read(&mut buf));
                assert!(poll_once(end.as_mut()).await.is_pending());
            }
            drop(read);
            assert_eq!(b.read(&mut buf).await.unwrap(), 0);

            // Dropping the write half shuts down writing, but not reading.
            let (a, mut b) = UnixStream::pair().unwrap();
            let (mut read, write) = a.into_split();
            assert!(read.ready(Interest::WRITABLE).await.unwrap().is_writable());
            drop(write);
            assert_eq!(b.read(&mut buf).await.unwrap(), 0);
            b.write_all(b"still").await.unwrap();
            assert_eq!(read.read(&mut buf).await.unwrap(), 5);

            // Both borrowed halves are used at once.
            let (mut a, mut b) = UnixStream::pair().unwrap();
            let ((mut a_read, mut a_write), (mut b_read, mut b_write)) = (a.split(), b.split());
            let (mut here, mut there) = ([0; 4], [0; 4]);
            wakeful::try_join!(
                a_write.write_all(b"ping"),
                b_write.write_all(b"pong"),
                async { a_read.read_exact(&mut here).await.map(drop) },
                async { b_read.read_exact(&mut there).await.map(drop) },
            )
            .unwrap();
            assert_eq!((&here, &there), (b"pong", b"ping"));
        });
    }
}

#[test]
fn a_full_stream_pushes_back_until_it_is_read() {
    for rt in runtimes() {
        rt.block_on(async {
            let (a, mut b) = UnixStream::pair().unwrap();
            let mut sent = 0;
            loop {
                a.writable().await.unwrap();
                match a.try_write(&[7; 10_000]) {
                    Ok(count) => sent += count,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        break;
                    }
                }
            }
            let writer = wakeful::spawn(async move {
                let mut a = a;
                a.write_all(&[7; 1_000_000]).await.unwrap();
            });
            let mut all = Vec::new();
            b.read_to_end(&mut all).await.unwrap();
            assert_eq!(all.len(), sent + 1_000_000);
            writer.await.unwrap();
        });
    }
}

#[test]
fn a_stream_whose_other_side_is_gone_says_so() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut a, b) = UnixStream::pair().unwrap();
            {
                let mut ready = pin!(a.ready(Interest::READABLE));
                assert!(poll_once(ready.as_mut()).await.is_pending());
                drop(b);
                assert!(ready.await.unwrap().is_read_closed());
            }
            assert_eq!(a.read(&mut [0]).await.unwrap(), 0);
            let broken = a.write_all(b"x").await.unwrap_err();
            assert_eq!(broken.kind(), ErrorKind::BrokenPipe, "{}", rt.name);

            // Dropping a socket with unread data resets the connection.
            let (mut a, mut b) = UnixStream::pair().unwrap();
            b.write_all(b"unread").await.unwrap();
            a.write_all(b"unread").await.unwrap();
            drop(b);
            let mut all = Vec::new();
            let reset = a.read_to_end(&mut all).await.unwrap_err();
            assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        });
    }
}

#[test]
fn a_listener_that_is_full_or_gone_refuses() {
    for rt in runtimes() {
        let folder = Folder::new();
        rt.block_on(async {
            let path = folder.join("full");
            assert_eq!(UnixStream::connect(&path).await.unwrap_err().kind(), ErrorKind::NotFound);
            let socket = UnixSocket::new_stream().unwrap();
            socket.bind(&path).unwrap();
            let listener = socket.listen(0).unwrap();
            let first = UnixStream::connect(&path).await.unwrap();
            let full = UnixStream::connect(&path).await.unwrap_err();
            assert_eq!(full.kind(), ErrorKind::WouldBlock);
            listener.accept().await.unwrap();
            let second = UnixStream::connect(&path).await.unwrap();

            // Dropping the listener closes connections that were not accepted.
            drop(listener);
            assert_eq!(second.try_read(&mut [0]).map_err(|e| e.kind()).ok(), None);
            assert_eq!(first.peer_addr().unwrap().as_pathname(), Some(&*path));
            let gone = UnixStream::connect(&path).await.unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
            let taken = UnixListener::bind(&path).unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::AddrInUse, "its path stays");
        });
    }
}

#[test]
fn sockets_move_from_one_runtime_to_another() {
    let [first, second, _third] = runtimes();
    let folder = Folder::new();
    let path = folder.join("moved");
    let (listener, stream, datagram, left) = first.block_on(async {
        let listener = UnixListener::bind(&path).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let (datagram, _) = UnixDatagram::pair().unwrap();
        (listener.into_std().unwrap(), near.into_std().unwrap(), datagram.into_std().unwrap(), far)
    });
    drop(first.runtime);
    drop(first.reports);
    second.block_on(async {
        // The socket of the ended runtime returns errors and does not hang.
        let mut left = left;
        assert!(left.read(&mut [0]).await.is_err());
        assert!(left.write(b"x").await.is_err());
        let mut left = UnixStream::from_std(left.into_std().unwrap()).unwrap();

        let listener = UnixListener::try_from(listener).unwrap();
        let mut stream = UnixStream::try_from(stream).unwrap();
        UnixDatagram::try_from(datagram).unwrap();
        connect(&listener, &path).await;
        stream.write_all(b"moved").await.unwrap();
        assert_eq!(left.read(&mut [0; 8]).await.unwrap(), 5);
    });
}

#[test]
fn a_runtime_that_goes_ends_a_wait_for_connections() {
    let rt = current_thread();
    let listener = rt.block_on(async { UnixListener::bind(abstract_name("ends")).unwrap() });
    let waiting = std::thread::scope(|scope| {
        let (tx, rx) = std::sync::mpsc::channel();
        let waiting = scope.spawn(move || {
            let mut accept = pin!(listener.accept());
            futures::executor::block_on(poll_fn(|cx| {
                let polled = accept.as_mut().poll(cx);
                let _ = tx.send(polled.is_pending());
                polled
            }))
            .map(drop)
        });
        assert!(rx.recv().unwrap(), "no client connects");
        drop(rt.runtime);
        waiting.join().unwrap()
    });
    assert!(waiting.is_err());
}

#[test]
fn panics_point_at_the_call() {
    let name = abstract_name("outside");
    let outside = panic_site(move || UnixListener::bind(name));
    assert!(outside.message.starts_with("there is no reactor running"), "{}", outside.message);
    assert_eq!(outside.file, file!());
    #[allow(clippy::redundant_closure, reason = "the call is to be in this file")]
    for site in [panic_site(|| UnixStream::pair()), panic_site(|| UnixDatagram::pair())] {
        assert_eq!(site.file, outside.file);
    }
    let rt = current_thread();
    let _inside = rt.enter();
    let (blocking, _) = net::UnixStream::pair().unwrap();
    let site = panic_site(move || UnixStream::from_std(blocking));
    assert!(site.message.starts_with("Registering a blocking socket with the tokio runtime"));
    assert_eq!(site.file, file!());
}

/// The kernel ends a read at data that carries descriptors, although more data is there, and sends no
/// further event for it.
#[test]
fn a_read_that_ends_at_descriptors_is_not_taken_for_the_last() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, far) = net::UnixStream::pair().unwrap();
            far.set_nonblocking(true).unwrap();
            let mut far = UnixStream::from_std(far).unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            for _ in 0..100 {
                let mut control = SendAncillaryBuffer::new(&mut space);
                let passed = [near.as_fd()];
                assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
                let one = [IoSlice::new(b"one")];
                rustix::net::sendmsg(&near, &one, &mut control, SendFlags::empty()).unwrap();
                (&near).write_all(b"two").unwrap();
                let mut buf = [0; 64];
                for expected in [b"one", b"two"] {
                    let read = timeout(Duration::from_secs(60), far.read(&mut buf)).await;
                    let count = read.expect("it is there").unwrap();
                    assert_eq!(&buf[..count], expected, "{}", rt.name);
                }
            }
        });
    }
}
