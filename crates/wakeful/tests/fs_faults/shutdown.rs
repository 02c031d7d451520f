//! Operations under way when their runtime shuts down, or when no thread drives their ring.

use std::future::poll_fn;
use std::io::{self, SeekFrom};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wakeful::fs::{self, File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use wakeful::runtime::{Builder, FileBackend};

use super::{accept, both, never};
use crate::support::files::{
    BACKENDS, Folder, current_thread, everywhere, evict, filled, has_uring,
};
use crate::support::runtimes::TestRuntime;

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Drop,
    Timeout,
    Background,
}

/// The runtime shuts down amid a thousand operations of every kind. Accepted data reaches its file, and no completed
/// operation failed.
#[test]
fn a_runtime_goes_down_with_a_thousand_operations_under_way() {
    for backend in BACKENDS {
        for end in [End::Drop, End::Timeout, End::Background] {
            for runtime in both(backend) {
                go_down(runtime, end);
            }
        }
    }
}

/// Collects the failures of tasks that are not joined.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl Failures {
    /// Records a failure unless `work` returns `true` or the error of a runtime that has shut down. Then waits forever.
    async fn watch(self, what: &'static str, work: impl Future<Output = io::Result<bool>>) {
        let failure = match work.await {
            Ok(true) => None,
            Ok(false) => Some(format!("{what}: not what was expected")),
            Err(error) if error.to_string().contains("background task failed") => None,
            Err(error) => Some(format!("{what}: {error}")),
        };
        self.0.lock().unwrap().extend(failure);
        never().await;
    }
}

fn go_down(TestRuntime { runtime, reports, .. }: TestRuntime, end: End) {
    let folder = Folder::new();
    let (source, data) = filled(&folder, "source", 250 * 4096);
    evict(&source);
    let log = folder.join("log");
    let (root, log_name) = (folder.path().to_owned(), log.clone());
    let seen = Failures::default();
    let failures = seen.clone();
    let under_way = runtime.spawn(async move {
        let reader = Arc::new(File::open(&source).await.unwrap());
        let mut log = OpenOptions::new().append(true).create(true).open(log_name).await.unwrap();
        for number in 0..250usize {
            let (reader, root) = (reader.clone(), root.clone());
            let expected = data[number * 4096..][..4096].to_vec();
            wakeful::spawn(failures.clone().watch("read", async move {
                let mut page = vec![0; 4096];
                reader.read_exact_at(&mut page, number as u64 * 4096).await?;
                Ok(page == expected)
            }));
            let name = root.join(format!("new-{number}"));
            wakeful::spawn(failures.clone().watch("write", async move {
                let mut file = File::create(&name).await?;
                file.write_all(&[1; 1000]).await?;
                file.sync_all().await?;
                Ok(std::fs::read(&name)? == [1; 1000])
            }));
            let name = root.join(format!("folder-{number}"));
            wakeful::spawn(failures.clone().watch("folder", async move {
                fs::create_dir(&name).await?;
                let is_dir = fs::metadata(&name).await?.is_dir();
                fs::remove_dir(&name).await?;
                Ok(is_dir)
            }));
            accept(&mut log, &(number as u32).to_le_bytes());
            if number % 100 == 99 {
                wakeful::task::yield_now().await; // for a fresh budget
            }
        }
        wakeful::task::yield_now().await;
    });
    runtime.block_on(under_way).unwrap();
    match end {
        End::Drop => drop(runtime),
        End::Timeout => runtime.shutdown_timeout(Duration::from_secs(100)),
        End::Background => runtime.shutdown_background(),
    }
    let expected: Vec<u8> = (0..250u32).flat_map(u32::to_le_bytes).collect();
    while std::fs::read(&log).unwrap() != expected {
        assert!(end == End::Background, "accepted, and not there after {end:?}");
        std::thread::yield_now();
    }
    let seen = seen.0.lock().unwrap();
    assert!(seen.is_empty(), "{} failures, the first: {}", seen.len(), seen[0]);
    drop(reports);
}

/// A shutdown cancels a read that may never end, and a task that still waits for it gets an error.
#[test]
fn a_runtime_goes_down_with_a_read_that_does_not_end() {
    for backend in [FileBackend::Auto, FileBackend::Uring] {
        if !has_uring() {
            return; // a read on a thread cannot be cancelled
        }
        for runtime in both(backend) {
            let (read, write) = rustix::pipe::pipe().unwrap();
            let begin = async move {
                let mut file = File::from(read);
                let mut buf = [0; 4];
                let mut reading = pin!(file.read(&mut buf));
                let waits =
                    |cx: &mut Context<'_>| Poll::Ready(reading.as_mut().poll(cx).is_pending());
                assert!(poll_fn(waits).await);
                file
            };
            let mut file = runtime.block_on(runtime.spawn(begin)).unwrap();
            drop(runtime);
            let other = current_thread(FileBackend::Pool);
            let error = other.block_on(file.read(&mut [0; 4])).unwrap_err();
            assert_eq!(error.to_string(), "background task failed");
            drop(write);
        }
    }
}

