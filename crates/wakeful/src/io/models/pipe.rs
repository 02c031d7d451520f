//! Models of the pipe: nobody waits for what is there already.

use crate::io::ReadBuf;
use crate::io::util::pipe::Pipe;
use crate::sys::sync::thread;
use crate::task::models::scheduler::{model, start};
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Waits with the thread. If it finds the other at the place for its waker, it
/// comes back at once: the other must then have its turn.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loom::future::block_on(poll_fn(|cx| {
        let polled = poll(cx);
        if polled.is_pending() {
            thread::yield_now();
        }
        polled
    }))
}

/// Writes all, one piece at a time, for as long as the other end is there.
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

/// With room for one byte, each waits for the other in turn, and the reader for
/// the end.
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

/// A writer that waits for room learns that the reader is gone.
#[test]
fn the_end_of_the_reader_wakes_the_writer() {
    model(3, || {
        let pipe = Arc::new(Pipe::new(1));
        let writer = pipe.clone();
        let writer = thread::spawn(move || write(&writer, b"ab"));
        start();
        pipe.close_reader();
        assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}
