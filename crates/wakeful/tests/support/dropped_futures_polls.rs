//! Rows of the table in `dropped_futures.rs`: waits to write, `poll_*` methods of sockets and channels, standard input.

use super::*;
use rt::io::ReadBuf;
use std::future::poll_fn;

/// A pair of streams. The buffers from the first to the second are full.
async fn full_tcp_pair() -> (TcpStream, TcpStream) {
    let (near, far) = rows_of_net::tcp_pair().await;
    near.writable().await.expect("a new socket has room");
    fill(|bytes| near.try_write(bytes));
    far.readable().await.expect("it was written to");
    // Data that reached the receiver has freed space in the send buffer.
    fill(|bytes| near.try_write(bytes));
    (near, far)
}

/// Waits to write to streams whose buffers are full; the other end reads all of it.
pub fn writes(rows: &mut Vec<Row>) {
    macro_rules! writes {
        ($($name:literal: |$near:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = full_tcp_pair().await;
                let watch = Watch::write(&near);
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, drain(|bytes| far.try_read(bytes)), watch.has_fired().await);
        )+};
    }
    writes! {
        "TcpStream::writable": |near| {} near.writable();
        "TcpStream::ready, writable": |near| {} near.ready(Interest::WRITABLE);
        "TcpStream::poll_write_ready": |near| {} poll_fn(|cx| near.poll_write_ready(cx));
        "TcpStream::async_io, write": |near| {} near.async_io(Interest::WRITABLE, || {
            near.try_write(b"x")
        });
        "tcp::WriteHalf, write": |near| { let (_read, mut write) = near.split(); }
            write.write(b"x");
        "tcp::WriteHalf::writable": |near| { let (_read, write) = near.split(); }
            write.writable();
        "tcp::WriteHalf::ready": |near| { let (_read, write) = near.split(); }
            write.ready(Interest::WRITABLE);
        "tcp::OwnedWriteHalf, write": |near| { let (_read, mut write) = near.into_split(); }
            write.write(b"x");
        "tcp::OwnedWriteHalf::writable": |near| { let (_read, write) = near.into_split(); }
            write.writable();
        "tcp::OwnedWriteHalf::ready": |near| { let (_read, write) = near.into_split(); }
            write.ready(Interest::WRITABLE);
    }
    macro_rules! fds {
        ($($name:literal: |$fd:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = UnixStream::pair().unwrap();
                near.writable().await.unwrap();
                fill(|bytes| near.try_write(bytes));
                far.readable().await.unwrap();
                let fd = OwnedFd::from(near.into_std().unwrap());
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $fd = async_fd(fd, Interest::WRITABLE);
            }, $future, drain(|bytes| far.try_read(bytes)), driver_has_turned().await);
        )+};
    }
    fds! {
        "AsyncFd::writable": |fd| fd.writable();
        "AsyncFd::writable_mut": |fd| fd.writable_mut();
        "AsyncFd::poll_write_ready": |fd| poll_fn(|cx| fd.poll_write_ready(cx).map(drop));
        "AsyncFd::poll_write_ready_mut": |fd| poll_fn(|cx| fd.poll_write_ready_mut(cx).map(drop));
    }
}

/// Returns a path in the folder for temporary files that no other row uses.
fn unused_path() -> std::path::PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let side = module_path!().replace("::", "-");
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, SeqCst));
    std::env::temp_dir().join(format!("wakeful-dropped-{process}-{side}-{number}"))
}

