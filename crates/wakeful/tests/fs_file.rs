//! Open files, on every kind of runtime and with every backend.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use wakeful::fs::{File, FileTimes, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use wakeful::runtime::{Builder, FileBackend};
use wakeful::time::timeout;

mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{
    Folder, current_thread, everywhere, everywhere_outside, evict, filled, multi_thread,
};

#[test]
fn flushed_data_is_in_the_file() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = File::create(&path).await.unwrap();
        file.write_all(b"hello ").await.unwrap();
        file.write_all(b"world").await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
        file.write_all(b"!").await.unwrap();
        file.shutdown().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello world!");
    });
}

#[test]
fn a_file_is_read_to_its_end_whether_in_memory_or_not() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 300_000);
        for forget in [false, true] {
            if forget {
                evict(&path);
            }
            let mut file = File::open(&path).await.unwrap();
            let mut all = Vec::new();
            assert_eq!(file.read_to_end(&mut all).await.unwrap(), data.len());
            assert!(all == data);
            assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 0, "at the end");
        }
    });
}

#[test]
fn on_the_thread_of_block_on_as_in_a_task() {
    everywhere_outside(|folder| async move {
        let (path, data) = filled(&folder, "a", 10_000);
        evict(&path);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
        let mut part = vec![0; 10_000];
        file.read_exact(&mut part).await.unwrap();
        assert!(part == data);
        file.rewind().await.unwrap();
        file.write_all(b"new").await.unwrap();
        file.sync_all().await.unwrap();
        assert_eq!(&std::fs::read(&path).unwrap()[..4], [b'n', b'e', b'w', data[3]]);
    });
}

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
fn many_tasks_read_one_file_at_once() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 64 * 4096);
        evict(&path);
        let (file, data) = (Arc::new(File::open(&path).await.unwrap()), Arc::new(data));
        let tasks: Vec<_> = (0..64)
            .map(|block| {
                let (file, data) = (file.clone(), data.clone());
                wakeful::spawn(async move {
                    let (start, mut page) = (block * 4096, vec![0; 4096]);
                    file.read_exact_at(&mut page, start as u64).await.unwrap();
                    assert!(page == data[start..start + 4096], "block {block}");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
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
fn parts_are_written_in_order_and_within_the_limit() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = File::create(&path).await.unwrap();
        assert_eq!(file.max_buf_size(), 2 << 20);
        assert!(file.is_write_vectored());
        let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")];
        assert_eq!(file.write_vectored(&parts).await.unwrap(), 7);
        file.set_max_buf_size(3);
        assert_eq!(file.write(b"three").await.unwrap(), 3);
        file.write_all(b"456789").await.unwrap();
        assert_eq!(file.write_at(b"ONE ", 0).await.unwrap(), 3);
        file.flush().await.unwrap();
        assert_eq!(
            std::fs::read(&path).unwrap(),
            b"ONE two\
            thr456789"
        );
        let mut file = File::open(&path).await.unwrap();
        file.set_max_buf_size(2);
        assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 2);
        assert_eq!(file.read_at(&mut [0; 10], 0).await.unwrap(), 2);
    });
}

#[test]
fn an_empty_read_is_not_the_end() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 10);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
        assert_eq!(file.read(&mut []).await.unwrap(), 0);
        assert_eq!(file.write(&[]).await.unwrap(), 0);
        assert_eq!(file.write_at(&[], 3).await.unwrap(), 0);
        let mut all = Vec::new();
        file.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, data);
    });
}

/// Writes 2,000 pieces, more than the write queue holds, some of them after a yield.
#[test]
fn many_small_writes_arrive_in_order() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = OpenOptions::new().append(true).create(true).open(&path).await.unwrap();
        file.set_max_buf_size(1_000);
        let mut expected = Vec::new();
        for number in 0..2_000u32 {
            file.write_all(&number.to_le_bytes()).await.unwrap();
            expected.extend_from_slice(&number.to_le_bytes());
            if number % 500 == 0 {
                file.flush().await.unwrap();
                assert!(std::fs::read(&path).unwrap() == expected);
            }
        }
        file.sync_data().await.unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
    });
}

