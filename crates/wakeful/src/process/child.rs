//! [`Child`]: a child process and its pipes.

use super::reaper::{RunningChild, kill_orphan};
use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::io::{AsyncRead, AsyncReadExt};
use std::future::poll_fn;
use std::io;
use std::panic::Location;
use std::pin::pin;
use std::process::{ExitStatus, Output};
use std::task::Poll;

/// A child process, started by a [`Command`](super::Command).
///
/// Dropping the `Child` does not kill the process, unless
/// [`kill_on_drop`](super::Command::kill_on_drop) is set. The runtime reaps the process in either
/// case.
///
/// # Examples
///
/// ```
/// # #[wakeful::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use wakeful::process::Command;
///
/// let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn()?;
/// assert_eq!(child.wait().await?.code(), Some(3));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Child {
    state: State,
    /// The write end of the child's standard input, if piped.
    pub stdin: Option<ChildStdin>,
    /// The read end of the child's standard output, if piped.
    pub stdout: Option<ChildStdout>,
    /// The read end of the child's standard error, if piped.
    pub stderr: Option<ChildStderr>,
}

#[derive(Debug)]
enum State {
    Running(RunningChild),
    Exited(ExitStatus),
}

impl Child {
    /// Registers a started process and its pipes with the current runtime.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a runtime with I/O enabled.
    #[track_caller]
    pub(super) fn new(mut child: std::process::Child, kill_on_drop: bool) -> io::Result<Self> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stdin = pipes.0.map(ChildStdin::from_std).transpose();
        let stdout = pipes.1.map(ChildStdout::from_std).transpose();
        let stderr = pipes.2.map(ChildStderr::from_std).transpose();
        match (stdin, stdout, stderr) {
            (Ok(stdin), Ok(stdout), Ok(stderr)) => {
                let state = State::Running(RunningChild::new(child, kill_on_drop)?);
                Ok(Self { state, stdin, stdout, stderr })
            }
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                kill_orphan(child);
                Err(error)
            }
        }
    }

    /// Returns the process id, or `None` once the exit status was returned.
    ///
    /// [`wait`](Self::wait) and [`try_wait`](Self::try_wait) return the exit status. After that,
    /// the kernel may have given the id to another process.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let mut child = Command::new("true").spawn()?;
    /// assert!(child.id().is_some());
    /// child.wait().await?;
    /// assert_eq!(child.id(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::Running(running) => Some(running.id()),
            State::Exited(_) => None,
        }
    }

    /// Sends `SIGKILL` to the process without waiting until it exits.
    ///
    /// Does nothing if the exit status is already known.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::process::ExitStatusExt;
    /// use wakeful::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("60").spawn()?;
    /// child.start_kill()?;
    /// assert_eq!(child.wait().await?.signal(), Some(9));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_kill(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Running(running) => running.kill(),
            State::Exited(_) => Ok(()),
        }
    }

    /// Sends `SIGKILL` to the process and waits until it exits.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Cancel safety
    ///
    /// The signal is sent at the first poll. Dropping the future after that does not undo it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("60").spawn()?;
    /// child.kill().await?;
    /// assert_eq!(child.id(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn kill(&mut self) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.start_kill()?;
            self.wait_at(site).await?;
            Ok(())
        }
    }

    /// Waits until the process exits, and returns its exit status.
    ///
    /// Further calls return the same status.
    ///
    /// Closes the child's standard input first, if it is still in [`stdin`](Self::stdin). Otherwise
    /// a child that reads its input to the end would deadlock with this process. Take the pipe out
    /// of `stdin` to keep it open. A child can also block on writing to a full output pipe; to read
    /// while waiting, use [`wait_with_output`](Self::wait_with_output).
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The next call returns the exit status. The standard input stays closed. The
    /// child keeps the waker of the last poll; see [`sync`](crate::sync#wakers).
    ///
    /// # Panics
    ///
    /// Panics if the runtime on which the child was started has shut down and the caller is outside
    /// of a runtime with I/O enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let status = Command::new("true").spawn()?.wait().await?;
    /// assert!(status.success());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn wait(&mut self) -> impl Future<Output = io::Result<ExitStatus>> {
        self.wait_at(Location::caller())
    }

    async fn wait_at(&mut self, site: &'static Location<'static>) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        poll_fn(|cx| match &mut self.state {
            State::Running(running) => {
                running.poll_exit(cx, site).map(|exited| self.set_exited(exited?))
            }
            State::Exited(status) => Poll::Ready(Ok(*status)),
        })
        .await
    }

    fn set_exited(&mut self, status: ExitStatus) -> io::Result<ExitStatus> {
        self.state = State::Exited(status);
        Ok(status)
    }

    /// Returns the exit status if the process has exited, without waiting.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use wakeful::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("60").kill_on_drop(true).spawn()?;
    /// assert!(child.try_wait()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let exited = match &mut self.state {
            State::Running(running) => running.try_wait()?,
            State::Exited(status) => return Ok(Some(*status)),
        };
        exited.map(|status| self.set_exited(status)).transpose()
    }

    /// Waits until the process exits, and collects its standard output and standard error.
    ///
    /// Only streams that are pipes and still in [`stdout`](Self::stdout) and
    /// [`stderr`](Self::stderr) are read.
    ///
    /// # Errors
    ///
    /// Returns the first error of a pipe or of the kernel.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. If the future is dropped, the child is dropped and the output read so far
    /// is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wakeful::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::process::Stdio;
    /// use wakeful::process::Command;
    ///
    /// let child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// assert_eq!(child.wait_with_output().await?.stdout, b"hello\n");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn wait_with_output(self) -> impl Future<Output = io::Result<Output>> {
        self.output_at(Location::caller())
    }

    pub(super) async fn output_at(
        mut self,
        site: &'static Location<'static>,
    ) -> io::Result<Output> {
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let mut stdout = pin!(read_all(stdout));
        let mut stderr = pin!(read_all(stderr));
        let mut status = pin!(self.wait_at(site));
        let (mut output, mut errors, mut ended) = (None, None, None);
        poll_fn(|cx| {
            // The first error completes the future.
            if output.is_none()
                && let Poll::Ready(read) = stdout.as_mut().poll(cx)
            {
                output = Some(read?);
            }
            if errors.is_none()
                && let Poll::Ready(read) = stderr.as_mut().poll(cx)
            {
                errors = Some(read?);
            }
            if ended.is_none()
                && let Poll::Ready(status) = status.as_mut().poll(cx)
            {
                ended = Some(status?);
            }
            match (output.is_some(), errors.is_some(), ended) {
                (true, true, Some(status)) => Poll::Ready(Ok(Output {
                    status,
                    stdout: output.take().unwrap_or_default(),
                    stderr: errors.take().unwrap_or_default(),
                })),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

/// Reads a pipe to its end. Returns nothing if there is no pipe.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut all).await?;
    }
    Ok(all)
}
