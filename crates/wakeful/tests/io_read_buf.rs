//! `ReadBuf`, `Interest` and `Ready`, and std's types as readers, writers and seekers.

use std::io::{Cursor, IoSlice, SeekFrom};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::BufMut;
use wakeful::io::{
    AsyncBufRead, AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, Interest,
    ReadBuf, Ready,
};

mod support {
    pub mod panic_site;
}
use support::panic_site::panic_site;

#[test]
fn a_buffer_knows_what_is_filled_and_what_holds_values() {
    let mut memory = [MaybeUninit::uninit(); 8];
    let mut buf = ReadBuf::uninit(&mut memory);
    assert_eq!(
        (buf.capacity(), buf.remaining(), buf.filled(), buf.initialized()),
        (8, 8, &[][..], &[][..])
    );

    buf.put_slice(b"ab");
    assert_eq!((buf.remaining(), buf.filled()), (6, &b"ab"[..]));

    assert_eq!(buf.initialize_unfilled_to(2), [0, 0]);
    assert_eq!((buf.filled(), buf.initialized()), (&b"ab"[..], &b"ab\0\0"[..]));
    buf.initialize_unfilled()[0] = b'c';
    buf.advance(1);
    assert_eq!(buf.filled(), b"abc");

    buf.clear();
    assert_eq!((buf.remaining(), buf.initialized()), (8, &b"abc\0\0\0\0\0"[..]));
    buf.set_filled(2);
    buf.filled_mut()[0] = b'x';
    buf.initialized_mut()[7] = b'z';
    assert_eq!((buf.filled(), buf.initialized()), (&b"xb"[..], &b"xbc\0\0\0\0z"[..]));
    assert_eq!(format!("{buf:?}"), "ReadBuf { filled: 2, initialized: 8, capacity: 8 }");
}

#[test]
fn data_in_a_sub_buffer_does_not_count_by_itself() {
    let mut memory = [0; 6];
    let mut buf = ReadBuf::new(&mut memory);
    buf.put_slice(b"ab");
    let mut part = buf.take(3);
    assert_eq!((part.capacity(), part.initialized()), (3, &[][..]));
    part.put_slice(b"cd");
    assert_eq!(buf.filled(), b"ab");
    buf.advance(2);
    assert_eq!(buf.filled(), b"abcd");
    assert_eq!(buf.take(100).capacity(), 2);
}

#[test]
fn a_buffer_is_a_buf_mut() {
    let mut memory = [MaybeUninit::uninit(); 4];
    let mut buf = ReadBuf::uninit(&mut memory);
    assert_eq!(buf.remaining_mut(), 4);
    buf.put_u16(0x6162);
    buf.put_u8(b'c');
    assert_eq!((buf.filled(), buf.remaining_mut()), (&b"abc"[..], 1));
}

