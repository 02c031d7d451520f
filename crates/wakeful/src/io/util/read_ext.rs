//! [`AsyncReadExt`]: the extension methods of readers.

use super::chain::Chain;
use super::io_future::IoFuture;
use super::number::{BigEndian, LittleEndian, ReadNumber};
use super::read::{Read, ReadExact, ReadToBuf};
use super::read_to_end::{ReadToEnd, ReadToString};
use super::take::Take;
use crate::io::{AsyncRead, ReadBuf};
use bytes::BufMut;

/// Defines methods that read one number each.
macro_rules! readers {
    ($($name:ident: $encoding:ident<$number:ident>, $order:literal, $bytes:ident;)+) => {$(
        #[doc = concat!("Reads one `", stringify!($number), "` (", $order, ").")]
        ///
        /// # Errors
        ///
        /// Returns `UnexpectedEof` if the data ends first; the bytes read before are lost.
        /// Otherwise returns the reader's error, except `Interrupted`.
        ///
        /// # Cancel safety
        ///
        /// Not cancel safe. Bytes that were already read are lost.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// use wakeful::io::AsyncReadExt;
        ///
        #[doc = concat!("let bytes = (7 as ", stringify!($number), ").", stringify!($bytes), "();")]
        #[doc = concat!("let n = (&bytes[..]).", stringify!($name), "().await?;")]
        #[doc = concat!("assert_eq!(n, 7 as ", stringify!($number), ");")]
        /// # Ok(())
        /// # }
        /// ```
        #[track_caller]
        fn $name(&mut self) -> IoFuture<ReadNumber<'_, Self, $encoding<$number>>>
        where
            Self: Unpin,
        {
            IoFuture::new(ReadNumber::new(self))
        }
    )+};
}

