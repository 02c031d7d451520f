//! What to run: std's command, whose children belong to a runtime.

use super::Child;
use super::reaper::sweep;
use crate::runtime::registration::keeper_with_io;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::Location;
use std::path::Path;
use std::process::{Command as StdCommand, ExitStatus, Output, Stdio};

/// A process to be: the program, its arguments, environment, folder and streams.
///
/// The methods are those of [`std::process::Command`]; [`spawn`](Self::spawn),
/// [`status`](Self::status) and [`output`](Self::output) can be used several times.
///
/// ```
/// use wakeful::process::Command;
///
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
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
    /// Will run `program`, which is looked for in the folders of `PATH` unless it is a
    /// path, without arguments, with the environment, folder and streams of this
    /// process.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Self::from(StdCommand::new(program))
    }

    /// As std's command, to look at.
    pub fn as_std(&self) -> &StdCommand {
        &self.std
    }

    /// As std's command, for what can only be set there.
    pub fn as_std_mut(&mut self) -> &mut StdCommand {
        &mut self.std
    }

    /// As std's command; [`kill_on_drop`](Self::kill_on_drop) is lost.
    pub fn into_std(self) -> StdCommand {
        self.std
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.std.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.std.args(args);
        self
    }

    /// Sets a variable of the child's environment.
    pub fn env<K, V>(&mut self, key: K, val: V) -> &mut Command
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.env(key, val);
        self
    }

    /// Sets variables of the child's environment.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.std.envs(vars);
        self
    }

    /// Leaves a variable out of the child's environment.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.std.env_remove(key);
        self
    }

    /// Leaves all variables out that were not set here.
    pub fn env_clear(&mut self) -> &mut Command {
        self.std.env_clear();
        self
    }

    /// The folder that the child starts in.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.std.current_dir(dir);
        self
    }

    /// What the child reads from. Without this it is what this process reads from.
    pub fn stdin<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stdin(cfg);
        self
    }

    /// What the child writes to. Without this it is what this process writes to; with
    /// [`output`](Self::output), it is always a pipe.
    pub fn stdout<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stdout(cfg);
        self
    }

    /// What the child writes errors to; otherwise as [`stdout`](Self::stdout).
    pub fn stderr<T: Into<Stdio>>(&mut self, cfg: T) -> &mut Command {
        self.std.stderr(cfg);
        self
    }

    /// Whether the process is killed when its [`Child`] is dropped. It is not, without
    /// this.
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// What [`kill_on_drop`](Self::kill_on_drop) was set to.
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// The user that the child runs as. If it cannot be changed, it is not started.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.std.uid(id);
        self
    }

    /// The group that the child runs as; otherwise as [`uid`](Self::uid).
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.std.gid(id);
        self
    }

    /// What the child is told that it is called, in the place before its arguments.
    pub fn arg0<S>(&mut self, arg: S) -> &mut Command
    where
        S: AsRef<OsStr>,
    {
        self.std.arg0(arg);
        self
    }

    /// Calls `f` in the child, just before the program takes its place. If it fails, so
    /// does [`spawn`](Self::spawn).
    ///
    /// # Safety
    ///
    /// As [`std::os::unix::process::CommandExt::pre_exec`]: the child is a copy of this
    /// process with one thread left, in which only what may be called in a signal
    /// handler is safe. Memory must not be allocated, nor a lock taken.
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's.
        unsafe { self.std.pre_exec(f) };
        self
    }

    /// The process group of the child; 0 for one of its own.
    pub fn process_group(&mut self, pgroup: i32) -> &mut Command {
        self.std.process_group(pgroup);
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    ///
    /// Those of the system, as the system gave them: [`io::Error::raw_os_error`] has the
    /// number, such as `ETXTBSY` for a program that is still open for writing.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O; nothing is started then.
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(StdCommand::spawn)
    }

    /// As [`spawn`](Self::spawn), by a function of the caller's own.
    #[track_caller]
    pub fn spawn_with(
        &mut self,
        with: impl FnOnce(&mut StdCommand) -> io::Result<std::process::Child>,
    ) -> io::Result<Child> {
        let _runtime = keeper_with_io();
        sweep();
        Child::new(with(&mut self.std)?, self.kill_on_drop)
    }

    /// Starts the process and waits for its end. Pipes that were asked for are closed
    /// at once.
    ///
    /// It starts with the call, not with the first poll. Dropping the future leaves it
    /// running, unless [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let site = Location::caller();
        let waiting = self.spawn().map(|mut child| {
            (child.stdin, child.stdout, child.stderr) = (None, None, None);
            child.output_at(site)
        });
        async { Ok(waiting?.await?.status) }
    }

    /// Starts the process and waits for its end and all that it writes, which goes to
    /// pipes.
    ///
    /// It starts with the call, not with the first poll. Dropping the future leaves it
    /// running, unless [`kill_on_drop`](Self::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
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
