//! Error types of the semaphore.

use crate::sync::raw_semaphore::Closed;
use std::fmt;

/// Error returned by `acquire` when the semaphore was [closed](super::Semaphore::close).
///
/// # Examples
///
/// ```
/// use wakeful::sync::Semaphore;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let semaphore = Semaphore::new(1);
/// semaphore.close();
/// let error = semaphore.acquire().await.unwrap_err();
/// assert_eq!(error.to_string(), "semaphore closed");
/// # }
/// ```
#[derive(Debug)]
pub struct AcquireError(());

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("semaphore closed")
    }
}

impl std::error::Error for AcquireError {}

impl From<Closed> for AcquireError {
    fn from(Closed: Closed) -> Self {
        Self(())
    }
}

/// Error returned by `try_acquire` when no permit could be acquired without waiting.
///
/// # Examples
///
/// ```
/// use wakeful::sync::{Semaphore, TryAcquireError};
///
/// let semaphore = Semaphore::new(0);
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
/// semaphore.close();
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore was [closed](super::Semaphore::close).
    Closed,
    /// The semaphore has fewer available permits than requested.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::Closed => "semaphore closed",
            TryAcquireError::NoPermits => "no permits available",
        })
    }
}

impl std::error::Error for TryAcquireError {}
