//! Rows of the table in `dropped_futures.rs`: streams and descriptors.

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
    /// Reads from an empty `near` while `far` sends data.
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

pub fn descriptors(rows: &mut Vec<Row>) {
    /// A kernel pipe, non-blocking, as `AsyncFd`s.
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
            let (mut near, far) = super::rows_of_net::tcp_pair().await;
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
