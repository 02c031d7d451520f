//! Rows of the table in `dropped_futures.rs`: streams, sockets, processes, signals.

use super::*;

/// A stream whose buffer is full.
async fn full_duplex() -> (DuplexStream, DuplexStream) {
    let (mut near, far) = duplex(4);
    near.write_all(b"full").await.expect("there is room");
    (near, far)
}

pub fn memory_streams(rows: &mut Vec<Row>) {
    row!(
        rows,
        "DuplexStream, read",
        {
            let (mut near, mut far) = duplex(4);
            let mut buffer = [0; 4];
        },
        near.read(&mut buffer),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "DuplexStream, read, other end dropped",
        {
            let (mut near, far) = duplex(4);
            let mut buffer = [0; 4];
        },
        near.read(&mut buffer),
        drop(far)
    );
    row!(
        rows,
        "DuplexStream, write",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut buffer = [0; 4];
        },
        near.write(b"x"),
        far.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "SimplexStream, read",
        {
            let (mut near, mut far) = simplex(4);
            let mut buffer = [0; 4];
        },
        near.read(&mut buffer),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "SimplexStream, write",
        {
            let (mut near, mut far) = simplex(4);
            far.write_all(b"full").await.unwrap();
            let mut buffer = [0; 4];
        },
        far.write(b"x"),
        near.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "io::split, read",
        {
            let (near, mut far) = duplex(4);
            let (mut read, _write) = rt::io::split(near);
            let mut buffer = [0; 4];
        },
        read.read(&mut buffer),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::split, write",
        {
            let (near, mut far) = full_duplex().await;
            let (_read, mut write) = rt::io::split(near);
            let mut buffer = [0; 4];
        },
        write.write(b"x"),
        far.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "io::copy, waiting for the reader",
        {
            let (mut near, mut far) = duplex(4);
            let mut sink = rt::io::sink();
        },
        rt::io::copy(&mut near, &mut sink),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::copy, waiting for the writer",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut source = b"more".as_slice();
            let mut buffer = [0; 4];
        },
        rt::io::copy(&mut source, &mut near),
        far.read_exact(&mut buffer).await.unwrap()
    );
    row!(
        rows,
        "io::copy_buf",
        {
            let (near, mut far) = duplex(4);
            let (mut near, mut sink) = (BufReader::new(near), rt::io::sink());
        },
        rt::io::copy_buf(&mut near, &mut sink),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::copy_bidirectional",
        {
            let (mut near, mut far) = duplex(4);
            let (mut other, _other_far) = duplex(4);
        },
        rt::io::copy_bidirectional(&mut near, &mut other),
        far.write_all(b"x").await.unwrap()
    );
    row!(
        rows,
        "io::copy_bidirectional_with_sizes",
        {
            let (mut near, mut far) = duplex(4);
            let (mut other, _other_far) = duplex(4);
        },
        rt::io::copy_bidirectional_with_sizes(&mut near, &mut other, 8, 8),
        far.write_all(b"x").await.unwrap()
    );
}

