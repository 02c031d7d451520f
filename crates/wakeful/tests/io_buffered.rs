//! `BufReader`, `BufWriter` and `BufStream`: which calls reach the inner stream, and when.

use std::io::{Cursor, ErrorKind, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use wakeful::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt,
    BufReader, BufStream, BufWriter, ReadBuf,
};

mod support {
    pub mod panic_site;
    pub mod rng;
    pub mod scripted_io;
}
use support::panic_site::panic_site;
use support::scripted_io::{Act, ScriptedIo, give};

#[wakeful::test]
async fn small_reads_come_from_the_buffer_and_large_ones_go_past_it() {
    let mut reader = BufReader::with_capacity(4, ScriptedIo::reads([give("abcdefghijkl")]));
    let mut small = [0; 1];
    for expected in b"abcd" {
        reader.read_exact(&mut small).await.unwrap();
        assert_eq!(small[0], *expected);
    }
    assert_eq!(reader.get_mut().take_log(), ["read 4"]);
    let mut large = [0; 5];
    assert_eq!(reader.read(&mut large).await.unwrap(), 5);
    assert_eq!((&large, reader.get_mut().take_log()), (b"efghi", vec!["read 5".into()]));
    reader.read_exact(&mut small).await.unwrap();
    assert_eq!(reader.buffer(), b"kl");
    assert_eq!(reader.read(&mut large).await.unwrap(), 2, "what is in the buffer comes first");
    assert_eq!(reader.read(&mut []).await.unwrap(), 0);
}

#[wakeful::test]
async fn consuming_too_much_consumes_all() {
    let mut reader = BufReader::new(&b"abc"[..]);
    assert_eq!(reader.fill_buf().await.unwrap(), b"abc");
    reader.consume(usize::MAX);
    assert_eq!(reader.buffer(), b"");
}

#[test]
fn a_reader_needs_a_buffer() {
    let site = panic_site(|| BufReader::with_capacity(0, &b""[..]));
    assert_eq!(
        (site.file.as_str(), site.message.as_str()),
        (file!(), "capacity must be greater than zero")
    );
    let site = panic_site(|| BufStream::with_capacity(0, 8, Cursor::new(Vec::new())));
    assert_eq!(site.file, file!());
}

#[test]
fn they_show_how_full_they_are() {
    let reader = BufReader::with_capacity(8, &b"ab"[..]);
    assert_eq!(format!("{reader:?}"), "BufReader { reader: [97, 98], buffer: 0/8 }");
    let mut writer = BufWriter::with_capacity(8, Vec::new());
    writer.write_all(b"abc").now_or_never().unwrap().unwrap();
    assert_eq!(format!("{writer:?}"), "BufWriter { writer: [], buffer: 3/8, written: 0 }");
}

#[wakeful::test]
async fn small_writes_are_collected_and_large_ones_go_past_the_buffer() {
    let mut writer = BufWriter::with_capacity(4, ScriptedIo::default());
    writer.write_all(b"ab").await.unwrap();
    writer.write_all(b"cd").await.unwrap();
    assert_eq!((writer.buffer(), writer.get_ref().log.len()), (&b"abcd"[..], 0));
    writer.write_all(b"e").await.unwrap();
    assert_eq!(writer.get_mut().take_log(), ["write 4"]);
    writer.write_all(b"fghi").await.unwrap();
    assert_eq!(writer.get_mut().take_log(), ["write 1", "write 4"]);
    writer.write_all(b"j").await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(writer.get_mut().take_log(), ["write 1", "shutdown"]);
    assert_eq!(writer.into_inner().written, b"abcdefghij");
}

