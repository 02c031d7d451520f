//! Random reads, writes, waits and interruptions, compared with `std::io` on the same data.

use std::collections::VecDeque;
use std::io::{BufRead, Cursor, ErrorKind, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use wakeful::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt,
    BufReader, BufWriter, ReadBuf, copy, copy_bidirectional_with_sizes, copy_buf,
};

mod support {
    pub mod rng;
    pub mod scripted_io;
}
use support::rng::{TestRng, seed};
use support::scripted_io::{Act, ScriptedIo};

const ROUNDS: usize = 300;

/// Runs `round` many times, each time with another generator.
fn rounds(round: impl AsyncFn(&mut TestRng)) {
    let mut rng = TestRng::new(seed());
    for _ in 0..ROUNDS {
        futures::executor::block_on(round(&mut rng.branch()));
    }
}

/// Returns text with both kinds of line breaks and multi-byte characters. Sometimes it is not valid UTF-8.
fn random_text(rng: &mut TestRng) -> Vec<u8> {
    let pieces: [&[u8]; 8] = [b"a", b"bc", b"\n", b"\r\n", b"\r", "€".as_bytes(), b" ", b"\xff"];
    let mut text = Vec::new();
    for _ in 0..rng.below(200) {
        let choice = if rng.one_in(30) { 7 } else { rng.below(7) };
        text.extend_from_slice(pieces[choice]);
    }
    text
}

fn random_bytes(most: usize, rng: &mut TestRng) -> Vec<u8> {
    (0..rng.below(most)).map(|_| rng.below(256) as u8).collect()
}

fn script(data: &[u8], rng: &mut TestRng) -> ScriptedIo {
    let largest = 1 + rng.below(50);
    ScriptedIo::reads(ScriptedIo::in_pieces(data, largest, rng))
}

#[test]
fn lines_are_those_of_std() {
    rounds(async |rng| {
        let text = random_text(rng);
        let expected: Vec<_> =
            BufRead::lines(Cursor::new(&text)).map(|line| line.map_err(|e| e.kind())).collect();
        let mut lines = BufReader::with_capacity(1 + rng.below(20), script(&text, rng)).lines();
        let mut actual = Vec::new();
        while let Some(line) = lines.next_line().await.map_err(|e| e.kind()).transpose() {
            actual.push(line);
        }
        assert_eq!(actual, expected);
    });
}

#[test]
fn segments_are_those_of_std() {
    rounds(async |rng| {
        let text = random_text(rng);
        let expected: Vec<_> =
            BufRead::split(Cursor::new(&text), b'b').map(Result::unwrap).collect();
        let mut split = BufReader::with_capacity(1 + rng.below(20), script(&text, rng)).split(b'b');
        let mut actual = Vec::new();
        while let Some(segment) = split.next_segment().await.unwrap() {
            actual.push(segment);
        }
        assert_eq!(actual, expected);
    });
}

/// A cursor that gives and takes in random pieces, with waits.
struct Slow {
    cursor: Cursor<Vec<u8>>,
    rng: TestRng,
}

impl Slow {
    fn new(data: Vec<u8>, rng: &mut TestRng) -> Self {
        Self { cursor: Cursor::new(data), rng: rng.branch() }
    }

