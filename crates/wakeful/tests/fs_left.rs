//! Operations on a file that nobody waits for any more, and what is done with the file after them.

use std::future::poll_fn;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use wakeful::fs::File;
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use wakeful::sync::Semaphore;

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{everywhere, evict, filled};

/// Polls a future once, with a budget that lets it begin. True: it is ready.
async fn once(future: impl Future) -> bool {
    wakeful::task::yield_now().await;
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// All who wait for the end of a read that was given up are told of it.
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

/// What is awaited comes after what was begun before, although nobody waits for that.
#[test]
fn what_comes_later_is_done_later() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file =
            File::options().read(true).write(true).create(true).open(path).await.unwrap();
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

            once(file.write_all_at(&[round; 1000], 0)).await;
            file.rewind().await.unwrap();
            let mut text = [0; 1000];
            file.read_exact(&mut text).await.unwrap();
            assert_eq!(text, [round; 1000]);
        }
    });
}

/// The file is given back when nobody else has it any more, whoever gave up waiting.
#[test]
fn a_file_is_given_back_after_what_nobody_waits_for() {
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
