//! Pipes on the real kernel, on both kinds of runtime.

use std::fs::File;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use wakeful::io::{AsyncReadExt, AsyncWriteExt, Interest};
use wakeful::net::unix::pipe;
use wakeful::task::yield_now;
use wakeful::time::timeout;

mod support {
    pub mod panic_site;
    pub mod runtimes;
    pub mod sockets;
}
use support::panic_site::panic_site;
use support::sockets::{Folder, current_thread, poll_once, runtimes};

/// A pipe in the file system.
fn fifo(folder: &Folder) -> PathBuf {
    let path = folder.join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path
}

fn options() -> pipe::OpenOptions {
    pipe::OpenOptions::new()
}

fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

#[test]
fn data_passes_and_a_full_pipe_delays_the_writer() {
    for rt in runtimes() {
        rt.block_on(async {
            let (mut sender, mut receiver) = pipe::pipe().unwrap();
            let sent: Vec<u8> = (0..1_000_000).map(|at| (at % 251) as u8).collect();
            let expected = sent.clone();
            let writer = wakeful::spawn(async move {
                sender.write_all(&sent).await.unwrap();
                sender.flush().await.unwrap();
                sender.shutdown().await.unwrap();
            });
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).await.unwrap();
            assert!(all == expected, "{} bytes came out changed", all.len());
            writer.await.unwrap();
        });
    }
}

#[test]
fn an_end_learns_that_the_other_is_gone() {
    for rt in runtimes() {
        rt.block_on(async {
            let (sender, mut receiver) = pipe::pipe().unwrap();
            let mut byte = [0];
            {
                let mut read = pin!(receiver.read(&mut byte));
                assert!(poll_once(read.as_mut()).await.is_pending());
                drop(sender);
                assert_eq!(read.await.unwrap(), 0);
            }
            assert!(receiver.ready(Interest::READABLE).await.unwrap().is_read_closed());

            let (mut sender, receiver) = pipe::pipe().unwrap();
            sender.writable().await.unwrap();
            while sender.try_write(&[0; 4096]).is_ok() {}
            {
                let mut writable = pin!(sender.writable());
                assert!(poll_once(writable.as_mut()).await.is_pending());
                drop(receiver);
                writable.await.unwrap();
            }
            assert!(sender.ready(Interest::WRITABLE).await.unwrap().is_write_closed());
            let broken = sender.write_all(b"x").await.unwrap_err();
            assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
        });
    }
}

#[test]
fn both_ends_can_be_tried_without_waiting() {
    for rt in runtimes() {
        rt.block_on(async {
            let (sender, receiver) = pipe::pipe().unwrap();
            poll_fn(|cx| sender.poll_write_ready(cx)).await.unwrap();
            assert_eq!(sender.try_write(b"ab").unwrap(), 2);
            let more = [IoSlice::new(b"c"), IoSlice::new(b"de")];
            assert_eq!(sender.try_write_vectored(&more).unwrap(), 3);

            poll_fn(|cx| receiver.poll_read_ready(cx)).await.unwrap();
            receiver.readable().await.unwrap();
            let (mut first, mut second) = ([0; 1], [0; 1]);
            assert_eq!(receiver.try_read(&mut first).unwrap(), 1);
            assert_eq!(receiver.try_read_vectored(&mut [IoSliceMut::new(&mut second)]).unwrap(), 1);
            let mut rest = Vec::with_capacity(8);
            assert_eq!(receiver.try_read_buf(&mut rest).unwrap(), 3);
            assert_eq!((&first, &second, &*rest), (b"a", b"b", &b"cde"[..]));
            let nothing = receiver.try_read(&mut first).unwrap_err();
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);

            // `try_io` runs the operation of the caller.
            let would_block = || Err::<(), _>(ErrorKind::WouldBlock.into());
            assert_eq!(sender.try_io(|| Ok(7)).unwrap(), 7);
            sender.try_io(would_block).unwrap_err();
            // `try_io` does not call its closure if the pipe is not known to be ready. The poller may still report
            // earlier events, at most twice here.
            let is_asked = |end: &dyn Fn(&mut bool) -> std::io::Result<()>| {
                let mut asked = false;
                assert_eq!(end(&mut asked).unwrap_err().kind(), ErrorKind::WouldBlock);
                asked
            };
            let block = |asked: &mut bool| {
                *asked = true;
                Err(ErrorKind::WouldBlock.into())
            };
            assert!((0..3).any(|_| !is_asked(&|asked| sender.try_io(|| block(asked)))));
            assert!((0..3).any(|_| !is_asked(&|asked| receiver.try_io(|| block(asked)))));
        });
    }
}

