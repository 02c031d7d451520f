//! Calls foreign code whose panics must not unwind into the caller: wakers, hooks, destructors.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `f`. Returns `None` if it panics.
///
/// The panic hook prints the panic when it happens. The payload is leaked, because dropping it may
/// panic too.
#[inline]
pub(crate) fn catch_and_forget<R>(f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(payload) => {
            std::mem::forget(payload);
            None
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::catch_and_forget;

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("the payload was dropped");
        }
    }

    #[test]
    fn a_panic_and_its_payload_stay_inside() {
        assert_eq!(catch_and_forget(|| 1), Some(1));
        assert_eq!(
            catch_and_forget(|| std::panic::resume_unwind(Box::new(PanicsOnDrop))),
            None::<()>
        );
    }
}
