//! Reading and writing without blocking: the traits, and what is built on them.
//!
//! A thing that bytes come from is [`AsyncRead`], one that bytes go to is
//! [`AsyncWrite`]. They have the few methods that something must have to take
//! part; what one wants to call is in [`AsyncReadExt`], [`AsyncWriteExt`],
//! [`AsyncBufReadExt`] and [`AsyncSeekExt`], which everything has that has the
//! trait below. Import these to read and write:
//!
//! ```
//! use wakeful::io::{self, AsyncReadExt, AsyncWriteExt};
//!
//! # #[wakeful::main]
//! # async fn main() -> io::Result<()> {
//! let (mut near, mut far) = io::duplex(64);
//! near.write_all(b"hello").await?;
//! let mut greeting = [0; 5];
//! far.read_exact(&mut greeting).await?;
//! assert_eq!(&greeting, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! - Many small reads or writes are cheaper through [`BufReader`], [`BufWriter`]
//!   or both ([`BufStream`]); a buffered writer needs a
//!   [`flush`](AsyncWriteExt::flush) at the end.
//! - [`copy`], [`copy_buf`] and [`copy_bidirectional`] move bytes from one to the
//!   other until there are no more.
//! - [`split`] makes two halves of one stream, for two tasks; [`join`] makes one of
//!   a reader and a writer.
//! - [`duplex`] and [`simplex`] are pipes in memory, for tests and between tasks;
//!   [`empty`], [`repeat`] and [`sink`] are there to be passed where something is
//!   asked for.
//! - [`stdin`], [`stdout`] and [`stderr`] are the process's own.
//!
//! Everything in here but those three works on any executor. A task that waits in one of the
//! methods above is listed with the place where that method was called.
//!
//! `Error`, `ErrorKind`, `Result` and `SeekFrom` are those of [`std::io`].

// Inside: the traits and `ReadBuf` know nobody. `util` has all the rest; each
// method of the extension traits is a `util::operation::Step`, and
// `util::operation::Operation` makes a future of it. Control enters by the poll
// of an operation and leaves through a trait of somebody else's reader or writer,
// or through `util::pipe`, which is where tasks wait for each other in here.

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
