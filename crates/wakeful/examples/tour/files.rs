//! A chapter that reads all files of a folder concurrently.

use std::path::{Path, PathBuf};

use wakeful::fs;
use wakeful::io;
use wakeful::task::JoinSet;
use wakeful::time::{Duration, Instant};

use crate::guide::{Guide, runtime};

/// The number of files.
const FILES: usize = 1_000;

/// A temporary folder, which is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("wakeful-tour-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the files, with one task per file.
async fn fill(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder).await?;
    let mut tasks = JoinSet::new();
    for number in 0..FILES {
        let path = folder.join(format!("{number}.txt"));
        tasks.spawn(async move { fs::write(path, number.to_string()).await });
    }
    tasks.join_all().await.into_iter().collect()
}

/// Reads the files, with one task per file, and returns the sum of the numbers in them.
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

/// The result of the chapter.
struct Visit {
    sum: usize,
    took: Duration,
    error: io::Error,
}

pub fn chapters(guide: &mut Guide) {
    guide.chapter(
        "A folder of files, concurrently",
        "A thousand files are written and then read, one task each. Data in the page cache is read
         at once, without another thread. Other reads use io_uring if the kernel has it. Errors are
         those of the operating system.",
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
