//! Tests of operations as rings end them.

use super::super::descriptor::Close;
use super::*;
use crate::runtime::Builder;
use std::future::poll_fn;
use std::io::PipeReader;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

/// An operation as if a ring had it.
fn flying<T: Operation>(operation: T) -> Arc<Flight<T>> {
    let keeper = context::keeper().expect("in a runtime");
    keeper.shared.clock().hold_auto_advance();
    let state = State {
        operation: Some(operation),
        slot: None,
        outcome: Outcome::Awaited,
        waker: None,
        others: Vec::new(),
        abandoned: false,
        left_to: None,
    };
    Arc::new(Flight { state: Mutex::new(state), keeper })
}

#[test]
fn a_number_that_the_kernel_has_closed_is_not_closed_again() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for error in [Errno::INTR, Errno::AGAIN, Errno::INVAL, Errno::OPNOTSUPP, Errno::IO] {
        // Somebody else's by now: it was closed, and the number given out again.
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        runtime.block_on(async {
            let flight = flying(Close(Some(file)));
            flight.clone().complete(-error.raw_os_error(), CompletionContext::DriverThread);
            let told = poll_fn(|cx| flight.poll(cx)).await.unwrap_err();
            assert_eq!(told.raw_os_error(), Some(error.raw_os_error()));
        });
        // SAFETY: looked at only.
        let open = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) });
        assert!(open.is_ok(), "closed after {error}");
        // SAFETY: nobody else has it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// Something that the kernel does on the spot, and that has to be done often.
struct Often(u32);

impl Operation for Often {
    type Output = u32;
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;
    const CODE: u8 = io_uring::opcode::Nop::CODE;

    fn entry(&mut self) -> Option<io_uring::squeue::Entry> {
        Some(io_uring::opcode::Nop::new().build())
    }

    fn may_wait(&self) -> bool {
        false
    }

    fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
        match (result, self.0) {
            (Err(error), _) => Step::Done(Err(error.into())),
            (Ok(_), 0) => Step::Done(Ok(0)),
            (Ok(_), more) => Step::Again(Often(more - 1)),
        }
    }

    fn run(self) -> io::Result<u32> {
        Ok(self.0)
    }
}

#[test]
fn landings_do_not_fill_the_stack() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let often = |times| Perform::new(Often(times), Location::caller());
    let few = runtime.block_on(often(NESTED - 1)).unwrap();
    if runtime.metrics().file_operations_in_uring() > 0 {
        assert_eq!(few, 0, "the ring does all of it");
        let rest = runtime.block_on(often(1_000_000)).unwrap();
        assert_eq!(rest, 1_000_000 - NESTED, "the pool does what is left");
    }
}

/// A wait for the end of a pipe. It is submitted when `go` tells.
struct Late {
    begin: mpsc::Sender<()>,
    go: mpsc::Receiver<()>,
    pipe: PipeReader,
    /// Disconnected when the operation is dropped.
    _alive: mpsc::Sender<()>,
}

impl Operation for Late {
    type Output = ();
    const KIND: WaitKind = WaitKind::FileOp;
    const MUST_FINISH: bool = true;
    const CODE: u8 = io_uring::opcode::PollAdd::CODE;

    fn entry(&mut self) -> Option<io_uring::squeue::Entry> {
        self.begin.send(()).expect("the test waits");
        self.go.recv().expect("the test tells");
        let fd = io_uring::types::Fd(self.pipe.as_raw_fd());
        Some(io_uring::opcode::PollAdd::new(fd, libc::POLLIN as u32).build())
    }

    fn landed(self, result: Result<u32, Errno>) -> Step<Self> {
        Step::Done(result.map(|_| ()).map_err(io::Error::from))
    }

    fn run(self) -> io::Result<()> {
        Ok(())
    }
}

/// A poll that outlasts `shutdown_background` submits an operation. It has passed the check whether the runtime closes.
/// Catches an operation that no thread completes: the ring, the file and the runtime would stay for good.
#[test]
fn an_operation_that_begins_after_shutdown_background_is_completed() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ((begin, begun), (go, going)) = (mpsc::channel(), mpsc::channel());
    let ((alive, ended), (kept, tasks_dropped)) = (mpsc::channel(), mpsc::channel::<()>());
    let (pipe, writer) = std::io::pipe().unwrap();
    let late = Late { begin, go: going, pipe, _alive: alive };
    runtime.spawn(async move { Perform::new(late, Location::caller()).await });
    runtime.spawn(async move { drop(kept) });
    if begun.recv().is_err() {
        return; // Without a ring, a thread of the pool has done it.
    }
    runtime.shutdown_background();
    go.send(()).unwrap();
    // After the poll: the one worker drops the other task.
    assert!(tasks_dropped.recv().is_err());
    drop(writer);
    let end = ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected), "the operation is still in flight");
}