#[test]
fn a_pipe_with_a_name_is_opened_at_both_ends() {
    for rt in runtimes() {
        let folder = Folder::new();
        let path = fifo(&folder);
        rt.block_on(async {
            let early = options().open_sender(&path).unwrap_err();
            assert_eq!(early.raw_os_error(), Some(libc::ENXIO), "the pipe has no receiver yet");
            let mut receiver = options().open_receiver(&path).unwrap();
            let mut sender = options().open_sender(&path).unwrap();
            sender.write_all(b"named").await.unwrap();
            drop(sender);
            let mut text = String::new();
            receiver.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "named");

            // A new writer opens the pipe: the receiver goes on after its end.
            let mut sender = options().open_sender(&path).unwrap();
            sender.write_all(b"again").await.unwrap();
            let mut buf = [0; 5];
            receiver.read_exact(&mut buf).await.unwrap();
            assert_eq!(&buf, b"again");
        });
    }
}

#[test]
fn a_pipe_that_is_open_for_both_is_never_at_its_end() {
    for rt in runtimes() {
        let folder = Folder::new();
        let path = fifo(&folder);
        rt.block_on(async {
            let mut sender = options().read_write(true).open_sender(&path).unwrap();
            sender.write_all(b"first").await.unwrap();
            let mut receiver = options().read_write(true).open_receiver(&path).unwrap();
            drop(sender);
            let mut buf = [0; 5];
            receiver.read_exact(&mut buf).await.unwrap();
            assert_eq!(&buf, b"first");
            let mut next = pin!(receiver.read_exact(&mut buf));
            assert!(poll_once(next.as_mut()).await.is_pending());
            let mut sender = options().open_sender(&path).unwrap();
            sender.write_all(b"other").await.unwrap();
            drop(sender);
            assert_eq!(next.await.unwrap(), 5);
        });
    }
}

/// Waits until the driver has reported that the pipe has no writer.
async fn end_is_known(receiver: &pipe::Receiver) {
    while !receiver.ready(Interest::READABLE).await.unwrap().is_read_closed() {
        yield_now().await;
    }
}

