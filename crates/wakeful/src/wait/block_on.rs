//! Blocks a thread on a future, for the `blocking_…` methods.
//!
//! They work inside and outside of a runtime, and with other executors.

use crate::sys::park::Parker;
use crate::task::{context, enter_guard};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until the future is ready.
///
/// # Panics
///
/// If the thread runs tasks, which it would block as well.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    enter_guard::check_may_block();
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark(Parker::for_current_thread()));
    let waker = Waker::from(unpark.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = context::without_budget(|| future.as_mut().poll(&mut cx)) {
            return output;
        }
        unpark.0.park(None);
    }
}
