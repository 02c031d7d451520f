//! A pair of memory barriers of very different weight.
//!
//! Two threads that each write one flag and then read the other's need a full
//! barrier between the write and the read, on both sides. Where one side runs
//! on every wake-up and the other only when something is wrong, the price can
//! be moved to the rare side: [`Barriers::light`] then only stops the compiler,
//! and [`Barriers::heavy`] asks the kernel (`membarrier`) to run a full barrier
//! on every core that runs a thread of this process. Where the kernel offers no
//! such call both are an ordinary full fence; the pairing is the same.

use crate::sys::sync::atomic::{Ordering, fence};

/// Which kind of barrier this process uses; asked once, then copied around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barriers {
    asymmetric: bool,
}

impl Barriers {
    /// Registers the process with the kernel on the first call.
    pub(crate) fn detect() -> Self {
        Self { asymmetric: imp::register() }
    }

    /// The cheap half, for the frequent side.
    #[inline(always)]
    pub(crate) fn light(self) {
        if self.asymmetric {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The dear half, for the rare side.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it after all: the process has come into a sandbox.
    pub(crate) fn heavy(self) {
        assert!(
            self.try_heavy(),
            "the kernel accepted the membarrier registration but refuses the barrier itself: let \
             the sandbox allow membarrier, or set it up before the runtime"
        );
    }

    /// The same; false: the kernel refuses it, and there was none.
    #[must_use]
    pub(crate) fn try_heavy(self) -> bool {
        if self.asymmetric {
            return imp::run();
        }
        fence(Ordering::SeqCst);
        true
    }
}

/// A full barrier in models, and nothing elsewhere: for between two steps that are SeqCst,
/// of which models make less than it is.
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
        unreachable!("only called where register() answered true")
    }
}
