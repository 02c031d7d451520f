//! Copying from a reader to a writer: `copy`, `copy_buf`, `copy_bidirectional`.

use std::io::{Cursor, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use wakeful::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter, ReadBuf, copy,
    copy_bidirectional, copy_bidirectional_with_sizes, copy_buf, duplex, empty, join, repeat, sink,
};
use wakeful::task::yield_now;

mod support {
    pub mod panic_site;
    pub mod rng;
    pub mod runtimes;
    pub mod scripted_io;
}
use support::panic_site::panic_site;
use support::runtimes::runtimes;
use support::scripted_io::{Act, ScriptedIo, give};

#[wakeful::test]
async fn everything_arrives_and_is_flushed() {
    let reads = [give("hello "), Act::Wait, Act::Fail(ErrorKind::Interrupted), give("world")];
    let writes = [Act::Take(2), Act::Wait, Act::Fail(ErrorKind::Interrupted), Act::Take(3)];

    let mut writer = ScriptedIo::writes(writes.clone());
    assert_eq!(copy(&mut ScriptedIo::reads(reads.clone()), &mut writer).await.unwrap(), 11);
    assert_eq!(writer.written, b"hello world");
    assert_eq!(writer.log.last().unwrap(), "flush");

    let mut writer = ScriptedIo::writes(writes);
    let mut reader = BufReader::with_capacity(4, ScriptedIo::reads(reads));
    assert_eq!(copy_buf(&mut reader, &mut writer).await.unwrap(), 11);
    assert_eq!(writer.written, b"hello world");
    assert_eq!(writer.log.last().unwrap(), "flush");
}

#[wakeful::test]
async fn copy_reads_8_kib_at_a_time() {
    let mut reader = ScriptedIo::reads([give(vec![1; 20_000])]);
    assert_eq!(copy(&mut reader, &mut sink()).await.unwrap(), 20_000);
    assert_eq!(reader.take_log(), ["read 8192"; 4]);
}

#[wakeful::test]
async fn an_error_ends_the_copy() {
    let failing = || ScriptedIo::reads([give("ab"), Act::Fail(ErrorKind::TimedOut)]);
    let full = || ScriptedIo::writes([Act::Take(1), Act::Take(0)]);
    let broken = || ScriptedIo::writes([Act::Fail(ErrorKind::BrokenPipe)]);
    let unflushed =
        || ScriptedIo { flushes: [Act::Fail(ErrorKind::Other)].into(), ..ScriptedIo::default() };

    let read = copy(&mut failing(), &mut sink()).await.unwrap_err();
    assert_eq!(read.kind(), ErrorKind::TimedOut);
    let read = copy_buf(&mut BufReader::new(failing()), &mut sink()).await.unwrap_err();
    assert_eq!(read.kind(), ErrorKind::TimedOut);
    for (mut writer, kind) in [
        (full(), ErrorKind::WriteZero),
        (broken(), ErrorKind::BrokenPipe),
        (unflushed(), ErrorKind::Other),
    ] {
        let error = copy(&mut &b"abc"[..], &mut writer).await.unwrap_err();
        assert_eq!(error.kind(), kind);
    }
    for (mut writer, kind) in [
        (full(), ErrorKind::WriteZero),
        (broken(), ErrorKind::BrokenPipe),
        (unflushed(), ErrorKind::Other),
    ] {
        let error = copy_buf(&mut &b"abc"[..], &mut writer).await.unwrap_err();
        assert_eq!(error.kind(), kind);
    }
    let zero = copy(&mut &b"abc"[..], &mut full()).await.unwrap_err();
    assert_eq!(zero.to_string(), "write zero byte into writer");
}

#[wakeful::test]
async fn unwritten_data_of_copy_buf_stays_in_the_reader() {
    let mut reader = BufReader::new(&b"abcdef"[..]);
    let mut writer = ScriptedIo::writes([Act::Take(2), Act::Fail(ErrorKind::Other)]);
    assert!(copy_buf(&mut reader, &mut writer).await.is_err());
    assert_eq!(copy_buf(&mut reader, &mut writer).await.unwrap(), 4);
    assert_eq!(writer.written, b"abcdef");
}

/// A stream that sends its next bytes only after it received the echo of the last.
#[derive(Default)]
struct Echoing {
    heard: usize,
    said: usize,
}

