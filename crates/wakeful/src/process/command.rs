//! [`Command`]: the builder for child processes.

use super::Child;
use super::reaper::reap_orphans;
use crate::runtime::registration::runtime_ref_with_io;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::Location;
use std::path::Path;
use std::process::{Command as StdCommand, ExitStatus, Output, Stdio};

/// A builder for child processes: program, arguments, environment, directory and standard streams.
///
/// The methods are those of [`std::process::Command`]. [`spawn`](Self::spawn),
/// [`status`](Self::status) and [`output`](Self::output) can be called several times.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::process::Command;
///
/// let status = Command::new("sh").arg("-c").arg("exit 7").status().await?;
/// assert_eq!(status.code(), Some(7));
///
/// let missing = Command::new("no-such-program").spawn().unwrap_err();
/// assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Command {
    std: StdCommand,
    kill_on_drop: bool,
}

impl Command {
    /// Creates a command that runs `program`.
    ///
    /// A name without a slash is searched for in the directories of `PATH`. The child has no
    /// arguments, and inherits environment, working directory and standard streams.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut command = wakeful::process::Command::new("ls");
    /// command.arg("-l");
    /// ```
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Self::from(StdCommand::new(program))
    }

    /// Returns a reference to the [`std::process::Command`].
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::process::Command;
    ///
    /// let mut command = Command::new("ls");
    /// command.arg("-l");
    /// assert_eq!(command.as_std().get_program(), "ls");
    /// ```
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// Returns a mutable reference to the [`std::process::Command`].
    ///
    /// Use it for settings that have no method here.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::process::CommandExt;
    /// use wakeful::process::Command;
    ///
    /// let mut command = Command::new("ls");
    /// command.as_std_mut().process_group(0);
    /// ```
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// Converts into the [`std::process::Command`].
    ///
    /// The setting of [`kill_on_drop`](Self::kill_on_drop) is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::process::Command;
    ///
    /// let mut command: std::process::Command = Command::new("true").into_std();
    /// assert!(command.status()?.success());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    /// Adds an argument.
    ///
    /// The child sees it as one argument, whatever characters it contains: no shell splits it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("echo").arg("one argument").output().await?;
    /// assert_eq!(output.stdout, b"one argument\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.std.arg(arg);
        self
    }

    /// Adds several arguments.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("echo").args(["hello", "world"]).output().await?;
    /// assert_eq!(output.stdout, b"hello world\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.std.args(args);
        self
    }

    /// Sets an environment variable of the child.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("sh").args(["-c", "echo $NAME"]).env("NAME", "wakeful").output().await?;
    /// assert_eq!(output.stdout, b"wakeful\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn env<K, V>(&mut self, key: K, val: V) -> &mut Command
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.env(key, val);
        self
    }

    /// Sets several environment variables of the child.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("sh")
    ///     .args(["-c", "echo $USER_NAME in $CITY"])
    ///     .envs([("USER_NAME", "Ada"), ("CITY", "London")])
    ///     .output()
    ///     .await?;
    /// assert_eq!(output.stdout, b"Ada in London\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(vars);
        self
    }

    /// Removes an environment variable of the child.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("sh")
    ///     .args(["-c", "echo ${SECRET:-unset}"])
    ///     .env("SECRET", "1234")
    ///     .env_remove("SECRET")
    ///     .output()
    ///     .await?;
    /// assert_eq!(output.stdout, b"unset\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.std.env_remove(key);
        self
    }

    /// Removes all environment variables of the child that were not set on this command.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("env").env_clear().env("NAME", "wakeful").output().await?;
    /// assert_eq!(output.stdout, b"NAME=wakeful\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn env_clear(&mut self) -> &mut Command {
        self.std.env_clear();
        self
    }

    /// Sets the working directory of the child.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let output = Command::new("pwd").current_dir("/").output().await?;
    /// assert_eq!(output.stdout, b"/\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.std.current_dir(dir);
        self
    }

    /// Sets the standard input of the child; inherited by default.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::process::Stdio;
    /// use wakeful::io::AsyncWriteExt;
    /// use wakeful::process::Command;
    ///
    /// let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    /// cat.stdin.as_mut().expect("stdin is piped").write_all(b"hello").await?;
    /// cat.wait().await?; // closes the pipe first
    /// # Ok(())
    /// # }
    /// ```
    pub fn stdin<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stdin(cfg);
        self
    }

    /// Sets the standard output of the child; inherited by default.
    ///
    /// [`output`](Self::output) always uses a pipe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::process::Stdio;
    /// use wakeful::process::Command;
    ///
    /// let status = Command::new("echo").arg("hello").stdout(Stdio::null()).status().await?;
    /// assert!(status.success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn stdout<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stdout(cfg);
        self
    }

    /// Sets the standard error of the child; inherited by default.
    ///
    /// [`output`](Self::output) always uses a pipe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::process::Stdio;
    /// use wakeful::process::Command;
    ///
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "echo failed >&2"]).stderr(Stdio::piped());
    /// let output = command.spawn()?.wait_with_output().await?;
    /// assert_eq!(output.stderr, b"failed\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stderr<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stderr(cfg);
        self
    }

    /// Sets whether dropping the [`Child`] kills the process. The default is false.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let child = Command::new("sleep").arg("60").kill_on_drop(true).spawn()?;
    /// drop(child); // ends the process
    /// # Ok(())
    /// # }
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Returns whether dropping the [`Child`] kills the process.
    ///
    /// # Examples
    ///
    /// ```
    /// use wakeful::process::Command;
    ///
    /// let mut command = Command::new("sleep");
    /// assert!(!command.get_kill_on_drop());
    /// assert!(command.kill_on_drop(true).get_kill_on_drop());
    /// ```
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Sets the user that the child runs as.
    ///
    /// If the kernel refuses, [`spawn`](Self::spawn) returns its error and the child is not
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
    /// If the kernel refuses, [`spawn`](Self::spawn) returns its error and the child is not
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

    /// Sets the zeroth argument of the child: the name that it sees for itself.
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
    /// The contract is that of [`std::os::unix::process::CommandExt::pre_exec`]. The child is a
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

    /// Starts the process.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error unchanged. [`io::Error::raw_os_error`] has its number, such as
    /// `ETXTBSY` for a program file that is open for writing.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime with I/O enabled, without starting a process; see
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

    /// Starts the process with a function of the caller.
    ///
    /// Use this to start the [`std::process::Command`] in a special way.
    ///
    /// # Errors
    ///
    /// Returns the error of `with`, or of registering the child.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime with I/O enabled, without starting a process; see
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
        let _runtime = runtime_ref_with_io();
        reap_orphans();
        Child::new(with(&mut self.std)?, self.kill_on_drop)
    }

    /// Starts the process and waits until it exits.
    ///
    /// The process starts with this call, not with the first poll. Standard streams that are pipes
    /// are closed at once. Dropping the future does not end the process, unless
    /// [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`spawn`](Self::spawn) and [`Child::wait`].
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime with I/O enabled, without starting a process; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. If the future is dropped, the exit status is lost, and the process runs on
    /// unless [`kill_on_drop`](Self::kill_on_drop) is set.
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
    /// The output is that of standard output and standard error.
    ///
    /// The process starts with this call, not with the first poll. Dropping the future does not end
    /// the process, unless [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime with I/O enabled, without starting a process; see
    /// [`enable_io`](crate::runtime::Builder::enable_io).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. If the future is dropped, the output is lost, and the process runs on
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

impl From<StdCommand> for Command {
    fn from(std: StdCommand) -> Command {
        Command { std, kill_on_drop: false }
    }
}