#[wakeful::test]
async fn a_flush_goes_on_where_it_stopped() {
    let acts = [Act::Take(2), Act::Hang, Act::Fail(ErrorKind::Interrupted), Act::Take(1)];
    let mut writer = BufWriter::with_capacity(8, ScriptedIo::writes(acts));
    writer.write_all(b"abcdef").await.unwrap();
    assert!(writer.flush().now_or_never().is_none());
    assert_eq!((writer.buffer(), writer.get_ref().written.as_slice()), (&b"cdef"[..], &b"ab"[..]));
    writer.write_all(b"g").await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!((writer.buffer(), writer.get_ref().written.as_slice()), (&b""[..], &b"abcdefg"[..]));
}

#[wakeful::test]
async fn a_failed_flush_does_not_write_data_twice() {
    let acts = [Act::Take(2), Act::Fail(ErrorKind::Other), Act::Take(1), Act::Take(0)];
    let mut writer = BufWriter::with_capacity(8, ScriptedIo::writes(acts));
    writer.write_all(b"abcdef").await.unwrap();
    assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(writer.buffer(), b"cdef");
    let zero = writer.flush().await.unwrap_err();
    assert_eq!(
        (zero.kind(), zero.to_string().as_str()),
        (ErrorKind::WriteZero, "failed to write the buffered data")
    );
    writer.flush().await.unwrap();
    assert_eq!(writer.get_ref().written, b"abcdef");
}

#[wakeful::test]
async fn slices_are_collected_or_go_together() {
    let slices = [IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"c"), IoSlice::new(b"def")];

    let mut writer = BufWriter::with_capacity(5, ScriptedIo::default());
    assert!(writer.is_write_vectored());
    assert_eq!(writer.write_vectored(&slices).await.unwrap(), 3, "as many as there is room for");
    assert_eq!(writer.buffer(), b"abc");
    assert_eq!(writer.write_vectored(&slices[3..]).await.unwrap(), 3);
    assert_eq!(writer.get_mut().take_log(), ["write 3"]);
    assert_eq!(writer.write_vectored(&[IoSlice::new(b"123456")]).await.unwrap(), 6);
    assert_eq!(writer.get_mut().take_log(), ["write 3", "write 6"]);
    assert_eq!(writer.write_vectored(&slices[..1]).await.unwrap(), 0);

    let mut writer = BufWriter::with_capacity(5, ScriptedIo::default().vectored());
    assert_eq!(writer.write_vectored(&slices).await.unwrap(), 6, "larger than the buffer");
    assert_eq!(writer.get_mut().take_log(), ["write 0+2+1+3"]);
    assert_eq!(writer.write_vectored(&slices[..3]).await.unwrap(), 3);
    assert_eq!(writer.write_vectored(&slices[..3]).await.unwrap(), 3);
    assert_eq!(writer.get_mut().take_log(), ["write 3"]);
    assert_eq!(writer.buffer(), b"abc");
}

#[wakeful::test]
async fn a_seek_in_a_reader_counts_from_the_next_byte_and_empties_the_buffer() {
    let mut reader = BufReader::with_capacity(4, Cursor::new(b"0123456789"));
    assert_eq!(reader.read_u8().await.unwrap(), b'0');
    assert_eq!(reader.seek(SeekFrom::Current(1)).await.unwrap(), 2);
    assert_eq!((reader.buffer(), reader.get_ref().position()), (&b""[..], 2));
    assert_eq!(reader.read_u8().await.unwrap(), b'2');
    assert_eq!(reader.stream_position().await.unwrap(), 3);
    assert_eq!(reader.seek(SeekFrom::End(-1)).await.unwrap(), 9);
    assert_eq!(reader.read_u8().await.unwrap(), b'9');
    assert_eq!(reader.rewind().await.unwrap(), 0);
    assert!(reader.seek(SeekFrom::Current(-1)).await.is_err());
    assert_eq!(reader.read_u8().await.unwrap(), b'0', "a seek that failed is over");
}

/// A reader at a distant position, whose seeks return `Pending` first.
#[derive(Debug)]
struct Far {
    log: Vec<SeekFrom>,
    is_busy: bool,
}

