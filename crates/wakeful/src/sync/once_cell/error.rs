//! The error of `OnceCell::set`.

use std::error::Error;
use std::fmt;

/// The error of [`OnceCell::set`](super::OnceCell::set); contains the rejected value.
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
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, SetError::AlreadyInitializedError(_))
    }

    /// Returns whether a task was computing the value.
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, SetError::InitializingError(_))
    }
}
