//! Support for tests of sockets: runtimes with I/O, and a temporary folder for their paths.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

use wakeful::runtime::{Builder, OrphanPolicy};

use super::runtimes::{TestRuntime, watch};

/// Returns a runtime of every kind, with I/O.
pub fn runtimes() -> [TestRuntime; 3] {
    let multi = |workers| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).enable_all().on_orphan(OrphanPolicy::Panic);
        watch("multi_thread", &mut builder)
    };
    [current_thread(), multi(1), multi(2)]
}

pub fn current_thread() -> TestRuntime {
    let mut current = Builder::new_current_thread();
    watch("current_thread", current.enable_all().on_orphan(OrphanPolicy::Panic))
}

/// A new folder, which is removed with its content on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let name = format!("wakeful-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
            let folder = std::env::temp_dir().join(name);
            match std::fs::create_dir(&folder) {
                Ok(()) => return Self(folder),
                // A folder was left by an earlier process with the same id that was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("the folder for temporary files cannot be written: {error}"),
            }
        }
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Polls once, with the waker of the current task.
pub async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
