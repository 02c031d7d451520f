//! Support for the tests of this folder: runtimes, and a time limit.
//!
//! Each test uses a published crate unchanged, and `tokio` as that crate does. The patch in
//! `Cargo.toml` replaces tokio by wakeful.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// The time limit of one program on one runtime. Only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a program on each kind of runtime, to its end.
pub fn on_every_runtime<F: Future<Output = ()>>(program: impl Fn() -> F) {
    bound_this_binary();
    for runtime in runtimes() {
        runtime.block_on(async {
            timeout(LIMIT, program()).await.expect("it is done long before the limit");
        });
    }
}

fn runtimes() -> [Runtime; 2] {
    let current = Builder::new_current_thread().enable_all().build();
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    [current.expect("it asks for nothing"), multi.expect("there are threads to be had")]
}

/// Ends the process if its threads hang and no timer of a runtime fires.
fn bound_this_binary() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            // The limit for a test that hangs; nothing waits for it to pass.
            std::thread::sleep(4 * LIMIT);
            eprintln!("still not done after {:?}", 4 * LIMIT);
            std::process::abort();
        });
    });
}

/// A new folder. Dropping it removes the folder with its content.
pub struct Folder(PathBuf);

impl Folder {
    #[expect(clippy::new_without_default, reason = "a folder is made, not filled in")]
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("wakeful-interop-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("the folder for temporary files can be written");
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
