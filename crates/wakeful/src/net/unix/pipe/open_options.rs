//! [`OpenOptions`]: options for opening named pipes (FIFOs).

use super::{Receiver, Sender, check_pipe};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Options for opening a named pipe (FIFO).
///
/// # Examples
///
/// ```no_run
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::net::unix::pipe;
///
/// let receiver = pipe::OpenOptions::new().open_receiver("/run/log.pipe")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read_write: bool,
    unchecked: bool,
}

impl OpenOptions {
    /// Creates the default options: one direction, and only FIFOs are opened.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::unix::pipe;
    ///
    /// // Not a FIFO.
    /// let error = pipe::OpenOptions::new().open_receiver("/proc/self/exe").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Sets whether the FIFO is opened for both reading and writing, whichever end is opened.
    ///
    /// With `true`, the pipe never appears closed by the other side. A receiver waits for the next
    /// sender instead of reaching end of file, and a sender can be opened before there is a
    /// receiver.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::unix::pipe;
    ///
    /// // Does not reach end of file when a sender closes the FIFO.
    /// let receiver = pipe::OpenOptions::new().read_write(true).open_receiver("/run/log.pipe")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Sets whether to skip the check that the file is a FIFO.
    ///
    /// The poller may not support files of other kinds.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::net::unix::pipe;
    ///
    /// let receiver = pipe::OpenOptions::new().unchecked(true).open_receiver("/dev/input/event0")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// Opens the read end.
    ///
    /// Succeeds without a sender. Reads return 0 bytes (end of file) until a sender has opened the
    /// pipe.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if the file is not a FIFO, and the kernel's error otherwise.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncReadExt;
    /// use wakeful::net::unix::pipe;
    ///
    /// let mut receiver = pipe::OpenOptions::new().open_receiver("/run/log.pipe")?;
    /// let mut text = String::new();
    /// receiver.read_to_string(&mut text).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        let file = self.open(path.as_ref(), std::fs::OpenOptions::new().read(true))?;
        Receiver::from_file_unchecked(file)
    }

    /// Opens the write end.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if the file is not a FIFO, and the kernel's error otherwise: `ENXIO`
    /// if there is no receiver.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::io::AsyncWriteExt;
    /// use wakeful::net::unix::pipe;
    ///
    /// let mut sender = pipe::OpenOptions::new().open_sender("/run/log.pipe")?;
    /// sender.write_all(b"hello\n").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        let file = self.open(path.as_ref(), std::fs::OpenOptions::new().write(true))?;
        Sender::from_file_unchecked(file)
    }

    fn open(&self, path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<File> {
        if self.read_write {
            options.read(true).write(true);
        }
        let file = options.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
        if !self.unchecked {
            check_pipe(&file)?;
        }
        Ok(file)
    }
}