pub fn buffered(rows: &mut Vec<Row>) {
    /// Reads from an empty `near`; something comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $buffer:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, mut far) = duplex(16);
                let mut $near = BufReader::new(near);
                #[allow(unused, reason = "some futures need no buffer")]
                let mut $buffer = Buffer::default();
            }, $future, far.write_all(b"one\n").await.unwrap());
        )+};
    }
    #[derive(Default)]
    struct Buffer {
        bytes: Vec<u8>,
        array: [u8; 4],
        text: String,
    }
    reads! {
        "AsyncReadExt::read_u8": |near, buffer| near.read_u8();
        "AsyncReadExt::read_u32_le": |near, buffer| near.read_u32_le();
        "AsyncReadExt::read_f64": |near, buffer| near.read_f64();
        "AsyncReadExt::read_buf": |near, buffer| near.read_buf(&mut buffer.bytes);
        "AsyncReadExt::read_exact": |near, buffer| near.read_exact(&mut buffer.array);
        "AsyncReadExt::read_to_end": |near, buffer| near.read_to_end(&mut buffer.bytes);
        "AsyncReadExt::read_to_string": |near, buffer| near.read_to_string(&mut buffer.text);
        "AsyncBufReadExt::fill_buf": |near, buffer| near.fill_buf();
        "AsyncBufReadExt::read_until": |near, buffer| near.read_until(b'\n', &mut buffer.bytes);
        "AsyncBufReadExt::read_line": |near, buffer| near.read_line(&mut buffer.text);
    }
    row!(
        rows,
        "AsyncReadExt::take, read",
        {
            let (near, mut far) = duplex(16);
            let mut near = near.take(8);
            let mut bytes = [0; 4];
        },
        near.read(&mut bytes),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "AsyncReadExt::chain, read",
        {
            let (near, mut far) = duplex(16);
            let mut near = b"".as_slice().chain(near);
            let mut bytes = [0; 4];
        },
        near.read(&mut bytes),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "Lines::next_line",
        {
            let (near, mut far) = duplex(16);
            let mut lines = BufReader::new(near).lines();
        },
        lines.next_line(),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "Split::next_segment",
        {
            let (near, mut far) = duplex(16);
            let mut segments = BufReader::new(near).split(b'\n');
        },
        segments.next_segment(),
        far.write_all(b"one\n").await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_vectored",
        {
            let (mut near, mut far) = full_duplex().await;
            let parts = [std::io::IoSlice::new(b"x")];
        },
        near.write_vectored(&parts),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_buf",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut bytes = b"x".as_slice();
        },
        near.write_buf(&mut bytes),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_all_buf",
        {
            let (mut near, mut far) = full_duplex().await;
            let mut bytes = b"x".as_slice();
        },
        near.write_all_buf(&mut bytes),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_all",
        {
            let (mut near, mut far) = full_duplex().await;
        },
        near.write_all(b"x"),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::write_u64",
        {
            let (mut near, mut far) = full_duplex().await;
        },
        near.write_u64(1),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::flush of a BufWriter",
        {
            let (near, mut far) = full_duplex().await;
            let mut near = BufWriter::new(near);
            near.write_all(b"x").await.unwrap();
        },
        near.flush(),
        far.read_u32().await.unwrap()
    );
    row!(
        rows,
        "AsyncWriteExt::shutdown of a BufWriter",
        {
            let (near, mut far) = full_duplex().await;
            let mut near = BufWriter::new(near);
            near.write_all(b"x").await.unwrap();
        },
        near.shutdown(),
        far.read_u32().await.unwrap()
    );
}

/// Two ends of a TCP connection.
pub async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).await;
    let (far, _) = listener.accept().await.expect("it was connected to");
    (near.expect("it listens"), far)
}

pub fn tcp(rows: &mut Vec<Row>) {
    /// Reads from an empty `near`; something comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $bytes:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = tcp_pair().await;
                far.writable().await.unwrap();
                let watch = Watch::read(&near);
                #[allow(unused, reason = "some futures need no buffer")]
                let mut $bytes = [0; 4];
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, far.try_write(b"x").unwrap(), watch.has_fired().await);
        )+};
    }
    reads! {
        "TcpStream, read": |near, bytes| {} near.read(&mut bytes);
        "TcpStream::peek": |near, bytes| {} near.peek(&mut bytes);
        "TcpStream::poll_peek": |near, bytes| {} std::future::poll_fn(|cx| {
            near.poll_peek(cx, &mut rt::io::ReadBuf::new(&mut bytes))
        });
        "TcpStream::poll_read_ready": |near, bytes| {}
            std::future::poll_fn(|cx| near.poll_read_ready(cx));
        "TcpStream::readable": |near, bytes| {} near.readable();
        "TcpStream::ready": |near, bytes| {} near.ready(Interest::READABLE);
        "TcpStream::async_io": |near, bytes| {} near.async_io(Interest::READABLE, || {
            near.try_read(&mut bytes)
        });
        "tcp::ReadHalf, read": |near, bytes| { let (mut read, _write) = near.split(); }
            read.read(&mut bytes);
        "tcp::ReadHalf::peek": |near, bytes| { let (mut read, _write) = near.split(); }
            read.peek(&mut bytes);
        "tcp::ReadHalf::readable": |near, bytes| { let (read, _write) = near.split(); }
            read.readable();
        "tcp::ReadHalf::ready": |near, bytes| { let (read, _write) = near.split(); }
            read.ready(Interest::READABLE);
        "tcp::OwnedReadHalf, read": |near, bytes| { let (mut read, _write) = near.into_split(); }
            read.read(&mut bytes);
        "tcp::OwnedReadHalf::peek": |near, bytes| { let (mut read, _write) = near.into_split(); }
            read.peek(&mut bytes);
        "tcp::OwnedReadHalf::readable": |near, bytes| { let (read, _write) = near.into_split(); }
            read.readable();
        "tcp::OwnedReadHalf::ready": |near, bytes| { let (read, _write) = near.into_split(); }
            read.ready(Interest::READABLE);
    }
    row!(
        rows,
        "TcpListener::accept",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        listener.accept(),
        _ = std::net::TcpStream::connect(addr).unwrap(),
        watch.has_fired().await
    );
    row!(
        rows,
        "TcpListener::poll_accept",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        std::future::poll_fn(|cx| listener.poll_accept(cx)),
        _ = std::net::TcpStream::connect(addr).unwrap(),
        watch.has_fired().await
    );
    row!(
        rows,
        "TcpStream::connect",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        TcpStream::connect(addr),
        (),
        watch.has_fired().await
    );
    row!(
        rows,
        "TcpSocket::connect",
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let watch = Watch::read(&listener);
        },
        rt::net::TcpSocket::new_v4().unwrap().connect(addr),
        (),
        watch.has_fired().await
    );
}

