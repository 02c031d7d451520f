//! The definition of a file operation: its io_uring entry, and the equivalent system calls.

use crate::task::wait_kind::WaitKind;
use rustix::io::Errno;
use std::io;

/// A file operation that owns everything it needs: buffers, paths, the file.
///
/// - FILEOP-1. The memory that an operation's submission entry points to is on the heap and owned
///   by the operation. It stays at its address when the operation is moved.
pub(super) trait Operation: Sized + Send + 'static {
    type Output: Send + 'static;

    /// The kind of wait that diagnostics report for a waiting task.
    const WAIT_KIND: WaitKind;
    /// Whether the operation runs to completion even if no future waits for it any more.
    const MUST_FINISH: bool;
    /// Whether later operations on the file must wait for this one.
    const CHANGES_FILE: bool = Self::MUST_FINISH;
    /// The io_uring opcode that the kernel must support.
    const OPCODE: u8 = 0;

    /// Builds the submission entry (FILEOP-1). `None` if io_uring does not support the operation.
    fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
        None
    }

    /// Returns whether the kernel may block while it executes the entry.
    ///
    /// If so, the entry is executed by a kernel thread. Otherwise `io_uring_enter` itself may
    /// block.
    fn may_block(&self) -> bool {
        true
    }

    /// Processes the result of the submission entry.
    fn completed(self, result: Result<u32, Errno>) -> Step<Self> {
        let _ = result;
        Step::RunOnPool(self)
    }

    /// Returns whether an error of io_uring means that the entry was not executed.
    ///
    /// The kernel may not know the operation, or io_uring may reject what a system call allows. Or
    /// the entry was cancelled, because no future waits or the submitting thread exited. All other
    /// errors go to [`completed`](Self::completed).
    fn is_not_executed(error: Errno) -> bool {
        use Errno as E;
        matches!(error, E::CANCELED | E::INTR | E::AGAIN | E::INVAL | E::NOSYS | E::OPNOTSUPP)
    }

    /// Runs the whole operation on the calling thread, which may block.
    fn run(self) -> io::Result<Self::Output>;
}

/// The next step after the completion of a submission entry.
#[must_use]
pub(super) enum Step<T: Operation> {
    /// The operation is finished.
    Done(io::Result<T::Output>),
    /// The rest needs another entry. It is submitted if possible.
    Resubmit(T),
    /// The rest needs a thread that may block.
    RunOnPool(T),
}

/// Defines an operation that must finish and has no result: fields, io_uring opcode and entry, and
/// the equivalent system call.
macro_rules! simple_operation {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $type:ty),* }, $opcode:ident,
     changes_file: $changes:literal,
     |$entry:ident| $build:expr, |$run:ident| $call:expr) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $field: $type),*
        }

        impl $crate::fs::op::Operation for $name {
            type Output = ();
            const WAIT_KIND: $crate::task::wait_kind::WaitKind =
                $crate::task::wait_kind::WaitKind::FileOp;
            const MUST_FINISH: bool = true;
            const CHANGES_FILE: bool = $changes;
            const OPCODE: u8 = io_uring::opcode::$opcode::CODE;

            fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
                let $entry = &*self;
                Some($build.build())
            }

            fn completed(
                self,
                result: Result<u32, rustix::io::Errno>,
            ) -> $crate::fs::op::Step<Self> {
                $crate::fs::op::Step::Done(result.map(|_| ()).map_err(std::io::Error::from))
            }

            fn run(self) -> std::io::Result<()> {
                let $run = &self;
                $call
            }
        }
    };
}
pub(super) use simple_operation;

/// An operation that io_uring does not support: a closure for the blocking pool.
pub(super) struct ClosureOp<F, const MUST_FINISH: bool>(pub(super) F);

impl<F, R, const MUST_FINISH: bool> Operation for ClosureOp<F, MUST_FINISH>
where
    F: FnOnce() -> io::Result<R> + Send + 'static,
    R: Send + 'static,
{
    type Output = R;
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = MUST_FINISH;

    fn run(self) -> io::Result<R> {
        (self.0)()
    }
}

/// Wraps a closure that must run as an operation, for [`start`](super::in_flight::start).
pub(super) fn must_run<F>(f: F) -> impl Operation<Output = ()>
where
    F: FnOnce() + Send + 'static,
{
    ClosureOp::<_, true>(move || {
        f();
        Ok(())
    })
}

/// The error of an operation that no thread executes because the runtime has shut down.
///
/// tokio has the same text.
pub(super) fn runtime_shut_down() -> io::Error {
    io::Error::other("background task failed")
}
