//! Models of the in-memory pipe: no task waits for data or space that is already available.

use crate::io::ReadBuf;
use crate::io::util::pipe::Pipe;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Blocks the thread on a poll function.
///
/// If the other end is using the waker cell, the poll is repeated immediately. Yielding lets the
/// other end continue.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loom::future::block_on(poll_fn(|cx| {
        let polled = poll(cx);
        if polled.is_pending() {
            thread::yield_now();
        }
        polled
    }))
}

/// Writes all bytes, one piece at a time, until the other end is closed.
fn write(pipe: &Pipe, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let piece = [IoSlice::new(bytes)];
        let written = block_on(|cx| pipe.poll_write(cx, &piece))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Reads once.
fn read(pipe: &Pipe) -> Vec<u8> {
    let mut memory = [0; 4];
    let mut buf = ReadBuf::new(&mut memory);
    block_on(|cx| pipe.poll_read(cx, &mut buf)).unwrap();
    buf.filled().to_vec()
}

/// With a capacity of one byte, the ends wait for each other in turn, and the reader for the end.
#[test]
fn reader_and_writer_wake_each_other() {
    model(3, || {
        let pipe = Arc::new(Pipe::new(1));
        let writer = pipe.clone();
        let writer = thread::spawn(move || {
            write(&writer, b"ab").unwrap();
            writer.close_writer();
        });
        start();
        let mut all = Vec::new();
        loop {
            match read(&pipe) {
                piece if piece.is_empty() => break,
                piece => all.extend(piece),
            }
        }
        assert_eq!(all, b"ab");
        writer.join().unwrap();
    });
}

/// A writer that waits for space is notified that the reader is closed.
#[test]
fn closing_the_reader_wakes_the_writer() {
    model(3, || {
        let pipe = Arc::new(Pipe::new(1));
        let writer = pipe.clone();
        let writer = thread::spawn(move || write(&writer, b"ab"));
        start();
        pipe.close_reader();
        assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}