pub fn unix(rows: &mut Vec<Row>) {
    /// Reads from an empty `near`; something comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $bytes:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = UnixStream::pair().unwrap();
                far.writable().await.unwrap();
                #[allow(unused, reason = "some futures need no buffer")]
                let mut $bytes = [0; 4];
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, far.try_write(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    reads! {
        "UnixStream, read": |near, bytes| {} near.read(&mut bytes);
        "UnixStream::poll_read_ready": |near, bytes| {}
            std::future::poll_fn(|cx| near.poll_read_ready(cx));
        "UnixStream::readable": |near, bytes| {} near.readable();
        "UnixStream::ready": |near, bytes| {} near.ready(Interest::READABLE);
        "UnixStream::async_io": |near, bytes| {} near.async_io(Interest::READABLE, || {
            near.try_read(&mut bytes)
        });
        "unix::ReadHalf, read": |near, bytes| { let (mut read, _write) = near.split(); }
            read.read(&mut bytes);
        "unix::ReadHalf::readable": |near, bytes| { let (read, _write) = near.split(); }
            read.readable();
        "unix::OwnedReadHalf, read": |near, bytes| { let (mut read, _write) = near.into_split(); }
            read.read(&mut bytes);
        "unix::OwnedReadHalf::readable": |near, bytes| { let (read, _write) = near.into_split(); }
            read.readable();
    }
    /// Writes to a full `near`; `far` reads all of it.
    macro_rules! writes {
        ($($name:literal: |$near:ident| { $($more:tt)* } $future:expr;)+) => {$(
            row!(rows, $name, {
                let (near, far) = UnixStream::pair().unwrap();
                near.writable().await.unwrap();
                fill(|bytes| near.try_write(bytes));
                far.readable().await.unwrap();
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $near = near;
                $($more)*
            }, $future, drain(|bytes| far.try_read(bytes)), driver_has_turned().await);
        )+};
    }
    writes! {
        "UnixStream, write": |near| {} near.write(b"x");
        "UnixStream::poll_write_ready": |near| {}
            std::future::poll_fn(|cx| near.poll_write_ready(cx));
        "UnixStream::writable": |near| {} near.writable();
        "UnixStream::ready, writable": |near| {} near.ready(Interest::WRITABLE);
        "UnixStream::async_io, write": |near| {} near.async_io(Interest::WRITABLE, || {
            near.try_write(b"x")
        });
        "unix::WriteHalf, write": |near| { let (_read, mut write) = near.split(); }
            write.write(b"x");
        "unix::WriteHalf::writable": |near| { let (_read, write) = near.split(); }
            write.writable();
        "unix::WriteHalf::ready": |near| { let (_read, write) = near.split(); }
            write.ready(Interest::WRITABLE);
        "unix::OwnedWriteHalf, write": |near| { let (_read, mut write) = near.into_split(); }
            write.write(b"x");
        "unix::OwnedWriteHalf::writable": |near| { let (_read, write) = near.into_split(); }
            write.writable();
        "unix::OwnedWriteHalf::ready": |near| { let (_read, write) = near.into_split(); }
            write.ready(Interest::WRITABLE);
    }
    row!(
        rows,
        "UnixListener::accept",
        {
            let (listener, path) = bound();
        },
        listener.accept(),
        _ = std::os::unix::net::UnixStream::connect_addr(&path).unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "UnixListener::poll_accept",
        {
            let (listener, path) = bound();
        },
        std::future::poll_fn(|cx| listener.poll_accept(cx)),
        _ = std::os::unix::net::UnixStream::connect_addr(&path).unwrap(),
        driver_has_turned().await
    );
}

/// A listener with a name that the kernel chose, outside of the file system.
fn bound() -> (UnixListener, std::os::unix::net::SocketAddr) {
    use std::os::linux::net::SocketAddrExt;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!(
        "wakeful-dropped-{}-{}-{}",
        std::process::id(),
        module_path!(),
        NEXT.fetch_add(1, SeqCst)
    );
    let addr = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a short name");
    let listener = std::os::unix::net::UnixListener::bind_addr(&addr).expect("the address is free");
    listener.set_nonblocking(true).expect("a socket can");
    (UnixListener::from_std(listener).expect("it can be polled"), addr)
}

pub async fn udp_pair() -> (UdpSocket, UdpSocket) {
    let near = UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
    let far = UdpSocket::bind("127.0.0.1:0").await.expect("a port is free");
    far.connect(near.local_addr().expect("it is bound")).await.expect("no packet is sent");
    near.connect(far.local_addr().expect("it is bound")).await.expect("no packet is sent");
    (near, far)
}

pub fn datagrams(rows: &mut Vec<Row>) {
    /// Receives on `near`, which has no packet; one comes from `far`.
    macro_rules! reads {
        ($($name:literal: |$near:ident, $bytes:ident, $array:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = udp_pair().await;
                far.writable().await.unwrap();
                let watch = Watch::read(&$near);
                #[allow(unused, reason = "some futures need no buffer")]
                let (mut $bytes, mut $array) = (Vec::<u8>::with_capacity(4), [0; 4]);
            }, $future, far.try_send(b"x").unwrap(), watch.has_fired().await);
        )+};
    }
    reads! {
        "UdpSocket::recv": |near, bytes, array| near.recv(&mut array);
        "UdpSocket::recv_from": |near, bytes, array| near.recv_from(&mut array);
        "UdpSocket::recv_buf": |near, bytes, array| near.recv_buf(&mut bytes);
        "UdpSocket::recv_buf_from": |near, bytes, array| near.recv_buf_from(&mut bytes);
        "UdpSocket::peek": |near, bytes, array| near.peek(&mut array);
        "UdpSocket::peek_from": |near, bytes, array| near.peek_from(&mut array);
        "UdpSocket::peek_sender": |near, bytes, array| near.peek_sender();
        "UdpSocket::readable": |near, bytes, array| near.readable();
        "UdpSocket::ready": |near, bytes, array| near.ready(Interest::READABLE);
        "UdpSocket::async_io": |near, bytes, array| near.async_io(Interest::READABLE, || {
            near.try_recv(&mut array)
        });
        "UdpSocket::poll_recv": |near, bytes, array| std::future::poll_fn(|cx| {
            near.poll_recv(cx, &mut rt::io::ReadBuf::new(&mut array))
        });
        "UdpSocket::poll_recv_ready": |near, bytes, array|
            std::future::poll_fn(|cx| near.poll_recv_ready(cx));
    }
    /// Receives on `near`, which has no packet; one comes from `far`.
    macro_rules! unix_reads {
        ($($name:literal: |$near:ident, $bytes:ident, $array:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = UnixDatagram::pair().unwrap();
                far.writable().await.unwrap();
                #[allow(unused, reason = "some futures need no buffer")]
                let (mut $bytes, mut $array) = (Vec::<u8>::with_capacity(4), [0; 4]);
            }, $future, far.try_send(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    unix_reads! {
        "UnixDatagram::recv": |near, bytes, array| near.recv(&mut array);
        "UnixDatagram::recv_from": |near, bytes, array| near.recv_from(&mut array);
        "UnixDatagram::recv_buf": |near, bytes, array| near.recv_buf(&mut bytes);
        "UnixDatagram::recv_buf_from": |near, bytes, array| near.recv_buf_from(&mut bytes);
        "UnixDatagram::readable": |near, bytes, array| near.readable();
        "UnixDatagram::ready": |near, bytes, array| near.ready(Interest::READABLE);
        "UnixDatagram::async_io": |near, bytes, array| near.async_io(Interest::READABLE, || {
            near.try_recv(&mut array)
        });
        "UnixDatagram::poll_recv": |near, bytes, array| std::future::poll_fn(|cx| {
            near.poll_recv(cx, &mut rt::io::ReadBuf::new(&mut array))
        });
    }
    /// Sends to `far`, whose queue is full; `far` receives all of it.
    macro_rules! unix_writes {
        ($($name:literal: |$near:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let ($near, far) = UnixDatagram::pair().unwrap();
                $near.writable().await.unwrap();
                fill(|bytes| $near.try_send(&bytes[..1]));
                far.readable().await.unwrap();
            }, $future, drain(|bytes| far.try_recv(bytes)), driver_has_turned().await);
        )+};
    }
    unix_writes! {
        "UnixDatagram::send": |near| near.send(b"x");
        "UnixDatagram::writable": |near| near.writable();
        "UnixDatagram::poll_send": |near| std::future::poll_fn(|cx| near.poll_send(cx, b"x"));
    }
}