impl AsyncRead for Echoing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.said == 10 {
            return Poll::Ready(Ok(()));
        }
        if self.heard < self.said {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.said += 1;
        buf.put_slice(b"x");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Echoing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.heard += buf.len();
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[wakeful::test]
async fn buffered_output_is_flushed_while_the_reader_is_pending() {
    let (mut reader, writer) = wakeful::io::split(Echoing::default());
    let mut writer = BufWriter::new(writer);
    assert_eq!(copy(&mut reader, &mut writer).await.unwrap(), 10);

    let (reader, writer) = wakeful::io::split(Echoing::default());
    let (mut reader, mut writer) = (BufReader::new(reader), BufWriter::new(writer));
    assert_eq!(copy_buf(&mut reader, &mut writer).await.unwrap(), 10);
}

#[wakeful::test]
async fn copying_for_ever_lets_others_run() {
    wakeful::select! {
        biased;
        _ = async { copy(&mut repeat(1), &mut sink()).await } => unreachable!("it has no end"),
        () = yield_now() => {}
    }
    wakeful::select! {
        biased;
        _ = async { loop { copy(&mut empty(), &mut sink()).await.unwrap(); } } => {}
        () = yield_now() => {}
    }
    wakeful::select! {
        biased;
        _ = async { loop { copy_buf(&mut empty(), &mut sink()).await.unwrap(); } } => {}
        () = yield_now() => {}
    }
    wakeful::select! {
        biased;
        _ = async { copy(&mut NoBudget, &mut NoBudget).await } => unreachable!("it has no end"),
        () = yield_now() => {}
    }
}

/// Always ready, and spends no budget.
struct NoBudget;

impl AsyncRead for NoBudget {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        buf.put_slice(b"x");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for NoBudget {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_proxy_passes_both_directions_and_their_ends() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut client, mut proxy_client) = duplex(5);
            let (mut server, mut proxy_server) = duplex(3);
            let proxy = wakeful::spawn(async move {
                copy_bidirectional(&mut proxy_client, &mut proxy_server).await
            });
            let server = wakeful::spawn(async move {
                let mut request = String::new();
                server.read_to_string(&mut request).await.unwrap();
                server.write_all(b"answer to ").await.unwrap();
                server.write_all(request.as_bytes()).await.unwrap();
            });
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "answer to question");
            server.await.unwrap();
            assert_eq!(proxy.await.unwrap().unwrap(), (8, 18));
        });
    }
}

#[wakeful::test]
async fn an_error_in_one_direction_ends_both() {
    let mut a = ScriptedIo::reads([Act::Hang]);
    let mut b = ScriptedIo::reads([Act::Fail(ErrorKind::ConnectionReset)]);
    let error = copy_bidirectional(&mut a, &mut b).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[wakeful::test]
async fn each_direction_has_a_buffer_of_its_size() {
    let mut a = ScriptedIo::reads([give("abcdef")]);
    let mut b = ScriptedIo::reads([give("123456")]);
    let sizes = copy_bidirectional_with_sizes(&mut a, &mut b, 2, 4).await.unwrap();
    assert_eq!(sizes, (6, 6));
    assert_eq!((a.written.as_slice(), b.written.as_slice()), (&b"123456"[..], &b"abcdef"[..]));
    let reads = |script: &ScriptedIo| -> Vec<String> {
        script.log.iter().filter(|line| line.starts_with("read")).cloned().collect()
    };
    assert!(reads(&a).iter().all(|line| line == "read 2"), "{:?}", a.log);
    assert!(reads(&b).iter().all(|line| line == "read 4"), "{:?}", b.log);
    assert_eq!(a.log.iter().filter(|line| *line == "shutdown").count(), 1);
}

#[test]
fn a_direction_needs_a_buffer() {
    let stream = || join(empty(), Cursor::new(Vec::new()));
    let site = panic_site(|| {
        drop(copy_bidirectional_with_sizes(&mut stream(), &mut stream(), 0, 1));
    });
    assert_eq!(
        (site.file.as_str(), site.message.as_str()),
        (file!(), "`a_to_b_buf_size` must be greater than 0")
    );
    let site = panic_site(|| {
        drop(copy_bidirectional_with_sizes(&mut stream(), &mut stream(), 1, 0));
    });
    assert_eq!(site.message, "`b_to_a_buf_size` must be greater than 0");
}
