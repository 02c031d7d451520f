//! Traits, helpers and type definitions for asynchronous I/O.
//!
//! [`AsyncRead`] and [`AsyncWrite`] are the asynchronous counterparts of [`std::io::Read`] and
//! [`std::io::Write`]. They contain only the methods that a type must implement. The methods that
//! programs call are in the extension traits [`AsyncReadExt`], [`AsyncWriteExt`],
//! [`AsyncBufReadExt`] and [`AsyncSeekExt`], which every implementor gets. Import these to read and
//! write:
//!
//! ```
//! # #[wakeful::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
//!
//! let (mut client, mut server) = io::duplex(64);
//! client.write_all(b"hello").await?;
//! let mut greeting = [0; 5];
//! server.read_exact(&mut greeting).await?;
//! assert_eq!(&greeting, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | buffer many small reads or writes | [`BufReader`], [`BufWriter`], [`BufStream`] |
//! | read lines | [`AsyncBufReadExt::lines`] |
//! | copy from a reader to a writer | [`copy`], [`copy_buf`], [`copy_bidirectional`] |
//! | use the two directions of a stream in two tasks | [`split`] |
//! | combine a reader and a writer | [`join`] |
//! | connect tasks in memory, for example in tests | [`duplex`], [`simplex`] |
//! | use a placeholder reader or writer | [`empty`], [`repeat`], [`sink`] |
//! | use the standard streams of the process | [`stdin`], [`stdout`], [`stderr`] |
//! | wait for any file descriptor | [`unix::AsyncFd`] |
//!
//! A buffered writer needs a [`flush`](AsyncWriteExt::flush) at the end.
//!
//! Everything here works on any executor, except [`stdin`], [`stdout`], [`stderr`] and [`unix`].
//! For a task that waits in one of these methods, diagnostics show the call site.
//!
//! `Error`, `ErrorKind`, `Result` and `SeekFrom` are re-exports from [`std::io`].

// The traits and `ReadBuf` depend on no other module. `util` contains the rest. Each method of an
// extension trait returns a `util::io_future::IoFuture`, whose poll calls the reader or writer.
// Tasks wait for each other in `util::pipe`, the in-memory pipe.

mod async_buf_read;
mod async_read;
mod async_seek;
mod async_write;
#[cfg(feature = "net")]
mod interest;
mod read_buf;
#[cfg(feature = "net")]
mod ready;
#[cfg(feature = "io-std")]
mod stdio;
#[cfg(feature = "net")]
pub mod unix;
#[cfg(feature = "io-util")]
mod util;

#[cfg(all(test, loom))]
mod models;

pub use async_buf_read::AsyncBufRead;
pub use async_read::AsyncRead;
pub use async_seek::AsyncSeek;
pub use async_write::AsyncWrite;
#[cfg(feature = "net")]
pub use interest::Interest;
pub use read_buf::ReadBuf;
#[cfg(feature = "net")]
pub use ready::Ready;
#[cfg(feature = "io-std")]
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
#[cfg(feature = "io-util")]
pub use util::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
    Chain, DuplexStream, Empty, Join, Lines, ReadHalf, Repeat, SimplexStream, Sink, Split, Take,
    WriteHalf, copy, copy_bidirectional, copy_bidirectional_with_sizes, copy_buf, duplex, empty,
    join, repeat, simplex, sink, split,
};

#[doc(no_inline)]
pub use std::io::{Error, ErrorKind, Result, SeekFrom};
