//! Whole files: reading, writing and copying them.

use super::descriptor::Descriptor;
use super::fd_ops::{At, Read};
use super::operation::{Operation, Perform, call};
use super::{OpenOptions, page_cache};
use crate::task::header::WaitKind;
use std::io::{self, Read as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is read at once when nobody knows how much there is.
const UNKNOWN: usize = 32 * 1024;
/// Room that is made at once for a file that says it is so long: one with holes may
/// be longer than all memory.
const BELIEVED: usize = 64 << 20;
/// What is read at once at most.
const AT_ONCE: usize = 2 * 1024 * 1024;

/// Reads a whole file.
///
/// # Errors
///
/// As [`std::fs::read`].
///
/// # Panics
///
/// When it is polled outside of a runtime.
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("wakeful-doc-read-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// wakeful::fs::write(folder.join("note"), "remember").await?;
/// assert_eq!(wakeful::fs::read(folder.join("note")).await?, b"remember");
///
/// let error = wakeful::fs::read(folder.join("nowhere")).await.unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert_eq!(error.raw_os_error(), Some(2), "errors are the system's own");
/// # std::fs::remove_dir_all(&folder)
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

/// Reads a whole file as text.
///
/// # Errors
///
/// As [`read`], and with [`InvalidData`](io::ErrorKind::InvalidData) if it is not
/// UTF-8.
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
    let is_inline = page_cache::is_allowed()?;
    let has_ring = crate::runtime::context::with_current(|shared| shared.ring().is_some());
    if !is_inline && has_ring != Some(true) {
        // In one go.
        let named = path.to_owned();
        return call(site, move || std::fs::read(named)).await;
    }
    let mut options = OpenOptions::new();
    options.read(true);
    let file = options.open_descriptor(path, site).await?;
    // Elsewhere the file system would have to be asked: a wrong length costs less.
    let len = match file.answers_at_once() {
        true => file.std().metadata().map_or(0, |metadata| metadata.len()),
        false => 0,
    };
    read_to_end(Arc::new(file), len, is_inline, has_ring == Some(true), site).await
}

/// Makes twice the room, or fails.
fn grow(buf: &mut Vec<u8>) -> io::Result<()> {
    let more = buf.len().max(UNKNOWN);
    buf.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
    buf.resize(buf.len() + more, 0);
    Ok(())
}

/// Reads from the cursor to the end.
async fn read_to_end(
    file: Arc<Descriptor>,
    len: u64,
    is_inline: bool,
    has_ring: bool,
    site: &'static Location<'static>,
) -> io::Result<Vec<u8>> {
    // One more than there should be: then the end shows at once. A file that says it is empty may
    // be one of the kernel's, which does not know; some of those are read in one piece or not at all.
    let expected = match usize::try_from(len) {
        Ok(0) | Err(_) => UNKNOWN,
        Ok(len) => len.saturating_add(1),
    };
    if expected > BELIEVED {
        // Only asked, and given back: a file that cannot fit is not begun with.
        Vec::<u8>::new().try_reserve_exact(expected).map_err(|_| io::ErrorKind::OutOfMemory)?;
    }
    let mut buf = vec![0; expected.min(BELIEVED)];
    let mut filled = 0;
    loop {
        if filled == buf.len() {
            grow(&mut buf)?;
        }
        let part = filled..buf.len().min(filled + AT_ONCE);
        if is_inline && file.may_read_inline() {
            page_cache::spend().await;
            match page_cache::read(&*file, &mut buf[part.clone()], page_cache::CURSOR) {
                page_cache::Attempt::Done(Ok(0)) => break,
                page_cache::Attempt::Done(Ok(count)) => {
                    filled += count;
                    continue;
                }
                page_cache::Attempt::Done(Err(error)) => return Err(error),
                page_cache::Attempt::MustWait => {}
                page_cache::Attempt::Never => file.never_read_inline(),
            }
        }
        if !has_ring {
            // In one go, by a thread that may wait.
            let file = file.clone();
            buf.truncate(filled);
            let rest = call(site, move || {
                file.std().read_to_end(&mut buf)?;
                Ok(buf)
            });
            return rest.await;
        }
        let read = Read::new(file.clone(), buf, part, At::Cursor);
        let (count, back) = Perform::new(read, site).await?;
        buf = back;
        if count == 0 {
            break;
        }
        filled += count;
    }
    buf.truncate(filled);
    Ok(buf)
}

/// Writes a whole file; what was in it before is gone.
///
/// Once it was polled it comes to its end, also if the future is dropped.
///
/// # Errors
///
/// As [`std::fs::write`].
#[track_caller]
pub fn write(
    path: impl AsRef<Path>,
    contents: impl AsRef<[u8]>,
) -> impl Future<Output = io::Result<()>> {
    let site = Location::caller();
    async move {
        let (path, contents) = (path, contents);
        let (name, data) = (path.as_ref().to_owned(), contents.as_ref().to_owned());
        Perform::new(WriteWhole { path: name, contents: data }, site).await
    }
}

/// Opening, writing and closing, in one go: a file that is not written to its end
/// is worth nothing.
struct WriteWhole {
    path: PathBuf,
    contents: Vec<u8>,
}

impl Operation for WriteWhole {
    type Output = ();
    const KIND: WaitKind = WaitKind::FileWrite;
    const MUST_FINISH: bool = true;

    fn run(self) -> io::Result<()> {
        std::fs::write(self.path, self.contents)
    }
}

/// Copies a file with its permissions; gives how many bytes it has. Where the file
/// system can, the copy shares the original's room on the disk.
///
/// # Errors
///
/// As [`std::fs::copy`].
#[track_caller]
pub fn copy(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> impl Future<Output = Result<u64, io::Error>> {
    let site = Location::caller();
    async move {
        let (from, to) = (from, to);
        let names = (from.as_ref().to_owned(), to.as_ref().to_owned());
        call(site, move || std::fs::copy(names.0, names.1)).await
    }
}
