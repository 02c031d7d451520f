//! Extension traits, wrappers, copying and in-memory streams.
//!
//! - Extension traits: `read_ext`, `write_ext`, `buf_read_ext`, `seek_ext`. Their methods return an
//!   [`io_future`], whose operations are in `read`, `read_to_end`, `read_until`, `number` and
//!   `write`.
//! - Wrappers: `buf_reader`, `buf_writer`, `buf_stream`, `take`, `chain`, `lines`, `join`, `split`.
//! - Copying: `copy`, `copy_buf`, `copy_bidirectional`.
//! - In memory: `pipe`, with `duplex` built on it, and `empty_repeat_sink`.

mod buf_read_ext;
mod buf_reader;
mod buf_stream;
mod buf_writer;
mod chain;
mod copy;
mod copy_bidirectional;
mod copy_buf;
mod duplex;
mod empty_repeat_sink;
mod io_future;
mod join;
mod lines;
mod number;
pub(in crate::io) mod pipe;
mod read;
mod read_ext;
mod read_to_end;
mod read_until;
mod seek_ext;
mod split;
mod take;
mod write;
mod write_ext;

pub use buf_read_ext::AsyncBufReadExt;
pub use buf_reader::BufReader;
pub use buf_stream::BufStream;
pub use buf_writer::BufWriter;
pub use chain::Chain;
pub use copy::copy;
pub use copy_bidirectional::{copy_bidirectional, copy_bidirectional_with_sizes};
pub use copy_buf::copy_buf;
pub use duplex::{DuplexStream, SimplexStream, duplex, simplex};
pub use empty_repeat_sink::{Empty, Repeat, Sink, empty, repeat, sink};
pub use join::{Join, join};
pub use lines::{Lines, Split};
pub use read_ext::AsyncReadExt;
pub use seek_ext::AsyncSeekExt;
pub use split::{ReadHalf, WriteHalf, split};
pub use take::Take;
pub use write_ext::AsyncWriteExt;

use std::io;
use std::task::Poll;

/// The default size of a buffer.
const BUFFER_SIZE: usize = 8 * 1024;

/// Repeats a poll that fails with `Interrupted`.
#[inline]
fn retry_interrupted<T>(mut poll: impl FnMut() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    loop {
        match poll() {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}
