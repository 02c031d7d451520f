//! [`Command`]: the builder for child processes.

mod spawn;
mod unix;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command as StdCommand, Stdio};

/// A builder for child processes: program, arguments, environment, directory and standard streams.
///
/// The methods mirror [`std::process::Command`]. [`spawn`](Self::spawn), [`status`](Self::status)
/// and [`output`](Self::output) can be called several times.
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
    /// The child receives it as a single argument, even if it contains spaces: no shell splits it.
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

    /// Sets whether dropping the [`Child`](super::Child) kills the process. The default is false.
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

    /// Returns whether dropping the [`Child`](super::Child) kills the process.
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
}

impl From<StdCommand> for Command {
    fn from(std: StdCommand) -> Command {
        Command { std, kill_on_drop: false }
    }
}
