//! Files that block a thread inside the kernel: terminals, pipes, sockets, and a file system that does not answer.
//!
//! A worker must never block there. Each test keeps an operation waiting until another task of the only worker has
//! run. If the worker blocks inside the kernel, that task never runs, and the test fails by its time limit.

mod unresponsive;

use std::fs::File as StdFile;
use std::future::poll_fn;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use wakeful::fs::{self, File, OpenOptions};
use wakeful::io::{AsyncReadExt, AsyncWriteExt};
use wakeful::runtime::FileBackend;
use wakeful::time::timeout;

#[path = "../support"]
mod support {
    pub mod files;
    pub mod fuse;
    pub mod runtimes;
    pub mod sockets;
}
use support::files::{BACKENDS, Folder, current_thread, multi_thread};
use support::runtimes::TestRuntime;

/// Only a test with a thread that is stuck inside the kernel reaches this limit.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs something on a thread of its own; fails if it does not end.
#[track_caller]
fn within_limit(what: &str, run: impl FnOnce() + Send + 'static) {
    let (say, done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = say.send(());
    });
    if done.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what}: the worker waits inside the kernel");
    }
    if let Err(panic) = thread.join() {
        eprintln!("in {what}");
        std::panic::resume_unwind(panic);
    }
}

type Build = fn(FileBackend) -> TestRuntime;

/// Runtimes with a single thread for tasks, by each backend.
fn single_workers() -> Vec<(FileBackend, Build)> {
    let multi: Build = |backend| multi_thread(backend, 1);
    let current: Build = current_thread;
    BACKENDS.iter().flat_map(|backend| [(*backend, current), (*backend, multi)]).collect()
}

/// Runs a test as a task of every runtime with a single worker.
fn on_single_workers<F>(what: &'static str, test: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for (backend, build) in single_workers() {
        within_limit(what, move || {
            let runtime = build(backend);
            let task = runtime.spawn(test());
            runtime.block_on(task).unwrap();
        });
    }
}

/// Opens a pseudo-terminal. Returns the side of the program, and the side of the user.
fn terminal() -> (StdFile, StdFile) {
    // SAFETY: a name of the kernel's, and descriptors that it has just opened.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(master >= 0 && libc::grantpt(master) == 0 && libc::unlockpt(master) == 0);
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let slave = libc::ioctl(master, libc::TIOCGPTPEER, flags);
        assert!(slave >= 0, "{}", std::io::Error::last_os_error());
        let mut raw: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(slave, &mut raw), 0);
        libc::cfmakeraw(&mut raw);
        assert_eq!(libc::tcsetattr(slave, libc::TCSANOW, &raw), 0);
        (StdFile::from_raw_fd(slave), StdFile::from_raw_fd(master))
    }
}

fn socket_pair() -> (StdFile, StdFile) {
    let (a, b) = UnixStream::pair().unwrap();
    (StdFile::from(OwnedFd::from(a)), StdFile::from(OwnedFd::from(b)))
}

fn pipe() -> (StdFile, StdFile) {
    let (read, write) = std::io::pipe().unwrap();
    (StdFile::from(OwnedFd::from(write)), StdFile::from(OwnedFd::from(read)))
}

/// More than any of their buffers has room for.
const LARGE: usize = 256 << 10;

/// One task writes more than the buffer holds, and another task of the same thread reads it.
async fn writes_and_reads((to, from): (StdFile, StdFile)) {
    let data: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let expected = data.clone();
    let writer = wakeful::spawn(async move {
        let mut to = File::from_std(to);
        to.write_all(&data).await.unwrap();
        to.flush().await.unwrap();
        to
    });
    let mut from = File::from_std(from);
    let mut read = vec![0; LARGE];
    from.read_exact(&mut read).await.unwrap();
    assert!(read == expected, "it came as it was written");
    drop(writer.await.unwrap());
}

/// A read waits, and the task that writes what it waits for is on the same thread.
async fn reads_before_it_is_written((to, from): (StdFile, StdFile)) {
    let mut from = File::from_std(from);
    let mut to = File::from_std(to);
    let mut byte = [0];
    {
        let mut read = pin!(from.read(&mut byte));
        let first = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
        assert!(first.is_pending(), "there is nothing to read");
        to.write_all(b"x").await.unwrap();
        to.flush().await.unwrap();
        assert_eq!(read.await.unwrap(), 1);
    }
    assert_eq!(byte, *b"x");
}

