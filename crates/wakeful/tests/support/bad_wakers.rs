//! Wakers that panic when they are woken, cloned or dropped.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::task::{RawWakerVTable, Wake, Waker};

struct OnWake;

impl Wake for OnWake {
    fn wake(self: Arc<Self>) {
        panic!("a foreign waker that is woken");
    }
}

/// Returns a waker that panics when it is woken.
pub fn panics_when_woken() -> Waker {
    Waker::from(Arc::new(OnWake))
}

struct OnDrop;

impl Wake for OnDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        // A second panic during unwinding would abort the process.
        if !std::thread::panicking() {
            panic!("a foreign waker that is dropped");
        }
    }
}

/// Returns a waker that panics when its last clone is dropped.
pub fn panics_when_dropped() -> Waker {
    Waker::from(Arc::new(OnDrop))
}

/// Returns a waker that panics when it is cloned.
pub fn panics_when_cloned() -> Waker {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| panic!("a foreign waker that is cloned"),
        |_| unreachable!("there is no clone of it"),
        |_| unreachable!("it is only used by reference"),
        |_| {},
    );
    // SAFETY: the data pointer is null, and the functions of the vtable do not read it.
    unsafe { Waker::new(ptr::null(), &VTABLE) }
}

/// Returns whether `action` panics.
pub fn panics(action: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(action)).is_err()
}
