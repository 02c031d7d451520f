//! A pair of memory barriers: a cheap one for the frequent side, an expensive one for the rare
//! side.
//!
//! Two threads that each store one flag and then load the other's need a full fence in between, on
//! both sides. If one side runs on every wake-up and the other only rarely, the cost can move to
//! the rare side. [`Barriers::light`] is then only a compiler fence. [`Barriers::heavy`] calls
//! `membarrier(2)`: the kernel executes a full fence on every core that runs a thread of this
//! process. Without that system call both are an ordinary full fence, and the pairing is the same.

use crate::sys::sync::atomic::{Ordering, fence};

/// The kind of barriers that this process uses. Detected once, then copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barriers {
    asymmetric: bool,
}

impl Barriers {
    /// Detects the kind of barriers. The first call registers the process with the kernel.
    pub(crate) fn detect() -> Self {
        Self { asymmetric: imp::register() }
    }

    /// The cheap barrier, for the frequent side.
    #[inline(always)]
    pub(crate) fn light(self) {
        if self.asymmetric {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The expensive barrier, for the rare side.
    ///
    /// # Panics
    ///
    /// If the kernel refuses the call, because the process has entered a sandbox since `detect`.
    pub(crate) fn heavy(self) {
        assert!(
            self.try_heavy(),
            "the kernel accepted the membarrier registration but refuses the barrier itself: let \
             the sandbox allow membarrier, or set it up before the runtime"
        );
    }

    /// The expensive barrier. Returns false if the kernel refuses the call, so that no barrier
    /// took place.
    #[must_use]
    pub(crate) fn try_heavy(self) -> bool {
        if self.asymmetric {
            return imp::run();
        }
        fence(Ordering::SeqCst);
        true
    }
}

/// A full fence in loom models, and nothing in other builds.
///
/// loom treats SeqCst accesses as weaker than they are. Call this between two of them.
#[inline(always)]
pub(crate) fn fence_in_models() {
    if super::IS_MODEL {
        fence(Ordering::SeqCst);
    }
}

#[cfg(not(any(all(test, loom), miri)))]
mod imp {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::OnceLock;

    pub(super) fn register() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
    }

    pub(super) fn run() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

// Neither loom nor Miri knows the system call.
#[cfg(any(all(test, loom), miri))]
mod imp {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn run() -> bool {
        unreachable!("only called if `register` returned true")
    }
}
