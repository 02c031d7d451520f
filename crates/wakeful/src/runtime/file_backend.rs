//! How a runtime executes file operations: through io_uring or on the blocking pool.

use crate::driver::uring::Ring;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::task_api::blocking::spawn_internal;
use crate::runtime::uring_keeper::gate::KeeperGate;
use crate::scheduler::multi_thread::worker;
use crate::sys::unwind::catch_and_forget;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Rings with operations in flight. Dropping it waits until the kernel has completed them.
///
/// So a closure that owns it completes them also if no thread of the pool runs the closure. The pool
/// may be closed, or may have no thread and start none.
struct BusyRings(Vec<Arc<Ring>>);

impl Drop for BusyRings {
    fn drop(&mut self) {
        self.0.iter().for_each(|ring| ring.drain());
    }
}

/// How file operations are executed; a setting of
/// [`Builder::file_backend`](super::Builder::file_backend).
///
/// # Examples
///
/// ```
/// use wakeful::runtime::{Builder, FileBackend};
///
/// let runtime =
///     Builder::new_current_thread().enable_all().file_backend(FileBackend::Uring).build()?;
/// // The blocking pool, if the kernel lacks or forbids io_uring.
/// println!("{:?}", runtime.metrics().file_backend());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FileBackend {
    /// Serves cached data of local file systems on the calling thread; otherwise uses io_uring.
    ///
    /// Operations that io_uring does not know use the blocking pool. If the kernel lacks or forbids
    /// io_uring, all operations do that are not served from the page cache.
    #[default]
    Auto,
    /// Uses io_uring for every operation that it knows, also for data in the page cache.
    ///
    /// All else uses the blocking pool, and so does everything if the kernel lacks or forbids
    /// io_uring.
    Uring,
    /// Uses the blocking pool for every operation.
    Pool,
}

impl FileBackend {
    /// The environment variable that chooses if the builder does not.
    const VARIABLE: &'static str = "WAKEFUL_FILE_BACKEND";

    /// Returns the choice of the environment, which is read once.
    ///
    /// # Panics
    ///
    /// If the variable has an unknown value.
    #[track_caller]
    pub(super) fn from_env() -> Self {
        static VALUE: OnceLock<FileBackend> = OnceLock::new();
        if let Some(backend) = VALUE.get() {
            return *backend;
        }
        let value = std::env::var(Self::VARIABLE).unwrap_or_default();
        let backend = match &*value.to_ascii_lowercase() {
            "auto" | "" => Self::Auto,
            "uring" => Self::Uring,
            "pool" => Self::Pool,
            _ => panic!("\"{}\" must be auto, uring or pool, but it is {value:?}", Self::VARIABLE),
        };
        *VALUE.get_or_init(|| backend)
    }
}

/// The file backend of a runtime: the setting, counters and the gate of the io_uring keeper.
pub(crate) struct FileBackendState {
    pub(crate) backend: FileBackend,
    /// Operations that were submitted to io_uring.
    pub(crate) uring_ops: AtomicU64,
    /// Operations that were sent to the blocking pool.
    pub(crate) pool_ops: AtomicU64,
    pub(super) keeper_gate: KeeperGate,
}

impl FileBackendState {
    pub(super) fn new(backend: FileBackend) -> Self {
        Self {
            backend,
            uring_ops: AtomicU64::new(0),
            pool_ops: AtomicU64::new(0),
            keeper_gate: KeeperGate::new(),
        }
    }

    pub(crate) fn count_uring_op(&self) {
        self.uring_ops.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_pool_op(&self) {
        self.pool_ops.fetch_add(1, Relaxed);
    }
}

impl RuntimeInner {
    /// Returns whether this thread drives the runtime's tasks, and so processes completions.
    pub(crate) fn is_driven_here(&self) -> bool {
        match &self.flavor {
            Flavor::Current(scheduler) => scheduler.is_held_here(),
            Flavor::Multi(scheduler) => worker::index(scheduler).is_some(),
        }
    }

    /// Returns the ring of this thread's worker. `None`: the operation uses the blocking pool.
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        if self.files.backend == FileBackend::Pool || !self.has_io() || !self.is_driven_here() {
            return None;
        }
        let (poller, _) = self.poller().ok()?;
        poller.ring_or_init(|| Ring::new(self.config().max_blocking_threads))
    }

    /// Returns what executes operations that the page cache cannot serve: `Uring` or `Pool`.
    pub(super) fn file_backend(&self) -> FileBackend {
        if self.files.backend != FileBackend::Pool && self.has_io() {
            let pollers = self.existing_pollers();
            let tried = pollers.iter().find(|poller| poller.ring_was_tried());
            let is_available = match tried {
                Some(poller) => poller.existing_ring().is_some(),
                // No operation has needed a ring yet: try to create one.
                None => Ring::new(1).is_ok(),
            };
            if is_available {
                return FileBackend::Uring;
            }
        }
        FileBackend::Pool
    }

    /// Returns the rings that have operations in flight.
    fn busy_rings(&self) -> BusyRings {
        let rings = self.existing_pollers().into_iter().filter_map(|poller| poller.existing_ring());
        BusyRings(rings.filter(|ring| ring.is_busy()).cloned().collect())
    }

    /// Completes the operations of all rings, which no worker drives any more.
    ///
    /// Waits for them, or lets a thread of the pool wait if `on_pool`. The caller waits also if the
    /// pool takes no closure.
    ///
    /// A runtime that shuts down calls this twice:
    ///
    /// - `Runtime::shut_down`, after its limit. Workers may still be in a poll, which may submit
    ///   another operation.
    /// - The last worker, when all workers have left and the tasks are dropped
    ///   (`MultiThread::drop_tasks`). No thread submits an operation to a ring after that. Without
    ///   this call, a ring, its files and its runtime would leak.
    pub(super) fn complete_file_ops(self: &Arc<Self>, on_pool: bool) {
        let rings = self.busy_rings();
        if !on_pool || rings.0.is_empty() {
            return drop(rings);
        }
        // If the pool cannot start a thread, it drops the closure and panics. That does not
        // concern the caller, which shuts down.
        let begin = || spawn_internal(self, move || drop(rings), Some("files"), true);
        drop(catch_and_forget(begin));
    }
}