/// Datagrams: `poll_*` methods, and sends to a queue that is full.
pub fn datagrams(rows: &mut Vec<Row>) {
    macro_rules! udp_reads {
        ($($name:literal: |$near:ident, $buffer:ident, $cx:ident| $poll:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = rows_of_net::udp_pair().await;
                far.writable().await.unwrap();
                let watch = Watch::read(&$near);
                #[allow(unused_mut, unused_variables, reason = "one future needs no buffer")]
                let mut array = [0; 4];
            }, poll_fn(|$cx| {
                #[allow(unused_mut, unused_variables, reason = "one future needs no buffer")]
                let mut $buffer = ReadBuf::new(&mut array);
                $poll.map(drop)
            }), far.try_send(b"x").unwrap(), watch.has_fired().await);
        )+};
    }
    udp_reads! {
        "UdpSocket::poll_recv_from": |near, buffer, cx| near.poll_recv_from(cx, &mut buffer);
        "UdpSocket::poll_peek": |near, buffer, cx| near.poll_peek(cx, &mut buffer);
        "UdpSocket::poll_peek_from": |near, buffer, cx| near.poll_peek_from(cx, &mut buffer);
        "UdpSocket::poll_peek_sender": |near, buffer, cx| near.poll_peek_sender(cx);
    }
    macro_rules! unix_reads {
        ($($name:literal: |$near:ident, $buffer:ident, $cx:ident| $poll:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = UnixDatagram::pair().unwrap();
                far.writable().await.unwrap();
                #[allow(unused_mut, unused_variables, reason = "one future needs no buffer")]
                let mut array = [0; 4];
            }, poll_fn(|$cx| {
                #[allow(unused_mut, unused_variables, reason = "one future needs no buffer")]
                let mut $buffer = ReadBuf::new(&mut array);
                $poll.map(drop)
            }), far.try_send(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    unix_reads! {
        "UnixDatagram::poll_recv_from": |near, buffer, cx| near.poll_recv_from(cx, &mut buffer);
        "UnixDatagram::poll_recv_ready": |near, buffer, cx| near.poll_recv_ready(cx);
    }
    macro_rules! unix_writes {
        ($($name:literal: |$near:ident, $path:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let $path = unused_path();
                let far = UnixDatagram::bind(&$path).unwrap();
                let $near = UnixDatagram::unbound().unwrap();
                $near.connect(&$path).unwrap();
                $near.writable().await.unwrap();
                fill(|bytes| $near.try_send(&bytes[..1]));
                far.readable().await.unwrap();
            }, $future, drain(|bytes| far.try_recv(bytes)), {
                driver_has_turned().await;
                let _ = std::fs::remove_file(&$path);
            });
        )+};
    }
    unix_writes! {
        "UnixDatagram::send_to": |near, path| near.send_to(b"x", &path);
        "UnixDatagram::poll_send_to": |near, path| poll_fn(|cx| near.poll_send_to(cx, b"x", &path));
        "UnixDatagram::poll_send_ready": |near, path| poll_fn(|cx| near.poll_send_ready(cx));
        "UnixDatagram::ready, writable": |near, path| near.ready(Interest::WRITABLE);
        "UnixDatagram::async_io, write": |near, path| near.async_io(Interest::WRITABLE, || {
            near.try_send(b"x")
        });
    }
}

/// `poll_*` methods of channels.
pub fn channels(rows: &mut Vec<Row>) {
    row!(
        rows,
        "mpsc::Receiver::poll_recv_many",
        {
            let (tx, mut rx) = mpsc::channel(1);
            let mut messages = Vec::new();
        },
        poll_fn(|cx| rx.poll_recv_many(cx, &mut messages, 2)),
        tx.try_send(()).unwrap()
    );
    row!(
        rows,
        "mpsc::UnboundedReceiver::poll_recv_many",
        {
            let (tx, mut rx) = mpsc::unbounded_channel();
            let mut messages = Vec::new();
        },
        poll_fn(|cx| rx.poll_recv_many(cx, &mut messages, 2)),
        tx.send(()).unwrap()
    );
    row!(
        rows,
        "Lines::poll_next_line",
        {
            let (near, mut far) = duplex(8);
            let mut lines = BufReader::new(near).lines();
        },
        poll_fn(|cx| Pin::new(&mut lines).poll_next_line(cx)),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "Split::poll_next_segment",
        {
            let (near, mut far) = duplex(8);
            let mut segments = BufReader::new(near).split(b'\n');
        },
        poll_fn(|cx| Pin::new(&mut segments).poll_next_segment(cx)),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "AsyncFd::poll_read_ready_mut",
        {
            let (read, mut write) = std::io::pipe().unwrap();
            let mut fd = async_fd(read.into(), Interest::READABLE);
        },
        poll_fn(|cx| fd.poll_read_ready_mut(cx).map(drop)),
        write.write_all(b"x").unwrap(),
        driver_has_turned().await
    );
}

/// Standard input, which is an empty pipe at first, so a read cannot complete before the first poll.
pub fn stdin(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Stdin, read",
        {
            let (read, mut write) = std::io::pipe().expect("there is a descriptor");
            rustix::stdio::dup2_stdin(read).expect("a descriptor can be replaced");
            let mut stdin = rt::io::stdin();
            let mut bytes = [0; 4];
        },
        stdin.read(&mut bytes),
        write.write_all(b"x").unwrap(),
        pool_is_idle().await
    );
}
