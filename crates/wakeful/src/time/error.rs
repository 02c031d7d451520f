//! Errors of the [`time`](super) module.

use std::{fmt, io};

/// Error returned by [`timeout`](super::timeout) when the deadline passes before the future
/// completes.
///
/// Converts into an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut), so `?` works in
/// functions that return `io::Result`.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::io;
/// use wakeful::time::{Duration, sleep, timeout};
///
/// async fn slow() -> io::Result<()> {
///     timeout(Duration::from_millis(10), sleep(Duration::from_secs(60))).await?;
///     Ok(())
/// }
/// assert_eq!(slow().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
/// # }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

/// Error of a timer that could not be created or driven.
///
/// wakeful's own timers never fail. The type exists for programs that name it, and for crates that
/// return it.
///
/// # Examples
///
/// ```
/// use wakeful::time::error::Error;
///
/// let error = Error::shutdown();
/// assert!(error.is_shutdown() && !error.is_at_capacity() && !error.is_invalid());
/// println!("{error}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shutdown,
    AtCapacity,
    Invalid,
}

impl Error {
    /// Creates an error for a timer whose runtime has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(wakeful::time::error::Error::shutdown().is_shutdown());
    /// ```
    pub fn shutdown() -> Error {
        Error(Kind::Shutdown)
    }

    /// Returns whether the timer's runtime has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::error::Error;
    ///
    /// assert!(Error::shutdown().is_shutdown());
    /// assert!(!Error::invalid().is_shutdown());
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.0 == Kind::Shutdown
    }

    /// Creates an error for a timer that exceeds the number of timers a runtime can hold.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(wakeful::time::error::Error::at_capacity().is_at_capacity());
    /// ```
    pub fn at_capacity() -> Error {
        Error(Kind::AtCapacity)
    }

    /// Returns whether the runtime cannot hold more timers.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::error::Error;
    ///
    /// assert!(Error::at_capacity().is_at_capacity());
    /// assert!(!Error::shutdown().is_at_capacity());
    /// ```
    pub fn is_at_capacity(&self) -> bool {
        self.0 == Kind::AtCapacity
    }

    /// Creates an error for a timer with an invalid duration.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(wakeful::time::error::Error::invalid().is_invalid());
    /// ```
    pub fn invalid() -> Error {
        Error(Kind::Invalid)
    }

    /// Returns whether the timer's duration was invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::time::error::Error;
    ///
    /// assert!(Error::invalid().is_invalid());
    /// assert!(!Error::shutdown().is_invalid());
    /// ```
    pub fn is_invalid(&self) -> bool {
        self.0 == Kind::Invalid
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Shutdown => {
                "the timer is shutdown, must be called from the context of Tokio runtime"
            }
            Kind::AtCapacity => "timer is at capacity and cannot create a new entry",
            Kind::Invalid => "timer duration exceeds maximum duration",
        })
    }
}

impl std::error::Error for Error {}
