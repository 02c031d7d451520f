//! Reading, writing and copying whole files.

use super::OpenOptions;
use super::descriptor::Descriptor;
use super::fd_ops::{Position, Read};
use super::op::Operation;
use super::op_future::{OpFuture, run_on_pool};
use super::page_cache::{self, Attempt};
use crate::task::wait_kind::WaitKind;
use std::io::{self, Read as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The initial buffer size for a file of unknown length.
const DEFAULT_CAPACITY: usize = 32 * 1024;
/// The largest initial buffer. A longer file may be sparse, and larger than the memory.
const MAX_INITIAL_CAPACITY: usize = 64 << 20;
/// The maximum number of bytes that one read transfers.
const MAX_READ: usize = 2 * 1024 * 1024;

/// Reads the entire contents of a file into a vector.
///
/// A shorthand for [`File::open`](super::File::open) and reading to the end, with fewer allocations
/// and system calls.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::read`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// This function is cancel safe: it changes nothing.
///
/// # Examples
///
/// ```
/// use std::io::ErrorKind;
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-read-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// fs::write(dir.join("note"), "remember").await?;
/// assert_eq!(fs::read(dir.join("note")).await?, b"remember");
///
/// let error = fs::read(dir.join("missing")).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.raw_os_error(), Some(2));
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[track_caller]
pub fn read(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Vec<u8>>> {
    let site = Location::caller();
    async move {
        let path = path;
        read_whole(path.as_ref(), site).await
    }
}

/// Reads the entire contents of a file into a string.
///
/// # Errors
///
/// Returns [`InvalidData`](io::ErrorKind::InvalidData) if the contents are not valid UTF-8, and
/// otherwise the same errors as [`read`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// This function is cancel safe: it changes nothing.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("wakeful-doc-text-{}", std::process::id()));
/// # std::fs::write(&path, "port = 80\n")?;
/// let config = fs::read_to_string(&path).await?;
/// assert_eq!(config.trim(), "port = 80");
/// # std::fs::remove_file(&path)
/// # }
/// ```
#[track_caller]
pub fn read_to_string(path: impl AsRef<Path>) -> impl Future<Output = io::Result<String>> {
    let site = Location::caller();
    async move {
        let path = path;
        let bytes = read_whole(path.as_ref(), site).await?;
        String::from_utf8(bytes).map_err(|_| {
            let text = format!("{} is not valid UTF-8", path.as_ref().display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }
}

async fn read_whole(path: &Path, site: &'static Location<'static>) -> io::Result<Vec<u8>> {
    let is_inline = page_cache::check_inline_allowed()?;
    let has_ring = crate::runtime::context::with_current(|shared| shared.ring().is_some());
    if !is_inline && has_ring != Some(true) {
        // One job on the pool for all system calls.
        let path = path.to_owned();
        return run_on_pool(site, move || std::fs::read(path)).await;
    }
    let mut options = OpenOptions::new();
    options.read(true);
    let file = options.open_descriptor(path, site).await?;
    // Otherwise querying the length may block. A wrong guess costs less.
    let len = match file.has_cached_metadata() {
        true => file.std().metadata().map_or(0, |metadata| metadata.len()),
        false => 0,
    };
    read_to_end(Arc::new(file), len, is_inline, has_ring == Some(true), site).await
}

/// Doubles the buffer.
///
/// # Errors
///
/// Fails if there is not enough memory.
fn grow(buf: &mut Vec<u8>) -> io::Result<()> {
    let more = buf.len().max(DEFAULT_CAPACITY);
    buf.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
    buf.resize(buf.len() + more, 0);
    Ok(())
}

/// Reads from the cursor to the end of the file, which should have `len` bytes.
async fn read_to_end(
    file: Arc<Descriptor>,
    len: u64,
    is_inline: bool,
    has_ring: bool,
    site: &'static Location<'static>,
) -> io::Result<Vec<u8>> {
    // One byte more than expected, so that the last read sees the end of the file. A length of 0
    // may mean a file of procfs or sysfs, whose length is not known. Some of these must be read in
    // one call.
    let expected = match usize::try_from(len) {
        Ok(0) | Err(_) => DEFAULT_CAPACITY,
        Ok(len) => len.saturating_add(1),
    };
    if expected > MAX_INITIAL_CAPACITY {
        // Allocates and frees: a file that does not fit into memory fails before it is read.
        Vec::<u8>::new().try_reserve_exact(expected).map_err(|_| io::ErrorKind::OutOfMemory)?;
    }
    let mut buf = vec![0; expected.min(MAX_INITIAL_CAPACITY)];
    let mut filled = 0;
    loop {
        if filled == buf.len() {
            grow(&mut buf)?;
        }
        let part = filled..buf.len().min(filled + MAX_READ);
        if is_inline && file.may_read_inline() {
            page_cache::spend_budget().await;
            match page_cache::read(&*file, &mut buf[part.clone()], page_cache::CURSOR) {
                Attempt::Done(Ok(0)) => break,
                Attempt::Done(Ok(count)) => {
                    filled += count;
                    continue;
                }
                Attempt::Done(Err(error)) => return Err(error),
                Attempt::WouldBlock => {}
                Attempt::Unsupported => file.disable_inline_reads(),
            }
        }
        if !has_ring {
            // One job on the pool for the rest of the file.
            let file = file.clone();
            buf.truncate(filled);
            let rest = run_on_pool(site, move || {
                file.std().read_to_end(&mut buf)?;
                Ok(buf)
            });
            return rest.await;
        }
        let read = Read::new(file.clone(), buf, part, Position::Cursor);
        let (count, returned) = OpFuture::new(read, site).await?;
        buf = returned;
        if count == 0 {
            break;
        }
        filled += count;
    }
    buf.truncate(filled);
    Ok(buf)
}

/// Writes a slice as the entire contents of a file.
///
/// The file is created if it does not exist, and truncated if it does.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::write`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// Once started, the file is written completely even if the future is dropped.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("wakeful-doc-write-{}", std::process::id()));
/// fs::write(&path, "first").await?;
/// fs::write(&path, b"second").await?;
/// assert_eq!(fs::read_to_string(&path).await?, "second");
/// # std::fs::remove_file(&path)
/// # }
/// ```
#[track_caller]
pub fn write(
    path: impl AsRef<Path>,
    contents: impl AsRef<[u8]>,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let (path, contents) = (path, contents);
        let operation =
            WriteWhole { path: path.as_ref().to_owned(), contents: contents.as_ref().to_owned() };
        OpFuture::new(operation, site).await
    }
}

/// Opens, writes and closes a file in one job, so that it is never left half written.
struct WriteWhole {
    path: PathBuf,
    contents: Vec<u8>,
}

impl Operation for WriteWhole {
    type Output = ();
    const WAIT_KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;

    fn run(self) -> io::Result<()> {
        std::fs::write(self.path, self.contents)
    }
}

/// Copies the contents and permissions of a file and returns the number of bytes copied.
///
/// An existing file at `to` is overwritten. If the file system supports reflinks, the copy shares
/// its disk blocks with the original.
///
/// # Errors
///
/// Returns the same errors as [`std::fs::copy`].
///
/// # Panics
///
/// The future panics if polled outside of a runtime.
///
/// # Cancel safety
///
/// This function is not cancel safe. If the future is dropped, the file may or may not have been
/// copied.
///
/// # Examples
///
/// ```
/// use wakeful::fs;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-copy-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// fs::write(dir.join("original"), "12345").await?;
/// let count = fs::copy(dir.join("original"), dir.join("copy")).await?;
/// assert_eq!(count, 5);
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[track_caller]
pub fn copy(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> impl Future<Output = Result<u64, io::Error>> {
    let site = Location::caller();
    async move {
        let (from, to) = (from, to);
        let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
        run_on_pool(site, move || std::fs::copy(from, to)).await
    }
}
