//! Support for tests of files: every kind of runtime with every backend, and a temporary folder.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::path::PathBuf;

use wakeful::runtime::{Builder, FileBackend, OrphanPolicy};

use super::runtimes::{TestRuntime, watch};
pub use super::sockets::Folder;

pub const BACKENDS: [FileBackend; 3] = [FileBackend::Auto, FileBackend::Uring, FileBackend::Pool];

/// Returns a runtime of one kind with one file backend.
pub fn with(backend: FileBackend, builder: &mut Builder) -> TestRuntime {
    builder.enable_all().file_backend(backend).on_orphan(OrphanPolicy::Panic);
    // The tests use std's file functions in their tasks, which block while the disk works.
    watch("files", builder.report_blocked_after(None))
}

pub fn current_thread(backend: FileBackend) -> TestRuntime {
    with(backend, &mut Builder::new_current_thread())
}

pub fn multi_thread(backend: FileBackend, workers: usize) -> TestRuntime {
    with(backend, Builder::new_multi_thread().worker_threads(workers))
}

/// Runs a test as a task, since only tasks use rings, on every kind of runtime with every backend.
pub fn everywhere<F>(test: impl Fn(Folder) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for backend in BACKENDS {
        for runtime in [current_thread(backend), multi_thread(backend, 1), multi_thread(backend, 2)]
        {
            let task = runtime.spawn(test(Folder::new()));
            runtime.block_on(task).unwrap_or_else(|error| panic!("with {backend:?}: {error}"));
        }
    }
}

/// Runs a test as the `block_on` future, whose thread is not a worker of a multi-thread runtime.
pub fn everywhere_outside<F: Future<Output = ()>>(test: impl Fn(Folder) -> F) {
    for backend in BACKENDS {
        for runtime in [current_thread(backend), multi_thread(backend, 2)] {
            runtime.block_on(test(Folder::new()));
        }
    }
}

/// Creates a file with `len` bytes of a pattern, and returns its path and the bytes.
pub fn filled(folder: &Folder, name: &str, len: usize) -> (PathBuf, Vec<u8>) {
    let path = folder.join(name);
    let data: Vec<u8> = (0..len).map(|at| (at / 251 + at % 251) as u8).collect();
    std::fs::write(&path, &data).unwrap();
    (path, data)
}

/// Evicts a file from the page cache.
pub fn evict(path: &std::path::Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Returns whether this process can use io_uring.
pub fn has_uring() -> bool {
    current_thread(FileBackend::Uring).metrics().file_backend() == FileBackend::Uring
}