/// A timer fires while a write waits for space.
async fn times_out_while_it_is_full((to, from): (StdFile, StdFile)) {
    let mut to = File::from_std(to);
    to.write_all(&vec![b'x'; LARGE]).await.unwrap();
    let full = timeout(Duration::from_millis(10), to.flush()).await;
    assert!(full.is_err(), "it cannot be written, and the timer has fired");
    // The data is read only now.
    let mut from = File::from_std(from);
    from.read_exact(&mut vec![0; LARGE]).await.unwrap();
    to.flush().await.unwrap();
}

#[test]
fn a_terminal_does_not_stop_its_worker() {
    on_single_workers("write to a terminal", || writes_and_reads(terminal()));
    on_single_workers("read from a terminal", || reads_before_it_is_written(terminal()));
    on_single_workers("time-out beside a terminal", || times_out_while_it_is_full(terminal()));
}

#[test]
fn a_socket_as_a_file_does_not_stop_its_worker() {
    on_single_workers("write to a socket", || writes_and_reads(socket_pair()));
    on_single_workers("read from a socket", || reads_before_it_is_written(socket_pair()));
    on_single_workers("time-out beside a socket", || times_out_while_it_is_full(socket_pair()));
}

#[test]
fn a_pipe_as_a_file_does_not_stop_its_worker() {
    on_single_workers("write to a pipe", || writes_and_reads(pipe()));
    on_single_workers("read from a pipe", || reads_before_it_is_written(pipe()));
    on_single_workers("time-out beside a pipe", || times_out_while_it_is_full(pipe()));
}

/// Makes a pipe with a name.
fn fifo(folder: &Folder) -> PathBuf {
    let path = folder.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    path
}

#[test]
fn opening_a_fifo_waits_for_its_other_side_without_its_worker() {
    on_single_workers("open of a FIFO", || async {
        let folder = Folder::new();
        let path = fifo(&folder);
        let mut read = pin!(fs::read(path.clone()));
        let first = poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
        assert!(first.is_pending(), "there is no other side");
        let writer = wakeful::spawn(async move {
            let mut to = OpenOptions::new().write(true).open(path).await.unwrap();
            to.write_all(&vec![7; LARGE]).await.unwrap();
            to.flush().await.unwrap();
        });
        assert_eq!(read.await.unwrap(), vec![7; LARGE]);
        writer.await.unwrap();
    });
}

/// A worker never reads files that may block in the kernel. This test checks only their content.
#[test]
fn files_of_the_kernel_are_read() {
    on_single_workers("files of the kernel", || async {
        let status = fs::read_to_string("/proc/self/status").await.unwrap();
        assert!(status.contains("Threads:"));
        let mut null = OpenOptions::new().read(true).write(true).open("/dev/null").await.unwrap();
        null.write_all(&[0; 100]).await.unwrap();
        null.flush().await.unwrap();
        assert_eq!(null.read(&mut [0; 1]).await.unwrap(), 0);
        let mut zero = File::open("/dev/zero").await.unwrap();
        let mut read = [1; 100];
        zero.read_exact(&mut read).await.unwrap();
        assert_eq!(read, [0; 100]);
    });
}

/// A write keeps the data that was read ahead from a stream: a stream has no cursor to move back.
#[test]
fn a_write_to_a_socket_keeps_what_was_read() {
    on_single_workers("a read that was given up", || async {
        let (one, other) = socket_pair();
        let (mut one, mut other) = (File::from_std(one), File::from_std(other));
        let order = Mutex::new(Vec::new());
        {
            let mut buf = [0; 4];
            let mut read = pin!(one.read(&mut buf));
            assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await.is_pending());
            order.lock().unwrap().push("given up");
        }
        other.write_all(b"kept").await.unwrap();
        other.flush().await.unwrap();
        one.write_all(b"answer").await.unwrap();
        one.flush().await.unwrap();
        let (mut kept, mut answer) = ([0; 4], [0; 6]);
        one.read_exact(&mut kept).await.unwrap();
        other.read_exact(&mut answer).await.unwrap();
        assert_eq!((kept, answer), (*b"kept", *b"answer"));
        assert_eq!(order.into_inner().unwrap(), ["given up"]);
    });
}
