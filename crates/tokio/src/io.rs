//! Traits and types for asynchronous input and output; see `wakeful::io`.

pub use wakeful::io::{
    AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, Error, ErrorKind, ReadBuf, Result, SeekFrom,
};

#[cfg(feature = "net")]
pub use wakeful::io::{Interest, Ready};

#[cfg(feature = "io-util")]
pub use wakeful::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
    Chain, DuplexStream, Empty, Join, Lines, ReadHalf, Repeat, SimplexStream, Sink, Split, Take,
    WriteHalf, copy, copy_bidirectional, copy_bidirectional_with_sizes, copy_buf, duplex, empty,
    join, repeat, simplex, sink, split,
};

#[cfg(feature = "io-std")]
pub use wakeful::io::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

/// Readiness of any file descriptor.
#[cfg(feature = "net")]
pub mod unix {
    #[allow(deprecated, reason = "tokio still has the deprecated name")]
    #[doc(hidden)]
    pub use wakeful::io::unix::AsyncFdTryNewError;
    pub use wakeful::io::unix::{
        AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
    };
}
