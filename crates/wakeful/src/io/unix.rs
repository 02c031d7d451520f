//! Asynchronous I/O with any file descriptor.
//!
//! [`AsyncFd`] does for other descriptors what the types of [`net`](crate::net) do for sockets. It
//! needs a runtime with I/O enabled.

#[allow(deprecated, reason = "re-exports the old name of an error")]
#[doc(hidden)]
pub use crate::net::async_fd::AsyncFdTryNewError;
pub use crate::net::async_fd::{
    AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
};
