//! Files on which the kernel may block: pipes, and a file with a lease.

use std::future::poll_fn;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wakeful::fs::{File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::runtime::Builder;
use wakeful::time::timeout;

use crate::support::files::{Folder, everywhere, filled};

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
    if !crate::support::files::has_uring() {
        return;
    }
    use wakeful::runtime::FileBackend;
    let runtime = crate::support::files::current_thread(FileBackend::Uring);
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