/// Reads that are dropped at random times, followed at once by other reads into the same memory.
#[test]
fn reads_are_given_up_at_random() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 200 * 4096);
        let file = File::open(&path).await.unwrap();
        for round in 0..20usize {
            evict(&path);
            for at in 0..200usize {
                let block = (at * 37 + round) % 200;
                let mut page = [0xaa; 4096];
                {
                    let mut reading = pin!(file.read_at(&mut page, block as u64 * 4096));
                    let polled = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
                    if at % 3 == 0 && polled.is_pending() {
                        assert_eq!(reading.await.unwrap(), 4096);
                    } else if polled.is_pending() {
                        continue;
                    }
                }
                assert!(page == data[block * 4096..][..4096]);
            }
        }
    });
}

/// Operations that were started in `block_on` of a current-thread runtime complete while no thread drives it.
#[test]
fn a_ring_that_no_thread_drives_is_reaped() {
    for backend in BACKENDS {
        let (runtime, folder) = (current_thread(backend), Folder::new());
        let path = folder.join("a");
        let mut file = runtime.block_on(async {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .await
                .unwrap();
            accept(&mut file, &[1; 100_000]);
            file
        });
        runtime.handle().block_on(async {
            file.flush().await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), [1; 100_000]);
            assert_eq!(file.seek(SeekFrom::Start(99_999)).await.unwrap(), 99_999);
            assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 1);
        });
        evict(&path);
        let mut buf = [0; 50_000];
        let mut reading = Box::pin(file.read_at(&mut buf, 0));
        runtime.block_on(async {
            let _ = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_ready())).await;
        });
        drop(reading);
        // The dropped read may have filled the page cache in part, so a single read may be short.
        runtime.handle().block_on(file.read_exact_at(&mut buf, 0)).unwrap();
        assert!(buf == [1; 50_000]);
    }
}

/// Accepted writes reach the file after `block_on` has returned. They do not occupy the pool's only thread, not even
/// while a read in the ring does not end.
#[test]
fn accepted_writes_arrive_while_no_thread_drives() {
    for backend in BACKENDS {
        let mut builder = Builder::new_current_thread();
        let runtime = crate::support::files::with(backend, builder.max_blocking_threads(1));
        let folder = Folder::new();
        let path = folder.join("a");
        let (read, write) = rustix::pipe::pipe().unwrap();
        let in_ring = backend == FileBackend::Uring && has_uring();
        let never_read = runtime.block_on(async {
            let mut endless = File::from(read);
            if in_ring {
                let (mut buf, mut cx) = ([0; 1], Context::from_waker(Waker::noop()));
                assert!(pin!(endless.read(&mut buf)).poll(&mut cx).is_pending());
            }
            let mut file = File::create(&path).await.unwrap();
            for number in 1..=3 {
                accept(&mut file, &[number; 500_000]);
            }
            endless
        });
        while std::fs::metadata(&path).unwrap().len() < 1_500_000 {
            std::thread::yield_now();
        }
        let other = current_thread(FileBackend::Pool);
        other.block_on(runtime.spawn_blocking(|| ())).unwrap();
        drop((write, never_read));
    }
}

/// The kernel cancels the submissions of a thread that ends. Another thread carries them out.
#[test]
fn the_thread_that_submitted_is_gone() {
    for backend in BACKENDS {
        for _ in 0..20 {
            let (runtime, folder) = (current_thread(backend), Folder::new());
            let paths: Vec<PathBuf> = (0..20).map(|n| folder.join(&n.to_string())).collect();
            let names = paths.clone();
            let files: Vec<File> = std::thread::scope(|scope| {
                let begin = async {
                    let mut files = Vec::new();
                    for name in names {
                        let mut file = File::create(&name).await.unwrap();
                        accept(&mut file, &[3; 50_000]);
                        files.push(file);
                    }
                    files
                };
                scope.spawn(|| runtime.block_on(begin)).join().unwrap()
            });
            runtime.block_on(async {
                for mut file in files {
                    file.flush().await.unwrap();
                }
            });
            for path in paths {
                assert!(std::fs::read(path).unwrap() == [3; 50_000]);
            }
        }
    }
}