    /// Returns the size of the next piece, or sometimes `Pending`.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.rng.one_in(4) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(1 + self.rng.below(9))
    }
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let Poll::Ready(most) = self.poll_piece(cx) else { return Poll::Pending };
        let room = buf.remaining().min(most);
        let len = Read::read(&mut self.cursor, buf.initialize_unfilled_to(room))?;
        buf.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Slow {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let Poll::Ready(most) = self.poll_piece(cx) else { return Poll::Pending };
        Poll::Ready(Write::write(&mut self.cursor, &buf[..buf.len().min(most)]))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll_piece(cx).map(|_| Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for Slow {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> std::io::Result<()> {
        Seek::seek(&mut self.cursor, position).map(drop)
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<u64>> {
        let Poll::Ready(_) = self.poll_piece(cx) else { return Poll::Pending };
        Poll::Ready(Ok(self.cursor.position()))
    }
}

fn random_seek(len: usize, rng: &mut TestRng) -> SeekFrom {
    let near = rng.below(20) as i64 - 10;
    match rng.below(3) {
        0 => SeekFrom::Start(rng.below(len + 5) as u64),
        1 => SeekFrom::End(near),
        _ => SeekFrom::Current(near),
    }
}

#[test]
fn a_buffered_reader_reads_what_a_cursor_does() {
    rounds(async |rng| {
        let data = random_bytes(300, rng);
        let mut oracle = Cursor::new(data.clone());
        let mut reader = BufReader::with_capacity(1 + rng.below(20), Slow::new(data.clone(), rng));
        for _ in 0..30 {
            match rng.below(5) {
                0 => {
                    let mut actual = vec![0; rng.below(40)];
                    let len = reader.read(&mut actual).await.unwrap();
                    let mut expected = vec![0; len];
                    Read::read_exact(&mut oracle, &mut expected).unwrap();
                    assert_eq!(actual[..len], expected);
                    let is_end = oracle.position() >= data.len() as u64;
                    assert!(len > 0 || actual.is_empty() || is_end, "0 only at the end");
                }
                1 => {
                    let (mut actual, mut expected) = (vec![0; rng.below(30)], Vec::new());
                    expected.resize(actual.len(), 0);
                    match reader.read_exact(&mut actual).await {
                        Ok(_) => {
                            Read::read_exact(&mut oracle, &mut expected).unwrap();
                            assert_eq!(actual, expected);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                            assert!(Read::read_exact(&mut oracle, &mut expected).is_err());
                            return;
                        }
                    }
                }
                2 => {
                    let byte = rng.below(256) as u8;
                    let (mut actual, mut expected) = (Vec::new(), Vec::new());
                    reader.read_until(byte, &mut actual).await.unwrap();
                    BufRead::read_until(&mut oracle, byte, &mut expected).unwrap();
                    assert_eq!(actual, expected);
                }
                3 => {
                    let there = reader.fill_buf().await.unwrap();
                    let used = rng.below(there.len() + 1);
                    let mut expected = vec![0; used];
                    Read::read_exact(&mut oracle, &mut expected).unwrap();
                    assert_eq!(there[..used], expected);
                    reader.consume(used);
                }
                _ => {
                    let target = random_seek(data.len(), rng);
                    let (actual, expected) =
                        (reader.seek(target).await, Seek::seek(&mut oracle, target));
                    assert_eq!(actual.ok(), expected.ok());
                }
            }
        }
        let (mut actual, mut expected) = (Vec::new(), Vec::new());
        reader.read_to_end(&mut actual).await.unwrap();
        Read::read_to_end(&mut oracle, &mut expected).unwrap();
        assert_eq!(actual, expected);
    });
}

#[test]
fn a_buffered_writer_writes_what_stds_does() {
    rounds(async |rng| {
        let capacity = rng.below(20);
        let data = random_bytes(50, rng);
        let mut oracle = std::io::BufWriter::with_capacity(capacity, Cursor::new(data.clone()));
        let mut writer = BufWriter::with_capacity(capacity, Slow::new(data, rng));
        for _ in 0..30 {
            // Writes at least one byte: behind its end, std's cursor treats an empty write differently from no write.
            let bytes = [random_bytes(30, rng), vec![7]].concat();
            match rng.below(5) {
                0 => {
                    writer.flush().await.unwrap();
                    oracle.flush().unwrap();
                    assert_eq!(writer.get_ref().cursor, *oracle.get_ref());
                }
                1 => {
                    let target = random_seek(100, rng);
                    let (actual, expected) =
                        (writer.seek(target).await, Seek::seek(&mut oracle, target));
                    assert_eq!(actual.ok(), expected.ok());
                }
                2 => {
                    let len = bytes.len() / 2;
                    let slices = [&bytes[..len], &bytes[len..]].map(std::io::IoSlice::new);
                    let taken = writer.write_vectored(&slices).await.unwrap();
                    assert!(taken > 0);
                    oracle.write_all(&bytes[..taken]).unwrap();
                }
                _ => {
                    writer.write_all(&bytes).await.unwrap();
                    oracle.write_all(&bytes).unwrap();
                }
            }
        }
        writer.shutdown().await.unwrap();
        oracle.flush().unwrap();
        assert_eq!(writer.get_ref().cursor, *oracle.get_ref());
    });
}

#[test]
fn copies_arrive_whole() {
    rounds(async |rng| {
        let data = random_bytes(if rng.one_in(5) { 30_000 } else { 500 }, rng);
        let takes = |rng: &mut TestRng| -> VecDeque<Act> {
            let (count, largest) = (rng.below(40), 1 + rng.below(50));
            ScriptedIo::takes(count, largest, rng)
        };
        let mut writer = ScriptedIo::writes(takes(rng));
        let copied = copy(&mut script(&data, rng), &mut writer).await.unwrap();
        assert_eq!((copied, &writer.written), (data.len() as u64, &data));

        let mut writer = ScriptedIo::writes(takes(rng));
        let mut reader = BufReader::with_capacity(1 + rng.below(100), script(&data, rng));
        let copied = copy_buf(&mut reader, &mut writer).await.unwrap();
        assert_eq!((copied, &writer.written), (data.len() as u64, &data));

        let back = random_bytes(500, rng);
        let (mut a, mut b) = (script(&data, rng), script(&back, rng));
        (a.writes, b.writes) = (takes(rng), takes(rng));
        let (there_size, back_size) = (1 + rng.below(100), 1 + rng.below(100));
        let copied = copy_bidirectional_with_sizes(&mut a, &mut b, there_size, back_size);
        assert_eq!(copied.await.unwrap(), (data.len() as u64, back.len() as u64));
        assert_eq!((&a.written, &b.written), (&back, &data));
    });
}

#[test]
fn read_to_end_reads_all_data() {
    rounds(async |rng| {
        let data = random_bytes(if rng.one_in(5) { 20_000 } else { 300 }, rng);
        let mut before = random_bytes(50, rng);
        before.reserve(rng.below(400));
        let mut vec = before.clone();
        vec.reserve_exact(rng.below(2 * data.len() + 1));
        assert_eq!(script(&data, rng).read_to_end(&mut vec).await.unwrap(), data.len());
        assert_eq!(vec, [before.clone(), data.clone()].concat());

        // With a reader that initializes the buffer first.
        let mut vec = before.clone();
        assert_eq!(Slow::new(data.clone(), rng).read_to_end(&mut vec).await.unwrap(), data.len());
        assert_eq!(vec, [before, data].concat());
    });
}
