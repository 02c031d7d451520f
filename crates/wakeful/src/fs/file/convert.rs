//! Conversions of a [`File`]: clones, `std::fs::File` and raw descriptors.

use super::File;
use crate::fs::descriptor::Descriptor;
use crate::fs::page_cache;
use crate::task::yield_now;
use std::fs::File as StdFile;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::Location;
use std::sync::Arc;

impl File {
    /// Creates another `File` for the same open file; both share one cursor.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::File::try_clone`].
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe. If the future is dropped, no clone is created.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    /// use wakeful::io::AsyncReadExt;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-clone-{}", std::process::id()));
    /// # std::fs::write(&path, "ab")?;
    /// let mut first = File::open(&path).await?;
    /// let mut second = first.try_clone().await?;
    /// assert_eq!(first.read_u8().await?, b'a');
    /// assert_eq!(second.read_u8().await?, b'b');
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    #[track_caller]
    pub fn try_clone(&self) -> impl Future<Output = io::Result<File>> {
        let site = Location::caller();
        async move {
            page_cache::check_inline_allowed()?;
            self.wait_idle(site).await;
            page_cache::spend_budget().await;
            let clone = Descriptor::try_clone(&self.descriptor)?;
            let mut file = File::from_descriptor(clone, site);
            file.set_max_buf_size(self.max_buf_size);
            Ok(file)
        }
    }

    /// Converts the file into a [`std::fs::File`], once no operation is in flight.
    ///
    /// # Cancel safety
    ///
    /// This method is not cancel safe. If the future is dropped, the file is closed. Data that a
    /// write has accepted is still written.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = File::open("/dev/null").await?;
    /// let std_file: std::fs::File = file.into_std().await;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn into_std(self) -> impl Future<Output = StdFile> {
        let site = Location::caller();
        async move {
            self.wait_idle(site).await;
            poll_fn(|cx| self.queue.poll_unused(cx, site)).await;
            let mut file = self;
            loop {
                match file.try_into_std() {
                    Ok(std) => return std,
                    // A future with an operation was leaked, so no waker fires when the operation
                    // ends.
                    Err(busy_file) => file = busy_file,
                }
                yield_now().await;
            }
        }
    }

    /// Converts the file into a [`std::fs::File`], if no operation is in flight.
    ///
    /// # Errors
    ///
    /// Returns the `File` if an operation is in flight.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::File;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = File::open("/dev/null").await?;
    /// let std_file = file.try_into_std().expect("no operation is in flight");
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::result_large_err, reason = "the caller has one already")]
    pub fn try_into_std(self) -> Result<StdFile, Self> {
        let Self { descriptor, queue, cursor, max_buf_size, has_reached_eof, site } = self;
        match Arc::try_unwrap(descriptor) {
            Ok(descriptor) => Ok(descriptor.into_std()),
            Err(descriptor) => {
                Err(Self { descriptor, queue, cursor, max_buf_size, has_reached_eof, site })
            }
        }
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
    // SAFETY: the trait's contract: the caller passes ownership of an open descriptor.
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller owns `fd` and passes it on.
        Self::from_std(unsafe { StdFile::from_raw_fd(fd) })
    }
}
