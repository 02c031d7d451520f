//! Datagrams of Unix sockets, and descriptors that come with data.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

use wakeful::io::Interest;
use wakeful::net::{UnixDatagram, UnixSocket};
use wakeful::task::yield_now;

use super::abstract_name;
use crate::support::sockets::{Folder, current_thread, runtimes};

#[test]
fn a_socket_has_one_type() {
    let rt = current_thread();
    rt.block_on(async {
        let datagram = || UnixSocket::new_datagram().unwrap();
        let text = datagram().listen(1).unwrap_err().to_string();
        assert_eq!(text, "listen cannot be called on a datagram socket");
        let text = datagram().connect("nowhere").await.unwrap_err().to_string();
        assert_eq!(text, "connect cannot be called on a datagram socket");
        let stream = UnixSocket::new_stream().unwrap();
        let text = stream.datagram().unwrap_err().to_string();
        assert_eq!(text, "datagram cannot be called on a stream socket");

        let socket = datagram();
        let fd = socket.as_raw_fd();
        assert_eq!(socket.as_fd().as_raw_fd(), fd);
        // SAFETY: `into_raw_fd` has just given up the ownership of this descriptor.
        let socket = unsafe { UnixSocket::from_raw_fd(socket.into_raw_fd()) };
        assert_eq!(socket.datagram().unwrap().as_raw_fd(), fd);
    });
}

#[test]
fn datagrams_have_a_sender_and_a_size() {
    for rt in runtimes() {
        let folder = Folder::new();
        rt.block_on(async {
            let (server, client) = (folder.join("server"), abstract_name("client"));
            let far = UnixDatagram::bind(&server).unwrap();
            let near = UnixDatagram::bind(&client).unwrap();
            assert_eq!(near.send_to(b"long", &server).await.unwrap(), 4);
            assert_eq!(near.try_send_to(b"", &server).unwrap(), 0);
            let polled = poll_fn(|cx| near.poll_send_to(cx, b"short", &server));
            assert_eq!(polled.await.unwrap(), 5);

            let name = Some(&client.as_bytes()[1..]);
            let mut buf = [0; 2];
            let (count, sender) = far.recv_from(&mut buf).await.unwrap();
            assert_eq!((count, &buf, sender.as_abstract_name()), (2, b"lo", name));
            let (count, sender) = far.try_recv_from(&mut buf).unwrap();
            assert_eq!((count, sender.as_abstract_name()), (0, name));
            let mut all = Vec::with_capacity(16);
            let (count, sender) = far.recv_buf_from(&mut all).await.unwrap();
            assert_eq!((count, &*all, sender.as_abstract_name()), (5, &b"short"[..], name));

            // A connected socket without an address sends.
            let unnamed = UnixDatagram::unbound().unwrap();
            unnamed.connect(&server).unwrap();
            assert_eq!(unnamed.peer_addr().unwrap().as_pathname(), Some(&*server));
            assert!(unnamed.local_addr().unwrap().is_unnamed());
            assert_eq!(unnamed.send(b"who").await.unwrap(), 3);
            assert!(far.recv_from(&mut buf).await.unwrap().1.is_unnamed());

            let missing = near.send_to(b"x", folder.join("missing")).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            drop(far);
            let refused = unnamed.send(b"x").await.unwrap_err();
            assert!(
                [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset]
                    .contains(&refused.kind())
            );
        });
    }
}

#[test]
fn no_datagram_is_lost_however_slow_the_receiver() {
    const PACKETS: u32 = 3_000;
    for rt in runtimes() {
        rt.block_on(async {
            let (a, b) = UnixDatagram::pair().unwrap();
            let sender = wakeful::spawn(async move {
                for number in 0..PACKETS {
                    a.send(&number.to_le_bytes()).await.unwrap();
                }
                a
            });
            let mut buf = [0; 4];
            for number in 0..PACKETS {
                if number % 50 == 0 {
                    yield_now().await;
                }
                assert_eq!(b.recv(&mut buf).await.unwrap(), 4);
                assert_eq!(u32::from_le_bytes(buf), number);
            }
            let a = sender.await.unwrap();
            a.shutdown(Shutdown::Write).unwrap();
            assert_eq!(a.send(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    }
}

/// The kernel reports the end of the stream, and that there is nothing to receive, at the same time.
#[test]
fn a_receive_after_a_shutdown_waits_and_does_not_spin() {
    for rt in runtimes() {
        rt.block_on(async {
            let (near, _far) = UnixDatagram::pair().unwrap();
            near.shutdown(Shutdown::Read).unwrap();
            while !near.ready(Interest::READABLE).await.unwrap().is_read_closed() {
                yield_now().await;
            }
            let mut buf = [0; 4];
            let mut receives = pin!(near.recv(&mut buf));
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(woken.clone());
            assert!(receives.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(woken.0.load(SeqCst), 0, "{}: it is to be polled again", rt.name);
        });
    }
}

/// Counts wake-ups.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