pub fn descriptors(rows: &mut Vec<Row>) {
    /// A pipe of the system, non-blocking, as `AsyncFd`s.
    fn pipe() -> (AsyncFd<OwnedFd>, std::io::PipeWriter) {
        let (read, write) = std::io::pipe().expect("two descriptors are free");
        (async_fd(read.into(), Interest::READABLE), write)
    }
    macro_rules! reads {
        ($($name:literal: |$fd:ident| $future:expr;)+) => {$(
            row!(rows, $name, {
                let (fd, mut write) = pipe();
                #[allow(unused_mut, reason = "some futures borrow it only")]
                let mut $fd = fd;
            }, $future, write.write_all(b"x").unwrap(), driver_has_turned().await);
        )+};
    }
    reads! {
        "AsyncFd::readable": |fd| fd.readable();
        "AsyncFd::readable_mut": |fd| fd.readable_mut();
        "AsyncFd::ready": |fd| fd.ready(Interest::READABLE);
        "AsyncFd::ready_mut": |fd| fd.ready_mut(Interest::READABLE);
        "AsyncFd::async_io": |fd| fd.async_io(Interest::READABLE, |_| Ok(()));
        "AsyncFd::async_io_mut": |fd| fd.async_io_mut(Interest::READABLE, |_| Ok(()));
        "AsyncFd::poll_read_ready": |fd| std::future::poll_fn(|cx| {
            fd.poll_read_ready(cx).map(drop)
        });
    }
    row!(
        rows,
        "pipe::Receiver, read",
        {
            let (tx, mut rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            let mut bytes = [0; 4];
        },
        rx.read(&mut bytes),
        tx.try_write(b"x").unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Receiver::readable",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
        },
        rx.readable(),
        tx.try_write(b"x").unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Receiver::ready",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
        },
        rx.ready(Interest::READABLE),
        tx.try_write(b"x").unwrap(),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Sender, write",
        {
            let (mut tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            fill(|bytes| tx.try_write(bytes));
            rx.readable().await.unwrap();
        },
        tx.write(b"x"),
        drain(|bytes| rx.try_read(bytes)),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Sender::writable",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            fill(|bytes| tx.try_write(bytes));
            rx.readable().await.unwrap();
        },
        tx.writable(),
        drain(|bytes| rx.try_read(bytes)),
        driver_has_turned().await
    );
    row!(
        rows,
        "pipe::Sender::ready",
        {
            let (tx, rx) = rt::net::unix::pipe::pipe().unwrap();
            tx.writable().await.unwrap();
            fill(|bytes| tx.try_write(bytes));
            rx.readable().await.unwrap();
        },
        tx.ready(Interest::WRITABLE),
        drain(|bytes| rx.try_read(bytes)),
        driver_has_turned().await
    );
    row!(
        rows,
        "TcpStream, write",
        {
            let (mut near, far) = tcp_pair().await;
            near.writable().await.unwrap();
            fill(|bytes| near.try_write(bytes));
            far.readable().await.unwrap();
            fill(|bytes| near.try_write(bytes));
            let watch = Watch::write(&near);
        },
        near.write(b"x"),
        drain(|bytes| far.try_read(bytes)),
        watch.has_fired().await
    );
}

