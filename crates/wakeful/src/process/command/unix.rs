//! Unix-specific settings of a [`Command`]: user, group, `pre_exec`.

use super::Command;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;

impl Command {
    /// Sets the user that the child runs as.
    ///
    /// If the kernel denies this, [`spawn`](Self::spawn) returns its error and the child is not
    /// started.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::fs::MetadataExt;
    /// use wakeful::process::Command;
    ///
    /// // The user of this process, so the kernel allows it.
    /// let user = std::fs::metadata("/proc/self")?.uid();
    /// assert!(Command::new("true").uid(user).status().await?.success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.std.uid(id);
        self
    }

    /// Sets the group that the child runs as.
    ///
    /// If the kernel denies this, [`spawn`](Self::spawn) returns its error and the child is not
    /// started.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// // Only a privileged process may choose any group.
    /// Command::new("true").uid(1000).gid(1000).status().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.std.gid(id);
        self
    }

    /// Sets the zeroth argument of the child, by default the name of the program.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("sh").arg0("shell").args(["-c", "echo $0"]).output().await?;
    /// assert_eq!(output.stdout, b"shell\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn arg0<S>(&mut self, arg: S) -> &mut Command
    where
        S: AsRef<OsStr>,
    {
        self.std.arg0(arg);
        self
    }

    /// Calls `f` in the child process before the program is executed.
    ///
    /// If `f` fails, [`spawn`](Self::spawn) returns its error.
    ///
    /// # Safety
    ///
    /// The contract of [`std::os::unix::process::CommandExt::pre_exec`] applies. The child is a
    /// copy of this process with one thread, in which only async-signal-safe functions may be
    /// called. `f` must not allocate memory or acquire a lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "umask"]);
    /// // SAFETY: `umask` is async-signal-safe.
    /// unsafe {
    ///     command.pre_exec(|| {
    ///         libc::umask(0o077);
    ///         Ok(())
    ///     });
    /// }
    /// assert_eq!(command.output().await?.stdout, b"0077\n");
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller upholds the contract of `pre_exec`.
        unsafe { self.std.pre_exec(f) };
        self
    }

    /// Sets the process group of the child; 0 creates a new group.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// // Ctrl-C in the terminal does not reach the child.
    /// Command::new("true").process_group(0).status().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn process_group(&mut self, pgroup: i32) -> &mut Command {
        self.std.process_group(pgroup);
        self
    }
}
