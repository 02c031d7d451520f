//! The future of `block_on`, as far as it is like a task: it waits for things,
//! holds things and spawns tasks. It has no cell; what can be told of it is here.

use super::header::WaitingOn;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Marks the number of a root, which is no [`Id`](super::Id).
const ROOT: u64 = 1 << 63;

/// Whether this is the number of a root and not of a task.
#[inline]
pub(crate) fn is_root(id: u64) -> bool {
    id & ROOT != 0
}

/// What is known of one thread's `block_on`. Written by that thread, read by anybody.
pub(crate) struct RootNote {
    /// Counts down from the end of 32 bits, so that it shares its lower half, which
    /// is what tasks remember of their parent, with no task.
    pub(crate) id: u64,
    pub(crate) waiting: WaitingOn,
    pub(crate) polls: AtomicU32,
    /// Milliseconds of the runtime's clock when it first had to wait.
    pub(crate) born_ms: AtomicU32,
    /// Where `block_on` was called; null before.
    site: AtomicPtr<Location<'static>>,
    /// The data of the waker that this root is polled with.
    waker: AtomicPtr<()>,
    /// Tells the scheduler whose `block_on` it is from others; null between two.
    home: AtomicPtr<()>,
    polled: AtomicBool,
}

impl RootNote {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(u32::MAX as u64);
        Self {
            id: ROOT | NEXT.fetch_sub(1, Relaxed) & u64::from(u32::MAX),
            waiting: WaitingOn::nothing(),
            polls: AtomicU32::new(0),
            born_ms: AtomicU32::new(0),
            site: AtomicPtr::new(ptr::null_mut()),
            waker: AtomicPtr::new(ptr::null_mut()),
            home: AtomicPtr::new(ptr::null_mut()),
            polled: AtomicBool::new(false),
        }
    }

    /// One `block_on` begins, of the scheduler `home`.
    pub(crate) fn begin(&self, site: &'static Location<'static>, home: *const ()) {
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        self.waiting.clear();
        self.polls.store(0, Relaxed);
        self.home.store(home.cast_mut(), Relaxed);
    }

    /// It ends.
    pub(crate) fn end(&self) {
        self.home.store(ptr::null_mut(), Relaxed);
    }

    /// Whether it is a `block_on` of this scheduler.
    pub(crate) fn is_of(&self, home: *const ()) -> bool {
        ptr::eq(self.home.load(Relaxed), home)
    }

    pub(super) fn set_polled(&self, polled: bool) {
        self.polled.store(polled, Relaxed);
    }

    pub(crate) fn is_polled(&self) -> bool {
        self.polled.load(Relaxed)
    }

    pub(crate) fn set_waker(&self, data: *const ()) {
        self.waker.store(data.cast_mut(), Relaxed);
    }

    pub(super) fn is_waker(&self, data: *const ()) -> bool {
        ptr::eq(self.waker.load(Relaxed), data)
    }

    pub(super) fn count_poll(&self) {
        self.polls.store(self.polls.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(crate) fn site(&self) -> Option<&'static Location<'static>> {
        // SAFETY: only `begin` stores here, and only `&'static`s.
        unsafe { self.site.load(Relaxed).as_ref() }
    }
}
