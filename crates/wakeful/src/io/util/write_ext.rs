//! [`AsyncWriteExt`]: the extension methods of writers.

use super::io_future::IoFuture;
use super::number::{BigEndian, LittleEndian, WriteNumber};
use super::write::{Flush, Shutdown, Write, WriteAll, WriteAllBuf, WriteBuf, WriteVectored};
use crate::io::AsyncWrite;
use bytes::Buf;
use std::io::IoSlice;

/// Defines methods that write one number each.
macro_rules! writers {
    ($($name:ident: $encoding:ident<$number:ident>, $order:literal, $bytes:ident;)+) => {$(
        #[doc = concat!("Writes one `", stringify!($number), "` (", $order, ").")]
        ///
        /// # Errors
        ///
        /// Returns `WriteZero` if the writer accepts no more bytes. Otherwise returns the writer's
        /// error, except `Interrupted`.
        ///
        /// # Cancel safety
        ///
        /// Not cancel safe. Some of the bytes may already have been written.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[wakeful::main(flavor = "current_thread")]
        /// # async fn main() -> std::io::Result<()> {
        /// use wakeful::io::AsyncWriteExt;
        ///
        /// let mut writer = Vec::new();
        #[doc = concat!("let n = 7 as ", stringify!($number), ";")]
        #[doc = concat!("writer.", stringify!($name), "(n).await?;")]
        #[doc = concat!("assert_eq!(writer, n.", stringify!($bytes), "());")]
        /// # Ok(())
        /// # }
        /// ```
        #[track_caller]
        fn $name(&mut self, n: $number) -> IoFuture<WriteNumber<'_, Self, $encoding<$number>>>
        where
            Self: Unpin,
        {
            IoFuture::new(WriteNumber::new(self, n))
        }
    )+};
}

