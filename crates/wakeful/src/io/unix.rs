//! Asynchronous I/O with any file descriptor.
//!
//! [`AsyncFd`] lets tasks wait for any descriptor, as the types in [`net`](crate::net) do for
//! sockets. It requires a runtime with I/O enabled.

#[allow(deprecated, reason = "re-exports the old name of an error")]
#[doc(hidden)]
pub use crate::net::async_fd::AsyncFdTryNewError;
pub use crate::net::async_fd::{
    AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
};
