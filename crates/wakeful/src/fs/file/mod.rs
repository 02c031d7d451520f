//! [`File`]: an open file, and the state of its operations.

mod attributes;
mod convert;
mod cursor;
mod positional;
mod stream;

use self::cursor::{CursorState, Waiters};
use super::OpenOptions;
use super::descriptor::Descriptor;
use super::write_behind::WriteQueue;
use crate::sys::sync::ignore_poison;
use crate::task::wait_kind::WaitKind;
use crate::wait;
use std::fmt;
use std::fs::File as StdFile;
use std::future::poll_fn;
use std::io;
use std::os::fd::{FromRawFd, RawFd};
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

pub use positional::{ReadAt, ReadExactAt, WriteAllAt, WriteAt};

/// The default maximum number of bytes of one read or write.
const DEFAULT_MAX_BUF_SIZE: usize = 2 * 1024 * 1024;

/// An open file for asynchronous reads and writes.
///
/// There are two ways to read and write a file:
///
/// - at the file's cursor, through [`AsyncRead`](crate::io::AsyncRead),
///   [`AsyncWrite`](crate::io::AsyncWrite) and [`AsyncSeek`](crate::io::AsyncSeek);
/// - at an offset, with [`read_at`](Self::read_at) and [`write_at`](Self::write_at). These take
///   `&self`, so several tasks can use one file concurrently.
///
/// Dropping a `File` closes the file, on another thread if closing may block.
///
/// # Writes are buffered
///
/// A write at the cursor returns once its data is accepted. The data then reaches the file even if
/// the `File` or the runtime is dropped. Call [`flush`](crate::io::AsyncWriteExt::flush) to wait
/// until the data is written. If writing fails, the next write or `flush` returns the error.
///
/// # Reads from the page cache
///
/// A read whose data is in the kernel's page cache completes on the calling thread. Other reads use
/// io_uring or the blocking pool.
///
/// # Examples
///
/// ```
/// use wakeful::fs::File;
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let path = dir.join("greeting");
/// let mut file = File::create(&path).await?;
/// file.write_all(b"hello, world").await?;
/// file.flush().await?;
///
/// let mut file = File::open(&path).await?;
/// let mut text = String::new();
/// file.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello, world");
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
pub struct File {
    descriptor: Arc<Descriptor>,
    queue: Arc<WriteQueue>,
    cursor: Mutex<CursorState>,
    max_buf_size: usize,
    /// Whether a read has returned the end of the file.
    has_reached_eof: bool,
    /// Where the file was opened, for reports of what a task waits for.
    site: &'static Location<'static>,
}

/// Takes ownership of a descriptor that the kernel has just opened for this process.
#[allow(unsafe_code)]
pub(super) fn from_kernel(fd: u32) -> StdFile {
    // SAFETY: the kernel has just opened `fd`, and no other code owns it.
    unsafe { StdFile::from_raw_fd(fd as RawFd) }
}

