//! How a file is to be opened, and opening it.

use super::descriptor::Descriptor;
use super::operation::Step;
use super::operation::{Operation, Perform, call};
use super::path_ops::Name;
use super::{File, page_cache};
use crate::task::header::WaitKind;
use std::fs::OpenOptions as StdOpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::Location;
use std::path::Path;

/// How a file is to be opened; as [`std::fs::OpenOptions`].
///
/// ```
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::fs::OpenOptions;
/// use wakeful::io::AsyncWriteExt;
///
/// # let folder = std::env::temp_dir().join(format!("wakeful-doc-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let mut log = OpenOptions::new().append(true).create(true).open(folder.join("log")).await?;
/// log.write_all(b"one more line\n").await?;
/// log.flush().await?;
/// # std::fs::remove_dir_all(&folder)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: StdOpenOptions,
    /// The same, as far as it can be known: not of options that came from std.
    known: Option<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom_flags: i32,
}

impl OpenOptions {
    /// Everything is off to begin with.
    pub fn new() -> OpenOptions {
        let known = Known {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom_flags: 0,
        };
        Self { std: StdOpenOptions::new(), known: Some(known) }
    }

    fn set(
        &mut self,
        std: impl FnOnce(&mut StdOpenOptions),
        known: impl FnOnce(&mut Known),
    ) -> &mut OpenOptions {
        std(&mut self.std);
        if let Some(own) = &mut self.known {
            known(own);
        }
        self
    }

    /// Whether it can be read.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.read(read), |known| known.read = read)
    }

    /// Whether it can be written.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.write(write), |known| known.write = write)
    }

    /// Whether every write goes to the end.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.append(append), |known| known.append = append)
    }

    /// Whether what is in the file goes away.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.truncate(truncate), |known| known.truncate = truncate)
    }

    /// Whether the file is made if there is none.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.create(create), |known| known.create = create)
    }

    /// Whether the file is made, and must not be there yet.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.create_new(create_new), |known| known.create_new = create_new)
    }

    /// The permissions of a file that is made, before the process's umask; 0o666
    /// by default.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.set(|std| _ = std.mode(mode), |known| known.mode = mode)
    }

    /// More flags for the system call. Those of the access mode are ignored.
    pub fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.set(|std| _ = std.custom_flags(flags), |known| known.custom_flags = flags)
    }

    /// Opens the file.
    ///
    /// # Errors
    ///
    /// As [`std::fs::OpenOptions::open`].
    ///
    /// # Panics
    ///
    /// When it is polled outside of a runtime.
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<File>> {
        let (options, site) = (self.clone(), Location::caller());
        async move {
            let path = path;
            options.open_file(path.as_ref(), site).await
        }
    }

    pub(super) async fn open_file(
        self,
        path: &Path,
        site: &'static Location<'static>,
    ) -> io::Result<File> {
        Ok(File::from_descriptor(self.open_descriptor(path, site).await?, site))
    }

    pub(super) async fn open_descriptor(
        self,
        path: &Path,
        site: &'static Location<'static>,
    ) -> io::Result<Descriptor> {
        if page_cache::is_allowed()?
            && let Some(flags) = self.known.and_then(|known| known.inline_flags())
        {
            page_cache::spend().await;
            if let page_cache::Attempt::Done(opened) = page_cache::open(path, flags) {
                let (std, latency) = opened?;
                return Ok(Descriptor::opened_inline(std, latency));
            }
        }
        let opened = match self.known.and_then(|known| known.flags()) {
            Some(flags) => {
                let mode = self.known.map_or(0, |known| known.mode);
                let name = Name::new(path);
                Perform::new(Open { name, flags, mode, std: self.std }, site).await
            }
            // Nothing for a ring, or something that std complains about.
            None => {
                let path = path.to_owned();
                call(site, move || self.std.open(path)).await
            }
        };
        Ok(Descriptor::opened(opened?))
    }
}

impl Known {
    /// The flags of the system call; none if std would complain.
    fn flags(&self) -> Option<i32> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => return None,
        };
        let may_write = self.write || self.append;
        if !may_write && (self.truncate || self.create || self.create_new) {
            return None;
        }
        if self.append && self.truncate && !self.create_new {
            return None;
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            (true, false, false) => libc::O_CREAT,
            (false, true, false) => libc::O_TRUNC,
            (true, true, false) => libc::O_CREAT | libc::O_TRUNC,
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
        };
        Some(libc::O_CLOEXEC | access | creation | (self.custom_flags & !libc::O_ACCMODE))
    }

    /// The flags, if what is in memory may be enough.
    fn inline_flags(&self) -> Option<rustix::fs::OFlags> {
        let plain = !self.create && !self.truncate && !self.create_new && self.custom_flags == 0;
        let flags = self.flags().filter(|_| plain)?;
        Some(rustix::fs::OFlags::from_bits_retain(flags as u32))
    }
}

/// Opening a file.
struct Open {
    flags: i32,
    mode: u32,
    name: Name,
    std: StdOpenOptions,
}

impl Operation for Open {
    type Output = std::fs::File;
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = false;
    const CODE: u8 = io_uring::opcode::OpenAt::CODE;

    fn entry(&mut self) -> Option<io_uring::squeue::Entry> {
        let open = io_uring::opcode::OpenAt::new(super::path_ops::HERE, self.name.pointer()?);
        Some(open.flags(self.flags).mode(self.mode).build())
    }

    fn landed(self, result: Result<u32, rustix::io::Errno>) -> Step<Self> {
        Step::Done(match result {
            Ok(fd) => Ok(super::file::from_kernel(fd)),
            Err(error) => Err(error.into()),
        })
    }

    fn run(self) -> io::Result<std::fs::File> {
        self.std.open(self.name.path())
    }
}

impl From<StdOpenOptions> for OpenOptions {
    fn from(std: StdOpenOptions) -> OpenOptions {
        Self { std, known: None }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
