//! Starting child processes: `spawn`, `spawn_with`, `status` and `output` of [`Command`].

use super::Command;
use crate::process::Child;
use crate::process::reaper::reap_orphans;
use crate::runtime::registration::runtime_ref_with_io;
use std::io;
use std::panic::Location;
use std::process::{Command as StdCommand, ExitStatus, Output, Stdio};

impl Command {
    /// Starts the process.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error unchanged. [`io::Error::raw_os_error`] has its number, such as
    /// `ETXTBSY` for a program file that is open for writing.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled, without starting a process; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let mut child = Command::new("true").spawn()?;
    /// println!("started process {:?}", child.id());
    /// child.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(StdCommand::spawn)
    }

    /// Starts the process by calling `with` with the [`std::process::Command`].
    ///
    /// Use this if the process cannot be started with [`std::process::Command::spawn`], for example
    /// through an extension trait.
    ///
    /// # Errors
    ///
    /// Returns the error of `with`, or of registering the child.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled, without starting a process; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let mut command = Command::new("true");
    /// let mut child = command.spawn_with(|command| {
    ///     println!("starting {command:?}");
    ///     command.spawn()
    /// })?;
    /// assert!(child.wait().await?.success());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn spawn_with(
        &mut self,
        with: impl FnOnce(&mut StdCommand) -> io::Result<std::process::Child>,
    ) -> io::Result<Child> {
        let runtime = runtime_ref_with_io();
        runtime.shared.refuse_in_simulation("`process::Command`")?;
        reap_orphans();
        Child::new(with(&mut self.std)?, self.kill_on_drop)
    }

    /// Starts the process and waits until it exits.
    ///
    /// The process starts with this call, not with the first poll. Standard streams that are pipes
    /// are closed immediately. Dropping the future does not kill the process, unless
    /// [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`spawn`](Self::spawn) and [`Child::wait`].
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled, without starting a process; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. If the future is dropped, the exit status is lost, and the process keeps
    /// running unless [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// assert!(Command::new("true").status().await?.success());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let site = Location::caller();
        let waiting = self.spawn().map(|mut child| {
            (child.stdin, child.stdout, child.stderr) = (None, None, None);
            child.output_at(site)
        });
        async { Ok(waiting?.await?.status) }
    }

    /// Starts the process, waits until it exits, and collects its output.
    ///
    /// Both standard output and standard error are collected.
    ///
    /// The process starts with this call, not with the first poll. Dropping the future does not
    /// kill the process, unless [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled, without starting a process; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. If the future is dropped, the output is lost, and the process keeps running
    /// unless [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("echo").arg("hello").output().await?;
    /// assert_eq!(output.stdout, b"hello\n");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped());
        let site = Location::caller();
        let waiting = self.spawn().map(|child| child.output_at(site));
        async { waiting?.await }
    }
}
