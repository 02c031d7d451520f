//! Files: a folder of them, read at once.

use std::path::{Path, PathBuf};

use wakeful::fs;
use wakeful::io;
use wakeful::task::JoinSet;
use wakeful::time::{Duration, Instant};

use crate::guide::{Guide, runtime};

/// How many files there are.
const FILES: usize = 1_000;

/// A folder that goes with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("wakeful-tour-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One task per file writes it.
async fn fill(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder).await?;
    let mut tasks = JoinSet::new();
    for number in 0..FILES {
        let path = folder.join(format!("{number}.txt"));
        tasks.spawn(async move { fs::write(path, number.to_string()).await });
    }
    tasks.join_all().await.into_iter().collect()
}

/// One task per file reads it; gives the sum of the numbers in them.
async fn read_all(folder: &Path) -> io::Result<usize> {
    let mut tasks = JoinSet::new();
    let mut entries = fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        tasks.spawn(async move { fs::read_to_string(entry.path()).await });
    }
    let mut sum = 0;
    while let Some(text) = tasks.join_next().await {
        let text = text.map_err(io::Error::other)??;
        sum += text.parse::<usize>().map_err(io::Error::other)?;
    }
    Ok(sum)
}

/// What came of it.
struct Visit {
    sum: usize,
    took: Duration,
    error: io::Error,
}

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "A folder of files at once",
        "A thousand files are written and then read, one task each. What the system still has in
         memory is taken from there on the spot, without another thread; the rest goes through
         io_uring where it is there. An error is the operating system's own.",
        |page| {
            let (rt, folder) = (runtime(2), Folder::new());
            let visit = rt.block_on(async {
                fill(&folder.0).await?;
                let before = Instant::now();
                let sum = read_all(&folder.0).await?;
                let took = before.elapsed();
                let missing = fs::read(folder.0.join("missing.txt")).await;
                let error = missing.err().unwrap_or_else(|| io::Error::other("it is there"));
                io::Result::Ok(Visit { sum, took, error })
            });
            let backend = rt.metrics().file_backend();
            page.show(format!("what has to wait goes to: {backend:?}"));
            match visit {
                Ok(Visit { sum, took, error }) => {
                    page.show(format!(
                        "{FILES} files, whose numbers add up to {sum}, in {took:.1?}"
                    ));
                    page.show(&error);
                    page.expect(sum == FILES * (FILES - 1) / 2, "every file was read");
                    page.expect(error.kind() == io::ErrorKind::NotFound, "one was not there");
                    page.expect(
                        error.raw_os_error() == Some(libc::ENOENT),
                        "with the system's number",
                    );
                }
                Err(error) => page.expect(false, &format!("the folder can be read: {error}")),
            }
        },
    );
}
