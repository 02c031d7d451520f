//! How a runtime's operations on files are carried out.

#[cfg(target_os = "linux")]
use super::attendance::Attendance;
#[cfg(target_os = "linux")]
use super::blocking::spawn_blocking_on;
use super::shared::{Flavor, Shared};
#[cfg(target_os = "linux")]
use crate::driver::uring::Ring;
#[cfg(target_os = "linux")]
use crate::scheduler::worker;
#[cfg(target_os = "linux")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Waits until no ring has an operation any more.
#[cfg(target_os = "linux")]
fn drain(rings: &[Arc<Ring>]) {
    rings.iter().for_each(|ring| ring.drain());
}

/// Who carries out operations on files; see
/// [`Builder::file_backend`](super::Builder::file_backend).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FileBackend {
    /// What the kernel has in memory of local file systems is taken from there at once,
    /// on the thread that asks; everything else that io_uring can do goes there, if it is there
    /// and permitted, and to the blocking pool if it is not.
    #[default]
    Auto,
    /// Everything that io_uring can do goes through it, even what could be had at
    /// once; the rest goes to the blocking pool, and so does everything where
    /// io_uring is missing or forbidden.
    Uring,
    /// Everything goes to the blocking pool.
    Pool,
}

impl FileBackend {
    /// The name of the variable of the environment that chooses.
    const VARIABLE: &'static str = "WAKEFUL_FILE_BACKEND";

    /// What the environment says, if the builder says nothing.
    ///
    /// # Panics
    ///
    /// If the environment names something else.
    #[track_caller]
    pub(super) fn from_env() -> Self {
        let Ok(value) = std::env::var(Self::VARIABLE) else { return Self::Auto };
        match &*value.to_ascii_lowercase() {
            "auto" | "" => Self::Auto,
            "uring" => Self::Uring,
            "pool" => Self::Pool,
            _ => panic!("\"{}\" must be auto, uring or pool, but it is {value:?}", Self::VARIABLE),
        }
    }
}

/// What a runtime knows about its operations on files.
pub(crate) struct Files {
    pub(crate) backend: FileBackend,
    /// Operations that went through rings.
    pub(crate) in_rings: AtomicU64,
    /// Operations that went to the pool.
    pub(crate) in_pool: AtomicU64,
    #[cfg(target_os = "linux")]
    pub(super) attendance: Attendance,
}

impl Files {
    pub(super) fn new(backend: FileBackend) -> Self {
        Self {
            backend,
            in_rings: AtomicU64::new(0),
            in_pool: AtomicU64::new(0),
            #[cfg(target_os = "linux")]
            attendance: Attendance::new(),
        }
    }

    pub(crate) fn count_ring(&self) {
        self.in_rings.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_pool(&self) {
        self.in_pool.fetch_add(1, Relaxed);
    }
}

impl Shared {
    /// Whether this thread drives tasks here, and so finds what a ring completes.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_driven_here(&self) -> bool {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.is_held_here(),
            Flavor::Multi(scheduler) => worker::index(scheduler).is_some(),
        }
    }

    /// The ring of this thread's worker. None: the pool does it.
    #[cfg(target_os = "linux")]
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        if self.files.backend == FileBackend::Pool || !self.has_io() || !self.is_driven_here() {
            return None;
        }
        let (poller, _) = self.poller().ok()?;
        poller.ring(|| Ring::new(self.config().max_blocking_threads))
    }

    /// Who carries out operations that cannot be done at once: `Uring` or `Pool`.
    pub(super) fn file_backend(&self) -> FileBackend {
        #[cfg(target_os = "linux")]
        if self.files.backend != FileBackend::Pool && self.has_io() {
            let pollers = self.pollers();
            let made = pollers.iter().find(|poller| poller.is_ring_made());
            let there = match made {
                Some(poller) => poller.made_ring().is_some(),
                // Nobody needed one yet: try.
                None => Ring::new(1).is_ok(),
            };
            if there {
                return FileBackend::Uring;
            }
        }
        FileBackend::Pool
    }

    /// The rings that have operations.
    #[cfg(target_os = "linux")]
    fn busy_rings(&self) -> Vec<Arc<Ring>> {
        let rings = self.pollers().into_iter().filter_map(|poller| poller.made_ring());
        rings.filter(|ring| ring.is_busy()).cloned().collect()
    }

    /// The tasks are gone, and nobody looks at the rings any more: brings what is
    /// under way to its end. With a limit, on a thread of the pool, which carries
    /// on when the limit has passed.
    pub(super) fn land_files(self: &Arc<Self>, has_limit: bool) {
        #[cfg(target_os = "linux")]
        {
            let rings = self.busy_rings();
            if rings.is_empty() {
                return;
            }
            let drain = move || drain(&rings);
            if has_limit {
                spawn_blocking_on(self, drain, Some("files"), true);
            } else {
                drain();
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = has_limit;
    }

    /// The workers are gone, but a thread that blocks in place may wait for an operation of a ring
    /// that one of them has begun: brings it to its end on a thread of the pool.
    pub(super) fn land_files_beside(self: &Arc<Self>) {
        #[cfg(target_os = "linux")]
        {
            let rings = self.busy_rings();
            if rings.is_empty() {
                return;
            }
            // A pool that is closed, or has no thread, panics or cancels: then it is done here.
            let on_pool = rings.clone();
            let begin = || {
                spawn_blocking_on(self, move || drain(&on_pool), Some("files"), true).is_finished()
            };
            let is_refused = catch_unwind(AssertUnwindSafe(begin)).unwrap_or(true);
            if is_refused {
                drain(&rings);
            }
        }
    }
}
