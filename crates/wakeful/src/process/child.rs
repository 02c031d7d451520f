//! A child process as users have it.

use super::reaper::{Running, abandon};
use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::io::{AsyncRead, AsyncReadExt};
use std::future::poll_fn;
use std::io;
use std::panic::Location;
use std::pin::pin;
use std::process::{ExitStatus, Output};
use std::task::Poll;

/// A process that was started by a [`Command`](super::Command).
///
/// Dropping it leaves the process running, unless
/// [`kill_on_drop`](super::Command::kill_on_drop) was set; in either case the runtime
/// waits for its end.
#[derive(Debug)]
pub struct Child {
    state: State,
    /// The pipe to the child's standard input, if there is one.
    pub stdin: Option<ChildStdin>,
    /// The pipe from the child's standard output, if there is one.
    pub stdout: Option<ChildStdout>,
    /// The pipe from the child's standard error, if there is one.
    pub stderr: Option<ChildStderr>,
}

#[derive(Debug)]
enum State {
    Running(Running),
    Ended(ExitStatus),
}

impl Child {
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    #[track_caller]
    pub(super) fn new(mut child: std::process::Child, kill_on_drop: bool) -> io::Result<Self> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stdin = pipes.0.map(ChildStdin::from_std).transpose();
        let stdout = pipes.1.map(ChildStdout::from_std).transpose();
        let stderr = pipes.2.map(ChildStderr::from_std).transpose();
        match (stdin, stdout, stderr) {
            (Ok(stdin), Ok(stdout), Ok(stderr)) => {
                let state = State::Running(Running::new(child, kill_on_drop)?);
                Ok(Self { state, stdin, stdout, stderr })
            }
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                abandon(child);
                Err(error)
            }
        }
    }

    /// The system's number of the process; `None` once its end was seen by
    /// [`wait`](Self::wait) or [`try_wait`](Self::try_wait), for then the number may
    /// be another's.
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::Running(running) => Some(running.id()),
            State::Ended(_) => None,
        }
    }

    /// Kills the process (`SIGKILL`) without waiting for its end. Nothing happens if it
    /// has ended.
    pub fn start_kill(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Running(running) => running.kill(),
            State::Ended(_) => Ok(()),
        }
    }

    /// Kills the process and waits for its end.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled the process is killed, whether it is dropped or not.
    #[track_caller]
    pub fn kill(&mut self) -> impl Future<Output = io::Result<()>> {
        let site = Location::caller();
        async move {
            self.start_kill()?;
            self.wait_at(site).await?;
            Ok(())
        }
    }

    /// Waits for the end of the process. Asked again, it answers the same.
    ///
    /// Its standard input is closed first, if it is still in here: a child that reads
    /// it to the end could wait for us otherwise, and we for it. Take it out of
    /// [`stdin`](Self::stdin) to keep it open. What the child writes to a pipe that
    /// nobody reads can keep it from ending as well:
    /// [`wait_with_output`](Self::wait_with_output) reads.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the end is there for the next call. The standard input stays
    /// closed. The child keeps the waker of the last poll: see
    /// [wakers](crate::sync#wakers).
    ///
    /// # Panics
    ///
    /// Only if the runtime that the child was started on is gone, and there is no
    /// other.
    #[track_caller]
    pub fn wait(&mut self) -> impl Future<Output = io::Result<ExitStatus>> {
        self.wait_at(Location::caller())
    }

    async fn wait_at(&mut self, site: &'static Location<'static>) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        poll_fn(|cx| match &mut self.state {
            State::Running(running) => {
                running.poll_exit(cx, site).map(|exited| self.ended(exited?))
            }
            State::Ended(status) => Poll::Ready(Ok(*status)),
        })
        .await
    }

    fn ended(&mut self, status: ExitStatus) -> io::Result<ExitStatus> {
        self.state = State::Ended(status);
        Ok(status)
    }

    /// How the process ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let exited = match &mut self.state {
            State::Running(running) => running.try_wait()?,
            State::Ended(status) => return Ok(Some(*status)),
        };
        exited.map(|status| self.ended(status)).transpose()
    }

    /// Waits for the end of the process, and reads meanwhile what it writes to
    /// [`stdout`](Self::stdout) and [`stderr`](Self::stderr), where these are pipes and
    /// still in here.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the child is dropped, and what was read is lost.
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
            // The first error ends it all.
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

/// What comes out of a pipe until its end; nothing, without a pipe.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut all).await?;
    }
    Ok(all)
}
