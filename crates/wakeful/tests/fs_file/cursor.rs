//! The cursor of a file: offsets, seeks, clones, and reads that are dropped.

use std::future::poll_fn;
use std::io::{ErrorKind, SeekFrom};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use wakeful::fs::{File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use wakeful::runtime::{Builder, FileBackend};

use crate::support::files::{Folder, current_thread, everywhere, evict, filled, multi_thread};

#[test]
fn reads_at_offsets_leave_the_cursor_alone() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 100_000);
        evict(&path);
        let mut file = File::open(&path).await.unwrap();
        let mut part = [0; 100];
        file.read_exact_at(&mut part, 50_000).await.unwrap();
        assert_eq!(part, data[50_000..50_100]);
        assert_eq!(file.stream_position().await.unwrap(), 0);
        file.read_exact(&mut part).await.unwrap();
        assert_eq!(part, data[..100]);
        file.read_exact_at(&mut part, 200).await.unwrap();
        assert_eq!(part, data[200..300]);
        assert_eq!(file.stream_position().await.unwrap(), 100);

        assert_eq!(file.read_at(&mut part, 99_950).await.unwrap(), 50, "all there is");
        assert_eq!(file.read_at(&mut part, 100_000).await.unwrap(), 0, "at the end");
        let beyond = file.read_exact_at(&mut part, 99_950).await.unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
        let nowhere = file.read_at(&mut part, u64::MAX).await.unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::InvalidInput);
        assert_eq!(file.read_at(&mut [], 5).await.unwrap(), 0);
    });
}

#[test]
fn writes_at_offsets_leave_the_cursor_alone() {
    everywhere(|folder| async move {
        let (path, mut data) = filled(&folder, "a", 1_000);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
        assert_eq!(file.write_at(b"xyz", 100).await.unwrap(), 3);
        file.write_all_at(b"end", 1_000).await.unwrap();
        assert_eq!(file.stream_position().await.unwrap(), 0);
        file.write_all(b"start").await.unwrap();
        // The read comes after the accepted write, so it sees the data.
        let mut part = [0; 6];
        file.read_exact_at(&mut part, 0).await.unwrap();
        data[..5].copy_from_slice(b"start");
        assert_eq!(part, data[..6]);
        data[100..103].copy_from_slice(b"xyz");
        data.extend_from_slice(b"end");
        assert!(std::fs::read(&path).unwrap() == data);
    });
}

#[test]
fn a_seek_counts_from_where_the_reader_is() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 10_000);
        evict(&path);
        let mut file = File::open(&path).await.unwrap();
        let mut byte = [0; 1];
        file.read_exact(&mut byte).await.unwrap();
        assert_eq!(file.seek(SeekFrom::Current(9)).await.unwrap(), 10);
        file.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte[0], data[10]);
        assert_eq!(file.seek(SeekFrom::End(-1)).await.unwrap(), 9_999);
        file.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte[0], data[9_999]);
        let before = file.seek(SeekFrom::Current(-20_000)).await.unwrap_err();
        assert_eq!(before.kind(), ErrorKind::InvalidInput);
        assert_eq!(file.rewind().await.unwrap(), 0);
    });
}

/// A dropped read has moved the cursor. Its data is not lost, and a write goes to the reader's old position.
#[test]
fn a_dropped_read_loses_nothing() {
    everywhere(|folder| async move {
        let (path, mut data) = filled(&folder, "a", 1_000);
        evict(&path);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
        let mut first = [0; 100];
        {
            let mut reading = pin!(file.read(&mut first));
            let polled = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
            if let Poll::Ready(count) = polled {
                // The data was in the page cache after all.
                assert_eq!(count.unwrap(), 100);
                return;
            }
        }
        let mut few = [0; 10];
        file.read_exact(&mut few).await.unwrap();
        assert_eq!(few, data[..10]);
        file.write_all(b"here").await.unwrap();
        file.flush().await.unwrap();
        data[10..14].copy_from_slice(b"here");
        assert!(std::fs::read(&path).unwrap() == data);
    });
}

#[test]
fn a_clone_has_the_same_cursor() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 100);
        let mut file = File::open(&path).await.unwrap();
        file.set_max_buf_size(17);
        let mut clone = file.try_clone().await.unwrap();
        assert_eq!(clone.max_buf_size(), 17);
        let mut ten = [0; 10];
        file.read_exact(&mut ten).await.unwrap();
        clone.read_exact(&mut ten).await.unwrap();
        assert_eq!(ten, data[10..20]);
    });
}

/// Clones that write at the same time do not write over each other: one cursor moves for both.
#[test]
fn clones_that_write_at_once_lose_nothing() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let file = File::create(&path).await.unwrap();
        let mut tasks = Vec::new();
        for byte in 0..4u8 {
            let mut clone = file.try_clone().await.unwrap();
            tasks.push(wakeful::spawn(async move {
                for _ in 0..50 {
                    clone.write_all(&[byte; 1000]).await.unwrap();
                    clone.flush().await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let all = std::fs::read(&path).unwrap();
        assert_eq!(all.len(), 4 * 50 * 1000);
        for byte in 0..4u8 {
            assert_eq!(all.iter().filter(|other| **other == byte).count(), 50 * 1000);
        }
    });
}

#[test]
fn a_loop_of_seeks_gives_way() {
    for runtime in [current_thread(FileBackend::Auto), multi_thread(FileBackend::Auto, 1)] {
        let folder = Folder::new();
        let (path, _) = filled(&folder, "a", 10);
        let task = runtime.spawn(async move {
            let mut file = File::open(&path).await.unwrap();
            for step in 0..3 {
                let ran = Arc::new(AtomicBool::new(false));
                let other = wakeful::spawn({
                    let ran = ran.clone();
                    async move { ran.store(true, SeqCst) }
                });
                let mut seeks = 0;
                while !ran.load(SeqCst) {
                    let position = match step {
                        0 => file.seek(SeekFrom::End(0)).await.unwrap(),
                        1 => file.rewind().await.unwrap(),
                        _ => file.stream_position().await.unwrap(),
                    };
                    assert!(position <= 10);
                    seeks += 1;
                    assert!(seeks < 10_000, "the other task never ran");
                }
                other.await.unwrap();
            }
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn data_of_a_dropped_read_is_stale_after_a_write() {
    let folder = Folder::new();
    let path = folder.join("a");
    std::fs::write(&path, [b'a'; 4096]).unwrap();
    // The pool's only thread runs one operation after the other.
    let rt = Builder::new_current_thread()
        .file_backend(FileBackend::Pool)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    rt.block_on(async {
        let mut file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
        let mut buf = [0; 100];
        let mut cx = Context::from_waker(Waker::noop());
        let (free, is_free) = std::sync::mpsc::channel::<()>();
        drop(wakeful::task::spawn_blocking(move || is_free.recv()));
        assert!(pin!(file.read(&mut buf)).poll(&mut cx).is_pending());
        free.send(()).unwrap();
        file.write_all_at(&[b'b'; 4096], 0).await.unwrap();
        file.read_exact(&mut buf).await.unwrap();
        assert_eq!(buf, [b'b'; 100]);
    });
}
