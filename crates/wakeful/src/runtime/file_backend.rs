//! How a runtime's operations on files are carried out.

use crate::driver::uring::Ring;
use crate::runtime::inner::{Flavor, Shared};
use crate::runtime::task_api::blocking::spawn_blocking_on;
use crate::runtime::uring_keeper::gate::KeeperGate;
use crate::scheduler::multi_thread::worker;
use crate::sys::unwind::catch_and_forget;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rings with operations in flight.
///
/// Dropping it waits until the kernel has completed them. So a closure that owns it does that
/// also if no thread of the pool runs it: the pool is closed, or none of its threads starts.
struct BusyRings(Vec<Arc<Ring>>);

impl Drop for BusyRings {
    fn drop(&mut self) {
        self.0.iter().for_each(|ring| ring.drain());
    }
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
    pub(super) attendance: KeeperGate,
}

impl Files {
    pub(super) fn new(backend: FileBackend) -> Self {
        Self {
            backend,
            in_rings: AtomicU64::new(0),
            in_pool: AtomicU64::new(0),
            attendance: KeeperGate::new(),
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
    pub(crate) fn is_driven_here(&self) -> bool {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.is_held_here(),
            Flavor::Multi(scheduler) => worker::index(scheduler).is_some(),
        }
    }

    /// The ring of this thread's worker. None: the pool does it.
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        if self.files.backend == FileBackend::Pool || !self.has_io() || !self.is_driven_here() {
            return None;
        }
        let (poller, _) = self.poller().ok()?;
        poller.ring_or_init(|| Ring::new(self.config().max_blocking_threads))
    }

    /// Who carries out operations that cannot be done at once: `Uring` or `Pool`.
    pub(super) fn file_backend(&self) -> FileBackend {
        if self.files.backend != FileBackend::Pool && self.has_io() {
            let pollers = self.pollers();
            let made = pollers.iter().find(|poller| poller.ring_was_tried());
            let there = match made {
                Some(poller) => poller.existing_ring().is_some(),
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
    fn busy_rings(&self) -> BusyRings {
        let rings = self.pollers().into_iter().filter_map(|poller| poller.existing_ring());
        BusyRings(rings.filter(|ring| ring.is_busy()).cloned().collect())
    }

    /// Completes the operations of all rings, which no worker turns any more.
    ///
    /// Waits for them, or lets a thread of the pool do so. The caller waits also if the pool
    /// takes no closure.
    ///
    /// A runtime that closes calls this twice:
    /// - `Runtime::shut_down`, after its limit. Workers may still be in a poll, which may begin
    ///   another operation.
    /// - The last worker, when all have left their seats and the tasks are dropped
    ///   (`MultiThread::drop_tasks`). No thread begins an operation on a ring after that. Without
    ///   this call, a ring, its files and its runtime would stay for good.
    pub(super) fn land_files(self: &Arc<Self>, on_pool: bool) {
        let rings = self.busy_rings();
        if !on_pool || rings.0.is_empty() {
            return drop(rings);
        }
        // A pool without a thread panics after it has dropped the closure. A runtime that
        // closes does not pass that on.
        let begin = || spawn_blocking_on(self, move || drop(rings), Some("files"), true);
        drop(catch_and_forget(begin));
    }
}
