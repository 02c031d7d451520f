//! [`OpenOptions`]: options for opening a file.

use super::descriptor::Descriptor;
use super::op::{Operation, Step};
use super::op_future::{OpFuture, run_on_pool};
use super::path_ops::{CWD, OpPath};
use super::{File, page_cache};
use crate::task::wait_kind::WaitKind;
use std::fs::OpenOptions as StdOpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::Location;
use std::path::Path;

/// Options for opening a file, such as read or write access, and whether to create it.
///
/// Call [`new`](Self::new), then a method for each option, then [`open`](Self::open). The
/// asynchronous counterpart of [`std::fs::OpenOptions`], from which it can be converted. For the
/// most common cases, use [`File::open`] and [`File::create`].
///
/// # Examples
///
/// Append to a file, creating it if it does not exist:
///
/// ```
/// use wakeful::fs::OpenOptions;
/// use wakeful::io::AsyncWriteExt;
///
/// # #[wakeful::main]
/// # async fn main() -> std::io::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("wakeful-doc-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// let mut log = OpenOptions::new().append(true).create(true).open(dir.join("log")).await?;
/// log.write_all(b"one more line\n").await?;
/// log.flush().await?;
/// # std::fs::remove_dir_all(&dir)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: StdOpenOptions,
    /// A copy of the options. `None` if they were converted from std's options, which cannot be
    /// queried.
    options: Option<Options>,
}

/// The options of an [`OpenOptions`], in readable form.
#[derive(Clone, Copy, Debug)]
struct Options {
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
    /// Creates a set of options that are all disabled.
    ///
    /// At least one of [`read`](Self::read), [`write`](Self::write) and [`append`](Self::append)
    /// must be set before opening a file.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = OpenOptions::new().read(true).open("/dev/null").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> OpenOptions {
        let options = Options {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom_flags: 0,
        };
        Self { std: StdOpenOptions::new(), options: Some(options) }
    }

    fn set(
        &mut self,
        std: impl FnOnce(&mut StdOpenOptions),
        options: impl FnOnce(&mut Options),
    ) -> &mut OpenOptions {
        std(&mut self.std);
        if let Some(copy) = &mut self.options {
            options(copy);
        }
        self
    }

    /// Sets the option for read access.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = OpenOptions::new().read(true).open("/dev/null").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.read(read), |options| options.read = read)
    }

    /// Sets the option for write access.
    ///
    /// An existing file is overwritten in place, unless [`truncate`](Self::truncate) is set.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = OpenOptions::new().write(true).open("/dev/null").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.write(write), |options| options.write = write)
    }

    /// Sets the option for append mode: every write goes to the end of the file. Implies
    /// [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    /// use wakeful::io::AsyncWriteExt;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-app-{}", std::process::id()));
    /// # std::fs::write(&path, "one\n")?;
    /// let mut file = OpenOptions::new().append(true).open(&path).await?;
    /// file.write_all(b"two\n").await?;
    /// file.flush().await?;
    /// assert_eq!(wakeful::fs::read(&path).await?, b"one\ntwo\n");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.append(append), |options| options.append = append)
    }

    /// Sets whether an existing file is truncated to length 0. Requires [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-trunc-{}", std::process::id()));
    /// # std::fs::write(&path, "old")?;
    /// let file = OpenOptions::new().write(true).truncate(true).open(&path).await?;
    /// assert_eq!(file.metadata().await?.len(), 0);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.truncate(truncate), |options| options.truncate = truncate)
    }

    /// Sets whether the file is created if it does not exist.
    ///
    /// Requires [`write`](Self::write) or [`append`](Self::append).
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-creat-{}", std::process::id()));
    /// let file = OpenOptions::new().write(true).create(true).open(&path).await?;
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.create(create), |options| options.create = create)
    }

    /// Sets whether the file is created, and opening fails if it already exists.
    ///
    /// The check and the creation are one atomic step. If set, [`create`](Self::create) and
    /// [`truncate`](Self::truncate) are ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-excl-{}", std::process::id()));
    /// let mut options = OpenOptions::new();
    /// options.write(true).create_new(true);
    /// let first = options.open(&path).await?;
    /// assert!(options.open(&path).await.is_err(), "the file exists");
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.set(|std| _ = std.create_new(create_new), |options| options.create_new = create_new)
    }

    /// Sets the permissions of a file that is created, before the process's umask.
    ///
    /// The default is `0o666`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::fs::PermissionsExt;
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-mode-{}", std::process::id()));
    /// let mut options = OpenOptions::new();
    /// let file = options.write(true).create(true).mode(0o600).open(&path).await?;
    /// assert_eq!(file.metadata().await?.permissions().mode() & 0o777, 0o600);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.set(|std| _ = std.mode(mode), |options| options.mode = mode)
    }

    /// Sets additional flags of the `open` system call. Access-mode flags are ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// const O_DIRECTORY: i32 = 0o200000; // on x86-64
    /// # if cfg!(not(target_arch = "x86_64")) {
    /// #     return Ok(());
    /// # }
    /// let mut options = OpenOptions::new();
    /// options.read(true).custom_flags(O_DIRECTORY);
    /// assert!(options.open("/dev/null").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.set(|std| _ = std.custom_flags(flags), |options| options.custom_flags = flags)
    }

    /// Opens the file at `path` with these options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`std::fs::OpenOptions::open`], for example
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for options that contradict each other.
    ///
    /// # Panics
    ///
    /// The future panics if polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the file may or may not have been created or truncated.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::fs::OpenOptions;
    ///
    /// # #[wakeful::main]
    /// # async fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("wakeful-doc-open-{}", std::process::id()));
    /// let file = OpenOptions::new().read(true).write(true).create(true).open(&path).await?;
    /// # drop(file);
    /// # std::fs::remove_file(&path)
    /// # }
    /// ```
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
        if page_cache::check_inline_allowed()?
            && let Some(flags) = self.options.and_then(|options| options.inline_flags())
        {
            page_cache::spend_budget().await;
            if let page_cache::Attempt::Done(opened) = page_cache::open(path, flags) {
                let (std, latency) = opened?;
                return Ok(Descriptor::opened_inline(std, latency));
            }
        }
        let opened = match self.options.and_then(|options| options.flags()) {
            Some(flags) => {
                let mode = self.options.map_or(0, |options| options.mode);
                let path = OpPath::new(path);
                OpFuture::new(Open { path, flags, mode, std: self.std }, site).await
            }
            // Options that cannot be queried, or that std rejects.
            None => {
                let path = path.to_owned();
                run_on_pool(site, move || self.std.open(path)).await
            }
        };
        Ok(Descriptor::opened(opened?))
    }
}

