//! The error of `OnceCell::set`.

use std::error::Error;
use std::fmt;

/// The error of [`OnceCell::set`](super::OnceCell::set); contains the rejected value.
///
/// # Examples
///
/// ```
/// use wakeful::sync::{OnceCell, SetError};
///
/// let cell = OnceCell::from(1);
/// assert_eq!(cell.set(2), Err(SetError::AlreadyInitializedError(2)));
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum SetError<T> {
    /// The cell already has a value.
    AlreadyInitializedError(T),

    /// A task is computing the value.
    InitializingError(T),
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetError::AlreadyInitializedError(_) => "AlreadyInitializedError",
            SetError::InitializingError(_) => "InitializingError",
        })
    }
}

impl<T: fmt::Debug> Error for SetError<T> {}

impl<T> SetError<T> {
    /// Returns whether the cell already had a value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// let cell = OnceCell::from(1);
    /// assert!(cell.set(2).unwrap_err().is_already_init_err());
    /// ```
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, SetError::AlreadyInitializedError(_))
    }

    /// Returns whether a task was computing the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::sync::OnceCell;
    ///
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let cell = OnceCell::new();
    /// let value = cell.get_or_init(|| async {
    ///     // This future computes the value now.
    ///     assert!(cell.set(2).unwrap_err().is_initializing_err());
    ///     1
    /// });
    /// assert_eq!(*value.await, 1);
    /// # }
    /// ```
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, SetError::InitializingError(_))
    }
}
