//! What everybody can do with a reader.

use super::chain::Chain;
use super::io_future::IoFuture;
use super::number::{BigEndian, LittleEndian, ReadNumber};
use super::read::{Read, ReadExact, ReadToBuf};
use super::read_to_end::{ReadToEnd, ReadToString};
use super::take::Take;
use crate::io::{AsyncRead, ReadBuf};
use bytes::BufMut;

/// Methods that read one number each.
macro_rules! readers {
    ($($name:ident: $encoding:ident<$number:ident>, $order:literal;)+) => {$(
        #[doc = concat!("Reads one `", stringify!($number), "`, ", $order, ".")]
        ///
        /// # Errors
        ///
        /// Of kind `UnexpectedEof` if the data ends before; some of its bytes may
        /// have been read then. Otherwise those of the reader.
        ///
        /// # Cancel safety
        ///
        /// Not cancel safe: bytes that were read already are lost.
        #[track_caller]
        fn $name(&mut self) -> IoFuture<ReadNumber<'_, Self, $encoding<$number>>>
        where
            Self: Unpin,
        {
            IoFuture::new(ReadNumber::new(self))
        }
    )+};
}

/// Reading, for everything that is [`AsyncRead`].
///
/// ```
/// use wakeful::io::AsyncReadExt;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader: &[u8] = b"\x00\x05hello and more";
/// let len = reader.read_u16().await?;
/// let mut text = String::new();
/// (&mut reader).take(len.into()).read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncReadExt: AsyncRead {
    /// A reader of what comes from this one, and after its end of what comes from
    /// `next`.
    fn chain<R>(self, next: R) -> Chain<Self, R>
    where
        Self: Sized,
        R: AsyncRead,
    {
        Chain::new(self, next)
    }

    /// Waits until something is there, and reads it into `buf`. Gives the number
    /// of bytes read, which may be less than there is room for.
    ///
    /// 0 says that the data has come to its end, or that `buf` is empty.
    ///
    /// # Errors
    ///
    /// Those of the reader. Nothing was read then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it did not return, nothing was read.
    #[track_caller]
    fn read<'a>(&'a mut self, buf: &'a mut [u8]) -> IoFuture<Read<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Read { reader: self, buf })
    }

    /// As [`read`](Self::read), into the room of a [`BufMut`], which then moves
    /// on: a `Vec<u8>` gets longer, for example. The memory need not be
    /// initialised.
    ///
    /// 0 says that the data has come to its end, or that `buf` has no room. A
    /// `BufMut` need not offer all of its room at once.
    ///
    /// # Errors
    ///
    /// Those of the reader. Nothing was read then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it did not return, nothing was read.
    #[track_caller]
    fn read_buf<'a, B>(&'a mut self, buf: &'a mut B) -> IoFuture<ReadToBuf<'a, Self, B>>
    where
        Self: Unpin,
        B: BufMut + ?Sized,
    {
        IoFuture::new(ReadToBuf { reader: self, buf })
    }

    /// Reads until `buf` is full, and gives its length.
    ///
    /// # Errors
    ///
    /// Of kind `UnexpectedEof` if the data ends before. Otherwise those of the
    /// reader, except `Interrupted`. How much was read before is not said.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: bytes may be in `buf`, and how many is not said.
    #[track_caller]
    fn read_exact<'a>(&'a mut self, buf: &'a mut [u8]) -> IoFuture<ReadExact<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadExact { reader: self, buf: ReadBuf::new(buf) })
    }

    readers! {
        read_u8: BigEndian<u8>, "one byte";
        read_i8: BigEndian<i8>, "one byte";
        read_u16: BigEndian<u16>, "big endian";
        read_i16: BigEndian<i16>, "big endian";
        read_u32: BigEndian<u32>, "big endian";
        read_i32: BigEndian<i32>, "big endian";
        read_u64: BigEndian<u64>, "big endian";
        read_i64: BigEndian<i64>, "big endian";
        read_u128: BigEndian<u128>, "big endian";
        read_i128: BigEndian<i128>, "big endian";
        read_f32: BigEndian<f32>, "big endian";
        read_f64: BigEndian<f64>, "big endian";
        read_u16_le: LittleEndian<u16>, "little endian";
        read_i16_le: LittleEndian<i16>, "little endian";
        read_u32_le: LittleEndian<u32>, "little endian";
        read_i32_le: LittleEndian<i32>, "little endian";
        read_u64_le: LittleEndian<u64>, "little endian";
        read_i64_le: LittleEndian<i64>, "little endian";
        read_u128_le: LittleEndian<u128>, "little endian";
        read_i128_le: LittleEndian<i128>, "little endian";
        read_f32_le: LittleEndian<f32>, "little endian";
        read_f64_le: LittleEndian<f64>, "little endian";
    }

    /// Reads everything up to the end, adds it to `buf`, and gives the number of
    /// bytes added.
    ///
    /// # Errors
    ///
    /// Those of the reader, except `Interrupted`. What was read before is in
    /// `buf`.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe as far as the number goes; what was read before is in
    /// `buf`.
    #[track_caller]
    fn read_to_end<'a>(&'a mut self, buf: &'a mut Vec<u8>) -> IoFuture<ReadToEnd<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadToEnd::new(self, buf))
    }

    /// Reads everything up to the end, adds it to `dst`, and gives the number of
    /// bytes added.
    ///
    /// # Errors
    ///
    /// Of kind `InvalidData` if what was read is not UTF-8. Otherwise those of the
    /// reader, except `Interrupted`. In both cases `dst` is as it was before.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: what was read is lost, and what was in `dst` too.
    #[track_caller]
    fn read_to_string<'a>(&'a mut self, dst: &'a mut String) -> IoFuture<ReadToString<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadToString::new(self, dst))
    }

    /// A reader of the first `limit` bytes of this one, which then ends.
    fn take(self, limit: u64) -> Take<Self>
    where
        Self: Sized,
    {
        Take::new(self, limit)
    }
}

impl<R: AsyncRead + ?Sized> AsyncReadExt for R {}