impl AsyncRead for Far {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        buf.put_slice(b"abc");
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Far {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> std::io::Result<()> {
        assert!(!self.is_busy, "one at a time");
        self.log.push(position);
        self.is_busy = true;
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<u64>> {
        if self.is_busy {
            self.is_busy = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.log.len() as u64))
    }
}

#[wakeful::test]
async fn a_seek_too_far_for_one_number_takes_two() {
    let mut reader = BufReader::with_capacity(8, Far { log: Vec::new(), is_busy: false });
    reader.fill_buf().await.unwrap();
    reader.consume(1);
    assert_eq!(reader.seek(SeekFrom::Current(i64::MIN)).await.unwrap(), 2);
    assert_eq!(reader.get_ref().log, [SeekFrom::Current(-2), SeekFrom::Current(i64::MIN)]);
    assert_eq!(reader.buffer(), b"");
}

#[wakeful::test]
async fn a_seek_in_a_writer_writes_the_buffer_out_first() {
    let mut writer = BufWriter::new(Cursor::new(Vec::new()));
    writer.write_all(b"hello").await.unwrap();
    assert_eq!(writer.stream_position().await.unwrap(), 5);
    assert_eq!((writer.buffer(), writer.get_ref().get_ref().as_slice()), (&b""[..], &b"hello"[..]));
    assert_eq!(writer.seek(SeekFrom::Start(1)).await.unwrap(), 1);
    writer.write_all(b"a").await.unwrap();
    assert!(writer.seek(SeekFrom::Current(-9)).await.is_err());
    writer.write_all(b"LLO").await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(writer.get_ref().get_ref(), b"haLLO", "a seek that failed is over");
}

#[wakeful::test]
async fn a_stream_buffers_both_ways() {
    let mut script = ScriptedIo::reads([give("one\ntwo\n")]);
    script.is_vectored = true;
    let mut stream = BufStream::new(script);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    stream.write_all(line.as_bytes()).await.unwrap();
    assert_eq!(stream.get_mut().take_log(), ["read 8192"]);
    stream.flush().await.unwrap();
    assert_eq!(stream.get_mut().take_log(), ["write 4", "flush"]);
    stream.read_line(&mut line).await.unwrap();
    assert_eq!((line.as_str(), stream.get_ref().log.len()), ("one\ntwo\n", 0));
    assert_eq!(stream.into_inner().written, b"one\n");
}

#[wakeful::test]
async fn a_stream_can_be_made_of_both_orders_without_loss() {
    let mut reader = BufReader::with_capacity(4, Cursor::new(b"abcdef".to_vec()));
    assert_eq!(reader.read_u8().await.unwrap(), b'a');
    let mut writer = BufWriter::with_capacity(4, reader);
    writer.write_all(b"XY").await.unwrap();
    let mut stream = BufStream::from(writer);
    assert_eq!(stream.read_u8().await.unwrap(), b'b');
    stream.flush().await.unwrap();
    assert_eq!(stream.get_ref().get_ref(), b"abcdXY", "written where the reader had come to");

    let inside_out = BufReader::new(BufWriter::new(Cursor::new(b"12".to_vec())));
    let mut stream = BufStream::from(inside_out);
    assert_eq!(stream.read_u8().await.unwrap(), b'1');
    assert_eq!(stream.stream_position().await.unwrap(), 1);
}

#[wakeful::test]
async fn each_passes_the_other_direction_through() {
    let mut reader = BufReader::new(ScriptedIo::default().vectored());
    assert!(reader.is_write_vectored());
    reader.write_all(b"out").await.unwrap();
    reader.flush().await.unwrap();
    reader.shutdown().await.unwrap();
    assert_eq!(reader.into_inner().take_log(), ["write 3", "flush", "shutdown"]);

    let mut writer = BufWriter::new(BufReader::new(ScriptedIo::reads([give("in\nside")])));
    let mut line = String::new();
    writer.read_line(&mut line).await.unwrap();
    writer.read_to_string(&mut line).await.unwrap();
    assert_eq!(line, "in\nside");
}
