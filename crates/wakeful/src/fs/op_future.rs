//! The future of a file operation.

use super::in_flight::{InFlightOp, start};
use super::op::{ClosureOp, Operation};
use super::page_cache;
use super::write_behind::WriteQueue;
use crate::task::coop;
use crate::wait;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Starts an operation when it is first polled, and waits for its outcome.
#[must_use = "futures do nothing unless polled"]
pub(super) struct OpFuture<T: Operation> {
    stage: Stage<T>,
    /// The write queue of the operation's file.
    queue: Option<Arc<WriteQueue>>,
    site: &'static Location<'static>,
}

enum Stage<T: Operation> {
    New(T),
    InFlight(Arc<InFlightOp<T>>),
    Finished,
}

impl<T: Operation> OpFuture<T> {
    /// Creates the future. `site` is the location of the user's call.
    pub(super) fn new(operation: T, site: &'static Location<'static>) -> Self {
        Self { stage: Stage::New(operation), queue: None, site }
    }

    /// Makes later operations on the file wait for this one, if the future is dropped before the
    /// operation has finished.
    pub(super) fn on_file(mut self, queue: &Arc<WriteQueue>) -> Self {
        self.queue = Some(queue.clone());
        self
    }
}

impl<T: Operation> Unpin for OpFuture<T> {}

impl<T: Operation> Future for OpFuture<T> {
    type Output = io::Result<T::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = ready!(coop::poll_proceed(cx));
        if let Stage::New(_) = self.stage {
            page_cache::check_inline_allowed()?;
            let Stage::New(operation) = std::mem::replace(&mut self.stage, Stage::Finished) else {
                unreachable!("the stage was New a line ago")
            };
            self.stage = Stage::InFlight(start(operation));
        }
        let Stage::InFlight(in_flight) = &self.stage else { panic!("polled after completion") };
        match in_flight.poll(cx) {
            Poll::Ready(outcome) => {
                progress.made_progress();
                self.stage = Stage::Finished;
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                wait::record_wait(T::WAIT_KIND, &**in_flight, self.site);
                Poll::Pending
            }
        }
    }
}

impl<T: Operation> Drop for OpFuture<T> {
    fn drop(&mut self) {
        if let Stage::InFlight(in_flight) = &self.stage {
            // Before `abandon`, during which the operation may complete.
            if let Some(queue) = self.queue.take() {
                in_flight.detach_to(queue);
            }
            in_flight.abandon();
        }
    }
}

/// Runs a closure on the blocking pool. It may not run if the future is dropped.
pub(super) fn run_on_pool<F, R>(
    site: &'static Location<'static>,
    f: F,
) -> OpFuture<ClosureOp<F, false>>
where
    F: FnOnce() -> io::Result<R> + Send + 'static,
    R: Send + 'static,
{
    OpFuture::new(ClosureOp(f), site)
}

/// Runs a closure on the blocking pool that changes a file. Once started, it runs even if the
/// future is dropped.
pub(super) fn change_on_pool<F, R>(
    site: &'static Location<'static>,
    f: F,
) -> OpFuture<ClosureOp<F, true>>
where
    F: FnOnce() -> io::Result<R> + Send + 'static,
    R: Send + 'static,
{
    OpFuture::new(ClosureOp(f), site)
}