#[test]
fn misuse_of_a_buffer_panics_where_it_happens() {
    type Misuse = fn(&mut ReadBuf<'_>);
    let cases: [(Misuse, &str); 4] = [
        (|buf| buf.initialize_unfilled_to(3).fill(1), "n overflows remaining"),
        (|buf| buf.advance(1), "filled must not become larger than initialized"),
        (|buf| buf.set_filled(1), "filled must not become larger than initialized"),
        (
            |buf| buf.put_slice(b"abc"),
            "buf.len() must fit in remaining(); buf.len() = 3, remaining() = 2",
        ),
    ];
    for (misuse, message) in cases {
        let site = panic_site(|| {
            let mut memory = [MaybeUninit::uninit(); 2];
            misuse(&mut ReadBuf::uninit(&mut memory));
        });
        assert_eq!((site.file.as_str(), site.message.as_str()), (file!(), message));
    }
    let overflow = panic_site(|| ReadBuf::new(&mut [0; 2]).advance(usize::MAX));
    assert_eq!(overflow.message, "filled must not become larger than initialized");
}

#[test]
fn interests_are_sets() {
    let both = Interest::READABLE | Interest::WRITABLE;
    assert_eq!(both, Interest::READABLE.add(Interest::WRITABLE));
    assert!(both.is_readable() && both.is_writable() && !both.is_error());
    assert_eq!(both.remove(Interest::WRITABLE), Some(Interest::READABLE));
    assert_eq!(both.remove(both), None);
    assert_eq!(Interest::ERROR.remove(Interest::READABLE), Some(Interest::ERROR));
    let mut all = both | Interest::ERROR;
    all |= Interest::PRIORITY;
    assert_eq!(format!("{all:?}"), "READABLE | WRITABLE | PRIORITY | ERROR");
    assert_eq!(format!("{:?}", Interest::WRITABLE), "WRITABLE");
}

#[test]
fn readiness_is_a_set_in_which_closed_counts_as_ready() {
    assert!(Ready::EMPTY.is_empty() && !Ready::ALL.is_empty());
    assert!(Ready::READ_CLOSED.is_readable() && !Ready::READ_CLOSED.is_writable());
    assert!(Ready::WRITE_CLOSED.is_writable() && !Ready::WRITABLE.is_write_closed());
    assert!(Ready::ALL.is_priority() && Ready::ALL.is_error() && Ready::ALL.is_read_closed());
    let mut ready = Ready::READABLE | Ready::ERROR;
    ready |= Ready::WRITABLE;
    assert_eq!(ready & Ready::READABLE, Ready::READABLE);
    assert_eq!(ready - Ready::READABLE, Ready::WRITABLE | Ready::ERROR);
    assert!(Ready::READABLE < Ready::WRITABLE);
    assert_eq!(
        format!("{:?}", Ready::READABLE),
        "Ready { is_readable: true, is_writable: false, is_read_closed: false, \
         is_write_closed: false, is_error: false, is_priority: false }"
    );
}

#[wakeful::test]
async fn a_slice_and_a_cursor_are_readers() {
    let mut buffer = [0; 4];
    let mut slice: &[u8] = b"hello";
    assert_eq!(slice.read(&mut buffer).await.unwrap(), 4);
    assert_eq!((slice, slice.read(&mut []).await.unwrap()), (&b"o"[..], 0));

    let mut cursor = Cursor::new("hello");
    assert_eq!(cursor.read(&mut buffer).await.unwrap(), 4);
    assert_eq!(cursor.position(), 4);
    assert_eq!(
        Pin::new(&mut cursor).poll_fill_buf(&mut context()).map(Result::unwrap),
        ready(b"o")
    );
    for end in [5, 6, u64::MAX] {
        cursor.set_position(end);
        assert_eq!(cursor.read(&mut buffer).await.unwrap(), 0);
        assert_eq!(cursor.position(), end);
    }
}

#[wakeful::test]
async fn a_cursor_can_seek() {
    let mut cursor = Cursor::new(b"hello");
    assert_eq!(cursor.seek(SeekFrom::End(-2)).await.unwrap(), 3);
    assert_eq!(cursor.seek(SeekFrom::Current(-1)).await.unwrap(), 2);
    assert_eq!(cursor.stream_position().await.unwrap(), 2);
    assert!(cursor.seek(SeekFrom::Current(-3)).await.is_err());
    assert_eq!(cursor.rewind().await.unwrap(), 0);
}

#[wakeful::test]
async fn vectors_and_cursors_are_writers() {
    let slices = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
    let mut vec = vec![b'.'];
    assert_eq!(vec.write_vectored(&slices).await.unwrap(), 5);
    assert!(vec.is_write_vectored());
    assert_eq!(vec, b".abcde");

    let mut boxed = Cursor::new(vec![0; 4].into_boxed_slice());
    assert_eq!(boxed.write_vectored(&slices).await.unwrap(), 4);
    assert_eq!(boxed.write(b"x").await.unwrap(), 0, "it is full");
    boxed.flush().await.unwrap();
    boxed.shutdown().await.unwrap();
    assert_eq!(**boxed.get_ref(), *b"abcd");

    let mut memory = [0; 3];
    let mut slice = Cursor::new(&mut memory[..]);
    slice.set_position(2);
    assert_eq!(slice.write(b"yz").await.unwrap(), 1);
    assert_eq!(memory, [0, 0, b'y']);

    let mut grows = Cursor::new(Vec::new());
    grows.set_position(2);
    grows.write_all(b"a").await.unwrap();
    assert_eq!(grows.get_ref(), &[0, 0, b'a']);
    let mut borrowed = Vec::new();
    Cursor::new(&mut borrowed).write_all(b"b").await.unwrap();
    assert_eq!(borrowed, b"b");
}

/// A writer with only the required methods.
#[derive(Default)]
struct Plain(Vec<u8>);

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.extend_from_slice(buf);
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
async fn unless_it_says_otherwise_a_writer_takes_the_first_slice_with_something_in_it() {
    let slices = [IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"c")];
    let mut plain = Plain::default();
    assert!(!plain.is_write_vectored());
    assert_eq!(plain.write_vectored(&slices).await.unwrap(), 2);
    assert_eq!(plain.write_vectored(&[]).await.unwrap(), 0);
    assert_eq!(plain.0, b"ab");
}

#[wakeful::test]
async fn pointers_do_what_is_behind_them() {
    let mut data: &[u8] = b"abcdef";
    let mut buffer = [0; 1];
    (&mut data).read_exact(&mut buffer).await.unwrap();
    Box::new(&mut data).read_exact(&mut buffer).await.unwrap();
    Pin::new(&mut data).read_exact(&mut buffer).await.unwrap();
    let mut object: Box<dyn AsyncRead + Unpin> = Box::new(&mut data);
    object.read_exact(&mut buffer).await.unwrap();
    drop(object);
    let mut pinned: Pin<Box<dyn AsyncRead>> = Box::pin(&mut data);
    pinned.read_exact(&mut buffer).await.unwrap();
    drop(pinned);
    assert_eq!(data, b"f");

    let mut vec = Vec::new();
    let mut object: Box<dyn AsyncWrite + Unpin> = Box::new(&mut vec);
    assert!(object.is_write_vectored(), "asked behind both pointers");
    object.write_all(b"a").await.unwrap();
    drop(object);
    Pin::new(&mut vec).write_all(b"b").await.unwrap();
    assert_eq!(vec, b"ab");

    let mut object: Pin<Box<dyn wakeful::io::AsyncSeek>> = Box::pin(Cursor::new(b"abc"));
    assert_eq!(object.seek(SeekFrom::End(0)).await.unwrap(), 3);
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn ready(bytes: &[u8]) -> Poll<&[u8]> {
    Poll::Ready(bytes)
}