impl Options {
    /// Returns the flags of the system call. `None` if std rejects the options.
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

    /// Returns the flags, if the file may be opened inline.
    fn inline_flags(&self) -> Option<rustix::fs::OFlags> {
        let is_plain = !self.create && !self.truncate && !self.create_new && self.custom_flags == 0;
        let flags = self.flags().filter(|_| is_plain)?;
        Some(rustix::fs::OFlags::from_bits_retain(flags as u32))
    }
}

/// Opens a file.
struct Open {
    flags: i32,
    mode: u32,
    path: OpPath,
    std: StdOpenOptions,
}

impl Operation for Open {
    type Output = std::fs::File;
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = false;
    const OPCODE: u8 = io_uring::opcode::OpenAt::CODE;

    fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
        let open = io_uring::opcode::OpenAt::new(CWD, self.path.as_ptr()?);
        Some(open.flags(self.flags).mode(self.mode).build())
    }

    fn completed(self, result: Result<u32, rustix::io::Errno>) -> Step<Self> {
        Step::Done(match result {
            Ok(fd) => Ok(super::file::from_kernel(fd)),
            Err(error) => Err(error.into()),
        })
    }

    fn run(self) -> io::Result<std::fs::File> {
        self.std.open(self.path.path())
    }
}

impl From<StdOpenOptions> for OpenOptions {
    fn from(std: StdOpenOptions) -> OpenOptions {
        Self { std, options: None }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