/// Extension methods for every [`AsyncWrite`].
///
/// Import this trait to call them.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::io::AsyncWriteExt;
///
/// let mut writer = Vec::new();
/// writer.write_u16(5).await?;
/// writer.write_all(b"hello").await?;
/// assert_eq!(writer, b"\x00\x05hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncWriteExt: AsyncWrite {
    /// Writes bytes from the front of `src` and returns the number of accepted bytes.
    ///
    /// Writes once, so possibly only a part is accepted; [`write_all`](Self::write_all) writes
    /// everything. The writer may buffer the bytes; see [`flush`](Self::flush). A result of 0 means
    /// that the writer accepts no more bytes, or that `src` is empty.
    ///
    /// # Errors
    ///
    /// Returns the writer's error. In this case, nothing was written.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// let mut writer = std::io::Cursor::new(vec![0; 3].into_boxed_slice());
    /// assert_eq!(writer.write(b"hello").await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn write<'a>(&'a mut self, src: &'a [u8]) -> IoFuture<Write<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Write { writer: self, buf: src })
    }

    /// Writes bytes from several slices, in order, and returns the number of accepted bytes.
    ///
    /// # Errors
    ///
    /// Returns the writer's error. In this case, nothing was written.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::io::IoSlice;
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// let mut writer = Vec::new();
    /// writer.write_vectored(&[IoSlice::new(b"hello, "), IoSlice::new(b"world")]).await?;
    /// assert_eq!(writer, b"hello, world");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn write_vectored<'a, 'b>(
        &'a mut self,
        bufs: &'a [IoSlice<'b>],
    ) -> IoFuture<WriteVectored<'a, 'b, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(WriteVectored { writer: self, bufs })
    }

    /// Writes bytes from a [`Buf`], advances it, and returns the number of accepted bytes.
    ///
    /// Chunks of the `Buf` are written together if the writer supports vectored writes.
    ///
    /// # Errors
    ///
    /// Returns the writer's error. In this case, nothing was written.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. If the future is dropped before it completes, nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// let mut message = bytes::Bytes::from_static(b"hello");
    /// let mut writer = std::io::Cursor::new(vec![0; 3].into_boxed_slice());
    /// assert_eq!(writer.write_buf(&mut message).await?, 3);
    /// assert_eq!(message, "lo");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn write_buf<'a, B>(&'a mut self, src: &'a mut B) -> IoFuture<WriteBuf<'a, Self, B>>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        IoFuture::new(WriteBuf { writer: self, buf: src })
    }

    /// Writes all bytes of a [`Buf`], advancing it by the accepted bytes.
    ///
    /// # Errors
    ///
    /// Returns `WriteZero` if the writer accepts no more bytes. Otherwise returns the writer's
    /// error, except `Interrupted`. Bytes that were not written are still in `src`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if called again with the same `src`. Bytes that were not written are still in
    /// `src`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// let mut message = bytes::Bytes::from_static(b"hello");
    /// let mut writer = Vec::new();
    /// writer.write_all_buf(&mut message).await?;
    /// assert!(message.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn write_all_buf<'a, B>(&'a mut self, src: &'a mut B) -> IoFuture<WriteAllBuf<'a, Self, B>>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        IoFuture::new(WriteAllBuf { writer: self, buf: src })
    }

    /// Writes all bytes of `src`.
    ///
    /// # Errors
    ///
    /// Returns `WriteZero` if the writer accepts no more bytes. Otherwise returns the writer's
    /// error, except `Interrupted`. The number of bytes written before is unspecified.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. An unknown part may have been written. Use
    /// [`write_all_buf`](Self::write_all_buf), which is cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// let mut writer = Vec::new();
    /// writer.write_all(b"hello").await?;
    /// assert_eq!(writer, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn write_all<'a>(&'a mut self, src: &'a [u8]) -> IoFuture<WriteAll<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(WriteAll { writer: self, buf: src })
    }

    writers! {
        write_u8: BigEndian<u8>, "one byte", to_be_bytes;
        write_i8: BigEndian<i8>, "one byte", to_be_bytes;
        write_u16: BigEndian<u16>, "big-endian", to_be_bytes;
        write_i16: BigEndian<i16>, "big-endian", to_be_bytes;
        write_u32: BigEndian<u32>, "big-endian", to_be_bytes;
        write_i32: BigEndian<i32>, "big-endian", to_be_bytes;
        write_u64: BigEndian<u64>, "big-endian", to_be_bytes;
        write_i64: BigEndian<i64>, "big-endian", to_be_bytes;
        write_u128: BigEndian<u128>, "big-endian", to_be_bytes;
        write_i128: BigEndian<i128>, "big-endian", to_be_bytes;
        write_f32: BigEndian<f32>, "big-endian", to_be_bytes;
        write_f64: BigEndian<f64>, "big-endian", to_be_bytes;
        write_u16_le: LittleEndian<u16>, "little-endian", to_le_bytes;
        write_i16_le: LittleEndian<i16>, "little-endian", to_le_bytes;
        write_u32_le: LittleEndian<u32>, "little-endian", to_le_bytes;
        write_i32_le: LittleEndian<i32>, "little-endian", to_le_bytes;
        write_u64_le: LittleEndian<u64>, "little-endian", to_le_bytes;
        write_i64_le: LittleEndian<i64>, "little-endian", to_le_bytes;
        write_u128_le: LittleEndian<u128>, "little-endian", to_le_bytes;
        write_i128_le: LittleEndian<i128>, "little-endian", to_le_bytes;
        write_f32_le: LittleEndian<f32>, "little-endian", to_le_bytes;
        write_f64_le: LittleEndian<f64>, "little-endian", to_le_bytes;
    }

    /// Waits until all accepted bytes have left the writer's buffers.
    ///
    /// # Errors
    ///
    /// Returns the writer's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The next call continues.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncWriteExt, BufWriter};
    ///
    /// let mut writer = BufWriter::new(Vec::new());
    /// writer.write_all(b"hello").await?;
    /// assert!(writer.get_ref().is_empty());
    /// writer.flush().await?;
    /// assert_eq!(writer.get_ref(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn flush(&mut self) -> IoFuture<Flush<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Flush { writer: self })
    }

    /// Flushes the writer and shuts it down, so that its peer reaches end of file.
    ///
    /// Later writes fail. A socket can still be read from.
    ///
    /// # Errors
    ///
    /// Returns the writer's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The next call continues.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::{AsyncReadExt, AsyncWriteExt, duplex};
    ///
    /// let (mut client, mut server) = duplex(64);
    /// client.write_all(b"hello").await?;
    /// client.shutdown().await?;
    /// let mut text = String::new();
    /// server.read_to_string(&mut text).await?; // ends, although `client` is still alive
    /// assert_eq!(text, "hello");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn shutdown(&mut self) -> IoFuture<Shutdown<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Shutdown { writer: self })
    }
}

impl<W: AsyncWrite + ?Sized> AsyncWriteExt for W {}
