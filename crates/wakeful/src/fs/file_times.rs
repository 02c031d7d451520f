//! The times of a file, as arguments of `File::set_times`.

use std::time::SystemTime;

/// The times to set with [`File::set_times`](super::File::set_times).
///
/// Times that are not set stay unchanged. The counterpart of [`std::fs::FileTimes`].
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use wakeful::fs::FileTimes;
///
/// let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
/// let times = FileTimes::new().set_accessed(yesterday).set_modified(yesterday);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "must be applied to a file via `File::set_times` to have any effect"]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// Creates a `FileTimes` that leaves all times unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::FileTimes;
    ///
    /// let unchanged = FileTimes::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time of the last access.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use wakeful::fs::FileTimes;
    ///
    /// let times = FileTimes::new().set_accessed(SystemTime::now());
    /// ```
    pub fn set_accessed(mut self, t: SystemTime) -> Self {
        self.accessed = Some(t);
        self
    }

    /// Sets the time of the last modification.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use wakeful::fs::FileTimes;
    ///
    /// let times = FileTimes::new().set_modified(SystemTime::now());
    /// ```
    pub fn set_modified(mut self, t: SystemTime) -> Self {
        self.modified = Some(t);
        self
    }

    pub(super) fn into_std(self) -> std::fs::FileTimes {
        let mut times = std::fs::FileTimes::new();
        if let Some(accessed) = self.accessed {
            times = times.set_accessed(accessed);
        }
        if let Some(modified) = self.modified {
            times = times.set_modified(modified);
        }
        times
    }
}