impl File {
    /// Opens a file for reading.
    ///
    /// Use [`OpenOptions`] to open a file for both reading and writing, or to append to it.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::open`], for example
    /// [`NotFound`](io::ErrorKind::NotFound).
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This function is cancel safe. If the future is dropped, the file is not opened, or is closed
    /// again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() {
    /// let error = File::open("/no/such/file").await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// # }
    /// ```
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> impl Future<Output = io::Result<File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        let site = Location::caller();
        async move {
            let path = path;
            options.open_file(path.as_ref(), site).await
        }
    }

    /// Opens a file for writing: creates it, or truncates it if it exists.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::create`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This function is not cancel safe. If the future is dropped, the file may or may not have
    /// been created or truncated.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-create-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// let mut file = File::create(dir.join("log")).await?;
    /// file.write_all(b"started\n").await?;
    /// file.flush().await?;
    /// # std::fs::remove_dir_all(&dir)
    /// # }
    /// ```
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> impl Future<Output = io::Result<File>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let site = Location::caller();
        async move {
            let path = path;
            options.open_file(path.as_ref(), site).await
        }
    }

    /// Creates a new file for reading and writing.
    ///
    /// The check and the creation are one atomic step, so no other process can create the file in
    /// between.
    ///
    /// # Errors
    ///
    /// Returns [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a file at `path`, and
    /// otherwise the same errors as [`std::fs::File::create_new`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This function is not cancel safe. If the future is dropped, the file may or may not have
    /// been created.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("wakeful-doc-new-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// let _lock = File::create_new(dir.join("lock")).await?;
    /// let error = File::create_new(dir.join("lock")).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    /// # std::fs::remove_dir_all(&dir)
    /// # }
    /// ```
    #[track_caller]
    pub fn create_new<P: AsRef<Path>>(path: P) -> impl Future<Output = io::Result<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let site = Location::caller();
        async move {
            let path = path;
            options.open_file(path.as_ref(), site).await
        }
    }

    /// Returns a new [`OpenOptions`]; the same as [`OpenOptions::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-opts-{}", std::process::id()));
    /// let file = File::options().append(true).create(true).open(&path).await?;
    /// # drop(file);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Converts an open [`std::fs::File`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// let std_file = std::fs::File::open("/dev/null")?;
    /// let file = File::from_std(std_file);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn from_std(std: StdFile) -> File {
        Self::from_descriptor(Descriptor::from_std(std), Location::caller())
    }

    pub(super) fn from_descriptor(
        descriptor: Descriptor,
        site: &'static Location<'static>,
    ) -> File {
        Self {
            descriptor: Arc::new(descriptor),
            queue: WriteQueue::new(),
            cursor: Mutex::default(),
            max_buf_size: DEFAULT_MAX_BUF_SIZE,
            has_reached_eof: false,
            site,
        }
    }

    fn lock_cursor(&self) -> MutexGuard<'_, CursorState> {
        ignore_poison(self.cursor.lock())
    }

    /// Waits until no operation is in flight. A read error is ignored, since the read's future was
    /// dropped. A write error is kept.
    async fn wait_idle(&self, site: &'static Location<'static>) {
        poll_fn(|cx| self.poll_idle(cx, site)).await;
    }

    fn poll_idle(&self, cx: &mut Context<'_>, site: &'static Location<'static>) -> Poll<()> {
        ready!(self.queue.poll_idle(cx, site));
        // Several tasks may wait here concurrently.
        let polled = {
            let mut cursor = self.lock_cursor();
            match cursor.poll_seek_finished(Waiters::Many, cx) {
                Poll::Ready(_) => cursor.poll_read_finished(Waiters::Many, cx).map(drop),
                Poll::Pending => Poll::Pending,
            }
        };
        if polled.is_pending() {
            wait::record_wait(WaitKind::FileRead, &*self.descriptor, site);
        }
        polled
    }

    /// Waits until no operation is in flight, before the file is changed. Data of a dropped read is
    /// discarded.
    fn poll_ready_to_change(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<io::Result<()>> {
        ready!(self.queue.poll_idle(cx, site));
        let polled = self.lock_cursor().poll_cursor_settled(&self.descriptor, Waiters::Many, cx);
        if polled.is_pending() {
            wait::record_wait(WaitKind::FileRead, &*self.descriptor, site);
        }
        polled
    }

    /// Returns whether a dropped read may have left data. Always false for a file without a cursor.
    fn has_read_ahead(&self) -> bool {
        let cursor = self.lock_cursor();
        let has_any = cursor.reading.is_some() || cursor.seeking.is_some() || cursor.unread() > 0;
        has_any && self.descriptor.has_cursor()
    }

    /// Waits until no operation is in flight. Returns the error of an earlier write.
    async fn wait_idle_and_check(&self, site: &'static Location<'static>) -> io::Result<()> {
        self.wait_idle(site).await;
        self.queue.take_error().map_or(Ok(()), Err)
    }

    /// Sets the maximum number of bytes that one read or write transfers. The default is 2 MiB.
    ///
    /// This also limits the amount of data that waits in memory to be written.
    ///
    /// # Panics
    ///
    /// Panics if `max_buf_size` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let mut file = File::open("/dev/null").await?;
    /// file.set_max_buf_size(64 * 1024);
    /// assert_eq!(file.max_buf_size(), 64 * 1024);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// Returns the maximum number of bytes that one read or write transfers.
    ///
    /// See [`set_max_buf_size`](Self::set_max_buf_size).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = File::open("/dev/null").await?;
    /// assert_eq!(file.max_buf_size(), 2 * 1024 * 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Programs that run on the tokio shim assert this name in their tests.
        f.debug_struct("tokio::fs::File").field("std", self.descriptor.std()).finish()
    }
}
