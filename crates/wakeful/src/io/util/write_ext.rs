//! What everybody can do with a writer.

use super::io_future::IoFuture;
use super::number::{BigEndian, LittleEndian, WriteNumber};
use super::write::{Flush, Shutdown, Write, WriteAll, WriteAllBuf, WriteBuf, WriteVectored};
use crate::io::AsyncWrite;
use bytes::Buf;
use std::io::IoSlice;

/// Methods that write one number each.
macro_rules! writers {
    ($($name:ident: $encoding:ident<$number:ident>, $order:literal;)+) => {$(
        #[doc = concat!("Writes one `", stringify!($number), "`, ", $order, ".")]
        ///
        /// # Errors
        ///
        /// Of kind `WriteZero` if the writer takes no more. Otherwise those of
        /// the writer, except `Interrupted`.
        ///
        /// # Cancel safety
        ///
        /// Not cancel safe: some of its bytes may be written.
        #[track_caller]
        fn $name(&mut self, n: $number) -> IoFuture<WriteNumber<'_, Self, $encoding<$number>>>
        where
            Self: Unpin,
        {
            IoFuture::new(WriteNumber::new(self, n))
        }
    )+};
}

/// Writing, for everything that is [`AsyncWrite`].
///
/// ```
/// use wakeful::io::AsyncWriteExt;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut writer = Vec::new();
/// writer.write_u16(5).await?;
/// writer.write_all(b"hello").await?;
/// assert_eq!(writer, b"\x00\x05hello");
/// # Ok(())
/// # }
/// ```
pub trait AsyncWriteExt: AsyncWrite {
    /// Writes from the front of `src`, and gives the number of bytes that the
    /// writer took, which may be less than all. It may keep them for a while; see
    /// [`flush`](Self::flush).
    ///
    /// 0 says that the writer takes no more, or that `src` is empty.
    ///
    /// # Errors
    ///
    /// Those of the writer. Nothing was written then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it did not return, nothing was written.
    #[track_caller]
    fn write<'a>(&'a mut self, src: &'a [u8]) -> IoFuture<Write<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Write { writer: self, buf: src })
    }

    /// As [`write`](Self::write), from several slices as if they were one.
    ///
    /// # Errors
    ///
    /// Those of the writer. Nothing was written then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it did not return, nothing was written.
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

    /// As [`write`](Self::write), from a [`Buf`], off whose front the bytes are
    /// taken that the writer took. If it has several parts, they go out together
    /// where the writer can do that.
    ///
    /// ```
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut message = bytes::Bytes::from_static(b"hello");
    /// let mut writer = std::io::Cursor::new(vec![0; 3].into_boxed_slice());
    /// assert_eq!(writer.write_buf(&mut message).await?, 3);
    /// assert_eq!(message, "lo");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the writer. Nothing was written then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it did not return, nothing was written.
    #[track_caller]
    fn write_buf<'a, B>(&'a mut self, src: &'a mut B) -> IoFuture<WriteBuf<'a, Self, B>>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        IoFuture::new(WriteBuf { writer: self, buf: src })
    }

    /// Writes all of a [`Buf`], off whose front the bytes are taken as the writer
    /// takes them.
    ///
    /// # Errors
    ///
    /// Of kind `WriteZero` if the writer takes no more. Otherwise those of the
    /// writer, except `Interrupted`. What is left in `src` was not written.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what is left in `src` was not written, so calling it again
    /// with the same `src` goes on where it stopped.
    #[track_caller]
    fn write_all_buf<'a, B>(&'a mut self, src: &'a mut B) -> IoFuture<WriteAllBuf<'a, Self, B>>
    where
        Self: Sized + Unpin,
        B: Buf,
    {
        IoFuture::new(WriteAllBuf { writer: self, buf: src })
    }

    /// Writes all of `src`.
    ///
    /// # Errors
    ///
    /// Of kind `WriteZero` if the writer takes no more. Otherwise those of the
    /// writer, except `Interrupted`. How much was written before is not said.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a part may be written, and how much is not said. With
    /// [`write_all_buf`](Self::write_all_buf) it is.
    #[track_caller]
    fn write_all<'a>(&'a mut self, src: &'a [u8]) -> IoFuture<WriteAll<'a, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(WriteAll { writer: self, buf: src })
    }

    writers! {
        write_u8: BigEndian<u8>, "one byte";
        write_i8: BigEndian<i8>, "one byte";
        write_u16: BigEndian<u16>, "big endian";
        write_i16: BigEndian<i16>, "big endian";
        write_u32: BigEndian<u32>, "big endian";
        write_i32: BigEndian<i32>, "big endian";
        write_u64: BigEndian<u64>, "big endian";
        write_i64: BigEndian<i64>, "big endian";
        write_u128: BigEndian<u128>, "big endian";
        write_i128: BigEndian<i128>, "big endian";
        write_f32: BigEndian<f32>, "big endian";
        write_f64: BigEndian<f64>, "big endian";
        write_u16_le: LittleEndian<u16>, "little endian";
        write_i16_le: LittleEndian<i16>, "little endian";
        write_u32_le: LittleEndian<u32>, "little endian";
        write_i32_le: LittleEndian<i32>, "little endian";
        write_u64_le: LittleEndian<u64>, "little endian";
        write_i64_le: LittleEndian<i64>, "little endian";
        write_u128_le: LittleEndian<u128>, "little endian";
        write_i128_le: LittleEndian<i128>, "little endian";
        write_f32_le: LittleEndian<f32>, "little endian";
        write_f64_le: LittleEndian<f64>, "little endian";
    }

    /// Waits until everything that the writer took has left its buffers.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: calling it again goes on where it stopped.
    #[track_caller]
    fn flush(&mut self) -> IoFuture<Flush<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Flush { writer: self })
    }

    /// Ends the writing: flushes, and tells the other side that nothing more
    /// comes. Afterwards nothing can be written; sockets can still be read from.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: calling it again goes on where it stopped.
    #[track_caller]
    fn shutdown(&mut self) -> IoFuture<Shutdown<'_, Self>>
    where
        Self: Unpin,
    {
        IoFuture::new(Shutdown { writer: self })
    }
}

impl<W: AsyncWrite + ?Sized> AsyncWriteExt for W {}