#[test]
fn the_length_is_set_after_what_was_written() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = File::create(&path).await.unwrap();
        file.write_all(b"hello world").await.unwrap();
        file.set_len(5).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello");
        file.set_len(7).await.unwrap();
        assert_eq!(file.metadata().await.unwrap().len(), 7);
        file.allocate(0, 4096).await.unwrap();
        assert_eq!(file.metadata().await.unwrap().len(), 4096);
        let read_only = File::open(&path).await.unwrap();
        let refused = read_only.set_len(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
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
fn a_file_goes_to_std_and_back() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = File::create_new(&path).await.unwrap();
        let again = File::create_new(&path).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        file.write_all(b"hello").await.unwrap();
        let mut std = file.into_std().await;
        std.write_all(b" world").unwrap();
        std.rewind().unwrap();

        let mut file = File::from_std(std);
        let mut all = String::new();
        file.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "hello world");
        let std = file.try_into_std().unwrap();
        let file = File::from(OwnedFd::from(std));
        assert!(file.as_raw_fd() > 0 && file.as_fd().as_raw_fd() == file.as_raw_fd());
        let raw = file.try_into_std().unwrap().into_raw_fd();
        // SAFETY: `into_raw_fd` has just given up the ownership of this descriptor.
        let mut file = unsafe { File::from_raw_fd(raw) };
        file.rewind().await.unwrap();
        assert_eq!(file.read_u8().await.unwrap(), b'h');
    });
}

#[test]
fn a_file_that_is_busy_is_not_given_away() {
    everywhere(|folder| async move {
        let path = folder.join("a");
        let mut file = File::create(&path).await.unwrap();
        let data = vec![7; 1 << 20];
        {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut file).poll_write(&mut cx, &data).is_ready());
        }
        let mut file = match file.try_into_std() {
            Ok(_done) => return, // the write may have completed already
            Err(file) => file,
        };
        let busy = Pin::new(&mut file).start_seek(SeekFrom::Start(0));
        if let Err(busy) = busy {
            assert_eq!(
                busy.to_string(),
                "other file operation is pending, call poll_complete before start_seek"
            );
        }
        assert_eq!(file.into_std().await.metadata().unwrap().len(), 1 << 20);
    });
}

#[test]
fn times_and_permissions_can_be_set() {
    use std::os::unix::fs::PermissionsExt;
    everywhere(|folder| async move {
        let (path, _) = filled(&folder, "a", 10);
        let file = OpenOptions::new().write(true).open(&path).await.unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let times =
            FileTimes::new().set_accessed(at(1_600_000_000)).set_modified(at(1_500_000_000));
        file.set_times(times).await.unwrap();
        let metadata = file.metadata().await.unwrap();
        assert_eq!(metadata.accessed().unwrap(), at(1_600_000_000));
        assert_eq!(metadata.modified().unwrap(), at(1_500_000_000));
        file.set_modified(at(1_400_000_000)).await.unwrap();
        let metadata = file.metadata().await.unwrap();
        assert_eq!(metadata.modified().unwrap(), at(1_400_000_000));
        file.set_permissions(PermissionsExt::from_mode(0o640)).await.unwrap();
        assert_eq!(file.metadata().await.unwrap().permissions().mode() & 0o777, 0o640);
    });
}

#[test]
fn options_are_those_of_std() {
    use std::os::unix::fs::PermissionsExt;
    everywhere(|folder| async move {
        let (path, _) = filled(&folder, "a", 10);
        let kind = |options: &OpenOptions| {
            let (options, path) = (options.clone(), path.clone());
            async move { options.open(path).await.map(|_| ()).map_err(|error| error.kind()) }
        };
        let refused = Err(ErrorKind::InvalidInput);
        assert_eq!(kind(&OpenOptions::new()).await, refused);
        assert_eq!(kind(OpenOptions::new().read(true).truncate(true)).await, refused);
        assert_eq!(kind(OpenOptions::new().read(true).create(true)).await, refused);
        assert_eq!(kind(OpenOptions::new().append(true).truncate(true)).await, refused);
        let exists = Err(ErrorKind::AlreadyExists);
        assert_eq!(kind(OpenOptions::new().write(true).create_new(true)).await, exists);
        let folder_flag = rustix::fs::OFlags::DIRECTORY.bits() as i32;
        let no_folder = kind(OpenOptions::new().read(true).custom_flags(folder_flag)).await;
        assert_eq!(no_folder, Err(ErrorKind::NotADirectory));
        assert_eq!(kind(OpenOptions::default().write(true).truncate(true)).await, Ok(()));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);

        let fresh = folder.join("fresh");
        OpenOptions::new().write(true).create(true).mode(0o600).open(&fresh).await.unwrap();
        assert_eq!(std::fs::metadata(&fresh).unwrap().permissions().mode() & 0o777, 0o600);
        let mut std = std::fs::OpenOptions::new();
        std.read(true);
        OpenOptions::from(std).open(&fresh).await.unwrap();
        File::options().append(true).read(true).open(&fresh).await.unwrap();
    });
}

