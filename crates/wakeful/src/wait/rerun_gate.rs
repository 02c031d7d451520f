//! Work that is asked for from anywhere, and done by one at a time: also by one who is woken
//! while it registers its own waker, where waiting for a lock would be for ever.

use crate::sys::sync::atomic::{AtomicU32, Ordering::*};
use crate::sys::sync::const_unless_model;

/// How often it was asked for since nobody is at it; 0: nobody is.
pub(crate) struct RerunGate(AtomicU32);

impl RerunGate {
    const_unless_model! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Does the work, unless somebody is at it: then that one does it once more. Either way it is
    /// done, from the beginning, after this was called. It must not panic.
    pub(crate) fn run(&self, mut work: impl FnMut()) {
        // AcqRel, here and below: the one who is at it sees what was done before it was asked.
        if self.0.fetch_add(1, AcqRel) > 0 {
            return;
        }
        let mut asked = 1;
        loop {
            work();
            match self.0.compare_exchange(asked, 0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => asked = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::RerunGate;

    #[test]
    fn whoever_asks_from_inside_has_it_done_again() {
        let again = RerunGate::new();
        let mut done = 0;
        again.run(|| {
            done += 1;
            if done < 3 {
                again.run(|| unreachable!("somebody is at it"));
            }
        });
        assert_eq!(done, 3);
        again.run(|| done += 1);
        assert_eq!(done, 4, "nobody was");
    }
}
