//! The error of a task that did not complete: cancelled, orphaned or panicked.

use super::Id;
use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Mutex;

/// The error of a task that did not complete, because it was cancelled or panicked.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() {
/// let handle = wakeful::spawn(std::future::pending::<()>());
/// handle.abort();
/// let error = handle.await.unwrap_err();
/// assert!(error.is_cancelled() && !error.is_panic());
/// # }
/// ```
pub struct JoinError {
    id: Id,
    cause: Cause,
}

enum Cause {
    Cancelled,
    Orphaned,
    /// The payload, which is `Send` but not `Sync`. The mutex makes the error `Sync`.
    Panic(Mutex<Box<dyn Any + Send + 'static>>),
}

impl JoinError {
    pub(crate) fn cancelled(id: Id) -> Self {
        Self { id, cause: Cause::Cancelled }
    }

    pub(crate) fn orphaned(id: Id) -> Self {
        Self { id, cause: Cause::Orphaned }
    }

    pub(crate) fn panic(id: Id, payload: Box<dyn Any + Send + 'static>) -> Self {
        Self { id, cause: Cause::Panic(Mutex::new(payload)) }
    }

    /// Returns whether the task was dropped before it completed.
    ///
    /// The task was aborted, its runtime was shut down, or it was an orphan.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(std::future::pending::<()>());
    /// task.abort();
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled | Cause::Orphaned)
    }

    /// Returns whether the task was dropped because nothing could ever wake it.
    ///
    /// This happens only if the [`OrphanPolicy`](crate::runtime::OrphanPolicy) is `Abort` or
    /// `Panic`.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::runtime::{Builder, OrphanPolicy};
    ///
    /// let rt = Builder::new_current_thread()
    ///     .on_orphan(OrphanPolicy::Abort)
    ///     .on_report(|_| {})
    ///     .build()?;
    /// let lost = rt.spawn(std::future::pending::<()>());
    /// assert!(rt.block_on(lost).unwrap_err().is_orphaned());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_orphaned(&self) -> bool {
        matches!(self.cause, Cause::Orphaned)
    }

    /// Returns whether the task panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = wakeful::spawn(async { panic!("no") }).await.unwrap_err();
    /// assert!(error.is_panic());
    /// # }
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Panic(_))
    }

    /// Returns the payload of the panic, for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    ///
    /// If the task did not panic. Check [`is_panic`](Self::is_panic) first, or use
    /// [`try_into_panic`](Self::try_into_panic).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = wakeful::spawn(async { panic!("no") }).await.unwrap_err();
    /// assert_eq!(error.into_panic().downcast_ref(), Some(&"no"));
    /// # }
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        self.try_into_panic().expect("`JoinError` reason is not a panic.")
    }

    /// Returns the payload of the panic.
    ///
    /// # Errors
    ///
    /// Returns the error itself if the task was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(async { panic!("no") });
    /// match task.await.unwrap_err().try_into_panic() {
    ///     Ok(payload) => assert_eq!(payload.downcast_ref(), Some(&"no")),
    ///     Err(cancelled) => panic!("{cancelled}"),
    /// }
    /// # }
    /// ```
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.cause {
            Cause::Panic(payload) => Ok(payload.into_inner().unwrap_or_else(|e| e.into_inner())),
            _ => Err(self),
        }
    }

    /// Returns the id of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let task = wakeful::spawn(std::future::pending::<()>());
    /// let id = task.id();
    /// task.abort();
    /// assert_eq!(task.await.unwrap_err().id(), id);
    /// # }
    /// ```
    pub fn id(&self) -> Id {
        self.id
    }

    fn panic_text(&self) -> Option<String> {
        let Cause::Panic(payload) = &self.cause else { return None };
        let payload = payload.lock().unwrap_or_else(|e| e.into_inner());
        panic_text(&**payload).map(str::to_owned)
    }
}

/// Returns the message of a panic, if its payload is a string.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Cancelled => write!(f, "task {} was cancelled", self.id),
            Cause::Orphaned => write!(
                f,
                "task {} was cancelled: it waited with no waker left, so nothing could ever wake it",
                self.id
            ),
            Cause::Panic(_) => match self.panic_text() {
                Some(text) => write!(f, "task {} panicked with message {text:?}", self.id),
                None => write!(f, "task {} panicked", self.id),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Cancelled => write!(f, "JoinError::Cancelled({:?})", self.id),
            Cause::Orphaned => write!(f, "JoinError::Orphaned({:?})", self.id),
            Cause::Panic(_) => match self.panic_text() {
                Some(text) => write!(f, "JoinError::Panic({:?}, {text:?}, ...)", self.id),
                None => write!(f, "JoinError::Panic({:?}, ...)", self.id),
            },
        }
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> io::Error {
        let text = match &error.cause {
            Cause::Cancelled | Cause::Orphaned => "task was cancelled",
            Cause::Panic(_) => "task panicked",
        };
        io::Error::other(text)
    }
}
