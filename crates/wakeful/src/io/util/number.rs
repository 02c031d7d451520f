//! Operations that read and write numbers, in both byte orders.

use super::io_future::IoOp;
use super::{read, write};
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

/// The encoding of a number as bytes.
pub trait Encoding {
    type Number;
    type Bytes: Debug + Default + AsRef<[u8]> + AsMut<[u8]>;

    fn encode(number: Self::Number) -> Self::Bytes;

    fn decode(bytes: &Self::Bytes) -> Self::Number;
}

/// Big-endian byte order.
#[derive(Debug)]
pub struct BigEndian<T>(PhantomData<T>);

/// Little-endian byte order.
#[derive(Debug)]
pub struct LittleEndian<T>(PhantomData<T>);

macro_rules! encodings {
    ($($number:ty),+) => {$(
        impl Encoding for BigEndian<$number> {
            type Number = $number;
            type Bytes = [u8; size_of::<$number>()];

            #[inline]
            fn encode(number: $number) -> Self::Bytes {
                number.to_be_bytes()
            }

            #[inline]
            fn decode(bytes: &Self::Bytes) -> $number {
                <$number>::from_be_bytes(*bytes)
            }
        }

        impl Encoding for LittleEndian<$number> {
            type Number = $number;
            type Bytes = [u8; size_of::<$number>()];

            #[inline]
            fn encode(number: $number) -> Self::Bytes {
                number.to_le_bytes()
            }

            #[inline]
            fn decode(bytes: &Self::Bytes) -> $number {
                <$number>::from_le_bytes(*bytes)
            }
        }
    )+};
}

encodings!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// An operation that reads one number.
#[derive(Debug)]
pub struct ReadNumber<'a, R: ?Sized, E: Encoding> {
    reader: &'a mut R,
    bytes: E::Bytes,
    /// The number of bytes read so far.
    read: u8,
}

impl<'a, R: ?Sized, E: Encoding> ReadNumber<'a, R, E> {
    #[inline]
    pub(super) fn new(reader: &'a mut R) -> Self {
        Self { reader, bytes: E::Bytes::default(), read: 0 }
    }
}

impl<R: AsyncRead + Unpin + ?Sized, E: Encoding> IoOp for ReadNumber<'_, R, E> {
    type Output = io::Result<E::Number>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<E::Number>> {
        let mut buf = ReadBuf::new(self.bytes.as_mut());
        buf.set_filled(usize::from(self.read));
        let filled = read::fill(self.reader, cx, &mut buf, || io::ErrorKind::UnexpectedEof.into());
        self.read = buf.filled().len() as u8;
        ready!(filled)?;
        Poll::Ready(Ok(E::decode(&self.bytes)))
    }

    #[inline]
    fn is_end(output: &Self::Output) -> bool {
        output.is_err()
    }
}

/// An operation that writes one number.
#[derive(Debug)]
pub struct WriteNumber<'a, W: ?Sized, E: Encoding> {
    writer: &'a mut W,
    bytes: E::Bytes,
    /// The number of bytes written so far.
    written: u8,
}

impl<'a, W: ?Sized, E: Encoding> WriteNumber<'a, W, E> {
    #[inline]
    pub(super) fn new(writer: &'a mut W, number: E::Number) -> Self {
        Self { writer, bytes: E::encode(number), written: 0 }
    }
}

impl<W: AsyncWrite + Unpin + ?Sized, E: Encoding> IoOp for WriteNumber<'_, W, E> {
    type Output = io::Result<()>;

    #[inline]
    fn poll_op(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bytes = self.bytes.as_ref();
        let mut rest = &bytes[usize::from(self.written)..];
        let drained = write::drain(self.writer, cx, &mut rest);
        self.written = (bytes.len() - rest.len()) as u8;
        drained
    }
}
