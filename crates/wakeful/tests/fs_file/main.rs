//! Open files, on every kind of runtime and with every backend.

mod blocking;
mod cursor;

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use wakeful::fs::{File, FileTimes, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt};

#[path = "../support"]
mod support {
    pub mod files;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{Folder, everywhere, everywhere_outside, evict, filled};

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
        let error = match file.write(b"x").await {
            Err(error) => error,
            Ok(_) => file.flush().await.unwrap_err(),
        };
        assert!(error.to_string().contains("Bad file descriptor"), "{error}");
        file.flush().await.expect("it was told once");
        assert_eq!(file.write_at(b"x", 0).await.unwrap_err().raw_os_error(), Some(9));
        assert_eq!(std::fs::read(&path).unwrap(), data);
        let mut write_only = OpenOptions::new().write(true).open(&path).await.unwrap();
        assert_eq!(write_only.read(&mut [0; 1]).await.unwrap_err().raw_os_error(), Some(9));
    });
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