/// Starts a program that ends with its standard input, which the test keeps, and a listener for SIGCHLD.
///
/// The kernel sends that signal after it has made descriptors of the process readable.
fn child() -> (Child, ChildStdin, Signal) {
    let ended = signal(SignalKind::child()).expect("it can be listened for");
    let mut command = Command::new("cat");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is `cat`");
    let stdin = child.stdin.take().expect("it was asked for");
    (child, stdin, ended)
}

/// Waits for the signal, and until the runtime has delivered all earlier events.
async fn has_ended(mut ended: Signal) {
    ended.recv().await.expect("the runtime is there");
    driver_has_turned().await;
}

/// Returns a command, and the writer of its standard input. Dropping the writer ends the input.
fn command() -> (Command, std::io::PipeWriter, Signal) {
    let ended = signal(SignalKind::child()).expect("it can be listened for");
    let (read, write) = std::io::pipe().expect("two descriptors are free");
    let mut command = Command::new("cat");
    command.stdin(Stdio::from(read)).stdout(Stdio::null());
    (command, write, ended)
}

pub fn processes(rows: &mut Vec<Row>) {
    // `Child::kill` is not here: the process may have ended before the first poll, so that poll is not always pending.
    // It sends a signal and then waits as `Child::wait` does.
    row!(
        rows,
        "Child::wait",
        {
            let (mut child, stdin, ended) = child();
        },
        child.wait(),
        drop(stdin),
        has_ended(ended).await
    );
    row!(
        rows,
        "Child::wait_with_output",
        {
            let (child, stdin, ended) = child();
        },
        child.wait_with_output(),
        drop(stdin),
        has_ended(ended).await
    );
    row!(
        rows,
        "Command::status",
        {
            let (mut command, write, ended) = command();
        },
        command.status(),
        drop((write, command.stdin(Stdio::null()))),
        has_ended(ended).await
    );
    row!(
        rows,
        "Command::output",
        {
            let (mut command, write, ended) = command();
        },
        command.output(),
        drop((write, command.stdin(Stdio::null()))),
        has_ended(ended).await
    );
    row!(
        rows,
        "ChildStdout, read",
        {
            let (mut child, mut stdin, ended) = child();
            let mut stdout = child.stdout.take().unwrap();
            let watch = Watch::read(&stdout);
            let mut bytes = [0; 4];
        },
        stdout.read(&mut bytes),
        stdin.write_all(b"x").await.unwrap(),
        {
            watch.has_fired().await;
            // No signal is left over for the next row.
            drop(stdin);
            has_ended(ended).await;
        }
    );
}

pub fn signals(rows: &mut Vec<Row>) {
    row!(
        rows,
        "Signal::recv",
        {
            let mut signals = signal(SignalKind::user_defined1()).unwrap();
            let mut others = signal(SignalKind::user_defined1()).unwrap();
        },
        signals.recv(),
        send_signal(rustix::process::Signal::USR1),
        others.recv().await.unwrap()
    );
    row!(
        rows,
        "Signal::poll_recv",
        {
            let mut signals = signal(SignalKind::user_defined1()).unwrap();
            let mut others = signal(SignalKind::user_defined1()).unwrap();
        },
        std::future::poll_fn(|cx| signals.poll_recv(cx)),
        send_signal(rustix::process::Signal::USR1),
        others.recv().await.unwrap()
    );
    row!(
        rows,
        "ctrl_c",
        {
            let mut others = signal(SignalKind::interrupt()).unwrap();
        },
        rt::signal::ctrl_c(),
        send_signal(rustix::process::Signal::INT),
        others.recv().await.unwrap()
    );
}

pub fn pool(rows: &mut Vec<Row>) {
    row!(rows, "lookup_host", {}, rt::net::lookup_host("localhost:1"), (), pool_is_idle().await);
}