/// Extension methods for every [`AsyncRead`].
///
/// Import this trait to call them.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::AsyncReadExt;
///
/// let mut reader: &[u8] = b"\x00\x05hello and more";
/// let len = reader.read_u16().await?;
/// let mut text = String::new();
/// (&mut reader).take(len.into()).read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncReadExt: AsyncRead {
    /// Chains this reader with `next`: the returned reader reads this one to its end, then `next`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut text = String::new();
    /// (&b"one "[..]).chain(&b"two"[..]).read_to_string(&mut text).await?;
    /// assert_eq!(text, "one two");
    /// # Ok(())
    /// # }
    /// ```
    fn chain<R>(self, next: R) -> Chain<Self, R>
    where
        Self: Sized,
        R: AsyncRead,
    {
        Chain::new(self, next)
    }

    /// Reads available data into `buf`, waiting until there is some, and returns the number of
    /// bytes.
    ///
    /// Reads once, so `buf` may be only partly filled. A result of 0 means end of file, or that
    /// `buf` is empty.
    ///
    /// # Errors
    ///
    /// Returns the reader's error. In this case, nothing was read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was read.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut buf = [0; 64];
    /// let len = reader.read(&mut buf).await?;
    /// assert_eq!(&buf[..len], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read<'a>(&'a mut self, buf: &'a mut [u8]) -> IoFuture<Read<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Read { reader: self, buf })
    }

    /// Reads available data into a [`BufMut`], waiting until there is some, and returns the number
    /// of bytes.
    ///
    /// With a `Vec<u8>`, the bytes are appended. The memory need not be initialized. A `BufMut` may
    /// offer its capacity in parts, so it may be only partly filled. A result of 0 means end of
    /// file, or that `buf` has no capacity.
    ///
    /// # Errors
    ///
    /// Returns the reader's error. In this case, nothing was read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was read.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut buf = Vec::with_capacity(64);
    /// reader.read_buf(&mut buf).await?;
    /// assert_eq!(buf, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read_buf<'a, B>(&'a mut self, buf: &'a mut B) -> IoFuture<ReadToBuf<'a, Self, B>>
    where
        Self: Unpin,
        B: BufMut + ?Sized,
    {
        IoFuture::new(ReadToBuf { reader: self, buf })
    }

    /// Reads until `buf` is full, and returns its length.
    ///
    /// # Errors
    ///
    /// Returns `UnexpectedEof` if the data ends first. Otherwise returns the reader's error, except
    /// `Interrupted`. The number of bytes read before is unspecified.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. Some bytes may already be in `buf`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello, world"[..];
    /// let mut buf = [0; 5];
    /// reader.read_exact(&mut buf).await?;
    /// assert_eq!(&buf, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read_exact<'a>(&'a mut self, buf: &'a mut [u8]) -> IoFuture<ReadExact<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadExact { reader: self, buf: ReadBuf::new(buf) })
    }

    readers! {
        read_u8: BigEndian<u8>, "one byte", to_be_bytes;
        read_i8: BigEndian<i8>, "one byte", to_be_bytes;
        read_u16: BigEndian<u16>, "big-endian", to_be_bytes;
        read_i16: BigEndian<i16>, "big-endian", to_be_bytes;
        read_u32: BigEndian<u32>, "big-endian", to_be_bytes;
        read_i32: BigEndian<i32>, "big-endian", to_be_bytes;
        read_u64: BigEndian<u64>, "big-endian", to_be_bytes;
        read_i64: BigEndian<i64>, "big-endian", to_be_bytes;
        read_u128: BigEndian<u128>, "big-endian", to_be_bytes;
        read_i128: BigEndian<i128>, "big-endian", to_be_bytes;
        read_f32: BigEndian<f32>, "big-endian", to_be_bytes;
        read_f64: BigEndian<f64>, "big-endian", to_be_bytes;
        read_u16_le: LittleEndian<u16>, "little-endian", to_le_bytes;
        read_i16_le: LittleEndian<i16>, "little-endian", to_le_bytes;
        read_u32_le: LittleEndian<u32>, "little-endian", to_le_bytes;
        read_i32_le: LittleEndian<i32>, "little-endian", to_le_bytes;
        read_u64_le: LittleEndian<u64>, "little-endian", to_le_bytes;
        read_i64_le: LittleEndian<i64>, "little-endian", to_le_bytes;
        read_u128_le: LittleEndian<u128>, "little-endian", to_le_bytes;
        read_i128_le: LittleEndian<i128>, "little-endian", to_le_bytes;
        read_f32_le: LittleEndian<f32>, "little-endian", to_le_bytes;
        read_f64_le: LittleEndian<f64>, "little-endian", to_le_bytes;
    }

    /// Reads all bytes until end of file, appends them to `buf`, and returns their number.
    ///
    /// # Errors
    ///
    /// Returns the reader's error, except `Interrupted`. Bytes read before the error are in `buf`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the bytes read so far are in `buf`; only their count is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut buf = Vec::new();
    /// assert_eq!(reader.read_to_end(&mut buf).await?, 5);
    /// assert_eq!(buf, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read_to_end<'a>(&'a mut self, buf: &'a mut Vec<u8>) -> IoFuture<ReadToEnd<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadToEnd::new(self, buf))
    }

    /// Reads all text until end of file, appends it to `dst`, and returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the bytes are not UTF-8. Otherwise returns the reader's error,
    /// except `Interrupted`. In both cases `dst` is unchanged and the bytes are lost.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. The bytes that were read and the contents of `dst` are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut reader = &b"hello"[..];
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn read_to_string<'a>(&'a mut self, dst: &'a mut String) -> IoFuture<ReadToString<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(ReadToString::new(self, dst))
    }

    /// Limits this reader to its first `limit` bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    ///
    /// let mut text = String::new();
    /// (&b"hello, world"[..]).take(5).read_to_string(&mut text).await?;
    /// assert_eq!(text, "hello");
    /// # Ok(())
    /// # }
    /// ```
    fn take(self, limit: u64) -> Take<Self>
    where
        Self: Sized,
    {
        Take::new(self, limit)
    }
}

impl<R: AsyncRead + ?Sized> AsyncReadExt for R {}
