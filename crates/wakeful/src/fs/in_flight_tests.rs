//! Tests of how operations complete on io_uring.

use super::super::descriptor::Close;
use super::super::op_future::OpFuture;
use super::*;
use crate::runtime::Builder;
use crate::task::wait_kind::WaitKind;
use std::future::poll_fn;
use std::io::PipeReader;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::Location;
use std::sync::mpsc;
use std::time::Duration;

/// Makes an operation look as if it was submitted to a ring.
fn submitted<T: Operation>(operation: T) -> Arc<InFlightOp<T>> {
    let runtime = context::runtime_ref().expect("in a runtime");
    runtime.shared.clock().hold_auto_advance();
    Arc::new(InFlightOp::new(Some(operation), runtime))
}

#[test]
fn descriptor_that_the_kernel_has_closed_is_not_closed_again() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for error in [Errno::INTR, Errno::AGAIN, Errno::INVAL, Errno::OPNOTSUPP, Errno::IO] {
        // The kernel has closed the file and reused its number for another file.
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        runtime.block_on(async {
            let in_flight = submitted(Close(Some(file)));
            in_flight.clone().complete(-error.raw_os_error(), CompletionContext::DriverThread);
            let returned = poll_fn(|cx| in_flight.poll(cx)).await.unwrap_err();
            assert_eq!(returned.raw_os_error(), Some(error.raw_os_error()));
        });
        // SAFETY: the descriptor is open, and only its flags are read.
        let open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) });
        assert!(open.is_ok(), "closed after {error}");
        // SAFETY: the descriptor is open, and `Close` has given up its ownership.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// An operation of many steps, each of which completes during its submission.
struct ManySteps(u32);

impl Operation for ManySteps {
    type Output = u32;
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;
    const OPCODE: u8 = io_uring::opcode::Nop::CODE;

    fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
        Some(io_uring::opcode::Nop::new().build())
    }

    fn may_block(&self) -> bool {
        false
    }

    fn completed(self, result: Result<u32, Errno>) -> Step<Self> {
        match (result, self.0) {
            (Err(error), _) => Step::Done(Err(error.into())),
            (Ok(_), 0) => Step::Done(Ok(0)),
            (Ok(_), more) => Step::Resubmit(ManySteps(more - 1)),
        }
    }

    fn run(self) -> io::Result<u32> {
        Ok(self.0)
    }
}

#[test]
fn nested_completions_do_not_overflow_the_stack() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let many = |steps| OpFuture::new(ManySteps(steps), Location::caller());
    let few = runtime.block_on(many(MAX_NESTED - 1)).unwrap();
    if runtime.metrics().file_operations_in_uring() > 0 {
        assert_eq!(few, 0, "all steps run on the ring");
        let rest = runtime.block_on(many(1_000_000)).unwrap();
        assert_eq!(rest, 1_000_000 - MAX_NESTED, "the pool runs the rest");
    }
}

/// Waits for the end of a pipe. It is submitted when the test sends on `go`.
struct Late {
    begin: mpsc::Sender<()>,
    go: mpsc::Receiver<()>,
    pipe: PipeReader,
    /// Disconnected when the operation is dropped.
    _alive: mpsc::Sender<()>,
}

impl Operation for Late {
    type Output = ();
    const WAIT_KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;
    const OPCODE: u8 = io_uring::opcode::PollAdd::CODE;

    fn submission_entry(&mut self) -> Option<io_uring::squeue::Entry> {
        self.begin.send(()).expect("the test receives");
        self.go.recv().expect("the test sends");
        let fd = io_uring::types::Fd(self.pipe.as_raw_fd());
        Some(io_uring::opcode::PollAdd::new(fd, libc::POLLIN as u32).build())
    }

    fn completed(self, result: Result<u32, Errno>) -> Step<Self> {
        Step::Done(result.map(|_| ()).map_err(io::Error::from))
    }

    fn run(self) -> io::Result<()> {
        Ok(())
    }
}

/// A poll that is still running after `shutdown_background` submits an operation, because it
/// checked for a shutdown earlier. Catches an operation that no thread completes: the ring, the
/// file and the runtime would leak.
#[test]
fn operation_started_after_shutdown_background_completes() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ((begin, begun), (go, going)) = (mpsc::channel(), mpsc::channel());
    let ((alive, ended), (kept, tasks_dropped)) = (mpsc::channel(), mpsc::channel::<()>());
    let (pipe, writer) = std::io::pipe().unwrap();
    let late = Late { begin, go: going, pipe, _alive: alive };
    runtime.spawn(async move { OpFuture::new(late, Location::caller()).await });
    runtime.spawn(async move { drop(kept) });
    if begun.recv().is_err() {
        return; // Without a ring, a pool thread has run it.
    }
    runtime.shutdown_background();
    go.send(()).unwrap();
    // The only worker drops the other task after the poll.
    assert!(tasks_dropped.recv().is_err());
    drop(writer);
    let end = ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected), "the operation is still in flight");
}
