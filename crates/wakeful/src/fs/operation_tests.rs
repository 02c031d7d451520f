//! Tests of operations as rings end them.

use super::super::descriptor::Close;
use super::*;
use crate::runtime::Builder;
use std::future::poll_fn;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An operation as if a ring had it.
fn flying<T: Operation>(operation: T) -> Arc<Flight<T>> {
    let keeper = context::keeper().expect("in a runtime");
    keeper.shared.clock().hold();
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
            flight.clone().land(-error.raw_os_error(), Place::Driving);
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
