//! How a runtime executes file operations: through io_uring or on the blocking pool.

use crate::driver::uring::Ring;
use crate::runtime::inner::{Flavor, RuntimeInner};
use crate::runtime::task_api::blocking::spawn_internal;
use crate::runtime::uring_keeper::gate::KeeperGate;
use crate::scheduler::multi_thread::worker;
use crate::sys::unwind::catch_and_forget;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Rings with operations in flight; the drop waits until the kernel has completed the operations.
///
/// A closure that owns this value completes the operations even if the pool never runs it. That
/// happens if the pool is closed or cannot start a thread.
struct BusyRings(Vec<Arc<Ring>>);

impl Drop for BusyRings {
    fn drop(&mut self) {
        self.0.iter().for_each(|ring| ring.drain());
    }
}

/// The way in which file operations are executed; a setting of
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
    /// Serves cached data of local file systems on the calling thread, and uses io_uring otherwise.
    ///
    /// Operations that io_uring does not support use the blocking pool. If the kernel lacks or
    /// forbids io_uring, all operations that the page cache cannot serve use the pool.
    #[default]
    Auto,
    /// Uses io_uring for every operation that it supports, even for data in the page cache.
    ///
    /// Other operations use the blocking pool. If the kernel lacks or forbids io_uring, all
    /// operations do.
    Uring,
    /// Uses the blocking pool for every operation.
    Pool,
}

impl FileBackend {
    /// The environment variable that applies if the builder sets no backend.
    const VARIABLE: &'static str = "WAKEFUL_FILE_BACKEND";

    /// Returns the backend set by the environment variable, which is read once.
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

    /// Returns the ring of this thread's worker, or `None` if operations use the blocking pool.
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        if self.files.backend == FileBackend::Pool || !self.has_io() || !self.is_driven_here() {
            return None;
        }
        let (poller, _) = self.poller().ok()?;
        poller.ring_or_init(|| Ring::new(self.config().max_blocking_threads))
    }

    /// Returns the backend of operations that the page cache cannot serve: `Uring` or `Pool`.
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
    /// Waits for the operations on this thread, or on a thread of the pool if `on_pool`. If the
    /// pool accepts no closure, this thread waits in any case.
    ///
    /// A runtime that shuts down calls this twice:
    ///
    /// - `Runtime::shut_down`, after its limit. Workers may still be in a poll, which may submit
    ///   another operation.
    /// - The last worker, after all workers have exited and the tasks are dropped
    ///   (`MultiThread::drop_tasks`). After that, no thread submits an operation to a ring. Without
    ///   this call, a ring, its files and its runtime would leak.
    pub(super) fn complete_file_ops(self: &Arc<Self>, on_pool: bool) {
        let rings = self.busy_rings();
        if !on_pool || rings.0.is_empty() {
            return drop(rings);
        }
        // If the pool cannot start a thread, it drops the closure and panics. The caller is
        // shutting down and ignores the panic.
        let begin = || spawn_internal(self, move || drop(rings), Some("files"), true);
        drop(catch_and_forget(begin));
    }
}
