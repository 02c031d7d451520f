//! Rows of the table in `dropped_futures.rs`: sockets.

use super::*;

/// Two ends of a TCP connection.
pub async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).await;
    let (far, _) = listener.accept().await.expect("it was connected to");
    (near.expect("it listens"), far)
}

pub fn tcp(rows: &mut Vec<Row>) {
    /// Reads from an empty `near` while `far` sends data.
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
    /// Reads from an empty `near` while `far` sends data.
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
    /// Receives on `near`, which has no packet, until `far` sends one.
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
    /// Receives on `near`, which has no packet, until `far` sends one.
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
