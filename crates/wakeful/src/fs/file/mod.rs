//! An open file.

mod positional;
mod stream;

use super::descriptor::Descriptor;
use super::fd_ops::{Allocate, Read, Seek, SetLen, SyncAll, SyncData};
use super::operation::{Flight, Operation, Perform, call, change, start};
use super::write_behind::Writer;
use super::{FileTimes, OpenOptions, page_cache};
use crate::task::header::WaitKind;
use crate::task::yield_now;
use crate::wait;
use std::fmt;
use std::fs::{File as StdFile, Metadata, Permissions};
use std::future::poll_fn;
use std::io::{self, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

pub use positional::{ReadAt, ReadExactAt, WriteAllAt, WriteAt};

/// How much one read or write moves at most, unless told otherwise.
const DEFAULT_MAX_BUF_SIZE: usize = 2 * 1024 * 1024;

/// An open file.
///
/// Reads and writes go from the file's cursor on, through
/// [`AsyncRead`](crate::io::AsyncRead), [`AsyncWrite`](crate::io::AsyncWrite) and
/// [`AsyncSeek`](crate::io::AsyncSeek), or with an offset of their own and without
/// a cursor: [`read_at`](Self::read_at), [`write_at`](Self::write_at).
///
/// Writes are deferred: they return when the data was accepted, which is then on
/// its way to the file whatever happens, even if the `File` or the runtime is
/// dropped. [`flush`](crate::io::AsyncWriteExt::flush) waits until it is there;
/// that is also where, or at the next write, one learns that it could not be
/// written.
///
/// A read that finds its data in the system's memory takes it from there at once,
/// without another thread.
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::fs::File;
/// use wakeful::io::{AsyncReadExt, AsyncWriteExt};
///
/// # let folder = std::env::temp_dir().join(format!("wakeful-doc-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("greeting");
/// let mut file = File::create(&path).await?;
/// file.write_all(b"hello, world").await?;
/// file.flush().await?;
///
/// let file = File::open(&path).await?;
/// let mut name = [0; 5];
/// file.read_exact_at(&mut name, 7).await?;
/// assert_eq!(&name, b"world");
/// # std::fs::remove_dir_all(&folder)
/// # }
/// ```
pub struct File {
    descriptor: Arc<Descriptor>,
    writer: Arc<Writer>,
    inner: Mutex<Inner>,
    max_buf_size: usize,
    /// Where it came to be, for those who ask what a task waits for.
    site: &'static Location<'static>,
}

/// What reads and seeks leave behind.
#[derive(Default)]
struct Inner {
    /// Read, and not yet asked for, from `start` on. Usually empty: only a read
    /// that had to wait leaves something here.
    buf: Vec<u8>,
    start: usize,
    reading: Option<Arc<Flight<Read>>>,
    seeking: Option<Seeking>,
    /// Where the last seek led.
    position: u64,
    sought: Option<io::Result<u64>>,
}

/// A seek under way.
enum Seeking {
    /// The program asked for it.
    Asked(Arc<Flight<Seek>>),
    /// Back over what was read ahead.
    Back(Arc<Flight<Seek>>),
}

/// Which futures may wait for an operation at the cursor.
#[derive(Clone, Copy)]
enum Waiting {
    /// The one that has the file.
    Alone,
    /// Several that share it.
    AmongOthers,
}

impl Waiting {
    fn poll<T: Operation>(
        self,
        flight: &Flight<T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T::Output>> {
        match self {
            Waiting::Alone => flight.poll(cx),
            Waiting::AmongOthers => flight.poll_among_others(cx),
        }
    }
}

impl Inner {
    fn unread(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Whether no read is under way, and nothing was read ahead.
    fn is_at_rest(&self) -> bool {
        self.reading.is_none() && self.unread() == 0
    }

    /// Forgets what was read ahead; answers how far the cursor is ahead for it.
    fn discard(&mut self) -> i64 {
        let ahead = self.unread() as i64;
        self.buf.clear();
        self.start = 0;
        ahead
    }

    /// Waits for a seek that is under way. Its error comes out here only if the program
    /// did not ask for the seek.
    fn poll_seek_over(&mut self, waiting: Waiting, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(seeking) = &self.seeking else { return Poll::Ready(Ok(())) };
        let result = match seeking {
            Seeking::Asked(flight) => {
                self.sought = Some(ready!(waiting.poll(flight, cx)));
                Ok(())
            }
            Seeking::Back(flight) => ready!(waiting.poll(flight, cx)).map(drop),
        };
        self.seeking = None;
        Poll::Ready(result)
    }

    /// Waits for a read that is under way; what it brings is kept.
    fn poll_read_over(
        &mut self,
        waiting: Waiting,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(reading) = &self.reading else { return Poll::Ready(Ok(self.unread())) };
        let outcome = ready!(waiting.poll(reading, cx));
        self.reading = None;
        self.start = 0;
        Poll::Ready(outcome.map(|(count, buf)| {
            self.buf = buf;
            self.buf.truncate(count);
            count
        }))
    }

    /// Waits until the cursor is where the program expects it: nothing is under way
    /// there, and nothing was read ahead. A file without a cursor keeps what was read.
    fn poll_at_rest(
        &mut self,
        file: &Arc<Descriptor>,
        waiting: Waiting,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_seek_over(waiting, cx))?;
        // The outcome of a read that was given up does not matter now.
        let _ = ready!(self.poll_read_over(waiting, cx));
        if self.unread() == 0 || !file.has_cursor() {
            return Poll::Ready(Ok(()));
        }
        let back = SeekFrom::Current(-self.discard());
        match file.try_seek(back) {
            Some(sought) => Poll::Ready(sought.map(drop)),
            None => {
                let seek = Seek { file: file.clone(), position: back };
                self.seeking = Some(Seeking::Back(start(seek)));
                self.poll_seek_over(waiting, cx)
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abandon();
        }
        if let Some(Seeking::Asked(seeking) | Seeking::Back(seeking)) = &self.seeking {
            seeking.abandon();
        }
    }
}

/// Takes over a descriptor that the kernel has just opened for us.
#[allow(unsafe_code)]
pub(super) fn from_kernel(fd: u32) -> StdFile {
    // SAFETY: fresh from the kernel, and nobody else's.
    unsafe { StdFile::from_raw_fd(fd as RawFd) }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::open`].
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

    /// Opens a file for writing, and makes it or empties it before.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::create`].
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

    /// Makes a new file, for reading and writing.
    ///
    /// # Errors
    ///
    /// If there is one already, and as [`std::fs::File::create_new`].
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

    /// Options for opening a file in another way.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes over an open file.
    #[track_caller]
    pub fn from_std(std: StdFile) -> File {
        Self::from_descriptor(Descriptor::taken_over(std), Location::caller())
    }

    pub(super) fn from_descriptor(
        descriptor: Descriptor,
        site: &'static Location<'static>,
    ) -> File {
        Self {
            descriptor: Arc::new(descriptor),
            writer: Writer::new(),
            inner: Mutex::default(),
            max_buf_size: DEFAULT_MAX_BUF_SIZE,
            site,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is under way. An error of a read is that read's own
    /// affair; an error of a write is kept for whoever asks.
    async fn settle(&self, site: &'static Location<'static>) {
        poll_fn(|cx| self.poll_settled(cx, site)).await;
    }

    fn poll_settled(&self, cx: &mut Context<'_>, site: &'static Location<'static>) -> Poll<()> {
        ready!(self.writer.poll_idle(cx, site));
        // Others may do the same at the same time.
        let polled = {
            let mut inner = self.lock();
            match inner.poll_seek_over(Waiting::AmongOthers, cx) {
                Poll::Ready(_) => inner.poll_read_over(Waiting::AmongOthers, cx).map(drop),
                Poll::Pending => Poll::Pending,
            }
        };
        if polled.is_pending() {
            wait::waiting_on(WaitKind::FileRead, &*self.descriptor, site);
        }
        polled
    }

    /// Waits until nothing is under way, before the file changes: what a read that was
    /// given up has brought is forgotten.
    fn poll_ready_to_change(
        &self,
        cx: &mut Context<'_>,
        site: &'static Location<'static>,
    ) -> Poll<io::Result<()>> {
        ready!(self.writer.poll_idle(cx, site));
        let polled = self.lock().poll_at_rest(&self.descriptor, Waiting::AmongOthers, cx);
        if polled.is_pending() {
            wait::waiting_on(WaitKind::FileRead, &*self.descriptor, site);
        }
        polled
    }

    /// Whether a read was given up of which something may be left, where there are places: a pipe
    /// has none.
    fn has_read_ahead(&self) -> bool {
        let inner = self.lock();
        let has_any = inner.reading.is_some() || inner.seeking.is_some() || inner.unread() > 0;
        has_any && self.descriptor.has_cursor()
    }

    /// The same, and an error of an earlier write comes out.
    async fn settle_writes(&self, site: &'static Location<'static>) -> io::Result<()> {
        self.settle(site).await;
        self.writer.take_error().map_or(Ok(()), Err)
    }

    /// Waits until everything that was written is on the disk, together with what
    /// is known of the file.
    ///
    /// # Errors
    ///
    /// If it cannot be brought there, or an earlier write has failed that nobody
    /// was told of.
    #[track_caller]
    pub fn sync_all(&self) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.settle_writes(site).await?;
            let file = self.descriptor.clone();
            Perform::new(SyncAll { file }, site).about(&self.writer).await
        }
    }

    /// As [`sync_all`](Self::sync_all), but of what is known of the file only what
    /// is needed to read it.
    ///
    /// # Errors
    ///
    /// As [`sync_all`](Self::sync_all).
    #[track_caller]
    pub fn sync_data(&self) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.settle_writes(site).await?;
            let file = self.descriptor.clone();
            Perform::new(SyncData { file }, site).about(&self.writer).await
        }
    }

    /// Cuts the file to `size` bytes, or fills it up with zeros.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_len`].
    #[track_caller]
    pub fn set_len(&self, size: u64) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            poll_fn(|cx| self.poll_ready_to_change(cx, site)).await?;
            let file = self.descriptor.clone();
            Perform::new(SetLen { file, len: size }, site).about(&self.writer).await
        }
    }

    /// Reserves room on the disk for `len` bytes from `offset` on, so that writing
    /// there cannot fail for want of it. A file that is shorter becomes longer.
    ///
    /// # Errors
    ///
    /// If there is no room, or the file system cannot do that.
    #[track_caller]
    pub fn allocate(&self, offset: u64, len: u64) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            poll_fn(|cx| self.poll_ready_to_change(cx, site)).await?;
            let file = self.descriptor.clone();
            Perform::new(Allocate { file, offset, len }, site).about(&self.writer).await
        }
    }

    /// What is known of the file. It may not know yet of what was written, but not
    /// flushed.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::metadata`].
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> {
        let site = Location::caller();
        async move {
            if page_cache::is_allowed()? && self.descriptor.answers_at_once() {
                page_cache::spend().await;
                return self.descriptor.std().metadata();
            }
            let file = self.descriptor.clone();
            call(site, move || file.std().metadata()).about(&self.writer).await
        }
    }

    /// Another `File` for the same file, with the same cursor.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::try_clone`].
    #[track_caller]
    pub fn try_clone(&self) -> impl Future<Output = io::Result<File>> {
        let site = Location::caller();
        async move {
            page_cache::is_allowed()?;
            self.settle(site).await;
            page_cache::spend().await;
            let clone = Descriptor::try_clone(&self.descriptor)?;
            let mut file = File::from_descriptor(clone, site);
            file.set_max_buf_size(self.max_buf_size);
            Ok(file)
        }
    }

    /// Waits until nothing is under way, and gives the file back.
    #[track_caller]
    pub fn into_std(self) -> impl Future<Output = StdFile> {
        let site = Location::caller();
        async move {
            self.settle(site).await;
            poll_fn(|cx| self.writer.poll_alone(cx, site)).await;
            let mut file = self;
            loop {
                match file.try_into_std() {
                    Ok(std) => return std,
                    // Somebody forgot a future that has it, so nobody will tell.
                    Err(not_yet) => file = not_yet,
                }
                yield_now().await;
            }
        }
    }

    /// Gives the file back, if nothing is under way.
    ///
    /// # Errors
    ///
    /// Gives the `File` back if something is.
    #[allow(clippy::result_large_err, reason = "the caller has one already")]
    pub fn try_into_std(self) -> Result<StdFile, Self> {
        let Self { descriptor, writer, inner, max_buf_size, site } = self;
        match Arc::try_unwrap(descriptor) {
            Ok(descriptor) => Ok(descriptor.into_std()),
            Err(descriptor) => Err(Self { descriptor, writer, inner, max_buf_size, site }),
        }
    }

    /// Changes who may do what with the file, after what was written before.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_permissions`].
    #[track_caller]
    pub fn set_permissions(&self, perm: Permissions) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            poll_fn(|cx| self.writer.poll_idle(cx, site)).await;
            let file = self.descriptor.clone();
            change(site, move || file.std().set_permissions(perm)).about(&self.writer).await
        }
    }

    /// Changes when the file was last read and written, after what is under way.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_times`].
    #[track_caller]
    pub fn set_times(&self, times: FileTimes) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.settle(site).await;
            let (file, times) = (self.descriptor.clone(), times.into_std());
            change(site, move || file.std().set_times(times)).about(&self.writer).await
        }
    }

    /// Changes when the file was last written.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_modified`].
    #[track_caller]
    pub fn set_modified(
        &self,
        time: std::time::SystemTime,
    ) -> impl Future<Output = io::Result<()>> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// How much one read or write may move at most; 2 MiB by default. It bounds
    /// what waits in memory to be written.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// How much one read or write may move at most.
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name is asserted by tests of those who use the tokio face.
        f.debug_struct("tokio::fs::File").field("std", self.descriptor.std()).finish()
    }
}

impl From<StdFile> for File {
    #[track_caller]
    fn from(std: StdFile) -> Self {
        Self::from_std(std)
    }
}

impl From<OwnedFd> for File {
    #[track_caller]
    fn from(fd: OwnedFd) -> Self {
        Self::from_std(StdFile::from(fd))
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.std().as_raw_fd()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[allow(unsafe_code)]
impl FromRawFd for File {
    // SAFETY: as the trait says.
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: by contract.
        Self::from_std(unsafe { StdFile::from_raw_fd(fd) })
    }
}
