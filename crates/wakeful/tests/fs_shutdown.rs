//! Operations whose future was dropped, and later operations on the same file.

use std::fs::Permissions;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use wakeful::fs::{self, File, FileTimes};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use wakeful::runtime::Builder;
use wakeful::sync::Semaphore;

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{BACKENDS, Folder, current_thread, everywhere, evict, filled, multi_thread};

/// Polls a future once, with a budget that lets it begin. True: it is ready.
async fn once(future: impl Future) -> bool {
    wakeful::task::yield_now().await;
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// All operations that wait for the end of a dropped read are woken.
#[test]
fn several_wait_for_a_read_that_was_given_up() {
    everywhere(|_folder| async {
        let (read, mut write) = std::io::pipe().unwrap();
        let mut file = File::from(std::os::fd::OwnedFd::from(read));
        assert!(!once(file.read(&mut [0; 4])).await);
        let file = Arc::new(file);
        let waiting = Arc::new(Semaphore::new(0));
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let (file, waiting) = (file.clone(), waiting.clone());
                wakeful::spawn(async move {
                    let mut sync = pin!(file.sync_all());
                    assert!(poll_fn(|cx| Poll::Ready(sync.as_mut().poll(cx).is_pending())).await);
                    waiting.add_permits(1);
                    sync.await.expect_err("a pipe has no disk");
                })
            })
            .collect();
        waiting.acquire_many(3).await.unwrap().forget();
        write.write_all(b"text").unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        let mut file = Arc::into_inner(file).unwrap();
        let mut text = [0; 4];
        file.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"text", "what the read has brought is kept");
    });
}

fn at_second(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

fn times(second: u64) -> FileTimes {
    FileTimes::new().set_modified(at_second(second))
}

/// An awaited operation runs after the operations that were started before it and dropped.
#[test]
fn a_later_operation_runs_later() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file =
            File::options().read(true).write(true).create(true).open(&path).await.unwrap();
        let big = vec![1; 2 << 20];
        for round in 0..10 {
            once(file.write_at(&big, 0)).await;
            file.set_len(10).await.unwrap();
            assert_eq!(file.metadata().await.unwrap().len(), 10, "in round {round}");

            once(file.set_len(0)).await;
            assert_eq!(file.write_at(b"text", 0).await.unwrap(), 4);
            assert_eq!(file.metadata().await.unwrap().len(), 4, "in round {round}");

            once(file.allocate(0, 1 << 20)).await;
            file.set_len(3).await.unwrap();
            assert_eq!(file.metadata().await.unwrap().len(), 3, "in round {round}");

            once(file.set_len(0)).await;
            file.rewind().await.unwrap();
            file.write_all(b"more text").await.unwrap();
            file.flush().await.unwrap();
            let mut text = [0; 9];
            file.read_exact_at(&mut text, 0).await.unwrap();
            assert_eq!(&text, b"more text", "in round {round}");

            let (earlier, later) = (times(u64::from(round)), times(1000));
            once(file.set_times(earlier)).await;
            file.set_times(later).await.unwrap();
            let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
            assert_eq!(modified, at_second(1000), "in round {round}");

            once(file.set_permissions(Permissions::from_mode(0o400))).await;
            file.set_permissions(Permissions::from_mode(0o640)).await.unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640, "in round {round}");

            once(file.write_all_at(&[round; 1000], 0)).await;
            file.rewind().await.unwrap();
            let mut text = [0; 1000];
            file.read_exact(&mut text).await.unwrap();
            assert_eq!(text, [round; 1000]);
        }
    });
}

/// `into_std` returns the file when no operation uses it any more, also after dropped futures.
#[test]
fn a_file_is_returned_after_dropped_operations() {
    everywhere(|folder| async move {
        for kind in 0..6u8 {
            let (path, data) = filled(&folder, "a", 1 << 20);
            let mut options = File::options();
            let file = options.read(true).write(true).open(&path).await.unwrap();
            file.write_all_at(&data, 0).await.unwrap();
            evict(&path);
            match kind {
                0 => once(file.sync_all()).await,
                1 => once(file.write_at(&data, 10)).await,
                2 => once(file.read_at(&mut [0; 1000], 500_000)).await,
                3 => once(file.set_len(5)).await,
                4 => {
                    once(file.set_permissions(std::fs::metadata(&path).unwrap().permissions()))
                        .await
                }
                _ => {
                    let mut forgotten = Box::pin(file.sync_all());
                    let ready =
                        poll_fn(|cx| Poll::Ready(forgotten.as_mut().poll(cx).is_ready())).await;
                    std::mem::forget(forgotten);
                    ready
                }
            };
            let std = file.into_std().await;
            let expected = match kind {
                1 => data.len() as u64 + 10,
                3 => 5,
                _ => data.len() as u64,
            };
            assert_eq!(std.metadata().unwrap().len(), expected);
        }
    });
}

/// Started changes complete although their futures are dropped and the runtime shuts down.
#[test]
fn started_changes_complete_although_the_runtime_shuts_down() {
    for backend in BACKENDS {
        for runtime in [current_thread(backend), multi_thread(backend, 2)] {
            let folder = Folder::new();
            let (path, _) = filled(&folder, "a", 100);
            let named = path.clone();
            let begin = runtime.spawn(async move {
                let file = File::open(&named).await.unwrap();
                once(file.set_times(times(7))).await;
                once(fs::set_permissions(&named, Permissions::from_mode(0o604))).await;
            });
            runtime.block_on(begin).unwrap();
            drop(runtime);
            let metadata = std::fs::metadata(&path).unwrap();
            assert_eq!(metadata.modified().unwrap(), at_second(7));
            assert_eq!(metadata.permissions().mode() & 0o777, 0o604);
        }
    }
}

/// A thread outside the runtime waits for a change whose future was dropped inside. The wait ends, although the thread
/// that drives the runtime waits for that thread.
#[test]
fn a_change_that_was_given_up_is_waited_for_outside() {
    for backend in BACKENDS {
        let (runtime, folder) = (current_thread(backend), Folder::new());
        let (path, handle) = (folder.join("a"), runtime.handle().clone());
        runtime.block_on(async {
            let file = File::create(&path).await.unwrap();
            once(file.write_at(&vec![1; 2 << 20], 0)).await;
            std::thread::scope(|scope| {
                let outside = scope.spawn(|| handle.block_on(file.set_len(10)));
                outside.join().unwrap().unwrap();
            });
        });
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 10);
    }
}

/// The runtime closes with a write in flight, and no thread of its pool starts. Catches a write that no thread
/// completes: the pipe would stay open for good, and with it the ring and the runtime.
#[test]
fn files_are_closed_although_no_thread_of_the_pool_starts() {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().on_thread_start(|| resume_unwind(Box::new("no thread")));
    let runtime = builder.build().unwrap();
    let (mut read, mut write) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&write, true).unwrap();
    while write.write(&[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&write, false).unwrap();
    runtime.block_on(async {
        let mut file = File::from(std::os::fd::OwnedFd::from(write));
        once(file.write(b"last")).await;
    });
    runtime.shutdown_background();
    rustix::io::ioctl_fionbio(&read, true).unwrap();
    let (mut text, began) = (Vec::new(), Instant::now());
    while read.read_to_end(&mut text).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "the pipe is still open");
        std::thread::yield_now();
    }
}
