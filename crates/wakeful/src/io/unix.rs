//! Readiness of any descriptor: what the sockets of [`net`](crate::net) do, for
//! things that are not in there. It needs a runtime, which the rest of `io` does
//! not.

#[allow(deprecated, reason = "the old name of an error")]
#[doc(hidden)]
pub use crate::net::async_fd::AsyncFdTryNewError;
pub use crate::net::async_fd::{
    AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError,
};