#[test]
fn a_write_that_is_refused_says_so_later() {
    everywhere(|folder| async move {
        let (path, data) = filled(&folder, "a", 10);
        let mut file = File::open(&path).await.unwrap();
        let told = match file.write(b"x").await {
            Err(error) => error,
            Ok(_) => file.flush().await.unwrap_err(),
        };
        assert!(told.to_string().contains("Bad file descriptor"), "{told}");
        file.flush().await.expect("it was told once");
        assert_eq!(file.write_at(b"x", 0).await.unwrap_err().raw_os_error(), Some(9));
        assert_eq!(std::fs::read(&path).unwrap(), data);
        let mut write_only = OpenOptions::new().write(true).open(&path).await.unwrap();
        assert_eq!(write_only.read(&mut [0; 1]).await.unwrap_err().raw_os_error(), Some(9));
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
fn errors_are_those_of_the_system() {
    everywhere(|folder| async move {
        let path = folder.join("nowhere");
        let error = File::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let mut file = File::open(folder.path()).await.unwrap();
        let error = file.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        assert_eq!(error.raw_os_error(), Some(libc::EISDIR));
        let zero = File::open("a\0b").await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
#[should_panic(expected = "`max_buf_size` must be greater than 0")]
fn a_buffer_has_room_for_something() {
    let mut file = File::from_std(std::fs::File::open("/dev/null").unwrap());
    file.set_max_buf_size(0);
}

/// On every backend, opening a pipe waits for the other side and does not block the thread.
#[test]
fn opening_a_pipe_waits_for_the_other_side() {
    use rustix::fs::{CWD, FileType, Mode};
    everywhere(|folder| async move {
        let path = folder.join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut opening = pin!(File::open(path.clone()));
        let polled = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "the pipe has no writer");
        let writer = wakeful::spawn(async move {
            let mut writer = OpenOptions::new().write(true).open(path).await.unwrap();
            writer.write_all(b"through the pipe").await.unwrap();
            writer.flush().await.unwrap();
        });
        let mut text = String::new();
        opening.await.unwrap().read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "through the pipe");
        writer.await.unwrap();
    });
}

/// A dropped read of a pipe without a writer keeps neither the runtime nor a descriptor. Only on backends that can
/// cancel.
#[test]
fn a_read_of_a_pipe_can_be_given_up() {
    if !support::files::has_uring() {
        return;
    }
    use wakeful::runtime::FileBackend;
    let runtime = support::files::current_thread(FileBackend::Uring);
    let folder = Folder::new();
    let task = runtime.spawn(async move {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut file = File::from(read);
        let mut buf = [0; 5];
        {
            let mut reading = pin!(file.read(&mut buf));
            let polled = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        }
        drop(file);
        let mut write = std::fs::File::from(write);
        drop(folder);
        // The cancelled operation drops the reading end.
        loop {
            match write.write(b"hello") {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                _ => wakeful::task::yield_now().await,
            }
        }
    });
    runtime.block_on(task).unwrap();
}

/// File operations take part in the cooperative budget: they yield when it is spent.
#[test]
fn a_task_that_only_reads_gives_way() {
    everywhere(|folder| async move {
        let (path, _) = filled(&folder, "a", 10);
        let mut file = File::open(&path).await.unwrap();
        let mut forever = pin!(async {
            loop {
                file.read(&mut [0; 10]).await.unwrap();
                file.rewind().await.unwrap();
            }
        });
        poll_fn(|cx| {
            // All reads run within one poll of the task.
            let polled: Poll<()> = forever.as_mut().poll(cx);
            assert!(polled.is_pending());
            Poll::Ready(())
        })
        .await;
    });
}

#[test]
fn outside_of_a_runtime_there_is_none() {
    let panicked = std::panic::catch_unwind(|| {
        let mut cx = Context::from_waker(Waker::noop());
        let _ = pin!(wakeful::fs::read("/dev/null")).poll(&mut cx);
    });
    let text = panicked.unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    let begins =
        "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    assert!(text.starts_with(begins) && text.contains("#[wakeful::main]"), "{text}");
}

#[test]
fn a_file_in_memory_needs_no_thread() {
    use wakeful::runtime::FileBackend;
    let runtime = support::files::current_thread(FileBackend::Auto);
    let folder = Folder::new();
    let (path, data) = filled(&folder, "a", 200_000);
    let mut warm = Vec::new();
    std::fs::File::open(&path).unwrap().read_to_end(&mut warm).unwrap();
    let before = runtime.metrics().file_operations_in_uring();
    let same = runtime.block_on(runtime.spawn(async move {
        let file = File::from_std(std::fs::File::open(&path).unwrap());
        let mut part = vec![0; 200_000];
        file.read_exact_at(&mut part, 0).await.unwrap();
        part == data
    }));
    assert!(same.unwrap());
    let metrics = runtime.metrics();
    let asked = metrics.file_operations_in_pool() + metrics.file_operations_in_uring() - before;
    // On a file system without NOWAIT reads (tmpfs), the backend does all of them.
    let can_tell = rustix::io::preadv2(
        std::fs::File::open(folder.join("a")).unwrap(),
        &mut [std::io::IoSliceMut::new(&mut [0; 8])],
        0,
        rustix::io::ReadWriteFlags::NOWAIT,
    )
    .is_ok();
    assert_eq!(asked == 0, can_tell, "{asked} operations went to the ring or the pool");
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

/// An open of a leased file waits until the holder has returned the lease.
#[test]
fn a_file_that_is_leased_keeps_no_thread_waiting() {
    let folder = Folder::new();
    let (path, _) = filled(&folder, "a", 100);
    // SAFETY: `SIG_IGN` installs no handler. The kernel sends SIGIO to the lease holder, this process.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let rt = Builder::new_current_thread().enable_time().build().unwrap();
    rt.block_on(async {
        // The first open learns whether the file system answers at once.
        drop(File::open(&path).await.unwrap());
        drop(timeout(Duration::from_secs(60), File::open(&path)).await.unwrap().unwrap());
        let leased = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let lease = |kind: libc::c_int| {
            // SAFETY: a call about a descriptor that is open.
            unsafe { libc::fcntl(leased.as_raw_fd(), libc::F_SETLEASE, kind) }
        };
        if lease(libc::F_WRLCK) != 0 {
            return; // a file system without leases
        }
        let mut opens = pin!(File::open(&path));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(opens.as_mut().poll(&mut cx).is_pending());
        assert_eq!(lease(libc::F_UNLCK), 0);
        opens.await.unwrap();
    });
}

#[test]
fn a_write_at_a_place_of_a_pipe_waits_for_no_read_that_was_given_up() {
    use rustix::fs::{CWD, FileType, Mode};
    everywhere(|folder| async move {
        let path = folder.join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut pipe = OpenOptions::new().read(true).write(true).open(&path).await.unwrap();
        {
            let (mut buf, mut given_up) = ([0; 8], false);
            let mut reads = pin!(pipe.read(&mut buf));
            poll_fn(|cx| {
                given_up = reads.as_mut().poll(cx).is_pending();
                Poll::Ready(())
            })
            .await;
            assert!(given_up);
        }
        // The write does not wait for the read, which may never end. A ring ignores the offset.
        let _ = pipe.write_at(b"x", 0).await;
        // Ends the read that was dropped.
        std::fs::write(&path, "y").unwrap();
    });
}
