//! A gate for work that any thread may request, but only one thread runs at a time.
//!
//! A lock would deadlock here, because the work can be requested from inside itself, for example by
//! a waker that fires while it is being registered.

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::const_unless_model;

/// Runs a closure on one thread at a time, and again if it was requested meanwhile.
pub(crate) struct RerunGate {
    /// The number of requests since the gate was last free. Zero means that no thread is running.
    requests: AtomicU32,
}

impl RerunGate {
    const_unless_model! {
        pub(crate) fn new() -> Self {
            Self { requests: AtomicU32::new(0) }
        }
    }

    /// Requests a run of `work`.
    ///
    /// If no thread is running, the caller runs `work`. Otherwise the running thread runs its own
    /// closure once more. In both cases a complete run starts after this call. `work` must not
    /// panic, or the gate would stay occupied.
    pub(crate) fn run(&self, mut work: impl FnMut()) {
        // AcqRel pairs with the compare_exchange below: the running thread sees everything that
        // happened before the request.
        if self.requests.fetch_add(1, AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            work();
            match self.requests.compare_exchange(seen, 0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::RerunGate;

    #[test]
    fn request_from_inside_causes_another_run() {
        let gate = RerunGate::new();
        let mut runs = 0;
        gate.run(|| {
            runs += 1;
            if runs < 3 {
                gate.run(|| unreachable!("the outer call is running"));
            }
        });
        assert_eq!(runs, 3);
        gate.run(|| runs += 1);
        assert_eq!(runs, 4, "the gate was free again");
    }
}