/// A writer leaves and a silent writer comes: a read waits for data and does not spin at the old end.
#[test]
fn a_read_after_an_old_end_does_not_spin() {
    for rt in runtimes() {
        let folder = Folder::new();
        let path = fifo(&folder);
        rt.block_on(async {
            let mut receiver = options().open_receiver(&path).unwrap();
            drop(options().open_sender(&path).unwrap());
            end_is_known(&receiver).await;
            let mut buf = [0; 4];
            assert_eq!(receiver.read(&mut buf).await.unwrap(), 0);

            let mut sender = options().open_sender(&path).unwrap();
            {
                let mut next = pin!(receiver.read(&mut buf));
                assert!(timeout(Duration::ZERO, &mut next).await.is_err(), "{}", rt.name);
                sender.write_all(b"more").await.unwrap();
                assert_eq!(next.await.unwrap(), 4);
            }
            drop(sender);
            end_is_known(&receiver).await;

            // `try_read` behaves alike.
            let _silent = options().open_sender(&path).unwrap();
            receiver.readable().await.unwrap();
            assert_eq!(receiver.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(timeout(Duration::ZERO, receiver.readable()).await.is_err(), "{}", rt.name);
        });
    }
}

/// A sender without a reader has an error event.
#[test]
fn an_operation_of_the_users_own_does_not_take_the_end_back() {
    for rt in runtimes() {
        rt.block_on(async {
            let (sender, receiver) = pipe::pipe().unwrap();
            sender.writable().await.unwrap();
            while sender.try_write(&[0; 65_536]).is_ok() {}
            drop(receiver);
            sender.writable().await.unwrap();
            let block = || Err::<(), _>(std::io::Error::from(ErrorKind::WouldBlock));
            assert_eq!(sender.try_io(block).unwrap_err().kind(), ErrorKind::WouldBlock);
            sender.writable().await.unwrap();
            let error = sender.try_write(b"x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{}", rt.name);
        });
    }
}

#[test]
fn a_file_that_is_no_pipe_is_refused() {
    fn refused<T>(result: std::io::Result<T>) -> String {
        let error = result.err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    }
    fn open(path: &Path, options: &mut std::fs::OpenOptions) -> File {
        options.open(path).unwrap()
    }
    let rt = current_thread();
    let folder = Folder::new();
    rt.block_on(async {
        let path = folder.join("regular");
        let file = File::create(&path).unwrap();
        assert_eq!(refused(options().open_receiver(&path)), "not a pipe");
        assert_eq!(refused(options().open_sender(&path)), "not a pipe");
        assert_eq!(refused(pipe::Sender::from_file(file)), "not a pipe");
        // epoll cannot watch a regular file either.
        let unwatched = options().unchecked(true).open_receiver(&path).unwrap_err();
        assert_eq!(unwatched.kind(), ErrorKind::PermissionDenied);

        let path = fifo(&folder);
        let both = open(&path, std::fs::OpenOptions::new().read(true).write(true));
        let read = open(&path, std::fs::OpenOptions::new().read(true));
        let write = open(&path, std::fs::OpenOptions::new().write(true));
        let text = refused(pipe::Sender::from_file(read.try_clone().unwrap()));
        assert_eq!(text, "not in O_WRONLY or O_RDWR access mode");
        let text = refused(pipe::Receiver::from_file(write.try_clone().unwrap()));
        assert_eq!(text, "not in O_RDONLY or O_RDWR access mode");
        assert!(!is_nonblocking(&read), "what is refused is left as it was");

        let receiver = pipe::Receiver::from_file(read).unwrap();
        let sender = pipe::Sender::from_owned_fd(write.into()).unwrap();
        assert!(is_nonblocking(&receiver) && is_nonblocking(&sender));
        pipe::Sender::from_file(both.try_clone().unwrap()).unwrap();
        pipe::Receiver::from_file(both).unwrap();
    });
}

#[test]
fn a_descriptor_is_taken_out_in_either_mode() {
    let rt = current_thread();
    let (sender, receiver): (OwnedFd, OwnedFd) = rt.block_on(async {
        let (sender, receiver) = pipe::pipe().unwrap();
        let number = sender.as_raw_fd();
        let sender = sender.into_nonblocking_fd().unwrap();
        assert!(is_nonblocking(&sender));
        let sender = pipe::Sender::from_owned_fd_unchecked(sender).unwrap();
        assert_eq!(sender.as_raw_fd(), number);
        (sender.into_blocking_fd().unwrap(), receiver.into_blocking_fd().unwrap())
    });
    drop(rt);
    assert!(!is_nonblocking(&sender) && !is_nonblocking(&receiver));
    File::from(sender).write_all(b"outside").unwrap();
    let mut text = String::new();
    File::from(receiver).read_to_string(&mut text).unwrap();
    assert_eq!(text, "outside");
}

#[test]
fn outside_of_a_runtime_it_panics_at_the_call() {
    let site = panic_site(pipe::pipe);
    assert!(site.message.starts_with("there is no reactor running"), "{}", site.message);
    let (receiver, _sender) = std::io::pipe().unwrap();
    let site = panic_site(move || pipe::Receiver::from_owned_fd(receiver.into()));
    assert_eq!(site.file, file!());
}
